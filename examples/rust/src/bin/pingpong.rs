//! Two ends send a message to and fro over a reliable connection: `pingpong [DEVICE]`.
//!
//! Shown: opening a device, registering memory, connecting, posting, polling. Objects are given
//! back when they are dropped, in the right order.
#![forbid(unsafe_code)]

use example::{Address, Peer, Result, connect_rc, create_rc, open, two_ends, wait_for_completion};
use verbs::tools::{
    abi::{IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED},
    completion::Cq,
    memory::{Memory, Pd, Registration},
    queue::{Qp, Send},
};

const ROUNDS: u32 = 1000;
const SIZE: usize = 64;
const SEND: u64 = 1;
const RECEIVE: u64 = 2;

/// The objects of one end.
struct End {
    qp: Qp,
    cq: Cq,
    out: Memory,
    into: Memory,
}

impl End {
    fn connected(peer: &Peer) -> Result<Self> {
        let context = open()?;
        let pd = Pd::new(&context)?;
        let cq = Cq::new(&context, 32, None, false)?;
        let readable = Registration::default();
        let writable = Registration {
            access: IBV_ACCESS_LOCAL_WRITE,
            ..readable
        };
        let end = Self {
            out: Memory::new(&pd, SIZE, 0, readable).map_err(|error| error.to_string())?,
            into: Memory::new(&pd, SIZE, 0, writable).map_err(|error| error.to_string())?,
            qp: create_rc(&pd, &cq, None)?,
            cq,
        };
        let mine = Address::new(&context, &end.qp, None)?;
        let theirs = peer.exchange(mine)?;
        connect_rc(&end.qp, &mine, &theirs)?;
        end.post_receive()?;
        // Neither end sends before both have a receive request posted.
        peer.barrier()?;
        Ok(end)
    }

    fn post_receive(&self) -> Result<()> {
        Ok(self.qp.receive(RECEIVE, &self.into, SIZE)?)
    }

    fn send(&self, number: u32) -> Result<()> {
        self.out.write(0, &number.to_ne_bytes())?;
        Ok(self.qp.send(&Send {
            id: SEND,
            memory: &self.out,
            offset: 0,
            length: SIZE,
            flags: IBV_SEND_SIGNALED,
            to: None,
            remote: None,
            srq: 0,
            immediate: 0,
        })?)
    }

    fn received(&self) -> Result<u32> {
        let bytes = self.into.read(0, 4)?;
        Ok(u32::from_ne_bytes(bytes.as_slice().try_into()?))
    }

    /// Waits until all of these requests have completed, in any order.
    fn wait_for(&self, requests: u64) -> Result<()> {
        let mut done = 0;
        while done & requests != requests {
            done |= wait_for_completion(&self.cq)?.id;
        }
        Ok(())
    }
}

fn begin(peer: &Peer) -> Result<()> {
    let end = End::connected(peer)?;
    for round in 1..=ROUNDS {
        end.send(round)?;
        end.wait_for(SEND | RECEIVE)?;
        let number = end.received()?;
        if number != round + ROUNDS {
            return Err(format!("round {round}: {number} came back").into());
        }
        if round < ROUNDS {
            end.post_receive()?;
        }
    }
    println!("{ROUNDS} messages each way");
    peer.barrier()
}

fn answer(peer: &Peer) -> Result<()> {
    let end = End::connected(peer)?;
    for round in 1..=ROUNDS {
        end.wait_for(RECEIVE)?;
        let number = end.received()?;
        if round < ROUNDS {
            end.post_receive()?;
        }
        end.send(number + ROUNDS)?;
        end.wait_for(SEND)?;
    }
    peer.barrier()
}

fn main() -> Result<()> {
    two_ends(answer, begin)
}
