//! Failures of a case that are unrelated to the library, so that the case is run again.
#![forbid(unsafe_code)]

use anyhow::Result;

use super::{place::Surroundings, process::UNREAD, setup::SIW};
use crate::{
    record::{Record, Verdict},
    suites::{self, Case},
};

/// The message of an unlucky case.
struct Misfortune {
    on: On,
    /// All of this is in the reason.
    says: &'static [&'static str],
}

/// Where a misfortune may happen.
#[derive(Clone, Copy, PartialEq)]
enum On {
    Any,
    /// A network that was asked to lose packets.
    Losing,
    /// Soft-iWARP.
    Iwarp,
}

/// An end leaves when it has its results, and if its last acknowledgement is lost, the other
/// repeats in vain until its retries are used up: no protocol can prevent that.
const ENDED_WELL: &str = "exit status 0";

const MISFORTUNES: &[Misfortune] = &[
    // The last lines of the pingpongs.
    Misfortune {
        on: On::Losing,
        says: &[ENDED_WELL, "retry counter exceeded"],
    },
    Misfortune {
        on: On::Losing,
        says: &[ENDED_WELL, "parse WC failed"],
    },
    // Perftest. A program that sends datagrams, or over an unreliable connection, faster than a
    // busy machine takes them loses some.
    Misfortune {
        on: On::Any,
        says: &["Total Iters Required"],
    },
    // The kernel calls an id listening a moment before its connection manager knows the service.
    // A request for a connection is rejected with 8, "invalid service id"; one for a datagram
    // service is answered with status 1, "service id not supported" (InfiniBand specification, REJ
    // and SIDR_REP).
    Misfortune {
        on: On::Any,
        says: &["RDMA_CM_EVENT_REJECTED; error: 8."],
    },
    Misfortune {
        on: On::Any,
        says: &["RDMA_CM_EVENT_UNREACHABLE; error: 1."],
    },
    // The server of qperf 0.4.11 sends the port to its client before it listens there (later
    // versions after it), and a client that is quick is rejected with 8, too, which it does not
    // print.
    Misfortune {
        on: On::Any,
        says: &[
            "unexpected event from RDMA CM: Event rejected",
            "expecting: Event established",
        ],
    },
    // Soft-iWARP fails a connection (EINVAL) if the accepting side's first message is there before
    // its reply was looked at (`siw_recv_mpa_rr` of the kernel's siw_cm.c), and the server of
    // ucmatose is the first to send.
    Misfortune {
        on: On::Iwarp,
        says: &["return status -22"],
    },
    // The same in rstream's words; its server also sends first.
    Misfortune {
        on: On::Iwarp,
        says: &["rpoll: Success", "server hung"],
    },
    // A server of iWARP has a socket for each device, made one after the other: even if one of them
    // listens, the client's may not.
    Misfortune {
        on: On::Iwarp,
        says: &["ERRNO: Connection refused", "server hung"],
    },
];

/// Whether programs may wait for ever on a device, once in some hundred runs, whatever the library.
///
/// Over soft-iWARP they may: a first message that comes while its kernel module accepts the
/// connection is never read (`siw_accept` of siw_cm.c holds the queue pair's lock, and
/// `siw_qp_llp_data_ready` of siw_qp.c does not wait for it), and lies in the socket.
pub fn may_hang(device: &str) -> bool {
    is_iwarp(device)
}

/// Programs whose hangs over soft-iWARP occurred without unread data, and are not explained: that
/// of rstream's client whose server had ended well, over the built-in provider, and those of
/// ucmatose, which were not examined, over rdma-core's plugin.
const UNEXPLAINED: [&str; 2] = ["rstream", "ucmatose"];

/// Whether a hang was the device's.
fn hung_by_device(device: &str, record: &Record) -> bool {
    let is_unexplained = UNEXPLAINED.iter().any(|name| record.name.starts_with(name));
    may_hang(device) && (record.reason.contains(UNREAD) || is_unexplained)
}

fn is_iwarp(device: &str) -> bool {
    device == SIW
}

/// Runs a case, at most three times if it was unlucky, and reports that. Each attempt has a
/// different seed, because a short case may send as many packets each time.
pub fn run(
    place: &Surroundings,
    case: &Case,
    attempt: impl Fn(usize) -> Result<Record>,
) -> Result<Record> {
    let is_there = |on| match on {
        On::Any => true,
        On::Losing => loses(place, case),
        On::Iwarp => is_iwarp(place.target.device),
    };
    let mut record = attempt(0)?;
    for number in 1..suites::uroce::ATTEMPTS {
        let again = match record.verdict {
            Verdict::Fail => is_unlucky(&record.reason, is_there),
            Verdict::Hung => hung_by_device(place.target.device, &record),
            _ => false,
        };
        if !again {
            break;
        }
        println!("once more, after: {}", record.reason);
        record = attempt(number)?;
    }
    Ok(record)
}

