//! Tests of two connected queue pairs.

mod batches;
mod bottleneck;
mod delays;
mod equal;
mod errors;
mod lossy;
mod reads;
mod selective;
mod states;
mod timers;

use super::*;
use crate::work::{
    Completion, Data, Destination, Event, Receive, Remote, Request, Sge, Status, WorkRequest,
};
use smallvec::smallvec;

const STEPS: usize = 200_000;

fn world(setup: &Setup) -> World {
    World::new(setup, Faults::default(), 1)
}

fn sge(offset: u64, length: u32) -> Sge {
    Sge {
        address: BASE + offset,
        length,
        lkey: ALL,
    }
}

fn remote(offset: u64) -> Remote {
    Remote {
        address: BASE + offset,
        rkey: ALL,
    }
}

fn wr(id: u64, request: Request, offset: u64, length: u32) -> WorkRequest {
    WorkRequest {
        data: Data::Sges(smallvec![sge(offset, length)]),
        ..WorkRequest::new(id, request)
    }
}

impl World {
    fn post(&mut self, side: usize, wr: WorkRequest) {
        let end = &mut self.ends[side];
        end.qp.post_send(wr, &mut end.host).expect("posted");
    }

    fn post_receive(&mut self, side: usize, id: u64, offset: u64, length: u32) {
        let end = &mut self.ends[side];
        end.host.receives.push_back(Receive {
            id,
            sges: smallvec![sge(offset, length)],
        });
        end.qp.receives_posted(&mut end.host);
    }

    fn rest(&mut self) {
        assert!(self.run(STEPS), "came to rest");
    }

    fn statuses(&self, side: usize) -> Vec<(u64, Status)> {
        let completions = &self.ends[side].host.completions;
        completions.iter().map(|c| (c.id, c.status)).collect()
    }

    fn completion(&self, side: usize, at: usize) -> Completion {
        self.ends[side].host.completions[at]
    }

    fn same(&self, from: (usize, u64), to: (usize, u64), length: u32) -> bool {
        let bytes = |(side, offset): (usize, u64)| {
            let bytes = self.ends[side].host.bytes(BASE + offset, length);
            bytes.expect("in memory").to_vec()
        };
        bytes(from) == bytes(to)
    }
}

#[test]
fn requests_that_have_not_begun_are_taken_back_when_nothing_is_under_way() {
    let mut world = World::new(&Setup::new(Service::Rc), Faults::default(), 1);
    let ids = |world: &mut World| -> Vec<u64> {
        let taken = world.ends[0].qp.take_waiting();
        taken.iter().map(|wr| wr.id).collect()
    };
    let write = |id| wr(id, Request::Write(remote(0x20000)), 0x10000, 8);
    world.post(0, write(1));
    assert!(world.send_one(0));
    world.ends[0].qp.pause(true);
    for id in 2..5 {
        world.post(0, write(id));
    }
    let first = world.ends[0].qp.first_waiting().map(|wr| wr.id);
    assert_eq!(first, Some(2));
    assert!(ids(&mut world).is_empty(), "one is under way");
    world.rest();
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    assert_eq!(ids(&mut world), [2, 3, 4]);
    assert_eq!(world.ends[0].qp.outstanding(), 0);
    assert!(world.ends[0].qp.first_waiting().is_none());
    world.ends[0].qp.pause(false);
    world.post(0, write(5));
    world.rest();
    assert_eq!(
        world.statuses(0),
        [(1, Status::Success), (5, Status::Success)]
    );
}
