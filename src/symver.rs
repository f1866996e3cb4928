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

/// `private!(function => "name")`: exports a function of providers under every private node, with
/// `data` in front a static. With numbers behind it, `private!(function => "name", [59, 64])`,
/// under those nodes. What is linked with this library finds those of node 34 that release 44 has.
#[macro_export]
macro_rules! private {
    ($f:path => $name:literal) => {
        $crate::symver!($f => $name, "IBVERBS_PRIVATE_34");
        $crate::private!($f => $name, [57, 59, 64, 65]);
    };
    ($f:path => $name:literal, [$($node:literal),*]) => {
        $( $crate::symver!(@emit $f, concat!("\"", $name, "@IBVERBS_PRIVATE_", $node, "\"")); )*
    };
    (data $s:path => $name:literal) => {
        $crate::symver!(data $s => $name, "IBVERBS_PRIVATE_34");
        $crate::private!(@data $s => $name, [57, 59, 64, 65]);
    };
    (@data $s:path => $name:literal, [$($node:literal),*]) => {
        $( $crate::symver!(@global $s, concat!("\"", $name, "@IBVERBS_PRIVATE_", $node, "\"")); )*
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
