//! One end writes into the other's memory; the other sleeps until the data is there:
//! `write_with_events [DEVICE]`.
//!
//! Shown: RDMA write with immediate data, a completion channel, and the order of calls that loses
//! no event: request, poll earlier completions, sleep, acknowledge.
#![forbid(unsafe_code)]

use example::{
    Address, Peer, Result, connect_rc, create_rc, open, poll, two_ends, wait_for_completion,
};
use verbs::tools::{
    abi::{
        IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_SEND_SIGNALED,
        IBV_WR_RDMA_WRITE_WITH_IMM,
    },
    completion::{Channel, Completion, Cq},
    memory::{Memory, Pd, Registration},
    queue::{Remote, Send},
};

const SIZE: usize = 1 << 20;
const TOTAL: u32 = 4;

fn sleep_for_completion(channel: &Channel, cq: &Cq) -> Result<Completion> {
    loop {
        // A completion that came before the request raises no event, so the queue is polled after.
        cq.request_event()?;
        if let Some(wc) = poll(cq)? {
            return Ok(wc);
        }
        channel.event()?;
        cq.acknowledge(1);
    }
}

fn receive(peer: &Peer) -> Result<()> {
    let context = open()?;
    let pd = Pd::new(&context)?;
    let channel = Channel::new(&context)?;
    let cq = Cq::new(&context, 32, Some(&channel), false)?;
    let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    let registration = Registration {
        access,
        ..Registration::default()
    };
    let parts = usize::try_from(TOTAL)?;
    let memory =
        Memory::new(&pd, parts * SIZE, 0, registration).map_err(|error| error.to_string())?;
    let qp = create_rc(&pd, &cq, None)?;
    let mine = Address::new(&context, &qp, Some(&memory))?;
    let theirs = peer.exchange(mine)?;
    connect_rc(&qp, &mine, &theirs)?;
    for id in 0..u64::from(TOTAL) {
        // Immediate data takes a receive request each; the request needs no memory for it.
        qp.receive(id, &memory, 0)?;
    }
    peer.barrier()?;
    for _ in 0..TOTAL {
        let wc = sleep_for_completion(&channel, &cq)?;
        let part = wc.immediate.ok_or("no immediate data")?;
        let first = usize::try_from(part)? * SIZE;
        let expected = b'a' + u8::try_from(part)?;
        if memory.byte(first) != Some(expected) || memory.byte(first + SIZE - 1) != Some(expected) {
            return Err(format!("part {part} is not as it was written").into());
        }
        println!("part {part}: {} bytes are there", wc.bytes);
    }
    peer.barrier()
}

fn write(peer: &Peer) -> Result<()> {
    let context = open()?;
    let pd = Pd::new(&context)?;
    let cq = Cq::new(&context, 32, None, false)?;
    let registration = Registration::default();
    let qp = create_rc(&pd, &cq, None)?;
    let mine = Address::new(&context, &qp, None)?;
    let theirs = peer.exchange(mine)?;
    connect_rc(&qp, &mine, &theirs)?;
    peer.barrier()?;
    let (address, rkey) = theirs.memory.ok_or("the peer has no memory")?;
    for part in 0..TOTAL {
        let byte = b'a' + u8::try_from(part)?;
        let memory =
            Memory::new(&pd, SIZE, byte, registration).map_err(|error| error.to_string())?;
        qp.send(&Send {
            id: u64::from(part),
            memory: &memory,
            offset: 0,
            length: SIZE,
            flags: IBV_SEND_SIGNALED,
            to: None,
            remote: Some(Remote {
                opcode: IBV_WR_RDMA_WRITE_WITH_IMM,
                address: address + u64::from(part) * u64::try_from(SIZE)?,
                rkey,
            }),
            srq: 0,
            immediate: part,
        })?;
        // The memory may go when the request has completed, and no earlier.
        wait_for_completion(&cq)?;
    }
    peer.barrier()
}

fn main() -> Result<()> {
    two_ends(write, receive)
}
