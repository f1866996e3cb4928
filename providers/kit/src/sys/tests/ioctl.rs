//! Attributes of a call.

use super::dull;
use crate::abi::kernel::ioctl::{UVERBS_ATTR_F_MANDATORY, UVERBS_ATTR_F_VALID_OUTPUT};
use crate::errno::Errno;
use crate::sys::attr::Attr;
use crate::sys::ioctl::{Ioctl, MAX_ATTRS};
use proptest::prelude::*;
use std::os::fd::AsFd;

fn only(call: &Ioctl<'_>) -> Attr {
    assert_eq!(call.attrs().len(), 1);
    call.attrs()[0]
}

#[test]
fn objects_and_descriptors_have_no_length() {
    let mut call = Ioctl::new(3, 7);
    call.object_in(5, 0xffff_fffe);
    let want = Attr {
        id: 5,
        flags: UVERBS_ATTR_F_MANDATORY,
        data: 0xffff_fffe,
        ..Attr::default()
    };
    assert_eq!(only(&call), want);
    assert_eq!(call.target(), (3, 7));

    let mut call = Ioctl::new(0, 0);
    call.fd_in(1, 9);
    assert_eq!((only(&call).len, only(&call).data), (0, 9));

    let mut call = Ioctl::new(0, 0);
    call.object_out(2);
    assert_eq!((only(&call).len, only(&call).data), (0, 0));
}

#[test]
fn a_negative_descriptor_is_left_out() {
    let mut call = Ioctl::new(0, 0);
    call.fd_in(1, -1).optional();
    assert!(call.attrs().is_empty());
}

#[test]
fn numbers_go_inside_in_memory_order() {
    let mut call = Ioctl::new(0, 0);
    call.u32_in(1, 0x0102_0304);
    call.u64_in(2, u64::MAX - 1);
    assert_eq!((call.attrs()[0].len, call.attrs()[1].len), (4, 8));
    assert_eq!(call.input(1).unwrap(), 0x0102_0304u32.to_ne_bytes());
    assert_eq!(&call.attrs()[0].data.to_ne_bytes()[4..], [0; 4]);
    assert_eq!(call.attrs()[1].data, u64::MAX - 1);
}

#[test]
fn alternatives_and_optional_attributes_are_marked() {
    let data = [1u8; 12];
    let mut call = Ioctl::new(0, 0);
    call.enum_in(4, 2, &data);
    call.bytes_in(5, &data).optional();
    assert_eq!((call.attrs()[0].elem, call.attrs()[1].elem), (2, 0));
    assert!(call.attrs()[0].mandatory());
    assert!(!call.attrs()[1].mandatory());
}

#[test]
fn outputs_name_the_memory_and_come_back() {
    let mut value = 7u32;
    let at = (&raw const value).addr() as u64;
    let mut call = Ioctl::new(0, 0);
    call.value_out(3, &mut value);
    assert_eq!((only(&call).len, only(&call).data), (4, at));
    assert!(!call.written(3));
    call.answer(3, &9u32.to_ne_bytes());
    assert!(call.written(3));
    assert_eq!(only(&call).flags & UVERBS_ATTR_F_VALID_OUTPUT, 2);
    assert_eq!(value, 9);
}

#[test]
fn new_objects_are_read_back_by_attribute() {
    let mut call = Ioctl::new(0, 0);
    call.object_out(8);
    call.answer(8, &77u64.to_ne_bytes());
    assert_eq!(call.object(8), Ok(77));
    assert_eq!(call.object(9), Err(Errno::INVAL));
}

#[test]
fn a_descriptor_is_taken_once_and_only_if_made() {
    let mut call = Ioctl::new(0, 0);
    call.fd_in(1, 0);
    assert_eq!(call.take_fd().err(), Some(Errno(libc::EBADF)));

    let mut call = Ioctl::new(0, 0);
    call.fd_out(1);
    assert_eq!(call.take_fd().err(), Some(Errno(libc::EBADF)));
    let made = rustix::io::dup(dull()).unwrap();
    let number = u64::try_from(std::os::fd::IntoRawFd::into_raw_fd(made)).unwrap();
    call.answer(1, &number.to_ne_bytes());
    assert!(call.take_fd().is_ok());
    assert_eq!(call.take_fd().err(), Some(Errno(libc::EBADF)));
}

#[test]
fn requests_beyond_the_interface_are_einval_and_nothing_is_issued() {
    let long = vec![0u8; 65536];
    let mut call = Ioctl::new(0, 0);
    call.bytes_in(1, &long);
    assert_eq!(call.run(dull().as_fd(), 0), Err(Errno::INVAL));

    let mut out = vec![0u8; 65536];
    let mut call = Ioctl::new(0, 0);
    call.bytes_out(1, &mut out);
    assert_eq!(call.run(dull().as_fd(), 0), Err(Errno::INVAL));

    let mut call = Ioctl::new(0, 0);
    for _ in 0..=MAX_ATTRS {
        call.u32_in(1, 1);
    }
    assert_eq!(call.run(dull().as_fd(), 0), Err(Errno::INVAL));
}

#[test]
fn the_kernels_errno_is_the_answer() {
    let bytes = vec![0u8; 65535];
    let mut call = Ioctl::new(0, 0);
    call.bytes_in(1, &bytes);
    for _ in 1..MAX_ATTRS {
        call.u32_in(1, 1);
    }
    assert_eq!(call.run(dull().as_fd(), 0), Err(Errno(libc::ENOTTY)));
}

proptest! {
    #[test]
    fn input_arrives_whatever_its_length(data in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut call = Ioctl::new(0, 0);
        call.bytes_in(1, &data);
        prop_assert_eq!(usize::from(call.attrs()[0].len), data.len());
        prop_assert_eq!(call.input(1).unwrap(), data.clone());
        let inside = call.attrs()[0].data != data.as_ptr().addr() as u64;
        prop_assert_eq!(inside, data.len() <= 8);
    }

    #[test]
    fn handles_arrive_as_a_list(handles in prop::collection::vec(any::<u32>(), 0..100)) {
        let mut call = Ioctl::new(0, 0);
        call.objects_in(1, &handles);
        let want: Vec<u8> = handles.iter().flat_map(|h| h.to_ne_bytes()).collect();
        prop_assert_eq!(call.input(1).unwrap(), want);
    }
}
