//! Who moves queue pairs along.

/// Who does, and so how much is known of the memory that is used for it: a program may have unmapped what it
/// registered, once it does not care for a queue pair any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// Who has just posted to the queue pair.
    Poster,
    /// A thread that polls, by its mark (`threads::mark`).
    Poller(usize),
    /// The helper, or whoever ends something.
    Node,
}
