//! Management datagrams in packets of QP 1 (IBTA volume 1, 9.6 and 13.4; annex A17).

pub use uroce_cm::wire::LEN;
use uroce_cm::wire::Mad;
use uroce_engine::psn::Psn;
use uroce_engine::wire::{Bth, Deth, Headers, Opcode, Packet};

/// The number of the queue pair of connection managers.
pub const QPN: u32 = 1;
/// The Q_Key of QP 1, of all hosts.
const Q_KEY: u32 = 0x8001_0000;
/// UD SEND ONLY.
const SEND_ONLY: u8 = 0x64;
const PKEY: u16 = 0xffff;

/// The headers in front of a datagram.
pub fn headers(psn: u32) -> Option<Headers> {
    let bth = Bth {
        pkey: PKEY,
        destination: QPN,
        // As soft-RoCE sends them.
        ack_request: true,
        psn: Psn::new(psn),
        ..Bth::default()
    };
    let mut headers = Headers::new(Opcode::parse(SEND_ONLY)?, bth);
    headers.deth = Some(Deth {
        qkey: Q_KEY,
        source: QPN,
    });
    Some(headers)
}

/// The datagram in a packet for QP 1, whose ICRC is right.
pub fn parse(datagram: &[u8]) -> Option<Mad> {
    let packet = Packet::parse(datagram).ok()?;
    let Headers { bth, deth, .. } = packet.headers;
    let is_ours = bth.opcode == SEND_ONLY
        && bth.destination == QPN
        && bth.pkey & 0x7fff == PKEY & 0x7fff
        && deth?.qkey == Q_KEY
        && packet.payload.len() == LEN;
    is_ours.then(|| Mad::parse(packet.payload).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uroce_cm::wire::Rtu;

    fn packet(headers: &Headers, payload: &[u8]) -> Vec<u8> {
        [headers.emit().as_slice(), payload, &[0; 4]].concat()
    }

    #[test]
    fn packets_for_other_queue_pairs_than_1_are_dropped() {
        let mad = Mad {
            transaction: 7,
            modifier: 0,
            message: Rtu::default().into(),
        };
        let headers = headers(5).expect("an opcode");
        assert_eq!(parse(&packet(&headers, &mad.emit())), Some(mad));
        let mut other = headers;
        other.deth = Some(Deth {
            qkey: 0x1111_1111,
            source: QPN,
        });
        assert_eq!(parse(&packet(&other, &mad.emit())), None);
        let mut other = headers;
        other.bth.destination = 2;
        assert_eq!(parse(&packet(&other, &mad.emit())), None);
        assert_eq!(parse(&packet(&headers, &mad.emit()[..252])), None);
        assert_eq!(parse(&[]), None);
    }
}
