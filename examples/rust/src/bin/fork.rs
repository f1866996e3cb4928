//! A program with registered memory that starts another: `fork [DEVICE]`.
//!
//! Shown: ibv_fork_init(3). After a fork, the first of the two processes that writes to a page gets
//! a copy of it, while a device continues to use the old one. `fork_init` keeps registered pages
//! out of children, so this process keeps its pages. Where the kernel does this by itself, the call
//! has no effect.
#![forbid(unsafe_code)]

use std::process::Command;

use example::{Address, Result, connect_rc, create_rc, open, wait_for_completion};
use verbs::tools::{
    abi::{IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED},
    completion::Cq,
    memory::{Memory, Pd, Registration},
    process,
    queue::Send,
};

const SIZE: usize = 4096;

fn main() -> Result<()> {
    // Before the first registration.
    process::fork_init()?;
    let context = open()?;
    let pd = Pd::new(&context)?;
    let cq = Cq::new(&context, 32, None, false)?;
    let registration = Registration {
        access: IBV_ACCESS_LOCAL_WRITE,
        ..Registration::default()
    };
    let registered = || Memory::new(&pd, SIZE, 0, registration).map_err(|error| error.to_string());
    let (out, into) = (registered()?, registered()?);
    let (one, two) = (create_rc(&pd, &cq, None)?, create_rc(&pd, &cq, None)?);
    let of_one = Address::new(&context, &one, None)?;
    let of_two = Address::new(&context, &two, None)?;
    connect_rc(&one, &of_one, &of_two)?;
    connect_rc(&two, &of_two, &of_one)?;
    two.receive(2, &into, SIZE)?;

    let status = Command::new("echo")
        .arg("the child runs a program")
        .status()?;
    if !status.success() {
        return Err("the child has failed".into());
    }

    // This process writes to its pages after the fork, and the device sees the new bytes.
    let text = b"written after the fork";
    out.write(0, text)?;
    one.send(&Send {
        id: 1,
        memory: &out,
        offset: 0,
        length: SIZE,
        flags: IBV_SEND_SIGNALED,
        to: None,
        remote: None,
        srq: 0,
        immediate: 0,
    })?;
    wait_for_completion(&cq)?;
    wait_for_completion(&cq)?;
    let received = into.read(0, text.len())?;
    println!("received: {}", String::from_utf8_lossy(&received));
    if received != text {
        return Err("the bytes differ from those written".into());
    }
    Ok(())
}
