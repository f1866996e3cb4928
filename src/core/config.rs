#![forbid(unsafe_code)]
//! The environment variables that the library reads.

use std::{env, ffi::OsString};

/// Whether a variable is set, to whatever value.
pub fn is_set(name: &str) -> bool {
    env::var_os(name).is_some()
}

/// Whether a switch is on: set, and not to `0`.
pub fn is_on(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| value != "0")
}

/// A variable that names files or programs to load. It is ignored in a process with more rights
/// than its caller (set-user-ID, file capabilities), because its environment is untrusted.
pub fn trusted(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|_| !kit::sys::privilege::exceeds_caller())
}

/// A number as strtol(3) reads it with base 0: decimal, 0x hexadecimal or 0 octal; text behind
/// the number is ignored, and no number at all is 0.
pub fn number(name: &str) -> Option<i64> {
    let text = env::var_os(name)?;
    Some(leading_number(&text.to_string_lossy()))
}

fn leading_number(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(rest) => (16, rest),
        None if text.starts_with('0') => (8, text),
        None => (10, text),
    };
    let value = digits
        .chars()
        .map_while(|c| c.to_digit(radix))
        .fold(0i64, |n, d| {
            n.saturating_mul(radix.into()).saturating_add(d.into())
        });
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::leading_number;

    #[test]
    fn numbers_as_strtol_reads_them() {
        assert_eq!(leading_number("3"), 3);
        assert_eq!(leading_number(" 0x10 levels"), 16);
        assert_eq!(leading_number("010"), 8);
        assert_eq!(leading_number("-1"), -1);
        assert_eq!(leading_number("debug"), 0);
        assert_eq!(leading_number(""), 0);
        assert_eq!(leading_number("99999999999999999999"), i64::MAX);
    }
}
