//! Completion channels and queues.

use std::{ffi::CStr, io, ptr, rc::Rc};

use bytemuck::Zeroable;
use kit::abi::{
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_WITH_IMM, ibv_comp_channel, ibv_cq, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_poll_cq_attr, ibv_wc, ibv_wc_status,
};

use crate::tools::{
    context::{Context, extended, sole},
    handle::{Handle, made, status},
    memory::count,
    raw,
};

/// A completion channel.
#[derive(Clone)]
pub struct Channel(Rc<(Handle<ibv_comp_channel>, Context)>);

impl Channel {
    /// # Errors
    /// The errno of ibv_create_comp_channel(3).
    pub fn new(context: &Context) -> io::Result<Self> {
        // SAFETY: the context is open, and is kept open.
        let channel = unsafe {
            let at = made(raw::ibv_create_comp_channel(context.as_ptr()))?;
            Handle::new(at, raw::ibv_destroy_comp_channel)
        };
        Ok(Self(Rc::new((channel, context.clone()))))
    }

    /// Gives it back.
    ///
    /// # Errors
    /// EBUSY if a queue is left, else the errno of ibv_destroy_comp_channel(3).
    pub fn close(self) -> io::Result<()> {
        sole(self.0)?.0.destroy()
    }

    /// Waits for an event: the address of its queue. Each has to be acknowledged
    /// (`Cq::acknowledge`) before the queue can be destroyed.
    ///
    /// # Errors
    /// The errno of ibv_get_cq_event(3).
    pub fn event(&self) -> io::Result<usize> {
        let (mut cq, mut cq_context) = (ptr::null_mut(), ptr::null_mut());
        let at = self.0.0.as_ptr();
        // SAFETY: the channel lives; both pointers may be written.
        status(unsafe { raw::ibv_get_cq_event(at, &raw mut cq, &raw mut cq_context) })?;
        Ok(cq.addr())
    }
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The number that the request was given.
    pub id: u64,
    /// `enum ibv_wc_status`.
    pub status: ibv_wc_status,
    /// The queue pair; 0 from a queue with timestamps.
    pub queue_pair: u32,
    /// When, in the device's time; 0 from a queue without timestamps.
    pub timestamp: u64,
    /// How many bytes were received; 0 from a queue with timestamps.
    pub bytes: u32,
    /// The immediate data that came along; none from a queue with timestamps.
    pub immediate: Option<u32>,
}

/// The library's words for `enum ibv_wc_status`.
#[must_use]
pub fn status_text(status: ibv_wc_status) -> String {
    // SAFETY: the library returns a static string for any number.
    let text = unsafe { CStr::from_ptr(raw::ibv_wc_status_str(status)) };
    text.to_string_lossy().into_owned()
}

/// A completion queue.
#[derive(Clone)]
pub struct Cq(Rc<CqInner>);

struct CqInner {
    cq: Handle<ibv_cq>,
    timestamps: bool,
    context: Context,
    channel: Option<Channel>,
}

