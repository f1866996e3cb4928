//! The published form of a key.

/// Words of a key, the count included.
pub const WORDS: usize = 8;

/// A region or window in memory of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The low 8 bits of the key.
    pub tag: u8,
    /// Bits of `enum ibv_access_flags`.
    pub access: u32,
    /// The protection domain that it goes by; `None` if by the queue pair alone.
    pub pd: Option<u64>,
    /// The queue pair that it goes by; `None` if by the domain alone.
    pub qpn: Option<u32>,
    /// The address by which the first byte is named.
    pub base: u64,
    /// Bytes.
    pub length: u64,
    /// Where the first byte is, in its process.
    pub address: u64,
}

const THERE: u64 = 1 << 63;
const BY_PD: u64 = 1 << 62;
const BY_QP: u64 = 1 << 61;

impl Key {
    /// Where in its process the range begins that a queue pair there may be asked for.
    #[must_use]
    pub fn place(&self, pd: u64, qpn: u32, access: u32, range: (u64, u64)) -> Option<u64> {
        let theirs = self.pd.is_none_or(|own| own == pd) && self.qpn.is_none_or(|own| own == qpn);
        if !theirs || self.access & access != access {
            return None;
        }
        let (address, length) = range;
        let start = address.checked_sub(self.base)?;
        if start.checked_add(length)? > self.length {
            return None;
        }
        let place = self.address.checked_add(start)?;
        place.checked_add(length).map(|_| place)
    }

    pub(super) fn words(self) -> [u64; WORDS - 1] {
        let by_pd = if self.pd.is_some() { BY_PD } else { 0 };
        let by_qp = if self.qpn.is_some() { BY_QP } else { 0 };
        let first = THERE | by_pd | by_qp | u64::from(self.tag) << 32 | u64::from(self.access);
        let qpn = u64::from(self.qpn.unwrap_or(0));
        let pd = self.pd.unwrap_or(0);
        [first, pd, qpn, self.base, self.length, self.address, 0]
    }

    pub(super) fn of(words: [u64; WORDS - 1]) -> Option<Self> {
        let [first, pd, qpn, base, length, address, _] = words;
        let theirs = first & (BY_PD | BY_QP) != 0;
        if first & THERE == 0 || !theirs {
            return None;
        }
        let qpn = u32::try_from(qpn).ok()?;
        Some(Self {
            tag: u8::try_from(first >> 32 & 0xff).ok()?,
            access: u32::try_from(first & 0xffff_ffff).ok()?,
            pd: (first & BY_PD != 0).then_some(pd),
            qpn: (first & BY_QP != 0).then_some(qpn),
            base,
            length,
            address,
        })
    }
}
