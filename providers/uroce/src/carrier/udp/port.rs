//! The user of UDP port 4791, if it is taken.

use super::PORT;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// Bytes of a table that are read at most: any user can make it long.
const LONGEST: u64 = 64 << 20;

/// The user of the port in this network namespace, from `/proc/net/udp` and `/proc/net/udp6`;
/// `None` if it is unused, or the files cannot be read.
#[must_use]
pub fn port_user() -> Option<u32> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"];
    tables.into_iter().find_map(|path| {
        let table = File::open(path).ok()?;
        user_in(BufReader::new(table.take(LONGEST)))
    })
}

fn user_in(table: impl BufRead) -> Option<u32> {
    table
        .lines()
        .map_while(Result::ok)
        .find_map(|line| user_of(&line))
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...`
fn user_of(line: &str) -> Option<u32> {
    let mut words = line.split_ascii_whitespace();
    let (_, port) = words.nth(1)?.rsplit_once(':')?;
    if u16::from_str_radix(port, 16) != Ok(PORT) {
        return None;
    }
    words.nth(5)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_the_port_is_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            10: 00000000:12B8 00000000:0000 07 00000000:00000000 00:00000000 00000000     7        0 20301 2 0 0\n\
            11: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 20302 2 0 0\n";
        assert_eq!(user_in(table.as_bytes()), Some(1000));
        assert_eq!(user_in(&table.as_bytes()[..200]), None);
        let six = " 9: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 65534 0 1 2 0 0";
        assert_eq!(user_of(six), Some(65534));
        for line in ["", "x", "1: 12B7", "1: a:12B7 b:0 07 0:0 0:0 0 x 0"] {
            assert_eq!(user_of(line), None, "{line}");
        }
    }
}
