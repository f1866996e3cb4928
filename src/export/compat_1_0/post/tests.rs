use super::*;

fn receive(wr_id: u64) -> ibv_recv_wr_1_0 {
    ibv_recv_wr_1_0 {
        next: null_mut(),
        wr_id,
        sg_list: null_mut(),
        num_sge: 0,
    }
}

fn send(opcode: ibv_wr_opcode) -> ibv_send_wr_1_0 {
    ibv_send_wr_1_0 {
        next: null_mut(),
        wr_id: u64::from(opcode),
        sg_list: null_mut(),
        num_sge: 0,
        opcode,
        send_flags: IBV_SEND_SIGNALED.cast_signed(),
        imm_data: be32::new(9),
        wr: ibv_send_wr_1_0_wr {
            rdma: ibv_send_wr_wr_rdma {
                remote_addr: 5,
                rkey: 6,
            },
        },
    }
}

fn chain(count: u64) -> Vec<ibv_recv_wr_1_0> {
    let mut all: Vec<_> = (0..count).map(receive).collect();
    for at in 1..all.len() {
        all[at - 1].next = &raw mut all[at];
    }
    all
}

/// Posts to a provider that takes `room` requests: returns the result, the posted requests, and the
/// refused one.
fn posted(count: u64, room: usize) -> (c_int, Vec<u64>, Option<u64>) {
    let mut all = chain(count);
    let first = all.first_mut().map_or(null_mut(), |first| &raw mut *first);
    let (mut taken, mut bad) = (Vec::new(), null_mut());
    // SAFETY: the chain and the closure's arguments belong to this function.
    let answer = unsafe {
        post(first, &raw mut bad, false, |mut at, refusal| {
            while let Some(request) = at.as_ref() {
                if taken.len() == room {
                    refusal.write(at);
                    return libc::ENOMEM;
                }
                taken.push(request.wr_id);
                at = request.next;
            }
            0
        })
    };
    // SAFETY: NULL or a request of the chain.
    let bad = unsafe { bad.as_ref() }.map(|bad| bad.wr_id);
    (answer, taken, bad)
}

#[test]
fn chains_of_every_length_arrive_in_order() {
    for count in [0, 1, 2, 15, 16, 17, 1000] {
        let all: Vec<u64> = (0..count).collect();
        assert_eq!(posted(count, usize::MAX), (0, all, None));
    }
}

#[test]
fn a_refused_request_is_returned_as_the_program_s() {
    for (count, room) in [(1u64, 0usize), (16, 3), (17, 16), (1000, 999)] {
        let before: Vec<u64> = (0..).take(room).collect();
        let bad = before.len() as u64;
        assert_eq!(posted(count, room), (libc::ENOMEM, before, Some(bad)));
    }
}

#[test]
fn newer_operations_are_refused_after_the_requests_before_them() {
    for opcode in [
        IBV_WR_BIND_MW,
        IBV_WR_TSO,
        IBV_WR_FLUSH,
        IBV_WR_ATOMIC_WRITE,
        99,
    ] {
        let mut second = send(opcode);
        let mut first = send(IBV_WR_RDMA_WRITE);
        first.next = &raw mut second;
        let mut bad = null_mut();
        let mut took = 0;
        // SAFETY: the requests are of this function.
        let answer = unsafe {
            post(&raw mut first, &raw mut bad, false, |at, _| {
                took += 1;
                assert!((*at).next.is_null());
                assert_eq!((*at).wr.rdma.remote_addr, 5);
                assert_eq!((*at).wr.rdma.rkey, 6);
                assert_eq!((*at).imm.imm_data.get(), 9);
                assert_eq!((*at).send_flags, IBV_SEND_SIGNALED);
                0
            })
        };
        assert_eq!((answer, took), (libc::EINVAL, 1));
        assert!(std::ptr::eq(bad, &raw const second));
    }
}

#[test]
fn a_datagram_without_an_address_is_refused_alone() {
    let mut request = send(IBV_WR_SEND);
    request.wr.ud = ibv_send_wr_1_0_ud {
        ah: null_mut(),
        remote_qpn: 1,
        remote_qkey: 2,
    };
    let mut bad = null_mut();
    // SAFETY: the request is of this function.
    let answer = unsafe { post(&raw mut request, &raw mut bad, true, |_, _| unreachable!()) };
    assert_eq!(answer, libc::EINVAL);
    assert!(std::ptr::eq(bad, &raw const request));
}
