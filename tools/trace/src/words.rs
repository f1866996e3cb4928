//! Words of calls as text: errnos, numbers, arguments with their names.
#![forbid(unsafe_code)]

use crate::file::{Call, Trace};

/// The name of an errno that verbs answer, or its number.
pub fn errno(number: u64) -> String {
    let known = [
        (1, "EPERM"),
        (2, "ENOENT"),
        (4, "EINTR"),
        (5, "EIO"),
        (11, "EAGAIN"),
        (12, "ENOMEM"),
        (13, "EACCES"),
        (14, "EFAULT"),
        (16, "EBUSY"),
        (19, "ENODEV"),
        (22, "EINVAL"),
        (28, "ENOSPC"),
        (38, "ENOSYS"),
        (61, "ENODATA"),
        (75, "EOVERFLOW"),
        (95, "EOPNOTSUPP"),
        (110, "ETIMEDOUT"),
    ];
    let name = known.iter().find(|(value, _)| *value == number);
    name.map_or_else(|| format!("errno {number}"), |(_, name)| (*name).to_owned())
}

/// A call's words with their names.
pub fn words<'a>(trace: &'a Trace, call: &'a Call) -> impl Iterator<Item = (&'a str, u64)> {
    let names = trace.names_of(call);
    call.words.iter().enumerate().map(move |(at, word)| {
        let name = names.get(at).map_or("arg", String::as_str);
        (name, *word)
    })
}

/// A number as people read it: addresses and keys in hexadecimal.
pub fn number(value: u64) -> String {
    if value < 0x1_0000 {
        value.to_string()
    } else {
        format!("{value:#x}")
    }
}