fn loses(place: &Surroundings, case: &Case) -> bool {
    let is_faults = |name: &str| name == "UROCE_FAULTS";
    place.env.iter().any(|(name, _)| is_faults(name))
        || case.env.iter().any(|(name, _)| is_faults(name))
}

fn is_unlucky(reason: &str, is_there: impl Fn(On) -> bool) -> bool {
    let is_listed = MISFORTUNES.iter().any(|misfortune| {
        is_there(misfortune.on) && misfortune.says.iter().all(|words| reason.contains(words))
    });
    is_listed || is_there(On::Losing) && has_no_completion(reason)
}

/// Whether perftest reports a completion with a status that does not exist (`enum ibv_wc_status`):
/// with events it takes memory of its stack for a completion if the peer's answer comes first,
/// because the acknowledgement before it was lost.
fn has_no_completion(reason: &str) -> bool {
    const LAST_STATUS: u32 = 23;
    let printed = reason.split("Failed status ").skip(1);
    printed
        .filter_map(|printed| printed.split(':').next()?.parse::<i64>().ok())
        .any(|status| u32::try_from(status).is_ok_and(|status| status > LAST_STATUS) || status < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlucky_failures_depend_on_the_network() {
        let retries =
            "client exit status 1: transport retry counter exceeded; server exit status 0: ";
        assert!(is_unlucky(retries, |on| on == On::Losing));
        assert!(!is_unlucky(retries, |on| on == On::Any));
        let both = "client exit status 1: retry counter exceeded; server exit status 1: ";
        assert!(!is_unlucky(both, |on| on == On::Losing));
        let early = "client exit status 1: return status -22";
        assert!(is_unlucky(early, |on| on == On::Iwarp));
        assert!(!is_unlucky(early, |on| on == On::Losing));
        let unseen = "client exit status 1: rpoll: Success; server hung: ";
        assert!(is_unlucky(unseen, |on| on == On::Iwarp));
        assert!(!is_unlucky(unseen, |on| on == On::Losing));
        let between = "client signal 11: ERRNO: Connection refused.; server hung: ";
        assert!(is_unlucky(between, |on| on == On::Iwarp));
        assert!(!is_unlucky(between, |on| on == On::Any));
        let rejected = "client signal 11: Event: RDMA_CM_EVENT_REJECTED; error: 8.";
        assert!(is_unlucky(rejected, |on| on == On::Any));
        let unknown = "client signal 11: Event: RDMA_CM_EVENT_UNREACHABLE; error: 1.; server hung:";
        assert!(is_unlucky(unknown, |on| on == On::Any));
        let early = "client exit status 1: unexpected event from RDMA CM: Event rejected \
                     expecting: Event established; server exit status 0: ";
        assert!(is_unlucky(early, |on| on == On::Any));
        assert!(!is_unlucky("client signal 11: ", |_| true));
    }

    #[test]
    fn only_bytes_left_unread_by_soft_iwarp_explain_a_hang() {
        let hung = |case: &str, reason: &str| Record::new(case, Verdict::Hung, reason);
        let unread = format!("killed after minutes; {UNREAD}128 bytes, A B");
        assert!(hung_by_device(SIW, &hung("send-lat", &unread)));
        assert!(!hung_by_device("rxe0", &hung("send-lat", &unread)));
        assert!(!hung_by_device(SIW, &hung("rping", "killed after minutes")));
        assert!(hung_by_device(SIW, &hung("rstream-blocking", "killed")));
        assert!(!hung_by_device("rxe0", &hung("rstream", "killed")));
    }

    #[test]
    fn a_status_that_no_completion_has_was_none() {
        let reason =
            |status: &str| format!("client exit status 17: Failed status {status}: wr_id 0");
        for status in ["976236602", "-338249984", "24"] {
            assert!(has_no_completion(&reason(status)), "{status}");
        }
        for status in ["12", "0", "23", "word"] {
            assert!(!has_no_completion(&reason(status)), "{status}");
        }
        let both = format!("{}; server {}", reason("12"), reason("-5"));
        assert!(has_no_completion(&both));
        assert!(!has_no_completion("server hung:"));
    }
}
