//! Gives exported functions their ELF symbol versions.
//!
//! An exported function is a plain `extern "C"` function under a Rust name. Beside it
//! [`symver!`](macro@crate::symver) makes a second, global name spelled `name@@NODE` (the default)
//! or `name@NODE` (an old version), which the linker reads as a symbol version. The compiler
//! does not know that name, so its own export list keeps everything else hidden.
//!
//! The macro stands in the module of its function; `libibverbs.map` lists every name under
//! its node, and a test compares the two with the built file.

/// `symver!(function => "name", "NODE")`: exports `function` as `name@@NODE`.
/// With `old` in front, as `name@NODE`: found only by programs linked with that version.
/// With `data` in front it is a static and not a function.
#[macro_export]
macro_rules! symver {
    ($f:path => $name:literal, $node:literal) => {
        $crate::symver!(@emit $f, concat!("\"", $name, "@@", $node, "\""));
    };
    (old $f:path => $name:literal, $node:literal) => {
        $crate::symver!(@emit $f, concat!("\"", $name, "@", $node, "\""));
    };
    (data $s:path => $name:literal, $node:literal) => {
        $crate::symver!(@global $s, concat!("\"", $name, "@@", $node, "\""));
    };
    (@emit $f:path, $sym:expr) => {
        $crate::symver!(@global $f, $sym);
        #[cfg(test)]
        const _: *const () = $f as *const ();
    };
    (@global $f:path, $sym:expr) => {
        // A test binary has no version script, and nobody links with it.
        #[cfg(not(test))]
        core::arch::global_asm!(
            concat!(".globl ", $sym),
            concat!(".set ", $sym, ", {f}"),
            f = sym $f,
        );
    };
}

/// `hidden!(function => "name")`: gives `function` a name for the library's own C file alone.
#[macro_export]
macro_rules! hidden {
    ($f:path => $name:literal) => {
        #[cfg(not(test))]
        core::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".set ", $name, ", {f}"),
            f = sym $f,
        );
        #[cfg(test)]
        const _: *const () = $f as *const ();
    };
}
