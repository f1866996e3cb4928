//! Completions on tokio: a process sends messages, several at a time, and another one returns them.
//! No thread polls.
//!
//!     cargo run --example async --features tokio
#![forbid(unsafe_code)]

mod common;

use common::{Peer, Result, open, two_ends};
use verbs::{AsyncCompletionQueue, Operation, ReceiveRequest, SendRequest};

const MESSAGES: usize = 100;
const AT_ONCE: usize = 8;

async fn end(mut peer: Peer, begins: bool) -> Result<()> {
    let context = open()?;
    let pd = context.protection_domain()?;
    let cq = AsyncCompletionQueue::new(&context, 64)?;
    let qp = pd.reliable(cq.queue()).build()?;
    for room in pd.buffer(AT_ONCE * 64)?.chunks_of(64) {
        qp.post_receive(ReceiveRequest::new(room))?;
    }
    let qp = peer.connect(qp)?;
    if begins {
        for message in pd.buffer(AT_ONCE * 64)?.chunks_of(64) {
            qp.post(SendRequest::send(message))?;
        }
    }
    let (mut sent, mut received) = (0, 0);
    while sent < MESSAGES || received < MESSAGES {
        for completion in cq.completions().await? {
            let completion = completion.success()?;
            match completion.operation {
                // The buffer goes back as a message; the message's makes room for the next.
                Operation::Receive => {
                    received += 1;
                    let message = completion.into_buffer().ok_or("no buffer")?;
                    let posted = if begins { received + AT_ONCE } else { received };
                    if posted <= MESSAGES {
                        qp.post(SendRequest::send(message))?;
                    }
                }
                _ => {
                    sent += 1;
                    let room = completion.into_buffer().ok_or("no buffer")?;
                    qp.post_receive(ReceiveRequest::new(room))?;
                }
            }
        }
    }
    if begins {
        println!("{received} messages came back");
    }
    peer.finish()
}

fn run(peer: Peer, begins: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(end(peer, begins))
}

fn main() -> Result<()> {
    two_ends(|peer| run(peer, true), |peer| run(peer, false))
}
