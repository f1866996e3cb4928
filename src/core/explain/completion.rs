#![forbid(unsafe_code)]
//! Meanings of error completions and asynchronous events (ibv_poll_cq(3), ibv_get_async_event(3)),
//! and their usual causes (IBTA volume 1, 10.10.3 and 11.6).

use crate::core::text;
use kit::abi::*;
use kit::errno::Result;
use kit::sync::Mutex;
use kit::sys::per_process::PerProcess;
use std::collections::BTreeSet;

/// The statuses that were explained already, and the queue pairs that the application moved to ERR.
#[derive(Debug, Default)]
struct Explained {
    statuses: BTreeSet<(usize, u32, ibv_wc_status)>,
    ended: BTreeSet<(usize, u32)>,
}

static EXPLAINED: PerProcess<Mutex<Explained>> = PerProcess::new();

fn with_explained<T>(with: impl FnOnce(&mut Explained) -> T) -> Result<T> {
    Ok(with(&mut EXPLAINED.get()?.lock()))
}

/// Notes that the application ends a queue pair: its flushed requests need no explanation.
pub fn ended(context: usize, qp: u32) {
    let _ = with_explained(|reported| reported.ended.insert((context, qp)));
}

/// Forgets a queue pair that is destroyed or starts anew.
pub fn forget(context: usize, qp: u32) {
    let _ = with_explained(|reported| {
        reported.ended.remove(&(context, qp));
        reported
            .statuses
            .retain(|(c, q, _)| (*c, *q) != (context, qp));
    });
}

/// The explanation of an error completion; `None` if it was explained for this queue pair already,
/// or is expected.
pub fn status(
    context: usize,
    device: &str,
    qp: u32,
    wr_id: u64,
    s: ibv_wc_status,
) -> Option<String> {
    let new = with_explained(|reported| {
        let expected = s == IBV_WC_WR_FLUSH_ERR && reported.ended.contains(&(context, qp));
        !expected && reported.statuses.insert((context, qp, s))
    });
    new.ok()?.then(|| {
        format!(
            "libibverbs: a request (wr_id {wr_id:#x}) of QP {qp:#x} on {device} ended with status \
             {s}, {}. {} (Later ones with this status on this queue pair are not reported.)\n",
            text::wc_status(s).to_string_lossy(),
            meaning(s)
        )
    })
}

fn meaning(s: ibv_wc_status) -> &'static str {
    match s {
        IBV_WC_LOC_LEN_ERR => {
            "A message was longer than the buffers of the receive request, or a request longer \
             than the port's max_msg_sz; for UD, receive buffers need 40 bytes in front for the \
             GRH, and a message must fit the MTU."
        }
        IBV_WC_LOC_QP_OP_ERR => {
            "The device found a mistake in the work request itself: more pieces than the queue \
             takes, an operation that the service does not have, a read beyond max_rd_atomic 0."
        }
        IBV_WC_LOC_PROT_ERR => {
            "A piece of the request is not inside the region that its lkey names: a wrong lkey, a \
             range beyond the region, a region of another protection domain, one that was \
             deregistered, or one without IBV_ACCESS_LOCAL_WRITE that is received or read into."
        }
        IBV_WC_WR_FLUSH_ERR => {
            "The queue pair was in ERR, so its requests come back undone. What matters is the \
             first error before this one on either end; the peer may have failed or closed, or \
             this end moved to ERR."
        }
        IBV_WC_MW_BIND_ERR => {
            "A memory window could not be bound: the region lacks IBV_ACCESS_MW_BIND, the range \
             is outside of it, or the window belongs to another protection domain or is of the \
             wrong type."
        }
        IBV_WC_BAD_RESP_ERR => {
            "The peer answered with a packet that does not belong to the request."
        }
        IBV_WC_LOC_ACCESS_ERR => {
            "The peer wrote with immediate data to memory of this end that may not be written."
        }
        IBV_WC_REM_INV_REQ_ERR => {
            "The peer refuses the request as malformed: the message is longer than its receive \
             buffers, its qp_access_flags do not allow the operation, an atomic is not aligned to \
             8 bytes, or it has no room for the read (max_dest_rd_atomic 0)."
        }
        IBV_WC_REM_ACCESS_ERR => {
            "The peer does not let its memory be used so: a wrong rkey or address, a range beyond \
             the region, a region without IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC, one of \
             another protection domain than its queue pair's, one that was deregistered, or a \
             queue pair whose qp_access_flags lack the operation."
        }
        IBV_WC_REM_OP_ERR => {
            "The peer could not carry the request out; its own completion or event says why."
        }
        IBV_WC_RETRY_EXC_ERR => {
            "The peer never acknowledged, through all repetitions: the process is gone, its queue \
             pair is not yet in RTR or was destroyed, dest_qp_num, GID, LID or PSN are wrong, a \
             firewall drops UDP port 4791, the path's MTU is smaller than path_mtu, or timeout \
             and retry_cnt are too small for a lossy network."
        }
        IBV_WC_RNR_RETRY_EXC_ERR => {
            "The peer had no receive request posted, through all repetitions: it has to post \
             receives earlier or more of them; rnr_retry 7 waits without end, a larger \
             min_rnr_timer of the peer waits longer."
        }
        IBV_WC_REM_ABORT_ERR => "The peer ended the operation.",
        IBV_WC_FATAL_ERR => {
            "The device failed in a way that it cannot recover from; look for \
             IBV_EVENT_DEVICE_FATAL and into the kernel's log."
        }
        IBV_WC_RESP_TIMEOUT_ERR => "The peer did not answer in time.",
        IBV_WC_GENERAL_ERR => {
            "An error of the device's own; vendor_err has its code, which its vendor explains."
        }
        IBV_WC_TM_ERR => "Tag matching failed.",
        IBV_WC_TM_RNDV_INCOMPLETE => {
            "The message is to be fetched by software (rendezvous), the buffer was too small."
        }
        _ => "See ibv_poll_cq(3), and vendor_err for the device's own code.",
    }
}

