#![forbid(unsafe_code)]
//! Messages to the user of a program, on its standard error.

/// Prints one line in the library's name. A closed standard error loses it, and nothing more.
pub fn warn(text: &str) {
    kit::sys::output::print_line(text);
}
