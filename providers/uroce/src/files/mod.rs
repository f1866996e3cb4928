//! The files of a device besides the results of calls: those that the kernel has for its devices
//! below /sys/class/infiniband (`ibdev_path` of `struct ibv_device`).
//!
//! `place` finds a directory of the user that no other user can modify. `room` creates the
//! directory of this process in it and locks it (flock(2) on its descriptor, which forked children
//! share) for as long as the process or a forked child runs. The process removes it at exit, and
//! the next process of the user removes directories that no process locks. `tree` holds the files
//! of one device; each is written beside its place and renamed into it.

mod place;
mod room;
mod tree;

pub use tree::{Contents, Entry, Tree};
