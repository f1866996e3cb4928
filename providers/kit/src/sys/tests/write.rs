//! Written commands, read back from a pipe.

use super::dull;
use crate::abi::kernel::*;
use crate::errno::Errno;
use crate::sys::command::EXTENDED;
use crate::sys::command::{EX_HEADER, HEADER, WriteCommand};
use crate::sys::write::Request;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::os::fd::{AsFd, OwnedFd};

/// Sends and reads the received bytes back.
fn sent(request: &mut Request<'_>, len: usize) -> Vec<u8> {
    let (reader, writer) = pipe_with(PipeFlags::empty()).unwrap();
    request.send(writer.as_fd()).unwrap();
    let mut arrived = vec![0; len];
    let got = rustix::io::read(reader, &mut arrived).unwrap();
    arrived.truncate(got);
    arrived
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn a_plain_command_counts_words_of_everything() {
    let mut buf = vec![3u8; HEADER + 8 + 12];
    let mut resp = vec![0u8; 4 + 8];
    let at = resp.as_ptr().addr() as u64;
    let mut request = Request::new::<ib_uverbs_alloc_pd>(&mut buf, 8, &mut resp, 4).unwrap();
    let bytes = sent(&mut request, 100);
    assert_eq!(bytes.len(), 28);
    assert_eq!(bytes[..4], IB_USER_VERBS_CMD_ALLOC_PD.to_ne_bytes());
    assert_eq!((u16_at(&bytes, 4), u16_at(&bytes, 6)), (7, 3));
    assert_eq!(u64_at(&bytes, 8), at);
    assert_eq!(bytes[16..], [3; 12]);
}

#[test]
fn a_command_without_response_shows_no_address() {
    let mut buf = vec![3u8; HEADER + 4];
    let mut request = Request::new::<ib_uverbs_dealloc_pd>(&mut buf, 4, &mut [], 0).unwrap();
    let bytes = sent(&mut request, 100);
    assert_eq!(bytes[8..], [3; 4]);
    assert_eq!((u16_at(&bytes, 4), u16_at(&bytes, 6)), (3, 0));
}

#[test]
fn an_extended_command_counts_core_and_driver_apart() {
    let core = size_of::<ib_uverbs_ex_create_cq>();
    let mut buf = vec![3u8; EX_HEADER + core + 16];
    let resp_core = size_of::<ib_uverbs_ex_create_cq_resp>();
    let mut resp = vec![9u8; resp_core + 24];
    let at = resp.as_ptr().addr() as u64;
    let mut request =
        Request::new::<ib_uverbs_ex_create_cq>(&mut buf, core, &mut resp, resp_core).unwrap();
    let bytes = sent(&mut request, 200);
    let number = IB_USER_VERBS_EX_CMD_CREATE_CQ | EXTENDED;
    assert_eq!(bytes[..4], number.to_ne_bytes());
    assert_eq!(usize::from(u16_at(&bytes, 4)), core / 8);
    assert_eq!(usize::from(u16_at(&bytes, 6)), resp_core / 8);
    assert_eq!(u64_at(&bytes, 8), at);
    assert_eq!((u16_at(&bytes, 16), u16_at(&bytes, 18)), (2, 3));
    assert_eq!(bytes[20..24], [0; 4]);
    assert_eq!(bytes[24..], vec![3; core + 16]);
    assert!(resp.iter().all(|b| *b == 0));
}

#[test]
fn lengths_beyond_the_interface_are_einval() {
    let mut odd = vec![0u8; HEADER + 8 + 3];
    let mut resp = vec![0u8; 4];
    let mut request = Request::new::<ib_uverbs_alloc_pd>(&mut odd, 8, &mut resp, 4).unwrap();
    assert_eq!(request.send(dull().as_fd()), Err(Errno::INVAL));

    let mut long = vec![0u8; HEADER + 8 + 4 * 65536];
    let mut request = Request::new::<ib_uverbs_alloc_pd>(&mut long, 8, &mut resp, 4).unwrap();
    assert_eq!(request.send(dull().as_fd()), Err(Errno::INVAL));

    let mut half = vec![0u8; EX_HEADER + 8 + 4];
    let mut request = Request::new::<ib_uverbs_destroy_flow>(&mut half, 8, &mut [], 0).unwrap();
    assert_eq!(request.send(dull().as_fd()), Err(Errno::INVAL));
}

#[test]
fn buffers_shorter_than_the_structures_are_refused() {
    let (mut buf, mut resp) = (vec![0u8; HEADER + 8], vec![0u8; 4]);
    let short = Request::new::<ib_uverbs_alloc_pd>(&mut buf[..12], 8, &mut resp, 4);
    assert_eq!(short.err(), Some(Errno::INVAL));
    let short = Request::new::<ib_uverbs_alloc_pd>(&mut buf, 4, &mut resp, 4);
    assert_eq!(short.err(), Some(Errno::INVAL));
    let short = Request::new::<ib_uverbs_alloc_pd>(&mut buf, 8, &mut resp, 0);
    assert_eq!(short.err(), Some(Errno::INVAL));
    let short = Request::new::<ib_uverbs_alloc_pd>(&mut buf, 8, &mut resp, 8);
    assert_eq!(short.err(), Some(Errno::INVAL));
}

/// A pipe that takes one page.
fn narrow() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    fcntl_setpipe_size(&writer, 4096).unwrap();
    (reader, writer)
}

#[test]
fn a_command_taken_in_part_is_eio() {
    let (_reader, writer) = narrow();
    let mut buf = vec![0u8; HEADER + 8 + 8192];
    let mut resp = vec![0u8; 4];
    let mut request = Request::new::<ib_uverbs_alloc_pd>(&mut buf, 8, &mut resp, 4).unwrap();
    assert_eq!(request.send(writer.as_fd()), Err(Errno::IO));
}

#[test]
fn the_kernels_errno_is_the_answer() {
    let (reader, writer) = narrow();
    drop(writer);
    let mut buf = vec![0u8; HEADER + 4];
    let mut request = Request::new::<ib_uverbs_dealloc_pd>(&mut buf, 4, &mut [], 0).unwrap();
    assert_eq!(request.send(reader.as_fd()), Err(Errno(libc::EBADF)));
}

#[test]
fn driver_data_starts_behind_header_and_structure() {
    assert_eq!(ib_uverbs_reg_mr::FRONT, 8 + 40);
    assert_eq!(ib_uverbs_ex_query_device::FRONT, 24 + 8);
}
