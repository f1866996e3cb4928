use super::*;
use kit::netlink::frame::{self, HEADER, Progress};
use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
};
use proptest::prelude::*;

const SEQUENCE: u32 = 7;

fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + payload.len()];
    let mut out = NetlinkBuffer::new(&mut bytes);
    out.set_length(u32::try_from(HEADER + payload.len()).unwrap());
    out.set_message_type(kind);
    out.set_flags(0);
    out.set_sequence_number(sequence);
    out.set_port_number(0);
    out.payload_mut().copy_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn attributes(list: &[(u16, &[u8])]) -> Vec<u8> {
    let list: Vec<_> = list
        .iter()
        .map(|(kind, value)| DefaultNla::new(*kind, value.to_vec()))
        .collect();
    let mut bytes = vec![0; list.as_slice().buffer_len()];
    list.as_slice().emit(&mut bytes);
    bytes
}

fn rxe(index: u32) -> Vec<u8> {
    attributes(&[
        (attr::DEV_INDEX, &index.to_ne_bytes()),
        (attr::DEV_NAME, b"rxe0\0"),
        (attr::PORT_INDEX, &1u32.to_ne_bytes()),
        (4, &0x1234u64.to_ne_bytes()),
        (attr::NODE_GUID, &0x5054_00ff_fe12_3456_u64.to_ne_bytes()),
        (attr::DEV_NODE_TYPE, &[1]),
    ])
}

fn read(datagram: &[u8], sequence: u32, mut each: impl FnMut(Attributes)) -> Result<Progress> {
    frame::read(datagram, sequence, |_, payload| {
        each(Attributes::parse(payload)?);
        Ok(())
    })
}

fn collect(datagram: &[u8]) -> (Result<Progress>, Vec<Attributes>) {
    let mut found = Vec::new();
    let progress = read(datagram, SEQUENCE, |attributes| found.push(attributes));
    (progress, found)
}

#[test]
fn a_list_in_one_datagram() {
    let kind = Command::DeviceGet.message_type();
    let mut datagram = message(kind, SEQUENCE, &rxe(3));
    datagram.extend(message(kind, SEQUENCE, &rxe(4)));
    datagram.extend(message(NLMSG_DONE, SEQUENCE, &0i32.to_ne_bytes()));
    let (progress, found) = collect(&datagram);
    assert_eq!(progress, Ok(Progress::Complete));
    let devices: Vec<_> = found.into_iter().filter_map(Attributes::device).collect();
    assert_eq!(devices.iter().map(|d| d.index).collect::<Vec<_>>(), [3, 4]);
    let first = &devices[0];
    assert_eq!((first.name.as_str(), first.ports), ("rxe0", 1));
    assert_eq!(first.guid, 0x5054_00ff_fe12_3456);
    assert_eq!(first.node_type, 1);
}

#[test]
fn a_device_without_a_guid_is_left_out() {
    let bytes = attributes(&[
        (attr::DEV_INDEX, &1u32.to_ne_bytes()),
        (attr::DEV_NAME, b"x\0"),
    ]);
    assert_eq!(Attributes::parse(&bytes).unwrap().device(), None);
}

#[test]
fn a_character_device() {
    // Major 231, minor 0x12345: the kernel spreads the minor around the major's 12 bits.
    let number: u64 = 0x45 | 231 << 8 | 0x123 << 20;
    let bytes = attributes(&[
        (attr::CHARDEV, &number.to_ne_bytes()),
        (attr::CHARDEV_ABI, &0xffff_ffff_0000_0002_u64.to_ne_bytes()),
        (attr::CHARDEV_NAME, b"uverbs0\0"),
        (attr::UVERBS_DRIVER_ID, &14u32.to_ne_bytes()),
    ]);
    let found = Attributes::parse(&bytes).unwrap().char_device().unwrap();
    assert_eq!((found.major, found.minor), (231, 0x12345));
    assert_eq!(
        (found.name.as_str(), found.abi, found.driver_id),
        ("uverbs0", 2, 14)
    );
}

