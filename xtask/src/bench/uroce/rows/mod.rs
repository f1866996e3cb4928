//! The rows of the table.
#![forbid(unsafe_code)]

mod between_hosts;
mod guest;
mod loopback;
mod mpi;
mod ucx;

use super::row::{Row, Site};

/// All rows, in the order of the document.
pub fn all() -> Vec<&'static Row> {
    let groups = [
        loopback::ROWS,
        ucx::ROWS,
        between_hosts::ROWS,
        mpi::ROWS,
        guest::ROWS,
    ];
    groups.into_iter().flatten().collect()
}

/// The rows that a run measures.
pub fn rows_of(site: Site) -> impl Iterator<Item = &'static Row> {
    let rows = all().into_iter();
    rows.filter(move |row| row.place.site() == Some(site))
}

/// Known reasons why a row misses its bound, by the name of the row. Shares of time are those of
/// perf(1), counts of system calls those of strace(1), on the machine of the table.
const LIMITS: &[(&str, &str)] = &[
    (
        "ib_write_bw 64 KiB, shm",
        "Each write is one process_vm_writev(2), as in the peer's column. The rest is \
         ibv_post_send before that call, and ibv_poll_cq after it",
    ),
    (
        "ib_write_lat 8 B, shm, private memory",
        "Each write is one process_vm_writev(2). The rest is ibv_post_send before that call, whose \
         checks and locks the peer waits for, and ibv_poll_cq after it",
    ),
    (
        "ib_write_lat 8 B, shm, shared-memory region",
        "uroce maps no file of another process that can be shortened, because a process that \
         shortens its file would then end its peers by SIGBUS. The kernel copies, which takes the \
         time of the row above. A memfd that is sealed against it is mapped (the row below)",
    ),
    ("ib_send_lat 8 B, shm", TWO_REQUESTS),
    ("ib_send_bw 8 B, shm", TWO_REQUESTS),
    (
        "ib_write_lat 8 B, shm, sealed memfd",
        "UCX stores into memory that both processes have mapped, and does nothing else. Over \
         verbs each write is a request, which claims the region for the time of the copy, so \
         that deregistering it can wait, and a completion, which perftest polls for before \
         the next write",
    ),
    (
        "ib_write_bw 64 KiB, shm, sealed memfd",
        "Besides its copy, each write is a request, a claim of the region, and a completion",
    ),
    (
        "ib_send_bw 64 B, shm, 1024 queue pairs",
        "Each queue pair has 512 posted receive requests and a buffer, which no cache holds for all \
         of them. Row \"64 B by a ring and 1024 receive queues alone\" touches that memory and \
         does nothing else",
    ),
    (
        "ib_send_bw 64 B, UDP on lo",
        "The sender's processor is busy throughout: for 21 messages it makes one sendmsg(2), and \
         the rest is its work for each packet, headers and two check sums of 64 bytes included",
    ),
    (
        "ib_send_bw 64 B, UDP on lo, 64 queue pairs",
        "perftest posts 100 messages to one queue pair and then goes to the next, so 64 sequences \
         of packets are acknowledged separately, and the last messages of each burst wait for no \
         others",
    ),
    ("UCX tag_lat 8 B, UDP", SMALL_BY_UDP),
    (
        "UCX tag_bw 1 MiB, UDP",
        "TCP on lo has segments of up to 64 KiB, and the kernel computes no check sum of them. A \
         packet of RoCE has at most 4096 bytes, and both ends compute its CRC. Of the receiver's \
         time 56 % is the kernel's, 17 % is work for each packet, 12 % the CRC and 10 % the copy \
         to its place",
    ),
    ("UCX tag_lat 8 B, shm", SMALL_BY_UCX),
    ("UCX tag_bw 64 B, shm", SMALL_BY_UCX),
    (
        "UCX tag_bw 8 KiB, shm",
        "Over verbs the receiver copies twice: out of the ring into a receive buffer that was \
         posted, of which UCX has 4096 in turn, and from there to the program. Over posix it \
         copies once. Row \"8 KiB by a ring and posted receives alone\" does these copies and \
         nothing else",
    ),
    (
        "UCX tag_bw 1 MiB, shm",
        "The receiver reads the message by process_vm_readv(2), as over cma; row \"ib_read_bw \
         1 MiB, shm\" is that alone. Over verbs one read follows the other: UCX posts the next \
         when it has polled the completion of the one before and has sent its end to the sender",
    ),
    (
        "UCX put_bw 64 KiB, shm",
        "Over posix both processes map the memory that UCX allocates. Over verbs UCX registers \
         separate memory, which no other process can map, so the kernel copies. Row \"64 KiB by \
         process_vm_writev alone\" does that and nothing else",
    ),
    ("ib_send_lat 8 B, pair", PAIR),
    ("ib_write_lat 8 B, pair", PAIR),
    ("OpenMPI all-to-all 64 B, four hosts", SMALL_OF_RANKS),
    ("OpenMPI allreduce 8 B, four hosts", SMALL_OF_RANKS),
    ("OpenMPI all-to-all 64 KiB, four hosts", LARGE_OF_RANKS),
    ("OpenMPI allreduce 1 MiB, four hosts", LARGE_OF_RANKS),
    ("OpenMPI bandwidth 64 KiB, four hosts", LARGE_OF_RANKS),
    ("OpenMPI bandwidth 1 MiB, four hosts", LARGE_OF_RANKS),
    (
        "ib_write_bw 64 KiB, hosts, 20 ms each way, loss 0.1 %",
        FAR_AND_LOSSY,
    ),
    ("ib_send_lat 8 B, UDP between hosts", EMULATED_LATENCY),
    ("ib_write_lat 8 B, UDP between hosts", EMULATED_LATENCY),
    ("ib_write_bw 64 KiB, pair, MTU 1500", PAIR_OF_1500),
    ("ib_read_bw 64 KiB, pair, MTU 1500", PAIR_OF_1500),
    ("ib_write_bw 1 MiB, pair, MTU 1500", PAIR_OF_1500),
    ("ib_read_bw 1 MiB, pair, MTU 1500", PAIR_OF_1500),
    ("ib_send_bw 1 MiB, pair, MTU 1500", PAIR_OF_1500),
];

