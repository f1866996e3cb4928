//! Messages of Linux 6.1: each field is read as the kernel wrote it, and the message is written
//! back to the byte.
#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::collections::BTreeMap;

use proptest::prelude::*;
use uroce_cm::{
    ip::{Header, PortSpace, port_of},
    wire::{LEN, Mad, Message, Value},
};

struct Captured {
    name: String,
    fields: BTreeMap<String, String>,
    bytes: Vec<u8>,
}

fn captured() -> Vec<Captured> {
    let lines = include_str!("captured.tsv").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut columns = line.split('\t');
            let mut next = || columns.next().unwrap();
            let name = next().replace('_', " ");
            let fields = next().split(' ').map(|field| {
                let (name, value) = field.split_once('=').unwrap();
                (plain(name), value.to_owned())
            });
            Captured {
                name,
                fields: fields.collect(),
                bytes: unhex(next()),
            }
        })
        .collect()
}

/// A name without the parts that are written in several ways.
fn plain(name: &str) -> String {
    let name = name.replace('_', "");
    match name.as_str() {
        "ari" => "additionalinformation".to_owned(),
        "rejectedinfolength" => "additionalinformationlength".to_owned(),
        "remoteqpneecn" => "remoteqpn".to_owned(),
        _ => name,
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Whether a field that was read is the one that the capture has; the capture leaves out zeros, and
/// of bytes those at the end.
fn agrees(value: &Value, expected: Option<&String>) -> bool {
    match (value, expected) {
        (Value::Number(number), None) => *number == 0,
        (Value::Bytes(bytes), None) => bytes.iter().all(|byte| *byte == 0),
        (Value::Number(number), Some(text)) => {
            let digits = text.trim_start_matches("0x");
            u64::from_str_radix(digits, 16) == Ok(*number)
        }
        (Value::Bytes(bytes), Some(text)) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let trimmed = hex.trim_end_matches('0');
            hex.starts_with(text.as_str()) && trimmed.len() <= text.len()
        }
    }
}

#[test]
fn the_kernel_s_messages_are_understood_and_written_back() {
    let all = captured();
    assert_eq!(all.len(), 27);
    for message in &all {
        let mad = Mad::parse(&message.bytes).unwrap();
        assert_eq!(mad.message.name(), message.name);
        let fields = mad.message.fields();
        for (name, value) in &fields {
            let expected = message.fields.get(&plain(name));
            assert!(
                agrees(value, expected),
                "{}: {name}: {value:?}, {expected:?}",
                message.name
            );
        }
        for name in message.fields.keys() {
            assert!(
                fields.iter().any(|(known, _)| plain(known) == *name),
                "no field {name}"
            );
        }
        assert_eq!(mad.emit().as_slice(), message.bytes, "{}", message.name);
    }
}

#[test]
fn requests_name_both_ends_of_the_connection() {
    for message in captured() {
        let mad = Mad::parse(&message.bytes).unwrap();
        let (service, data, space) = match &mad.message {
            Message::Req(req) => (req.service_id, req.private_data.as_slice(), PortSpace::Tcp),
            Message::SidrReq(req) => (req.service_id, req.private_data.as_slice(), PortSpace::Udp),
            _ => continue,
        };
        assert_eq!(port_of(service).map(|(space, _)| space), Some(space));
        let (header, rest) = Header::parse(data).unwrap();
        assert_eq!(header.source.to_string(), "10.9.0.1");
        assert_eq!(header.destination.to_string(), "10.9.0.2");
        assert!(rest.starts_with(&[7, 7, 7]));
        assert_eq!(header.emit().unwrap().as_slice(), &data[..36]);
    }
}

proptest! {
    /// Whatever is read can be written, and is read as the same again.
    #[test]
    fn any_bytes_are_read_or_refused(attribute in 0x0f_u8..0x1c, mut bytes in proptest::collection::vec(any::<u8>(), LEN)) {
        prop_assert!(Mad::parse(&bytes).is_err() || bytes[..4] == [1, 7, 2, 3]);
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&[0, attribute]);
        if let Ok(mad) = Mad::parse(&bytes) {
            prop_assert_eq!(Mad::parse(&mad.emit()), Ok(mad));
        } else {
            prop_assert!(!(0x10..=0x1a).contains(&attribute));
        }
    }

    #[test]
    fn bytes_of_any_length_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Mad::parse(&bytes).is_err() || bytes.len() == LEN);
    }
}
