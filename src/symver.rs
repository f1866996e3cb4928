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
        // A test binary has no version script, and no program links with it.
        #[cfg(not(test))]
        core::arch::global_asm!(
            concat!(".globl ", $sym),
            concat!(".set ", $sym, ", {f}"),
            f = sym $f,
        );
    };
}

/// `private!(function => "name")`: exports a function of providers under every private node, or a
/// static with `data` before it. With numbers at the end, `private!(function => "name", [59, 64])`,
/// under those nodes. Linking with this library finds those of node 34 that release 44 has.
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

/// `per_node!(function(argument: Type, ...) -> Type => "name", [57, ...])`: exports
/// `function::<NODE>` under each of these private nodes, and with `34,` in front of the name as the
/// default of node 34. The compiler may make an instance of a generic function in another part of
/// the crate than the one that names it here, where the assembler does not find it; so there is a
/// plain function for each.
#[macro_export]
macro_rules! per_node {
    ($f:ident $args:tt $(-> $r:ty)? => 34, $name:literal, $nodes:tt) => {
        const _: () = {
            mod of_node {
                use super::*;
                $crate::per_node!(@plain $f $args $(-> $r)?, 34);
                $crate::symver!(node => $name, "IBVERBS_PRIVATE_34");
            }
        };
        $crate::per_node!($f $args $(-> $r)? => $name, $nodes);
    };
    ($f:ident $args:tt $(-> $r:ty)? => $name:literal, [$($node:literal),*]) => {
        $crate::per_node!(@each $f $args [$($r)?] $name, $($node)*);
    };
    (@each $f:ident $args:tt $r:tt $name:literal,) => {};
    (@each $f:ident $args:tt [$($r:ty)?] $name:literal, $node:literal $($others:literal)*) => {
        const _: () = {
            mod of_node {
                use super::*;
                $crate::per_node!(@plain $f $args $(-> $r)?, $node);
                $crate::private!(node => $name, [$node]);
            }
        };
        $crate::per_node!(@each $f $args [$($r)?] $name, $($others)*);
    };
    (@plain $f:ident ($($arg:ident: $t:ty),*) $(-> $r:ty)?, $node:literal) => {
        unsafe extern "C" fn node($($arg: $t),*) $(-> $r)? {
            // SAFETY: the same function; its caller vouches for the arguments.
            unsafe { $f::<$node>($($arg),*) }
        }
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
