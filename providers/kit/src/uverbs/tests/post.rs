//! Work requests posted through the kernel.

use crate::abi::handle::Posted;
use crate::abi::kernel::*;
use crate::errno::{Errno, Result};
use crate::sys::write::Request;
use crate::uverbs::fake::Fake;
use crate::uverbs::post;
use proptest::prelude::*;

type Sent = (u64, Vec<ib_uverbs_sge>);

/// Reads the requests of a command, as the kernel would.
fn read_sends(request: &mut Request<'_>) -> Vec<Sent> {
    let parts = request.parts();
    let (head, rest) = parts.core_in.split_at(24);
    let head: ib_uverbs_post_send = bytemuck::pod_read_unaligned(head);
    assert_eq!((head.qp_handle, head.wqe_size), (7, 56));
    let wr_bytes = usize::try_from(head.wr_count * head.wqe_size).unwrap();
    let (wrs, mut sges) = rest.split_at(wr_bytes);
    assert_eq!(sges.len(), usize::try_from(head.sge_count * 16).unwrap());
    wrs.chunks_exact(56)
        .map(|wr| {
            let wr: ib_uverbs_send_wr = bytemuck::pod_read_unaligned(wr);
            let (own, others) = sges.split_at(usize::try_from(wr.num_sge * 16).unwrap());
            sges = others;
            let own = own.chunks_exact(16).map(bytemuck::pod_read_unaligned);
            (wr.wr_id, own.collect())
        })
        .collect()
}

fn request(wr_id: u64, elements: &[ib_uverbs_sge]) -> Posted<'_, ib_uverbs_send_wr> {
    let wr = ib_uverbs_send_wr {
        wr_id,
        num_sge: u32::try_from(elements.len()).unwrap(),
        ..Default::default()
    };
    (wr, elements)
}

fn elements(counts: &[usize]) -> Vec<Vec<ib_uverbs_sge>> {
    let one = |i: usize, j: usize| ib_uverbs_sge {
        addr: (i * 1000 + j) as u64,
        length: 1,
        lkey: 2,
    };
    let row = |(i, &n): (usize, &usize)| (0..n).map(|j| one(i, j)).collect();
    counts.iter().enumerate().map(row).collect()
}

/// Posts requests named by their number, of which the kernel takes `takes` and then returns ENOMEM.
/// Returns those that the kernel took.
fn posted(
    requests: Vec<Result<Posted<'_, ib_uverbs_send_wr>>>,
    takes: usize,
) -> (Vec<Sent>, core::result::Result<(), (usize, Errno)>) {
    let mut taken = Vec::new();
    let kernel = Fake::new(
        |_| panic!("method"),
        |request| {
            let sends = read_sends(request);
            let room = takes - taken.len();
            let fits = sends.len() <= room;
            let bad = u32::try_from(room + 1).unwrap().to_ne_bytes();
            taken.extend(sends.into_iter().take(room));
            if fits {
                return Ok(());
            }
            request.parts().core_out.copy_from_slice(&bad);
            Err(Errno::NOMEM)
        },
    );
    let answer = post::post_send(&kernel, 7, requests.into_iter().enumerate());
    drop(kernel);
    (taken, answer)
}

proptest! {
    #[test]
    fn every_request_goes_once_and_in_order(
        counts in proptest::collection::vec(0_usize..40, 0..400),
        bad in any::<prop::sample::Index>(),
        takes in 0_usize..500,
    ) {
        let lists = elements(&counts);
        let bad = bad.index(counts.len() + 1);
        let requests: Vec<_> = lists
            .iter()
            .enumerate()
            .map(|(i, list)| if i == bad { Err(Errno::INVAL) } else { Ok(request(i as u64, list)) })
            .collect();
        let (taken, answer) = posted(requests, takes);
        let good = bad.min(takes);
        let expected = if takes < bad.min(counts.len()) {
            Err((takes, Errno::NOMEM))
        } else if bad < counts.len() {
            Err((bad, Errno::INVAL))
        } else {
            Ok(())
        };
        prop_assert_eq!(answer, expected);
        prop_assert_eq!(taken.len(), good.min(counts.len()));
        for (i, (wr_id, list)) in taken.iter().enumerate() {
            prop_assert_eq!(*wr_id, i as u64);
            let bytes: &[u8] = bytemuck::cast_slice(list);
            prop_assert_eq!(bytes, bytemuck::cast_slice::<_, u8>(&lists[i]));
        }
    }
}

#[test]
fn a_command_that_was_not_looked_at_names_its_first_request() {
    let kernel = Fake::new(|_| panic!("method"), |_| Err(Errno::IO));
    let requests = (0..3_u8).map(|i| (i, Ok(request(0, &[]))));
    let refused = post::post_send(&kernel, 7, requests);
    assert_eq!(refused, Err((0, Errno::IO)));
}

#[test]
fn a_number_beyond_the_requests_names_the_first() {
    let kernel = Fake::new(
        |_| panic!("method"),
        |request| {
            request.parts().core_out.fill(0xff);
            Err(Errno::IO)
        },
    );
    let requests = (0..3_u8).map(|i| (i, Ok(request(0, &[]))));
    assert_eq!(post::post_send(&kernel, 7, requests), Err((0, Errno::IO)));
}

#[test]
fn receives_go_to_their_queue() {
    let element = [ib_uverbs_sge {
        addr: 1,
        length: 2,
        lkey: 3,
    }];
    let wr = ib_uverbs_recv_wr {
        wr_id: 5,
        num_sge: 1,
        reserved: 0,
    };
    for (number, shared) in [
        (IB_USER_VERBS_CMD_POST_RECV, false),
        (IB_USER_VERBS_CMD_POST_SRQ_RECV, true),
    ] {
        let kernel = Fake::new(
            |_| panic!("method"),
            |request| {
                assert_eq!(request.number(), number);
                let core = request.parts().core_in;
                assert_eq!(core.len(), 24 + 16 + 16);
                // The response's address, then number, counts and size.
                let words: &[u8] = &core[8..24];
                let expected = [7_u32, 1, 1, 16].map(u32::to_ne_bytes).concat();
                assert_eq!(words, expected);
                assert_eq!(&core[24..40], bytemuck::bytes_of(&wr));
                assert_eq!(&core[40..], bytemuck::bytes_of(&element));
                Ok(())
            },
        );
        let requests = [((), Ok((wr, element.as_slice())))].into_iter();
        let answer = if shared {
            post::post_srq_recv(&kernel, 7, requests)
        } else {
            post::post_recv(&kernel, 7, requests)
        };
        assert_eq!(answer, Ok(()));
    }
}

#[test]
fn an_empty_chain_asks_nothing() {
    let kernel = Fake::new(|_| panic!("method"), |_| panic!("written"));
    let none = core::iter::empty::<((), Result<Posted<'_, ib_uverbs_send_wr>>)>();
    assert_eq!(post::post_send(&kernel, 7, none), Ok(()));
}
