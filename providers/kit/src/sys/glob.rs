//! Shell patterns.

use core::ffi::CStr;

/// Whether `text` matches the shell pattern as a whole, by the rules of fnmatch(3) with no flags:
/// a wildcard also matches a slash and a leading period.
pub fn matches(pattern: &CStr, text: &CStr) -> bool {
    // SAFETY: both are strings that end with a NUL.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            (c"rdma_device:*Nqedr*", c"rdma_device:Nqedr0", true),
            (c"rdma_device:*Nqedr*", c"rdma_device:Nrxe0", false),
            (c"vmbus:*", c"vmbus:3f/a.b", true),
            (c"*", c".hidden", true),
            (c"a[bc]?", c"acd", true),
            (c"a[bc]?", c"add", false),
            (c"a", c"ab", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} {text:?}");
        }
    }
}