impl Cq {
    /// # Errors
    /// The errno of ibv_create_cq(3), or with timestamps of ibv_create_cq_ex(3).
    pub fn new(
        context: &Context,
        entries: u32,
        channel: Option<&Channel>,
        timestamps: bool,
    ) -> io::Result<Self> {
        let events = channel.map_or(ptr::null_mut(), |channel| channel.0.0.as_ptr());
        let at = if timestamps {
            let create = extended!(context, create_cq_ex)?;
            let mut attr = ibv_cq_init_attr_ex {
                cqe: entries,
                cq_context: ptr::null_mut(),
                channel: events,
                comp_vector: 0,
                wc_flags: u64::from(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP),
                comp_mask: 0,
                flags: 0,
                parent_domain: ptr::null_mut(),
            };
            // SAFETY: the context is open, the channel lives. The extended queue begins as the
            // plain one, which it can be used as.
            made(unsafe { create(context.as_ptr(), &raw mut attr) })?.cast()
        } else {
            let (context, entries) = (context.as_ptr(), count(entries));
            // SAFETY: the context is open, the channel lives.
            made(unsafe { raw::ibv_create_cq(context, entries, ptr::null_mut(), events, 0) })?
        };
        // SAFETY: just made; the context and the channel are kept.
        let cq = unsafe { Handle::new(at, raw::ibv_destroy_cq) };
        Ok(Self(Rc::new(CqInner {
            cq,
            timestamps,
            context: context.clone(),
            channel: channel.cloned(),
        })))
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_cq {
        self.0.cq.as_ptr()
    }

    /// Destroys it.
    ///
    /// # Errors
    /// EBUSY if a queue is left that uses it, else the errno of ibv_destroy_cq(3).
    pub fn close(self) -> io::Result<()> {
        sole(self.0)?.cq.destroy()
    }

    /// The address that events name.
    #[must_use]
    pub fn address(&self) -> usize {
        self.as_ptr().addr()
    }

    /// The channel that gets its events.
    #[must_use]
    pub fn channel(&self) -> Option<&Channel> {
        self.0.channel.as_ref()
    }

    /// Asks for an event at the next completion.
    ///
    /// # Errors
    /// The errno of ibv_req_notify_cq(3).
    pub fn request_event(&self) -> io::Result<()> {
        let context = self.0.context.as_ptr();
        // SAFETY: the context is open; an open one has this verb.
        unsafe {
            let verb = (*context).ops.req_notify_cq.ok_or_else(unsupported)?;
            status(verb(self.as_ptr(), 0))
        }
    }

    /// Acknowledges events.
    pub fn acknowledge(&self, events: u32) {
        // SAFETY: the queue lives.
        unsafe { raw::ibv_ack_cq_events(self.as_ptr(), events) };
    }

    /// Takes up to `most` completions; of a queue with timestamps, up to two.
    ///
    /// # Errors
    /// The device's result: for ibv_poll_cq(3) a negative number unchanged, for ibv_start_poll(3)
    /// and ibv_next_poll(3) their errno.
    pub fn poll(&self, most: usize, into: &mut Vec<Completion>) -> Result<(), i32> {
        into.clear();
        match self.0.timestamps {
            true => self.poll_extended(into),
            false => self.poll_plain(most, into),
        }
    }

    fn poll_plain(&self, most: usize, into: &mut Vec<Completion>) -> Result<(), i32> {
        const AT_ONCE: usize = 64;
        let context = self.0.context.as_ptr();
        let mut taken = [ibv_wc::zeroed(); AT_ONCE];
        let most = count(u32::try_from(most.min(AT_ONCE)).unwrap_or(0));
        // SAFETY: the context is open and has this verb; there is room for as many as are asked
        // for.
        let answer = unsafe {
            let verb = (*context).ops.poll_cq.ok_or(-1)?;
            verb(self.as_ptr(), most, taken.as_mut_ptr())
        };
        let there = usize::try_from(answer).map_err(|_| answer)?;
        into.extend(taken.iter().take(there).map(|wc| Completion {
            id: wc.wr_id,
            status: wc.status,
            queue_pair: wc.qp_num,
            timestamp: 0,
            bytes: wc.byte_len,
            immediate: immediate(wc),
        }));
        Ok(())
    }

    fn poll_extended(&self, into: &mut Vec<Completion>) -> Result<(), i32> {
        let at: *mut ibv_cq_ex = self.as_ptr().cast();
        // SAFETY: the queue was made as an extended one with timestamps, so that it has these
        // functions; they are called in their order.
        unsafe {
            let (Some(start), Some(next), Some(end), Some(time)) = (
                (*at).start_poll,
                (*at).next_poll,
                (*at).end_poll,
                (*at).read_completion_ts,
            ) else {
                return Err(libc::EOPNOTSUPP);
            };
            let read = || Completion {
                id: (*at).wr_id,
                status: (*at).status,
                queue_pair: 0,
                timestamp: time(at),
                bytes: 0,
                immediate: None,
            };
            let mut attr = ibv_poll_cq_attr { comp_mask: 0 };
            match start(at, &raw mut attr) {
                0 => into.push(read()),
                libc::ENOENT => return Ok(()),
                error => return Err(error),
            }
            let second = next(at);
            if second == 0 {
                into.push(read());
            }
            end(at);
            match second {
                0 | libc::ENOENT => Ok(()),
                error => Err(error),
            }
        }
    }
}

fn immediate(wc: &ibv_wc) -> Option<u32> {
    // SAFETY: both members are four plain bytes.
    let data = unsafe { wc.imm.imm_data };
    (wc.wc_flags & IBV_WC_WITH_IMM != 0).then(|| data.get())
}

fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}
