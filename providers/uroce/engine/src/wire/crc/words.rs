//! A CRC by words, for processors on which reading a table costs more than a few shifts.
//!
//! x^300 + x^155 + x^117 + x^89 + 1 is a multiple of the polynomial. So a bit of the message is
//! equivalent to the four bits that are 145, 183, 211 and 300 places after it, and may be removed
//! if they are changed instead. Word by word the whole message is moved in this way into the five
//! words after it; the remaining bytes are short (S. Russell, "Chorba: A novel CRC32
//! implementation", arXiv:2412.16398, 2024).

use super::tables;

/// Words that a word goes into.
const WORDS: usize = 5;
const WORD: usize = size_of::<u64>();
/// Bytes that are taken out at once.
const STEP: usize = WORDS * WORD;
/// Shorter messages are left to the tables.
const LONG: usize = 3 * STEP;

/// The register after some more bytes.
pub(super) fn update(register: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < LONG {
        return tables::update(register, bytes);
    }
    let (changes, rest) = take_out(register, bytes);
    let (changed, rest) = rest.split_at_checked(STEP).unwrap_or((rest, &[]));
    let mut head = [0; STEP];
    let places = head.as_chunks_mut::<WORD>().0;
    for ((place, bytes), change) in places.iter_mut().zip(words(changed)).zip(changes) {
        *place = (u64::from_le_bytes(*bytes) ^ change).to_le_bytes();
    }
    tables::update(tables::update(0, &head), rest)
}

/// Removes all but the last words; returns the changes of the following words, and the remaining
/// bytes. Then the register is empty.
fn take_out(register: u32, bytes: &[u8]) -> ([u64; WORDS], &[u8]) {
    let mut changes = [0; WORDS];
    changes[0] = u64::from(register);
    let mut rest = bytes;
    while let Some((step, behind)) = rest.split_at_checked(STEP)
        && behind.len() >= STEP
    {
        for (at, bytes) in words(step).iter().enumerate() {
            let word = u64::from_le_bytes(*bytes) ^ changes[at];
            // Five words behind it is the same place.
            changes[at] = word >> 20;
            changes[(at + 2) % WORDS] ^= word << 17 ^ word << 55;
            changes[(at + 3) % WORDS] ^= word >> 47 ^ word >> 9 ^ word << 19;
            changes[(at + 4) % WORDS] ^= word >> 45 ^ word << 44;
        }
        rest = behind;
    }
    (changes, rest)
}

fn words(bytes: &[u8]) -> &[[u8; WORD]] {
    bytes.as_chunks().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_that_of_the_tables(
            register in any::<u32>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..20 * STEP),
        ) {
            prop_assert_eq!(update(register, &bytes), tables::update(register, &bytes));
        }
    }

    #[test]
    fn every_length_ends_well() {
        let bytes: Vec<u8> = (0..u8::MAX).cycle().take(6 * STEP + 1).collect();
        for length in 0..bytes.len() {
            let some = &bytes[..length];
            assert_eq!(update(!0, some), tables::update(!0, some), "{length}");
        }
    }
}
