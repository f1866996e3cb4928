//! Verbs beside posting and polling, over uroce on the loopback interface, in one process. With the
//! feature `system` the library may be one without uroce, and nothing is tested.

#![cfg(not(feature = "system"))]
#![allow(clippy::unwrap_used)] // a test that cannot continue ends

mod attributes;
mod batches;
#[cfg(feature = "connection")]
mod datagrams;
#[cfg(feature = "connection")]
mod lookup;
mod memory;
mod packets;
mod refusals;
mod senders;
mod windows;
mod xrc;

use verbs::{
    Access, Buffer, Completion, CompletionQueue, Context, Device, ProtectionDomain, QueuePair,
    QueuePairBuilder, Reliable,
};

fn open() -> Context {
    verbs::use_uroce("lo");
    Device::find("uroce_lo").unwrap().open().unwrap()
}

/// Two connected queue pairs, each with a completion queue.
struct Pair {
    pd: ProtectionDomain,
    queues: [CompletionQueue; 2],
    ends: [QueuePair<Reliable>; 2],
}

fn pair(
    access: Access,
    change: impl Fn(QueuePairBuilder<Reliable>) -> QueuePairBuilder<Reliable>,
) -> Pair {
    let context = open();
    let pd = context.protection_domain().unwrap();
    let queues = [(); 2].map(|()| context.completion_queue(64).unwrap());
    let build = |cq| {
        let builder = pd.reliable(cq).access(access).segments(2).inline(32);
        change(builder).build().unwrap()
    };
    let [a, b] = [build(&queues[0]), build(&queues[1])];
    let (at_a, at_b) = (a.endpoint(), b.endpoint());
    let ends = [a.connect(&at_b).unwrap(), b.connect(&at_a).unwrap()];
    Pair { pd, queues, ends }
}

fn filled(pd: &ProtectionDomain, bytes: &[u8]) -> Buffer {
    let mut buffer = pd.buffer(bytes.len()).unwrap();
    buffer.copy_from_slice(bytes);
    buffer
}

/// The next completions, that many.
fn take(cq: &CompletionQueue, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(cq.wait().unwrap());
    }
    assert_eq!(all.len(), count);
    all
}

fn one(cq: &CompletionQueue) -> Completion {
    take(cq, 1).remove(0)
}
