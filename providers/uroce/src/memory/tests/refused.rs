//! Each refusal of a peer has its reason, and a reason exists only for a refusal.

use super::super::refused::Why;
use super::*;
use uroce_engine::host::{RemoteAccess, RemoteRange};

#[test]
fn each_refusal_has_its_reason() {
    let keys = keys();
    let (own, other) = (Pd::new(), Pd::new());
    let (scratch, base) = pages();
    let memory = scratch.memory();
    let read_only = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    let (mr, _) = keys
        .register(own.id(), memory, base, read_only)
        .expect("registered");
    let length = u64::try_from(memory.length()).expect("two pages");
    let who = |pd: &Pd| Peer {
        pd: pd.id(),
        qpn: 5,
    };
    let range = |rkey, address| RemoteRange {
        rkey,
        address,
        length: 8,
    };
    let key = mr.key();
    let ask = |pd: &Pd, rkey, address, access| {
        let (who, range) = (who(pd), range(rkey, address));
        let refused = keys.check_remote(who, range, access).is_err();
        refused.then(|| keys.why_refused(who, range, access))
    };
    let read = RemoteAccess::Read;
    assert_eq!(ask(&own, key, base, read), None);
    assert_eq!(ask(&own, 0xff, 0, read), Some(Why::NoSuchKey));
    assert_eq!(ask(&own, key ^ 1, base, read), Some(Why::NoSuchKey));
    assert_eq!(ask(&other, key, base, read), Some(Why::Foreign));
    let out = Some(Why::OutOfRange(base, length));
    assert_eq!(ask(&own, key, base + length - 7, read), out);
    assert_eq!(ask(&own, key, base - 1, read), out);
    let lacks = |flag| Some(Why::Lacks(flag));
    let write = ask(&own, key, base, RemoteAccess::Write);
    assert_eq!(write, lacks("IBV_ACCESS_REMOTE_WRITE"));
    let atomic = ask(&own, key, base, RemoteAccess::Atomic);
    assert_eq!(atomic, lacks("IBV_ACCESS_REMOTE_ATOMIC"));
    let flush = |placement| RemoteAccess::Flush {
        placement,
        selectivity: uroce_engine::wire::feth::REGION,
    };
    let global = flush(uroce_engine::wire::feth::GLOBAL);
    let unknown = ask(&own, key, base, flush(0));
    assert_eq!(
        ask(&own, key, base, global),
        lacks("IBV_ACCESS_FLUSH_GLOBAL")
    );
    assert_eq!(unknown, lacks("the placement"));
    keys.deregister(&mr).expect("deregistered");
    assert_eq!(ask(&own, key, base, read), Some(Why::NoSuchKey));
}
