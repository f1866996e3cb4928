//! Completions on tokio.
#![forbid(unsafe_code)]

use std::io;

use tokio::{io::unix::AsyncFd, runtime::Handle};

use crate::{
    completion::{Completion, CompletionChannel, CompletionQueue},
    context::Context,
    error::Result,
    sys::calls,
};

/// A completion queue whose completions are awaited, on tokio. It has a completion channel of its
/// own; tokio watches the descriptor, and no thread polls.
///
/// ```
/// # use verbs::{AsyncCompletionQueue, Device, ReceiveRequest, SendRequest};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # verbs::use_uroce("lo");
/// # let context = Device::find("uroce_lo")?.open()?;
/// # let pd = context.protection_domain()?;
/// let cq = AsyncCompletionQueue::new(&context, 64)?;
/// # let a = pd.reliable(cq.queue()).build()?;
/// # let b = pd.reliable(cq.queue()).build()?;
/// # let (at_a, at_b) = (a.endpoint(), b.endpoint());
/// # b.post_receive(ReceiveRequest::new(pd.buffer(64)?))?;
/// # let (qp, _b) = (a.connect(&at_b)?, b.connect(&at_a)?);
/// qp.post(SendRequest::send(pd.buffer(8)?))?;
/// for completion in cq.completions().await? {
///     completion.success()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncCompletionQueue {
    channel: AsyncFd<CompletionChannel>,
    queue: CompletionQueue,
}

impl AsyncCompletionQueue {
    /// Makes a completion queue for at least that many completions. It is called within a runtime.
    ///
    /// # Errors
    /// Of ibv_create_comp_channel(3), ibv_create_cq(3), fcntl(2), and of tokio: if there is no
    /// runtime.
    ///
    /// # Panics
    /// If the runtime was built without I/O (`enable_io`), which tokio does not report otherwise.
    pub fn new(context: &Context, entries: u32) -> io::Result<Self> {
        Handle::try_current().map_err(io::Error::other)?;
        let channel = context.completion_channel()?;
        calls::set_nonblocking(channel.object())?;
        let queue = channel.completion_queue(entries)?;
        let channel = calls::watched(channel)?;
        Ok(Self { channel, queue })
    }

    /// The queue, for queue pairs. A program may poll it as well.
    #[must_use]
    pub fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    /// Waits until there are completions, and takes up to 32. Nothing is lost if the future is
    /// dropped. Several tasks may wait, each of which gets others.
    ///
    /// # Errors
    /// Of ibv_poll_cq(3), ibv_req_notify_cq(3) and ibv_get_cq_event(3).
    pub async fn completions(&self) -> io::Result<Vec<Completion>> {
        loop {
            if let Some(completions) = self.some()? {
                return Ok(completions);
            }
            self.queue.request_event()?;
            // Completions before the request for an event have none.
            if let Some(completions) = self.some()? {
                return Ok(completions);
            }
            let mut readable = self.channel.readable().await?;
            let taken = readable.try_io(|channel| Ok(channel.get_ref().wait()?));
            if let Ok(event) = taken {
                event?;
            }
        }
    }

    fn some(&self) -> Result<Option<Vec<Completion>>> {
        let completions = self.queue.poll()?;
        Ok((!completions.is_empty()).then_some(completions))
    }
}
