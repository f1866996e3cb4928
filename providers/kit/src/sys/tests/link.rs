//! Chains of a provider's command buffers.

use super::dull;
use crate::abi::kernel::ioctl::{UVERBS_ATTR_F_MANDATORY, UVERBS_ATTR_UHW_IN};
use crate::abi::{_UHW_NO_INDEX, ib_uverbs_ioctl_hdr, ibv_command_buffer};
use crate::errno::Errno;
use crate::sys::attr::Attr;
use crate::sys::ioctl::Ioctl;
use crate::sys::link::{Link, run_foreign};
use std::os::fd::AsFd;
use std::ptr::null_mut;

const ROOM: usize = 8;

/// A command buffer with room behind it, as a provider has it on its stack.
#[repr(C)]
struct Buffer {
    head: ibv_command_buffer,
    attrs: [Attr; ROOM],
}

impl Buffer {
    fn new(target: (u16, u16), attrs: &[Attr]) -> Box<Self> {
        let mut new = Box::new(Self {
            head: ibv_command_buffer {
                next: null_mut(),
                next_attr: null_mut(),
                last_attr: null_mut(),
                uhw_in_idx: _UHW_NO_INDEX as u8,
                uhw_out_idx: _UHW_NO_INDEX as u8,
                uhw_in_headroom_dwords: 0,
                uhw_out_headroom_dwords: 0,
                bits: 0,
                hdr: ib_uverbs_ioctl_hdr {
                    length: 0,
                    object_id: target.0,
                    method_id: target.1,
                    num_attrs: 0,
                    reserved1: 1,
                    driver_id: 0,
                    reserved2: 1,
                },
            },
            attrs: [Attr::default(); ROOM],
        });
        new.attrs[..attrs.len()].copy_from_slice(attrs);
        let first = new.attrs.as_mut_ptr();
        new.head.next_attr = first.wrapping_add(attrs.len()).cast();
        new.head.last_attr = first.wrapping_add(ROOM).cast();
        new
    }

    fn raw(&mut self) -> *mut ibv_command_buffer {
        (&raw mut *self).cast()
    }
}

fn attr(id: u16) -> Attr {
    Attr {
        data: id.into(),
        ..Attr::new(id)
    }
}

/// # Safety
/// The buffers outlive the link.
unsafe fn link<'a>(first: &mut Buffer) -> Link<'a> {
    // SAFETY: vouched for by the caller; `Buffer::new` set the ends.
    unsafe { Link::from_raw(first.raw()) }.unwrap()
}

#[test]
fn attributes_come_in_the_order_of_the_chain() {
    let mut second = Buffer::new((1, 2), &[attr(12)]);
    let mut first = Buffer::new((1, 2), &[attr(10), attr(11)]);
    first.head.next = second.raw();
    // SAFETY: both live to the end of the test.
    let link = unsafe { link(&mut first) };
    assert_eq!(link.count(), 3);
    let ids: Vec<u16> = link.attrs().map(|a| a.id).collect();
    assert_eq!(ids, [10, 11, 12]);
    assert_eq!(link.check((1, 2)), Ok(()));
    assert_eq!(link.check((1, 3)), Err(Errno::INVAL));
}

#[test]
fn answers_go_back_where_they_came_from() {
    let mut second = Buffer::new((1, 2), &[attr(12)]);
    let mut first = Buffer::new((1, 2), &[attr(10), attr(11)]);
    first.head.next = second.raw();
    // SAFETY: both live to the end of the test.
    let link = unsafe { link(&mut first) };
    let answered: Vec<Attr> = link.attrs().map(|a| Attr { data: 7, ..a }).collect();
    link.take_back(&answered);
    assert_eq!((first.attrs[0].data, first.attrs[1].data), (7, 7));
    assert_eq!((second.attrs[0].id, second.attrs[0].data), (12, 7));
    assert_eq!(first.attrs[2], Attr::default());
}

