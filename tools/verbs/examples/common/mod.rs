//! What the examples share: a program that is both ends of a connection.
#![forbid(unsafe_code)]

use std::{
    env,
    error::Error,
    io::{self, Read, Write},
    process::{self, Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use verbs::{Connected, Context, Device, Endpoint, QueuePair, UnconnectedQueuePair};

/// Of the examples.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The other end: a way for bytes that is there before the connection is. A message begins with its
/// length; the last one is empty. If the other end is gone before that, this process ends, whatever
/// it waits for: a completion that the other end was to cause never arrives.
pub struct Peer {
    messages: Receiver<io::Result<Vec<u8>>>,
    to: Box<dyn Write>,
}

/// Passes messages on, up to the last.
fn receive(mut from: impl Read, to: &Sender<io::Result<Vec<u8>>>) -> io::Result<()> {
    loop {
        let mut length = [0];
        from.read_exact(&mut length)?;
        let [length] = length.map(usize::from);
        let mut message = vec![0; length];
        from.read_exact(&mut message)?;
        if to.send(Ok(message)).is_err() || length == 0 {
            return Ok(());
        }
    }
}

impl Peer {
    fn new(from: impl Read + Send + 'static, to: impl Write + 'static) -> Self {
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            let Err(error) = receive(from, &sender) else {
                return;
            };
            let text = format!("the other end is gone: {error}");
            // A program that has dropped its end is about to report another error.
            if sender.send(Err(error)).is_ok() {
                eprintln!("{text}");
                process::exit(1);
            }
        });
        let to = Box::new(to);
        Self { messages, to }
    }

    /// Sends bytes to the other end, up to 255, and receives as many.
    ///
    /// # Errors
    /// Of the pipes; UnexpectedEof if the other end is gone.
    pub fn exchange<const N: usize>(&mut self, bytes: [u8; N]) -> Result<[u8; N]> {
        self.to.write_all(&[u8::try_from(N)?])?;
        self.to.write_all(&bytes)?;
        self.to.flush()?;
        let answer = self.messages.recv()??;
        Ok(answer
            .try_into()
            .map_err(|_| "not the message that was to come")?)
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
    fn barrier(&mut self) -> Result<()> {
        self.exchange([0]).map(|_| ())
    }

    /// Waits until the other end has finished, too.
    ///
    /// # Errors
    /// Of the pipes.
    pub fn finish(mut self) -> Result<()> {
        self.exchange([]).map(|_| ())
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
        return second(Peer::new(io::stdin(), io::stdout()));
    }
    let mut child = Command::new(env::current_exe()?)
        .arg(SECOND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (from, to) = (child.stdout.take(), child.stdin.take());
    let peer = Peer::new(from.ok_or("no pipe")?, to.ok_or("no pipe")?);
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
