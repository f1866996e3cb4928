//! The connection manager of devices in user space, for librdmacm: one function, which answers a
//! table of others ([`kit::cm::Table`]). librdmacm looks for it by dlsym(3), so that it loads over
//! rdma-core's libibverbs, too.

use super::observe::librdmacm;
use super::{channel, cq, ended, qp, ret};
use crate::symver;
use kit::abi::handle::{CompChannel, Cq, UNACKED};
use kit::abi::{ibv_comp_channel, ibv_cq};
use kit::cm::{Observed, Table, VERSION, Verbs, WithVerbs};
use kit::errno::{Errno, Result};
use std::ffi::c_int;
use std::os::fd::IntoRawFd;

/// 0, or an errno value.
fn code(answer: Result<()>) -> c_int {
    answer.map_or_else(Errno::raw, |()| 0)
}

unsafe extern "C" fn open(channel: *mut u32, descriptor: *mut c_int) -> c_int {
    if channel.is_null() || descriptor.is_null() {
        return libc::EINVAL;
    }
    code(
        uroce::cm::open(uroce::node::open_for_connections).map(|(number, fd)| {
            // SAFETY: the caller passes room for both.
            unsafe {
                channel.write(number);
                descriptor.write(fd.into_raw_fd());
            }
        }),
    )
}

unsafe extern "C" fn close(channel: u32) -> c_int {
    code(uroce::cm::close(channel))
}

unsafe extern "C" fn ask(
    channel: u32,
    number: u32,
    command: *const u8,
    length: usize,
    response: *mut u8,
    room: usize,
) -> c_int {
    let command = if command.is_null() || length == 0 {
        &[][..]
    } else {
        // SAFETY: the caller passes that many bytes.
        unsafe { std::slice::from_raw_parts(command, length) }
    };
    let response = if response.is_null() || room == 0 {
        &mut [][..]
    } else {
        // SAFETY: the caller passes room for that many, which nothing else uses meanwhile.
        unsafe { std::slice::from_raw_parts_mut(response, room) }
    };
    code(uroce::cm::ask(channel, number, command, response))
}

extern "C" fn observes() -> u32 {
    librdmacm::requested()
}

unsafe extern "C" fn explain(text: *const u8, length: usize) {
    if text.is_null() {
        return;
    }
    // SAFETY: the caller passes that many bytes.
    let text = unsafe { std::slice::from_raw_parts(text, length) };
    librdmacm::explain(&String::from_utf8_lossy(text));
}

unsafe extern "C" fn record(call: *const Observed) {
    // SAFETY: the caller passes a whole one, or NULL.
    let Some(call) = (unsafe { call.as_ref() }) else {
        return;
    };
    let words = if call.words.is_null() {
        &[][..]
    } else {
        // SAFETY: there are that many words.
        unsafe { std::slice::from_raw_parts(call.words, call.count) }
    };
    librdmacm::record(call, words);
}

/// Destroys a completion queue, and after a success its channel, if there is one. The thread's
/// cancellation is deferred or disabled.
///
/// # Safety
/// As for ibv_destroy_cq(3) and ibv_destroy_comp_channel(3).
unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq, channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: vouched for by the caller; the queue's channel is read before the queue is freed.
    unsafe {
        ret::code_of(Cq::from_raw(cq), |h| {
            let destroy = h.table().destroy_cq();
            let on = (*cq).channel;
            let answer = match ended::deferred(h.ctx(), || destroy(cq)) {
                UNACKED => cq::destroy_cq(cq),
                0 => {
                    cq::destroy_cq_end(cq, on);
                    0
                }
                failure => failure,
            };
            if answer != 0 || channel.is_null() {
                return answer;
            }
            ret::code(CompChannel::from_raw(channel).and_then(|on| channel::destroy(on)))
        })
    }
}

static TABLE: WithVerbs = WithVerbs {
    table: Table {
        size: size_of::<WithVerbs>(),
        version: VERSION,
        open: Some(open),
        close: Some(close),
        ask: Some(ask),
        observes: Some(observes),
        explain: Some(explain),
        record: Some(record),
    },
    verbs: Verbs {
        modify_qp: qp::modify_qp_deferred,
        destroy_qp: qp::destroy_qp_deferred,
        destroy_cq,
    },
};

unsafe extern "C" fn connection_manager() -> *const Table {
    (&raw const TABLE).cast()
}
symver!(connection_manager => "ferroverbs_connection_manager", "FERROVERBS_1.1");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_followed_that_is_not_there() {
        // SAFETY: NULL and 0 are allowed.
        unsafe {
            let table = &*connection_manager();
            assert_eq!(
                (table.size, table.version),
                (size_of::<WithVerbs>(), VERSION)
            );
            assert_eq!(
                open(std::ptr::null_mut(), std::ptr::null_mut()),
                libc::EINVAL
            );
            assert_eq!(close(u32::MAX), libc::ENODEV);
            let nothing = std::ptr::null_mut();
            assert_eq!(ask(u32::MAX, 0, nothing, 0, nothing, 0), libc::ENODEV);
            explain(nothing, 1);
            record(std::ptr::null());
        }
    }
}
