//! One function a verb, in front of the provider's.

use super::{
    around,
    subject::{Argument, Subject},
};
use kit::abi::{kernel::*, *};
use std::ffi::{c_int, c_uint, c_void};

/// Defines the function in front of one verb; the types stand in the list of verbs, the names of
/// the arguments here.
macro_rules! covering {
    ($name:ident ($a:ty) $(-> $r:ty)?) => {
        covering!(@ $name (a: $a) $(-> $r)?);
    };
    ($name:ident ($a:ty, $b:ty) $(-> $r:ty)?) => {
        covering!(@ $name (a: $a, b: $b) $(-> $r)?);
    };
    ($name:ident ($a:ty, $b:ty, $c:ty) $(-> $r:ty)?) => {
        covering!(@ $name (a: $a, b: $b, c: $c) $(-> $r)?);
    };
    ($name:ident ($a:ty, $b:ty, $c:ty, $d:ty) $(-> $r:ty)?) => {
        covering!(@ $name (a: $a, b: $b, c: $c, d: $d) $(-> $r)?);
    };
    ($name:ident ($a:ty, $b:ty, $c:ty, $d:ty, $e:ty) $(-> $r:ty)?) => {
        covering!(@ $name (a: $a, b: $b, c: $c, d: $d, e: $e) $(-> $r)?);
    };
    ($name:ident ($a:ty, $b:ty, $c:ty, $d:ty, $e:ty, $f:ty) $(-> $r:ty)?) => {
        covering!(@ $name (a: $a, b: $b, c: $c, d: $d, e: $e, f: $f) $(-> $r)?);
    };
    (@ $name:ident ($first:ident: $type:ty $(, $next:ident: $next_type:ty)*) $(-> $r:ty)?) => {
        pub(super) unsafe extern "C" fn $name($first: $type $(, $next: $next_type)*) $(-> $r)? {
            // SAFETY: the caller's promises to the provider's verb are those needed here.
            unsafe {
                let call = Call::$name($first $(, $next)*);
                around($first.addr(), $first.context(), call, |beneath| (beneath.$name())($first $(, $next)*))
            }
        }
    };
}

/// Pushes the arguments of a call; the names are given here, as above.
macro_rules! words {
    ($call:ident, $name:ident ($a:ty), $to:ident) => {
        words!(@ $call, $name (a), $to)
    };
    ($call:ident, $name:ident ($a:ty, $b:ty), $to:ident) => {
        words!(@ $call, $name (a, b), $to)
    };
    ($call:ident, $name:ident ($a:ty, $b:ty, $c:ty), $to:ident) => {
        words!(@ $call, $name (a, b, c), $to)
    };
    ($call:ident, $name:ident ($a:ty, $b:ty, $c:ty, $d:ty), $to:ident) => {
        words!(@ $call, $name (a, b, c, d), $to)
    };
    ($call:ident, $name:ident ($a:ty, $b:ty, $c:ty, $d:ty, $e:ty), $to:ident) => {
        words!(@ $call, $name (a, b, c, d, e), $to)
    };
    ($call:ident, $name:ident ($a:ty, $b:ty, $c:ty, $d:ty, $e:ty, $f:ty), $to:ident) => {
        words!(@ $call, $name (a, b, c, d, e, f), $to)
    };
    (@ $call:ident, $name:ident ($($p:ident),*), $to:ident) => {
        if let Self::$name($($p),*) = *$call {
            $to.extend([$( $p.number() ),*]);
        }
    };
}

macro_rules! covers {
    ($( $slot:literal $name:ident ( $($arg:ty),* ) $(-> $ret:ty)?, $default:ident $(, mirror $($mirror:ident).+)? ; )*) => {
        /// A call of a verb, with the caller's arguments.
        #[derive(Clone, Copy)]
        pub enum Call {
            $(
                #[allow(dead_code, reason = "not every verb's arguments are looked at")]
                $name($($arg),*)
            ),*
        }

        impl Call {
            /// The verb's name in the table.
            pub fn verb(&self) -> &'static str {
                match self {
                    $( Self::$name(..) => stringify!($name), )*
                }
            }
        }

        impl Call {
            /// The verb's slot in the table.
            pub fn slot(&self) -> usize {
                match self {
                    $( Self::$name(..) => $slot, )*
                }
            }

            /// Appends the arguments as numbers.
            pub fn words(&self, to: &mut Vec<u64>) {
                match *self {
                    $( Self::$name(..) => words!(self, $name ( $($arg),* ), to), )*
                }
            }
        }

        mod functions {
            use super::*;
            $( covering!($name ( $($arg),* ) $(-> $ret)?); )*
        }

        /// The functions as a provider's table.
        pub static OPS: verbs_context_ops = verbs_context_ops {
            $( $name: Some(functions::$name), )*
        };
    };
}

kit::each_verb!(covers);
