//! One declaration a header: its view, its value, and both ways between them.

/// Declares a header of `LEN` bytes whose fields are whole numbers at fixed places.
///
/// A line is a field: its documentation, its name and type, and the reader and writer of
/// [`field`](super::field) with its offset. The macro makes `LEN`, `View` (the header in place) and
/// the value type with `parse` and `emit`.
macro_rules! header {
    (
        $(#[$doc:meta])*
        $name:ident, $length:literal {
            $( $(#[$field_doc:meta])* $field:ident: $type:ty = $get:ident / $put:ident at $at:literal, )+
        }
    ) => {
        #[allow(unused_imports)] // a header has some of these fields
        use super::field::*;

        /// Bytes of the header.
        pub const LEN: usize = $length;

        /// The header in place. No accessor can fail: the length was checked by [`View::split`].
        #[derive(Clone, Copy, Debug)]
        pub struct View<'a>(&'a [u8; LEN]);

        impl<'a> View<'a> {
            /// Splits `bytes` into the header and the rest; `None` if `bytes` is too short.
            #[must_use]
            pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
                let (head, rest) = bytes.split_first_chunk()?;
                Some((Self(head), rest))
            }

            $(
                $(#[$field_doc])*
                #[must_use]
                pub fn $field(self) -> $type {
                    $get::<$at, LEN>(self.0)
                }
            )+
        }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $type, )+
        }

        impl $name {
            /// Takes every field out of a view.
            #[must_use]
            pub fn parse(view: View<'_>) -> Self {
                Self {
                    $( $field: view.$field(), )+
                }
            }

            /// The header's bytes, reserved bits 0.
            #[must_use]
            pub fn emit(&self) -> [u8; LEN] {
                let mut bytes = [0; LEN];
                $( $put::<$at, LEN>(&mut bytes, self.$field); )+
                bytes
            }
        }
    };
}
pub(super) use header;
