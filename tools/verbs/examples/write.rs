//! A process writes into the memory of another one, which does nothing for it, and then reports
//! by a write with immediate data. The receiver sleeps on a completion channel.
//!
//!     cargo run --example write
#![forbid(unsafe_code)]

mod common;

use common::{Peer, Result, open, two_ends};
use verbs::{Access, Operation, ReceiveRequest, RemoteMemory, SendRequest};

const PARTS: u8 = 4;
const PART: usize = 1 << 20;
const SIZE: usize = 4 << 20;

fn target(mut peer: Peer) -> Result<()> {
    let context = open()?;
    let pd = context.protection_domain()?;
    let channel = context.completion_channel()?;
    let cq = channel.completion_queue(32)?;
    let region = pd.memory_region(SIZE, Access::REMOTE_WRITE)?;
    let qp = pd.reliable(&cq).access(Access::REMOTE_WRITE).build()?;
    qp.post_receive(ReceiveRequest::empty())?;
    cq.request_event()?;
    let _qp = peer.connect(qp)?;
    peer.exchange(region.remote().to_bytes())?;

    let written = channel.wait()?.wait()?.pop().ok_or("no completion")?;
    let written = written.success()?;
    if written.operation != Operation::ReceiveWrite || written.immediate != Some(PARTS.into()) {
        return Err(format!("not what was to come: {written:?}").into());
    }
    let mut part = vec![0; PART];
    for number in 0..PARTS {
        region.read(usize::from(number) * PART, &mut part)?;
        let right = part.iter().filter(|byte| **byte == number + 1).count();
        println!("part {number}: {right} bytes are there");
    }
    peer.finish()
}

fn initiator(mut peer: Peer) -> Result<()> {
    let context = open()?;
    let pd = context.protection_domain()?;
    let cq = context.completion_queue(32)?;
    let qp = peer.connect(pd.reliable(&cq).build()?)?;
    let remote = RemoteMemory::from_bytes(peer.exchange([0; RemoteMemory::SIZE])?);

    let mut parts = pd.buffer(SIZE)?.chunks_of(PART);
    for (number, part) in (1..).zip(&mut parts) {
        part.fill(number);
    }
    let mut at = 0;
    for part in parts {
        let end = at + u64::try_from(part.len())?;
        let place = remote.slice(at..end).ok_or("the peer has less memory")?;
        let request = SendRequest::write(part, place);
        at = end;
        // The last request informs the peer. Its completion is that of all before it, too.
        qp.post(match end == remote.length {
            true => request.immediate(PARTS.into()),
            false => request.unsignaled(),
        })?;
    }
    let mut done = 0;
    while done < usize::from(PARTS) {
        for completion in cq.wait()? {
            completion.success()?;
            done += 1;
        }
    }
    peer.finish()
}

fn main() -> Result<()> {
    two_ends(target, initiator)
}
