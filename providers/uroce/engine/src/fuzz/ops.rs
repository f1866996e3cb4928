//! Sequences of actions by applications, networks and clocks on two connected queue pairs.

use super::{Input, assert_in_order};
use crate::qp::{Mask, Modify, Service, State};
use crate::sim::{ALL, BASE, Faults, Region, Setup, World, seal};
use crate::wire::{ICRC_LEN, ImmDt};
use crate::work::{Data, Receive, Remote, Request, Sge, WorkRequest};
use smallvec::smallvec;

const BYTES: usize = 0x4000;

struct Run {
    world: World,
    /// Requests accepted by each side since it was last reset.
    accepted: [Vec<u64>; 2],
    next_id: u64,
    last: Option<(usize, Vec<u8>)>,
}

/// Carries out operations read from the bytes: posting, stepping, losing, repeating and damaging
/// packets, taking memory away, changing states. Then both sides go to ERR, and every accepted
/// request must have completed once and in order.
pub fn fuzz_ops(data: &[u8]) {
    let mut input = Input(data);
    let kind = input.byte();
    let service = match kind % 4 {
        0 | 1 => Service::Rc,
        2 => Service::Uc,
        _ => Service::XrcInitiator,
    };
    let peer = match service {
        Service::XrcInitiator => Service::XrcTarget,
        other => other,
    };
    let shape = input.byte();
    let setup = Setup {
        service,
        peer,
        retry_cnt: shape & 7,
        rnr_retry: shape >> 3 & 3,
        reads: 1 + (shape >> 5 & 3),
        sq_sig_all: true,
        credits: shape & 0x80 != 0,
        delays: kind & 0x80 != 0,
        plain: kind & 0x40 != 0,
        ..Setup::new(service)
    };
    let faults = Faults {
        loss: u16::from(input.byte()),
        ..Faults::default()
    };
    let mut run = Run {
        world: World::sized(&setup, faults, u64::from(shape), BYTES),
        accepted: [Vec::new(), Vec::new()],
        next_id: 0,
        last: None,
    };
    for end in &mut run.world.ends {
        end.host.defers = kind & 0x20 != 0;
        end.host.ends_early = (kind & 0x10 != 0).then_some(ALL);
    }
    while !input.is_empty() {
        run.operation(&mut input);
    }
    run.finish();
}

impl Run {
    fn operation(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let side = usize::from(choice >> 7);
        match choice % 16 {
            0..=3 => self.post(side, input),
            4..=6 => self.post_receive(side, input),
            7..=10 => {
                self.world.run(usize::from(input.byte() % 32));
            }
            11 => {
                self.world.pump();
                self.last = self
                    .world
                    .link
                    .receive(crate::timer::Time::from_nanos(u64::MAX));
            }
            12 => self.damage(input),
            13 => {
                if let Some((to, bytes)) = self.last.clone() {
                    self.world.deliver(to, &bytes);
                }
            }
            14 => self.change_key(side, input),
            _ => self.modify(side, input),
        }
    }

    fn post(&mut self, side: usize, input: &mut Input<'_>) {
        let Some(end) = self.world.ends.get_mut(side) else {
            return;
        };
        let remote = Remote {
            address: BASE + u64::from((input.word() % 0x5000) & !3),
            rkey: ALL,
        };
        let shape = input.byte();
        let request = match shape % 8 {
            0 | 1 => Request::Send,
            2 => Request::WriteImm(remote, ImmDt { data: 1 }),
            3 => Request::Write(remote),
            4 => Request::Read(remote),
            5 => Request::FetchAdd { remote, add: 1 },
            6 => Request::SendInvalidate(8),
            _ => Request::LocalInvalidate(9),
        };
        let length = match request {
            Request::FetchAdd { .. } => 8,
            _ => u32::from(input.byte()) * 8,
        };
        let mut wr = WorkRequest::new(self.next_id, request);
        wr.fence = shape & 0x80 != 0;
        wr.srqn = u32::from(shape >> 5 & 1);
        wr.data = Data::Sges(smallvec![Sge {
            address: BASE + u64::from(shape) * 8,
            length,
            lkey: ALL,
        }]);
        if end.qp.post_send(wr, &mut end.host).is_ok()
            && let Some(accepted) = self.accepted.get_mut(side)
        {
            accepted.push(self.next_id);
        }
        self.next_id += 1;
    }

    fn post_receive(&mut self, side: usize, input: &mut Input<'_>) {
        let Some(end) = self.world.ends.get_mut(side) else {
            return;
        };
        let receive = Receive {
            id: 0,
            sges: smallvec![Sge {
                address: BASE + 0x2000,
                length: u32::from(input.byte()) * 16,
                lkey: ALL,
            }],
        };
        if end.qp.config().service == Service::XrcTarget {
            end.host.shared.entry(0).or_default().push_back(receive);
        } else if end.qp.may_post_receive() {
            end.host.receives.push_back(receive);
            end.qp.receives_posted(&mut end.host);
        }
    }

    fn damage(&mut self, input: &mut Input<'_>) {
        self.world.pump();
        let next = self
            .world
            .link
            .receive(crate::timer::Time::from_nanos(u64::MAX));
        let Some((to, mut bytes)) = next else {
            return;
        };
        bytes.truncate(bytes.len().saturating_sub(ICRC_LEN));
        for _ in 0..input.byte() % 4 {
            let at = usize::from(input.byte());
            let flip = input.byte();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= flip;
            }
        }
        let bytes = seal(bytes, 1 - to.min(1));
        self.world.deliver(to, &bytes);
    }

    fn change_key(&mut self, side: usize, input: &mut Input<'_>) {
        let Some(end) = self.world.ends.get_mut(side) else {
            return;
        };
        if input.byte() & 3 == 0 {
            end.host.keys.remove(&ALL);
            return;
        }
        let region = Region {
            address: BASE,
            length: 0x4000,
            readable: true,
            writable: true,
        };
        for key in [ALL, 8, 9] {
            end.host.keys.insert(key, region);
        }
    }

    fn modify(&mut self, side: usize, input: &mut Input<'_>) {
        let Some(end) = self.world.ends.get_mut(side) else {
            return;
        };
        let shape = input.byte();
        let to = match shape % 8 {
            0 => State::Error,
            1 => State::Reset,
            2..=4 => State::Sqd,
            _ => State::Rts,
        };
        let mut modify = Modify {
            mask: Mask::STATE,
            state: Some(to),
            ..Modify::default()
        };
        if shape & 0x80 != 0 && to == State::Sqd {
            modify.mask = modify.mask.and(Mask::EN_SQD_ASYNC_NOTIFY);
            modify.values.en_sqd_async_notify = true;
        }
        let done = end.qp.modify(&modify, &mut end.host).is_ok();
        if done && to == State::Reset {
            // Posted requests are dropped.
            end.host.completions.clear();
            if let Some(accepted) = self.accepted.get_mut(side) {
                accepted.clear();
            }
        }
    }

    fn finish(mut self) {
        let error = Modify {
            mask: Mask::STATE,
            state: Some(State::Error),
            ..Modify::default()
        };
        for (end, accepted) in self.world.ends.iter_mut().zip(&self.accepted) {
            if end.qp.state() != State::Reset {
                assert_eq!(end.qp.modify(&error, &mut end.host), Ok(()));
            }
            assert_eq!(end.qp.outstanding(), 0);
            assert_eq!(end.qp.deadline(), None);
            if end.qp.config().service.reliable() {
                assert_in_order(&end.host.completions, accepted);
            }
        }
        assert!(
            self.world.run(100_000),
            "two queue pairs in ERR come to rest"
        );
    }
}
