//! Calls of synchronous ids, which wait for an event between their steps. The wait is in `wait.c`,
//! with only C frames below the program's; a thread can be cancelled there.

use super::ret;
use crate::abi::{rdma_cm_event, rdma_cm_id, rdma_event_channel};
use crate::id::Id;
use crate::observe::{self, About};
use crate::registry;
use crate::sync::{self, Rest, Step};
use core::ffi::{c_int, c_void};
use kit::cm::Call;
use kit::errno::Result;
use kit::sys::errno;
use std::sync::Arc;

/// Result of a step beside 0 and -1: the call waits for an event.
const WAITS: c_int = 1;

/// A call that waits, for `wait.c`.
#[repr(C)]
pub struct Waiting {
    /// The channel of the event that the call waits for.
    channel: *mut rdma_event_channel,
    /// A [`Pending`].
    rest: *mut c_void,
}

/// A call that has begun, as it is recorded and explained.
pub struct Started {
    call: Call,
    id: usize,
    /// None if the call is neither recorded nor explained.
    observed: Option<Box<Observed>>,
}

/// The recorded words of a call, and the explanation of its failure.
struct Observed {
    begin: u64,
    words: Vec<u64>,
    about: About,
}

/// The rest of a call that waits for an event of an id.
struct Pending<'a> {
    started: Started,
    id: Arc<Id>,
    rest: Rest<'a>,
}

/// Begins a call about the id at a pointer. `looked_at` has the words behind it that are recorded,
/// and what explains its failure.
#[inline(always)]
pub fn started<const N: usize>(
    call: Call,
    id: *mut rdma_cm_id,
    looked_at: impl FnOnce() -> ([u64; N], About),
) -> Started {
    let begin = observe::begin();
    let observed = (begin != 0).then(|| {
        let (words, about) = looked_at();
        Box::new(Observed {
            begin,
            words: words.to_vec(),
            about,
        })
    });
    Started {
        call,
        id: id.addr(),
        observed,
    }
}

impl Started {
    /// Runs the first step: 0, -1 with errno set, or [`WAITS`].
    #[inline(always)]
    pub fn run<'a>(
        self,
        waiting: *mut Waiting,
        first: impl FnOnce(&Arc<Id>) -> Result<Step<'a>>,
    ) -> c_int {
        let id = registry::id(self.id);
        self.run_without_id(waiting, move || first(&id?))
    }

    /// The same for a call that makes its id.
    #[inline(always)]
    pub fn run_without_id<'a>(
        self,
        waiting: *mut Waiting,
        first: impl FnOnce() -> Result<Step<'a>>,
    ) -> c_int {
        let step = first();
        if let (Ok(Step::Done(_)), None) = (&step, &self.observed) {
            return 0;
        }
        self.after(step, waiting)
    }

    #[inline(never)]
    fn after(self, step: Result<Step<'_>>, waiting: *mut Waiting) -> c_int {
        let answer = match step {
            Ok(Step::Waits(id, rest)) => {
                let channel = id.block.channel();
                let started = self;
                let pending = Box::new(Pending { started, id, rest });
                let rest = Box::into_raw(pending).cast();
                // SAFETY: wait.c passes room for it, and continues the call or drops it before the
                // program's arguments end.
                unsafe { waiting.write(Waiting { channel, rest }) };
                return WAITS;
            }
            Ok(Step::Done(value)) => Ok(value),
            Err(e) => Err(e),
        };
        if let Some(observed) = self.observed {
            let Observed {
                begin,
                words,
                about,
            } = *observed;
            observe::over(begin, (self.call, self.id, &words), || about, answer);
        }
        ret::minus_one(answer.map(|_| ()))
    }
}

/// The next step of a call, with the event that it waited for; NULL for a wait that failed with
/// errno.
unsafe extern "C" fn proceed(waiting: *mut Waiting, event: *mut rdma_cm_event) -> c_int {
    // SAFETY: `after` has written it, and wait.c passes it on once.
    let pending = unsafe { Box::from_raw((*waiting).rest.cast::<Pending<'_>>()) };
    let Pending { started, id, rest } = *pending;
    let step = if event.is_null() {
        Err(errno::get())
    } else {
        rest(sync::take(&id, event))
    };
    started.after(step, waiting)
}
crate::hidden!(proceed => "ferroverbs_cm_proceed");

/// The thread is being cancelled in its wait.
unsafe extern "C" fn abandon(waiting: *mut Waiting) {
    // SAFETY: as in `proceed`.
    drop(unsafe { Box::from_raw((*waiting).rest.cast::<Pending<'_>>()) });
}
crate::hidden!(abandon => "ferroverbs_cm_abandon");