/// The explanation of an asynchronous event that reports a mistake or a failure; `None` for other
/// events.
pub fn event(device: &str, kind: ibv_event_type, about: &str) -> Option<String> {
    let text = event_meaning(kind)?;
    Some(format!(
        "libibverbs: {about} of {device} reports event {kind}, {}. {text}\n",
        text::event_type(kind).to_string_lossy()
    ))
}

fn event_meaning(kind: ibv_event_type) -> Option<&'static str> {
    Some(match kind {
        IBV_EVENT_CQ_ERR => {
            "The completion queue had no room for a completion, which is lost with all that \
             follow: make it as large as all requests that can complete on it at once (cqe), or \
             poll more often."
        }
        IBV_EVENT_QP_FATAL => {
            "The queue pair failed outside of any request and is in ERR: often memory of its \
             queues, or a completion queue that overran."
        }
        IBV_EVENT_QP_REQ_ERR => {
            "The peer sent a request that this queue pair must not carry out: an operation that \
             qp_access_flags do not allow, a malformed or unexpected packet, more reads than \
             max_dest_rd_atomic."
        }
        IBV_EVENT_QP_ACCESS_ERR => {
            "The peer used memory of this end that it may not: a wrong rkey or range, or a region \
             without the right; the queue pair is in ERR. The peer's completion says \
             IBV_WC_REM_ACCESS_ERR."
        }
        IBV_EVENT_PATH_MIG_ERR => "The alternate path could not be used.",
        IBV_EVENT_DEVICE_FATAL => {
            "The device is gone or has failed. Destroy everything, close the context and open the \
             device anew when it is back."
        }
        IBV_EVENT_PORT_ERR => {
            "The port went down: the cable, the switch, or 'ip link set ... down'. Connections \
             end with IBV_WC_RETRY_EXC_ERR if that lasts."
        }
        IBV_EVENT_SRQ_ERR => "The shared receive queue failed and takes no more requests.",
        IBV_EVENT_WQ_FATAL => "The work queue failed and is in ERR.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_explained_once_a_queue_pair() {
        let s = IBV_WC_RETRY_EXC_ERR;
        let text = status(1, "d", 17, 5, s).expect("new");
        assert!(text.contains("QP 0x11 on d") && text.contains("transport retry counter exceeded"));
        assert_eq!(text.matches('\n').count(), 1);
        assert_eq!(status(1, "d", 17, 6, s), None);
        assert!(status(1, "d", 18, 6, s).is_some());
        assert!(status(2, "d", 17, 6, s).is_some());
        forget(1, 17);
        assert!(status(1, "d", 17, 6, s).is_some());
    }

    #[test]
    fn flushing_after_the_application_ended_it_is_expected() {
        ended(3, 1);
        assert_eq!(status(3, "d", 1, 0, IBV_WC_WR_FLUSH_ERR), None);
        assert!(status(3, "d", 2, 0, IBV_WC_WR_FLUSH_ERR).is_some());
    }

    #[test]
    fn every_error_has_its_own_words() {
        let other = meaning(1000);
        for s in [
            IBV_WC_LOC_LEN_ERR,
            IBV_WC_REM_ACCESS_ERR,
            IBV_WC_GENERAL_ERR,
        ] {
            assert_ne!(meaning(s), other);
        }
        let failures = (IBV_EVENT_CQ_ERR..=IBV_EVENT_WQ_FATAL)
            .filter_map(event_meaning)
            .count();
        assert_eq!(failures, 9);
        assert!(event("d", IBV_EVENT_PORT_ACTIVE, "port 1").is_none());
        assert!(event("d", IBV_EVENT_CQ_ERR, "a CQ").is_some_and(|t| t.contains("no room")));
    }
}