#[test]
fn conditions_that_exclude_a_write_command() {
    let with = |attr: Attr, bits: u8| {
        let mut buffer = Buffer::new((1, 2), &[attr]);
        buffer.head.bits = bits;
        // SAFETY: the link is gone before the buffer.
        let link = unsafe { link(&mut buffer) };
        let check = link.check((1, 2));
        (link.ioctl_only(), link.extended_only(), check.is_ok())
    };
    let optional = Attr {
        flags: 0,
        ..attr(10)
    };
    assert_eq!(with(attr(10), 0), (true, false, true));
    assert_eq!(with(optional, 0), (false, false, true));
    assert_eq!(with(attr(UVERBS_ATTR_UHW_IN), 0), (false, false, true));
    assert_eq!(with(optional, 1), (false, false, false));
    assert_eq!(with(optional, 2), (false, true, true));
    assert_eq!(with(optional, 4), (true, false, true));
    assert_eq!(optional.flags & UVERBS_ATTR_F_MANDATORY, 0);
}

#[test]
fn short_driver_data_goes_inside_at_the_last_moment() {
    let data = [1u8, 2, 3, 4];
    let uhw = Attr {
        len: 4,
        data: data.as_ptr().expose_provenance() as u64,
        ..Attr::new(UVERBS_ATTR_UHW_IN)
    };
    let mut buffer = Buffer::new((1, 2), &[uhw]);
    buffer.head.uhw_in_idx = 0;
    // SAFETY: buffer and data live to the end of the test.
    let link = unsafe { link(&mut buffer) };
    let sent = link.attrs().next().unwrap();
    assert_eq!(&sent.data.to_ne_bytes(), &[1, 2, 3, 4, 0, 0, 0, 0]);
}

#[test]
fn a_link_for_another_method_is_einval() {
    let mut buffer = Buffer::new((1, 2), &[attr(10)]);
    let mut call = Ioctl::new(1, 3);
    // SAFETY: the buffer lives to the end of the test.
    call.link(Some(unsafe { link(&mut buffer) }));
    assert_eq!(call.run(dull().as_fd(), 0), Err(Errno::INVAL));
}

#[test]
fn a_failed_call_leaves_the_link_alone() {
    let mut buffer = Buffer::new((1, 2), &[attr(10)]);
    let before = buffer.attrs;
    let mut call = Ioctl::new(1, 2);
    call.u32_in(0, 1);
    // SAFETY: the buffer lives to the end of the test.
    call.link(Some(unsafe { link(&mut buffer) }));
    assert_eq!(call.run(dull().as_fd(), 0), Err(Errno(libc::ENOTTY)));
    assert_eq!(call.attrs().len(), 1);
    assert_eq!(buffer.attrs, before);
}

/// Runs a provider's own buffer on a kernel that knows no ioctl.
fn foreign(buffer: &mut Buffer) -> Result<(), Errno> {
    // SAFETY: the buffer is valid, its linked ones too.
    unsafe { run_foreign(dull().as_fd(), 5, buffer.raw()) }
}

#[test]
fn a_providers_own_buffer_is_completed_in_place() {
    let mut second = Buffer::new((1, 2), &[attr(12)]);
    let mut first = Buffer::new((1, 2), &[attr(10), attr(11)]);
    first.head.next = second.raw();
    assert_eq!(foreign(&mut first), Err(Errno(libc::ENOTTY)));
    let hdr = first.head.hdr;
    assert_eq!((hdr.length, hdr.num_attrs), (24 + 3 * 16, 3));
    assert_eq!((hdr.reserved1, hdr.driver_id, hdr.reserved2), (0, 5, 0));
    assert_eq!(first.attrs[2], attr(12));
}

#[test]
fn a_providers_own_buffer_must_be_fit() {
    // SAFETY: NULL is allowed for.
    let null = unsafe { run_foreign(dull().as_fd(), 0, null_mut()) };
    assert_eq!(null, Err(Errno::INVAL));

    let mut broken = Buffer::new((1, 2), &[attr(10)]);
    broken.head.bits = 1;
    assert_eq!(foreign(&mut broken), Err(Errno::INVAL));

    let mut other = Buffer::new((1, 3), &[attr(12)]);
    let mut first = Buffer::new((1, 2), &[attr(10)]);
    first.head.next = other.raw();
    assert_eq!(foreign(&mut first), Err(Errno::INVAL));

    let mut full = Buffer::new((1, 2), &[attr(12)]);
    let mut first = Buffer::new((1, 2), &[attr(10); ROOM]);
    first.head.next = full.raw();
    assert_eq!(foreign(&mut first), Err(Errno::INVAL));
}
