//! Two processes send a message to and fro over a reliable connection.
//!
//!     cargo run --example pingpong
#![forbid(unsafe_code)]

mod common;

use common::{Peer, Result, open, two_ends};
use verbs::{Buffer, CompletionQueue, Operation, ReceiveRequest, SendRequest};

const ROUNDS: u32 = 1000;

/// The buffers of completed requests that the program has not used yet.
#[derive(Default)]
struct Done {
    sent: Option<Buffer>,
    received: Option<Buffer>,
}

impl Done {
    fn poll(&mut self, cq: &CompletionQueue) -> Result<()> {
        for completion in cq.wait()? {
            let completion = completion.success()?;
            match completion.operation {
                Operation::Receive => self.received = completion.into_buffer(),
                _ => self.sent = completion.into_buffer(),
            }
        }
        Ok(())
    }

    /// Waits for a send and a receive, which complete in any order.
    fn both(&mut self, cq: &CompletionQueue) -> Result<(Buffer, Buffer)> {
        loop {
            match (self.sent.take(), self.received.take()) {
                (Some(sent), Some(received)) => return Ok((sent, received)),
                (sent, received) => *self = Self { sent, received },
            }
            self.poll(cq)?;
        }
    }
}

fn number(buffer: &Buffer) -> Result<u32> {
    let bytes = buffer.get(..4).ok_or("too short")?;
    Ok(u32::from_ne_bytes(bytes.try_into()?))
}

fn end(mut peer: Peer, begins: bool) -> Result<()> {
    let context = open()?;
    let pd = context.protection_domain()?;
    let cq = context.completion_queue(32)?;
    let qp = pd.reliable(&cq).build()?;
    qp.post_receive(ReceiveRequest::new(pd.buffer(64)?))?;
    let qp = peer.connect(qp)?;
    let mut done = Done::default();
    match begins {
        // Nothing was sent before the first answer.
        false => done.sent = Some(pd.buffer(64)?),
        true => qp.post(SendRequest::send(pd.buffer(64)?))?,
    }
    let mut count = 0;
    for round in 1..=ROUNDS {
        let (mut message, received) = done.both(&cq)?;
        count = number(&received)? + 1;
        if begins && round == ROUNDS {
            break;
        }
        qp.post_receive(ReceiveRequest::new(received))?;
        message[..4].copy_from_slice(&count.to_ne_bytes());
        qp.post(SendRequest::send(message))?;
    }
    if begins {
        println!("{count} messages");
    }
    peer.finish()
}

fn main() -> Result<()> {
    two_ends(|peer| end(peer, true), |peer| end(peer, false))
}
