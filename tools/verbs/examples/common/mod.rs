//! What the examples share: a program that is both ends of a connection.
#![forbid(unsafe_code)]

use std::{
    env,
    error::Error,
    io::{self, Read, Write},
    process::{Command, Stdio},
};

use verbs::{Connected, Context, Device, Endpoint, QueuePair, UnconnectedQueuePair};

/// Of the examples.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The other end: a way for bytes that is there before the connection is.
pub struct Peer {
    from: Box<dyn Read>,
    to: Box<dyn Write>,
}

impl Peer {
    /// Sends bytes to the other end, and receives as many.
    ///
    /// # Errors
    /// Of the pipes; UnexpectedEof if the other end is gone.
    pub fn exchange<const N: usize>(&mut self, bytes: [u8; N]) -> Result<[u8; N]> {
        self.to.write_all(&bytes)?;
        self.to.flush()?;
        let mut answer = [0; N];
        self.from.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// Connects a queue pair with the one that the other end passes to the same call.
    ///
    /// # Errors
    /// Of the pipes, and of `UnconnectedQueuePair::connect`.
    pub fn connect<T: Connected>(&mut self, qp: UnconnectedQueuePair<T>) -> Result<QueuePair<T>> {
        let theirs = self.exchange(qp.endpoint().to_bytes())?;
        let connected = qp.connect(&Endpoint::from_bytes(theirs))?;
        self.barrier()?;
        Ok(connected)
    }

    /// Waits until the other end is here, too.
    ///
    /// # Errors
    /// Of the pipes.
    pub fn barrier(&mut self) -> Result<()> {
        self.exchange([0]).map(|_| ())
    }
}

/// Runs `first`, and `second` in another process of the same program. `second` prints nothing: its
/// standard output is the way to the first.
///
/// # Errors
/// Of starting the process; of `first`; of a process that failed.
pub fn two_ends(
    first: impl FnOnce(Peer) -> Result<()>,
    second: impl FnOnce(Peer) -> Result<()>,
) -> Result<()> {
    const SECOND: &str = "--second-end";
    if env::args().nth(1).as_deref() == Some(SECOND) {
        return second(Peer {
            from: Box::new(io::stdin()),
            to: Box::new(io::stdout()),
        });
    }
    let mut child = Command::new(env::current_exe()?)
        .arg(SECOND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (from, to) = (child.stdout.take(), child.stdin.take());
    let peer = Peer {
        from: Box::new(from.ok_or("no pipe")?),
        to: Box::new(to.ok_or("no pipe")?),
    };
    let result = first(peer);
    let status = child.wait()?;
    result?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the other end: {status}").into()),
    }
}

/// Opens uroce's device on the loopback interface.
///
/// # Errors
/// ENODEV without that interface.
pub fn open() -> Result<Context> {
    verbs::use_uroce("lo");
    Ok(Device::find("uroce_lo")?.open()?)
}
