//! The kinds of threads that call a queue pair for progress.

/// The thread that advances a queue pair. It decides how memory is accessed: while a thread of the
/// application polls a queue pair, the memory of its requests is mapped; later the program may have
/// unmapped registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The thread that has just posted to the queue pair.
    Poster,
    /// A thread that polls, by its mark (`threads::mark`).
    Poller(usize),
    /// The progress thread, or a thread that ends a queue pair, a device or the program.
    Node,
}
