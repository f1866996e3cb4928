//! A thread that waits for asynchronous events: `async_events [DEVICE]`.
//!
//! To have an event, a shared receive queue reports that it runs low. `Context::async_fd` is the
//! descriptor for programs with an event loop.
#![forbid(unsafe_code)]

use example::{Address, Result, connect_rc, create_rc, open, wait_for_completion};
use verbs::tools::{
    abi::{IBV_ACCESS_LOCAL_WRITE, IBV_EVENT_SRQ_LIMIT_REACHED, IBV_SEND_SIGNALED},
    completion::Cq,
    memory::{Memory, Pd, Registration},
    queue::{Send, Srq},
};

const REQUESTS: u32 = 4;
const LIMIT: u32 = 2;
const SIZE: usize = 64;

fn main() -> Result<()> {
    let context = open()?;
    let pd = Pd::new(&context)?;
    let cq = Cq::new(&context, 32, None, false)?;
    let registration = Registration {
        access: IBV_ACCESS_LOCAL_WRITE,
        ..Registration::default()
    };
    let memory = Memory::new(&pd, SIZE, 0, registration).map_err(|error| error.to_string())?;
    let srq = Srq::new(&pd, REQUESTS)?;

    // Two queue pairs of this process, connected with each other, take receives from one queue.
    let (one, two) = (
        create_rc(&pd, &cq, Some(&srq))?,
        create_rc(&pd, &cq, Some(&srq))?,
    );
    let of_one = Address::new(&context, &one, None)?;
    let of_two = Address::new(&context, &two, None)?;
    connect_rc(&one, &of_one, &of_two)?;
    connect_rc(&two, &of_two, &of_one)?;
    for id in 0..u64::from(REQUESTS) {
        srq.receive(id, &memory, SIZE)?;
    }
    // One event when fewer than LIMIT are left; the limit has to be armed again after each.
    srq.arm_limit(LIMIT)?;

    for _ in 0..=REQUESTS - LIMIT {
        one.send(&Send {
            id: 0,
            memory: &memory,
            offset: 0,
            length: 0,
            flags: IBV_SEND_SIGNALED,
            to: None,
            remote: None,
            srq: 0,
            immediate: 0,
        })?;
        // One completion of the send, one of the receive.
        wait_for_completion(&cq)?;
        wait_for_completion(&cq)?;
    }
    // `async_event` acknowledges each event, as ibv_ack_async_event(3) asks.
    while context.async_event()?.0 != IBV_EVENT_SRQ_LIMIT_REACHED {}
    println!("the shared receive queue ran low");
    Ok(())
}
