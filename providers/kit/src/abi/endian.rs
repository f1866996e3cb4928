//! Integers that stand in network byte order in memory (`__be16`, `__be32`, `__be64`).

use bytemuck::{Pod, Zeroable};

macro_rules! big_endian {
    ($name:ident, $int:ty) => {
        /// An integer kept in network byte order.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name($int);

        impl $name {
            /// From the host's byte order.
            pub const fn new(value: $int) -> Self {
                Self(value.to_be())
            }
            /// In the host's byte order.
            pub const fn get(self) -> $int {
                <$int>::from_be(self.0)
            }
            /// From bytes as they stand on the wire.
            pub const fn from_wire(raw: $int) -> Self {
                Self(raw)
            }
            /// The bytes as they stand on the wire, read as a host integer.
            pub const fn wire(self) -> $int {
                self.0
            }
        }
    };
}

big_endian!(be16, u16);
big_endian!(be32, u32);
big_endian!(be64, u64);
