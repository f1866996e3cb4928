mod dereg;
mod model;
mod mr_cache;
mod refused;
mod regions;
mod scatter;
mod windows;

use super::*;
use kit::abi::*;
use kit::errno::Errno;
use kit::sys::scratch::Scratch;
use std::sync::Arc;
use uroce_engine::host::Fault;
use uroce_engine::work::Sge;

const FULL: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND;

const EFAULT: Errno = Errno(libc::EFAULT);

fn keys() -> Arc<Keys> {
    Arc::new(Keys::new())
}

/// Two pages, and the address of their first byte.
fn pages() -> (Scratch, u64) {
    let scratch = Scratch::new(2).expect("memory");
    (scratch, scratch.memory().address() as u64)
}

fn sge(lkey: u32, address: u64, length: u32) -> Sge {
    Sge {
        address,
        length,
        lkey,
    }
}

/// A region of all of it, at its own address.
fn register(keys: &Arc<Keys>, pd: PdId, scratch: Scratch, access: u32) -> Mr {
    let memory = scratch.memory();
    let (mr, given) = keys
        .register(pd, memory, memory.address() as u64, access)
        .expect("registered");
    assert_eq!((given.lkey, given.rkey), (mr.key(), mr.key()));
    mr
}