const TWO_REQUESTS: &str = "A message over verbs is a send request and a receive request with two \
     completions, which the program posts and polls. Over posix UCX writes it into the receiver's \
     queue, which the receiver reads";

const SMALL_BY_UDP: &str = "The message takes the way of row \"ib_send_lat 8 B, UDP on lo\". More \
     than half of both processes' time is the kernel's, 22 % uroce's, 2 % UCX's. UCX over TCP makes \
     three system calls for a message, without a check sum and an acknowledgement";

const SMALL_BY_UCX: &str = "Over posix UCX writes the message into the receiver's queue, which the \
     receiver reads. Over verbs each message is a send request and a receive request with two \
     completions, which UCX posts and polls. Of the receiver's time 69 % is uroce's and 7 % UCX's (tag_lat), 40 \
     and 19 % (tag_bw 64 B)";

const PAIR: &str = "The ICRC covers the identification of the IP packet, and the kernel numbers the \
     packets of connected sockets, so each call has to name both addresses. Row \"a datagram by \
     UDP sockets that each call addresses, pair\" does that and nothing else. Between the arrival \
     of a message and the call that sends the answer about 6000 instructions are executed \
     (callgrind), the program's own included";

const SMALL_OF_RANKS: &str = "Four ranks share two processors and poll, so that a message waits for \
     the processor of its receiver, in both columns. 75 % of the ranks' time (all-to-all 64 B) is \
     the kernel's, 45 % that of sendmsg(2): 8 calls for an exchange, as many as over TCP, by \
     sockets that are not connected (row \"a datagram by UDP sockets that each call addresses, \
     pair\"). uroce has 11 %, UCX 2 %. The rows *over UCX's tcp* show the share of UCX's protocol";

const LARGE_OF_RANKS: &str = "The ranks keep both processors busy throughout. A part of the distance is \
     that of UCX's protocol, which the rows *over UCX's tcp* have as well: a message of 64 KiB is \
     copied into pieces of 8 KiB and out of them, and ranks that wait poll. Of the ranks' time over \
     uroce (all-to-all 64 KiB; bandwidth 1 MiB) 49 and 40 % is the kernel's, 17 and 17 % work for \
     each packet of 1024 bytes, 19 and 28 % copies, 9 and 12 % the CRC. TCP computes no check sum \
     on such a path, and copies into the kernel and out of it only";

const FAR_AND_LOSSY: &str = "The window takes seven round trips of 40 ms to fill the path, of 25 to 30 \
     that the stream lasts. After that it holds back no packet, and the sender's processor is the \
     limit, as on shorter paths (the window of five runs, printed once in a round trip)";

const EMULATED_LATENCY: &str = "Between the arrival of a message and the call that sends the answer \
     about 6000 instructions are executed in user space (callgrind), and each is emulated. Row \"a \
     datagram by UDP sockets alone, between hosts\" is the kernel's part";

/// Why packets of 1024 bytes miss the bound on a processor on which TCP is fast.
const PAIR_OF_1500: &str = "Of the receiver's time (write 64 KiB) 50 % is the kernel's, 19 % work for each \
     packet of 1024 bytes, 21 % the CRC and 7 % copies. The kernel copies the bytes of a \
     write once more, because it alone can answer EFAULT where the program has unmapped \
     its memory. TCP on such a pair has segments of up to 64 KiB, and computes no check \
     sum of them";

const EMULATED_BANDWIDTH: &str = "The sender's processor is busy throughout, with the same work on \
     every path: perf in the virtual machine counts 39 to 45 % of its time in sendmmsg(2), where the \
     emulated kernel copies byte by byte and clears pages, 8 to 22 % in reading the clock, which is \
     a device there (hpet), and the rest in code that runs once for each packet. TCP computes no \
     check sum on such a path, and its segments have up to 64 KiB";

/// The same for rows whose names contain the words.
const COMMON_LIMITS: &[(&str, &str)] = &[
    (", hosts, loss ", EMULATED_BANDWIDTH),
    (" ms each way", EMULATED_BANDWIDTH),
];

/// The reason why a row misses its bound, if it is known.
pub fn limit(row: &str) -> Option<&'static str> {
    let own = LIMITS.iter().find(|(name, _)| *name == row);
    let common = || COMMON_LIMITS.iter().find(|(words, _)| row.contains(words));
    own.or_else(common).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_rows() {
        let rows = all();
        assert!(
            LIMITS
                .iter()
                .all(|(name, _)| rows.iter().any(|row| row.name == *name))
        );
        let common = |words: &str| rows.iter().any(|row| row.name.contains(words));
        assert!(COMMON_LIMITS.iter().all(|(words, _)| common(words)));
    }

    #[test]
    fn rows_have_unique_names() {
        let rows = all();
        let names: std::collections::HashSet<_> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows.len());
        assert!(rows.iter().all(|row| !row.name.contains('\t')));
    }
}
