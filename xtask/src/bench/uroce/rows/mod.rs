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

/// Known reasons why a row misses its bound, by the name of the row.
const LIMITS: &[(&str, &str)] = &[
    (
        "ib_write_lat 8 B, shm, shared-memory region",
        "uroce maps no registered file of another process, because a process that shortens its \
         file would then end its peers by SIGBUS. The kernel copies, which takes the time of the \
         row above",
    ),
    (
        "UCX tag_bw 8 KiB, shm",
        "Over verbs the receiver copies twice: out of the ring into a receive buffer that was \
         posted, of which UCX has 4096 in turn, and from there to the program. Over posix it \
         copies once. Row \"8 KiB by a ring and posted receives alone\" does these copies and \
         nothing else",
    ),
    (
        "UCX put_bw 64 KiB, shm",
        "Over posix both processes map the memory that UCX allocates. Over verbs UCX registers \
         separate memory, which no other process can map, so the kernel copies. Row \"64 KiB by \
         process_vm_writev alone\" does that and nothing else",
    ),
    (
        "OpenMPI all-to-all 64 KiB, four hosts",
        "UCX copies a message into pieces of 8 KiB, each of which leaves by a system call, and out \
         of them at the receiver. The ranks keep both processors busy throughout",
    ),
];

/// The same for rows whose names contain the words.
const COMMON_LIMITS: &[(&str, &str)] = &[(
    ", hosts, loss ",
    "The sender's processor is busy throughout. perf in the virtual machine counts 44 % of its \
     time in sendmmsg(2), where the emulated kernel copies byte by byte and clears pages, 8 % in \
     reading the clock, which is a device there (hpet), and the rest in code that runs once for \
     each packet. TCP computes no check sum on such a path, and its segments have up to 64 KiB",
)];

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
