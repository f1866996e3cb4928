//! Fields of any width at any bit. Places are checked when the code is compiled.

/// Bytes of a message.
pub const BODY: usize = 232;

/// A value that stands in that many bits.
pub trait Field: Copy + Default {
    /// Bits of the type.
    const BITS: usize;
    /// From the bits of a field, which are no more than the type has.
    fn from_bits(bits: u64) -> Self;
    /// The bits. Those that the field has no room for are lost.
    fn to_bits(self) -> u64;
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Field for $type {
            const BITS: usize = <$type>::BITS as usize;
            fn from_bits(bits: u64) -> Self {
                // The other case does not come up: `get` asserts the width.
                Self::try_from(bits).unwrap_or(Self::MAX)
            }
            fn to_bits(self) -> u64 {
                self.into()
            }
        }
    )* };
}
numbers!(u8 u16 u32 u64);

impl Field for bool {
    const BITS: usize = 1;
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    fn to_bits(self) -> u64 {
        self.into()
    }
}

/// Bytes that a field of `width` bits reaches over, from its first byte on.
const fn span(bit: usize, width: usize) -> usize {
    (bit + width).div_ceil(8)
}

/// The field whose first bit is bit `BIT` (0 is the most significant) of the byte at `AT`.
pub fn get<T: Field, const AT: usize, const BIT: usize, const WIDTH: usize>(
    body: &[u8; BODY],
) -> T {
    const { assert!(BIT < 8 && WIDTH <= T::BITS && WIDTH <= 64 && AT + span(BIT, WIDTH) <= BODY) };
    let bytes = span(BIT, WIDTH);
    let whole = (AT..AT + bytes).fold(0u128, |whole, at| whole << 8 | u128::from(body[at]));
    let field = whole >> (8 * bytes - BIT - WIDTH) & mask(WIDTH);
    T::from_bits(u64::try_from(field).unwrap_or(u64::MAX))
}

/// Writes the field. The bits around it stay.
pub fn put<T: Field, const AT: usize, const BIT: usize, const WIDTH: usize>(
    body: &mut [u8; BODY],
    value: T,
) {
    const { assert!(BIT < 8 && WIDTH <= T::BITS && WIDTH <= 64 && AT + span(BIT, WIDTH) <= BODY) };
    let bytes = span(BIT, WIDTH);
    let shift = 8 * bytes - BIT - WIDTH;
    let field = (u128::from(value.to_bits()) & mask(WIDTH)) << shift;
    let kept = !(mask(WIDTH) << shift);
    for place in 0..bytes {
        let part = |word: u128| word.to_be_bytes()[16 - bytes + place];
        body[AT + place] = body[AT + place] & part(kept) | part(field);
    }
}

fn mask(width: usize) -> u128 {
    (1 << width) - 1
}

/// The bytes at `AT`.
pub fn get_bytes<const AT: usize, const N: usize>(body: &[u8; BODY]) -> [u8; N] {
    const { assert!(AT + N <= BODY) };
    let mut bytes = [0; N];
    bytes.copy_from_slice(&body[AT..AT + N]);
    bytes
}

/// Writes the bytes at `AT`.
pub fn put_bytes<const AT: usize, const N: usize>(body: &mut [u8; BODY], bytes: &[u8; N]) {
    const { assert!(AT + N <= BODY) };
    body[AT..AT + N].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_where_they_were_written() {
        let mut body = [0xff; BODY];
        put::<u32, 3, 0, 20>(&mut body, 0x12345);
        assert_eq!(body[3..7], [0x12, 0x34, 0x5f, 0xff]);
        assert_eq!(get::<u32, 3, 0, 20>(&body), 0x12345);
        put::<u8, 10, 5, 3>(&mut body, 0b010);
        assert_eq!(body[10], 0b1111_1010);
        assert_eq!(get::<u8, 10, 5, 3>(&body), 0b010);
        assert_eq!(get::<u8, 10, 0, 5>(&body), 0b1_1111);
        put::<u64, 224, 0, 64>(&mut body, 0x0102_0304_0506_0708);
        assert_eq!(body[224..], [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn bits_without_room_are_lost() {
        let mut body = [0; BODY];
        put::<u8, 0, 2, 4>(&mut body, 0xff);
        assert_eq!(body[0], 0b0011_1100);
        put::<bool, 1, 7, 1>(&mut body, true);
        assert_eq!(body[1], 1);
    }
}
