//! Whether this process has more rights than its caller (AT_SECURE of getauxval(3)).

use super::identity::{effective_group, effective_user, group, user};

/// Whether the caller's environment is untrusted: the program is set-user-ID or set-group-ID and
/// still uses that right, or the kernel reports that it got rights when it was started
/// (`AT_SECURE`; file capabilities and security modules count, too). The dynamic linker uses the
/// second condition.
#[must_use]
pub fn exceeds_caller() -> bool {
    let of_another = user() != effective_user() || group() != effective_group();
    of_another || started_secure()
}

fn started_secure() -> bool {
    // SAFETY: looks up a word of the auxiliary vector, whatever its number, and touches nothing
    // else.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    /// Tests have the rights of their caller; `c-tests/tests/set_user_id.rs` has the other case.
    #[test]
    fn a_test_has_no_more_rights_than_its_caller() {
        assert!(!super::exceeds_caller());
    }
}