#[test]
fn a_character_device_needs_its_name() {
    let bytes = attributes(&[
        (attr::CHARDEV, &1u64.to_ne_bytes()),
        (attr::CHARDEV_ABI, &1u64.to_ne_bytes()),
        (attr::CHARDEV_NAME, b"\0"),
    ]);
    assert_eq!(Attributes::parse(&bytes).unwrap().char_device(), None);
}

#[test]
fn errors_and_acknowledgements() {
    let mut no = (-libc::ENODEV).to_ne_bytes().to_vec();
    no.extend([0; HEADER]);
    let (progress, _) = collect(&message(NLMSG_ERROR, SEQUENCE, &no));
    assert_eq!(progress, Err(Errno::NODEV));
    let (progress, _) = collect(&message(NLMSG_ERROR, SEQUENCE, &[0; 20]));
    assert_eq!(progress, Ok(Progress::Complete));
    let (progress, _) = collect(&message(
        NLMSG_DONE,
        SEQUENCE,
        &(-libc::ENOMEM).to_ne_bytes(),
    ));
    assert_eq!(progress, Err(Errno::NOMEM));
}

#[test]
fn answers_to_older_questions_are_passed_over() {
    let mut datagram = message(NLMSG_DONE, SEQUENCE - 1, &[0; 4]);
    datagram.extend(message(
        Command::DeviceGet.message_type(),
        SEQUENCE - 1,
        &rxe(1),
    ));
    let (progress, found) = collect(&datagram);
    assert_eq!((progress, found.len()), (Ok(Progress::More), 0));
}

#[test]
fn copy_on_fork_is_off_unless_reported() {
    assert!(!Attributes::parse(&[]).unwrap().copies_on_fork());
    for (byte, expected) in [(0, false), (1, true)] {
        let bytes = attributes(&[(attr::COPY_ON_FORK, &[byte])]);
        assert_eq!(
            Attributes::parse(&bytes).unwrap().copies_on_fork(),
            expected
        );
    }
}

#[test]
fn a_number_of_the_wrong_size_is_refused() {
    let bytes = attributes(&[(attr::DEV_INDEX, &[1, 2])]);
    assert_eq!(Attributes::parse(&bytes), Err(Errno::PROTO));
}

#[test]
fn a_request_carries_its_attributes() {
    let attributes = [index_attribute(5), client_attribute("uverbs")];
    let question = question(Command::CharDeviceGet, Kind::Single, &attributes);
    let bytes = question.bytes(9).unwrap();
    let header = NetlinkBuffer::new_checked(&bytes).unwrap();
    assert_eq!(header.message_type(), 0x140f);
    assert_eq!(header.sequence_number(), 9);
    assert_eq!(header.flags(), NLM_F_REQUEST | NLM_F_ACK);
    let list: Vec<_> = NlasIterator::new(header.payload())
        .map(|nla| nla.map(|nla| (nla.kind(), nla.value().to_vec())).unwrap())
        .collect();
    assert_eq!(list[0], (attr::DEV_INDEX, 5u32.to_ne_bytes().to_vec()));
    assert_eq!(list[1], (attr::CHARDEV_TYPE, b"uverbs\0".to_vec()));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(datagram in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&datagram, SEQUENCE, |_| ());
    }

    #[test]
    fn a_cut_answer_is_no_answer(cut in 0usize..60) {
        let whole = message(Command::DeviceGet.message_type(), SEQUENCE, &rxe(1));
        let (progress, found) = collect(&whole[..cut]);
        prop_assert_eq!(found.len(), 0);
        prop_assert!(progress == Ok(Progress::More) && cut == 0 || progress == Err(Errno::PROTO));
    }

    #[test]
    fn damaged_attributes_do_not_panic(
        at in 0usize..100,
        byte in any::<u8>(),
    ) {
        let mut bytes = message(Command::DeviceGet.message_type(), SEQUENCE, &rxe(1));
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = read(&bytes, SEQUENCE, |attributes| drop(attributes.device()));
    }
}
