#![forbid(unsafe_code)]
//! Link rates: ibv_rate_to_mult, mult_to_ibv_rate, ibv_rate_to_mbps, mbps_to_ibv_rate
//! (ibv_rate_to_mbps(3), ibv_rate_to_mult(3)).

use kit::abi::*;
use std::ffi::c_int;

/// One rate: its code, its multiple of 2.5 Gbit/s where it is one, its speed in Mbit/s.
struct Rate {
    code: ibv_rate,
    mult: Option<c_int>,
    mbps: c_int,
}

const fn rate(code: ibv_rate, mult: c_int, mbps: c_int) -> Rate {
    Rate {
        code,
        mult: if mult > 0 { Some(mult) } else { None },
        mbps,
    }
}

/// Lanes of FDR and later run at speeds that are no multiple of 2.5 Gbit/s; the ones with a
/// multiple carry a rounded one.
const RATES: [Rate; 23] = [
    rate(IBV_RATE_2_5_GBPS, 1, 2_500),
    rate(IBV_RATE_5_GBPS, 2, 5_000),
    rate(IBV_RATE_10_GBPS, 4, 10_000),
    rate(IBV_RATE_20_GBPS, 8, 20_000),
    rate(IBV_RATE_30_GBPS, 12, 30_000),
    rate(IBV_RATE_40_GBPS, 16, 40_000),
    rate(IBV_RATE_60_GBPS, 24, 60_000),
    rate(IBV_RATE_80_GBPS, 32, 80_000),
    rate(IBV_RATE_120_GBPS, 48, 120_000),
    rate(IBV_RATE_14_GBPS, 0, 14_062),
    rate(IBV_RATE_56_GBPS, 0, 56_250),
    rate(IBV_RATE_112_GBPS, 0, 112_500),
    rate(IBV_RATE_168_GBPS, 0, 168_750),
    rate(IBV_RATE_25_GBPS, 0, 25_781),
    rate(IBV_RATE_100_GBPS, 0, 103_125),
    rate(IBV_RATE_200_GBPS, 0, 206_250),
    rate(IBV_RATE_300_GBPS, 0, 309_375),
    rate(IBV_RATE_28_GBPS, 11, 28_125),
    rate(IBV_RATE_50_GBPS, 20, 53_125),
    rate(IBV_RATE_400_GBPS, 160, 425_000),
    rate(IBV_RATE_600_GBPS, 240, 637_500),
    rate(IBV_RATE_800_GBPS, 320, 850_000),
    rate(IBV_RATE_1200_GBPS, 480, 1_275_000),
];

fn of_code(code: ibv_rate) -> Option<&'static Rate> {
    RATES.iter().find(|r| r.code == code)
}

/// The rate as a multiple of 2.5 Gbit/s, -1 for an unknown code.
pub fn to_mult(code: ibv_rate) -> c_int {
    of_code(code).and_then(|r| r.mult).unwrap_or(-1)
}

/// The rate of a multiple of 2.5 Gbit/s, `IBV_RATE_MAX` if there is no such rate.
pub fn from_mult(mult: c_int) -> ibv_rate {
    RATES
        .iter()
        .find(|r| r.mult == Some(mult))
        .map_or(IBV_RATE_MAX, |r| r.code)
}

/// The rate in Mbit/s, -1 where the code is unknown.
pub fn to_mbps(code: ibv_rate) -> c_int {
    of_code(code).map_or(-1, |r| r.mbps)
}

/// The rate of a speed in Mbit/s, `IBV_RATE_MAX` if there is no such rate.
pub fn from_mbps(mbps: c_int) -> ibv_rate {
    RATES
        .iter()
        .find(|r| r.mbps == mbps)
        .map_or(IBV_RATE_MAX, |r| r.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_comes_back() {
        for r in &RATES {
            assert_eq!(from_mbps(to_mbps(r.code)), r.code);
            if r.mult.is_some() {
                assert_eq!(from_mult(to_mult(r.code)), r.code);
            }
        }
    }

    #[test]
    fn unknown_values() {
        assert_eq!(to_mult(IBV_RATE_MAX), -1);
        assert_eq!(to_mult(IBV_RATE_14_GBPS), -1);
        assert_eq!(to_mbps(999), -1);
        assert_eq!(from_mult(0), IBV_RATE_MAX);
        assert_eq!(from_mult(-1), IBV_RATE_MAX);
        assert_eq!(from_mbps(1), IBV_RATE_MAX);
    }
}
