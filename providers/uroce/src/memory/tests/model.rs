//! Any sequence of calls, against lists that are searched from end to end.

use super::*;
use kit::sys::application::FoundPage;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::Index;

/// Bytes of memory that the sequences work on.
const SPAN: u64 = 64;
/// By which some regions' addresses differ from their memory's.
const SHIFT: u64 = 1 << 40;
const READ: u32 = IBV_ACCESS_REMOTE_READ;
const WRITE: u32 = IBV_ACCESS_REMOTE_WRITE;
const ACCESSES: [u32; 7] = [
    0,
    FULL,
    FULL,
    FULL,
    FULL & !IBV_ACCESS_MW_BIND,
    READ | IBV_ACCESS_MW_BIND,
    IBV_ACCESS_LOCAL_WRITE | WRITE | IBV_ACCESS_MW_BIND,
];

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("small")
}

#[derive(Clone, Debug)]
enum Step {
    Register(Range, usize, usize, bool),
    Deregister(Index),
    Rereg(Index, Option<Range>, Option<usize>, Option<usize>),
    Allocate(usize, ibv_mw_type),
    Deallocate(Index),
    Bind(Index, Option<Index>, Range, usize, Caller, u8),
    Invalidate(Index, Caller),
    Write(Index, Range, Caller),
    Read(Index, Range, Caller),
    Gather(Index, Range, usize),
}

/// First byte, and how many.
type Range = (u64, u64);
/// Which domain, and which queue pair.
type Caller = (usize, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly parts of the ranges of regions, and of those of windows.
    let region = || (0..8u64, 0..SPAN);
    let window = || (4..16u64, 0..24u64);
    let range = || (4..32u64, 0..8u64);
    let caller = || (0..2usize, 1..3u32);
    let one = any::<Index>;
    let access = || 0..ACCESSES.len();
    let step = prop_oneof![
        3 => (region(), 0..2usize, access(), any::<bool>())
            .prop_map(|(range, pd, access, shift)| Step::Register(range, pd, access, shift)),
        1 => one().prop_map(Step::Deregister),
        1 => (one(), of(region()), of(0..2usize), of(access()))
            .prop_map(|(which, range, pd, access)| Step::Rereg(which, range, pd, access)),
        2 => (0..2usize, 1..3u32).prop_map(|(pd, kind)| Step::Allocate(pd, kind)),
        1 => one().prop_map(Step::Deallocate),
        4 => (one(), of(one()), window(), 0..4usize, caller(), 0..4u8)
            .prop_map(|(mw, mr, range, access, caller, tag)| Step::Bind(mw, mr, range, access, caller, tag)),
        2 => (one(), caller()).prop_map(|(key, caller)| Step::Invalidate(key, caller)),
        4 => (one(), range(), caller()).prop_map(|(key, range, caller)| Step::Write(key, range, caller)),
        4 => (one(), range(), caller()).prop_map(|(key, range, caller)| Step::Read(key, range, caller)),
        2 => (one(), range(), 0..2usize).prop_map(|(key, range, pd)| Step::Gather(key, range, pd)),
    ];
    proptest::collection::vec(step, 1..120)
}

struct Region {
    mr: Arc<Mr>,
    alive: bool,
    pd: usize,
    access: u32,
    /// Where in memory.
    start: u64,
    length: u64,
    /// Difference of an address in the region and its address in memory.
    shift: u64,
}

struct Window {
    mw: Arc<Mw>,
    alive: bool,
    kind: ibv_mw_type,
    pd: usize,
    rkey: u32,
    bound: Option<Bound>,
}

struct Bound {
    region: usize,
    start: u64,
    length: u64,
    shift: u64,
    access: u32,
    qpn: u32,
}

struct Model {
    keys: Arc<Keys>,
    scratch: Scratch,
    at: u64,
    pds: [PdId; 2],
    bytes: Vec<u8>,
    regions: Vec<Region>,
    windows: Vec<Window>,
    /// Every key there ever was.
    known: Vec<u32>,
    fill: u8,
}

/// The memory of a key: its place, its length, and the difference of addresses.
struct Open {
    start: u64,
    length: u64,
    shift: u64,
}

impl Model {
    fn new() -> Self {
        let (scratch, at) = pages();
        Self {
            keys: keys(),
            scratch,
            at,
            pds: [Pd::new().id(), Pd::new().id()],
            bytes: vec![0; 256],
            regions: Vec::new(),
            windows: Vec::new(),
            known: vec![0, 77],
            fill: 0,
        }
    }

    fn peer(&self, caller: Caller) -> Peer {
        Peer {
            pd: self.pds[caller.0],
            qpn: caller.1,
        }
    }

    /// A key: mostly one of the latest.
    fn key(&self, which: &Index) -> u32 {
        let near_end = which.index(9);
        let index = match self.known.len().checked_sub(near_end + 1) {
            Some(index) if near_end < 8 => index,
            _ => which.index(self.known.len()),
        };
        self.known[index]
    }

    /// One of the latest regions or windows.
    fn near_end(which: &Index, all: usize) -> usize {
        all - 1 - which.index(all.min(3))
    }

    fn is_bound(&self, region: usize) -> bool {
        let to = |window: &Window| window.bound.as_ref().is_some_and(|to| to.region == region);
        self.windows.iter().any(to)
    }

    fn memory(&self, range: Range) -> kit::sys::application::ApplicationMemory {
        let (start, length) = (size(range.0), size(range.1));
        self.scratch.range(start, length).expect("a range")
    }

    fn remote(&self, key: u32, caller: Caller, flags: u32) -> Option<Open> {
        let region = self.regions.iter().find(|region| {
            region.alive
                && region.mr.key() == key
                && region.pd == caller.0
                && region.access & flags == flags
        });
        if let Some(region) = region {
            return Some(Open {
                start: region.start,
                length: region.length,
                shift: region.shift,
            });
        }
        let window = self
            .windows
            .iter()
            .find(|window| window.alive && window.rkey == key)?;
        let bound = window.bound.as_ref()?;
        let whose = window.kind == IBV_MW_TYPE_1 || bound.qpn == caller.1;
        let may = whose && window.pd == caller.0 && bound.access & flags == flags;
        may.then_some(Open {
            start: bound.start,
            length: bound.length,
            shift: bound.shift,
        })
    }

    /// Where in memory a range is that a peer names with the region's shift.
    fn place(open: &Open, shift: u64, range: Range) -> Option<std::ops::Range<usize>> {
        let inside = range.0 >= open.start && range.0 + range.1 <= open.start + open.length;
        (inside && shift == open.shift).then(|| size(range.0)..size(range.0 + range.1))
    }

    fn shifts(&self, range: Range) -> [(u64, u64); 2] {
        [0, SHIFT].map(|shift| (shift, self.at + range.0 + shift))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Register(range, pd, access, shifted) => {
                self.register(*range, *pd, ACCESSES[*access], *shifted);
            }
            Step::Deregister(which) => self.deregister(which),
            Step::Rereg(which, range, pd, access) => {
                self.rereg(which, *range, *pd, access.map(|access| ACCESSES[access]));
            }
            Step::Allocate(pd, kind) => self.allocate(*pd, *kind),
            Step::Deallocate(which) => self.deallocate(which),
            Step::Bind(mw, mr, range, access, caller, tag) => {
                self.bind(mw, mr.as_ref(), *range, *access, *caller, *tag);
            }
            Step::Invalidate(key, caller) => self.invalidate(self.key(key), *caller),
            Step::Write(key, range, caller) => self.write(self.key(key), *range, *caller),
            Step::Read(key, range, caller) => self.read(self.key(key), *range, *caller),
            Step::Gather(key, range, pd) => self.gather(self.key(key), *range, *pd),
        }
    }

    fn register(&mut self, range: Range, pd: usize, access: u32, shifted: bool) {
        let shift = if shifted { SHIFT } else { 0 };
        let memory = self.memory(range);
        let iova = self.at + range.0 + shift;
        let made = self.keys.register(self.pds[pd], memory, iova, access);
        let cannot = range == (0, 0);
        assert_eq!(made.as_ref().err(), cannot.then_some(&Errno::INVAL));
        let Ok((mr, _)) = made else { return };
        self.known.push(mr.key());
        self.regions.push(Region {
            mr: Arc::new(mr),
            alive: true,
            pd,
            access,
            start: range.0,
            length: range.1,
            shift,
        });
    }

    fn deregister(&mut self, which: &Index) {
        if self.regions.is_empty() {
            return;
        }
        let index = Self::near_end(which, self.regions.len());
        let expected = match (self.regions[index].alive, self.is_bound(index)) {
            (false, _) => Err(Errno::INVAL),
            (true, true) => Err(Errno::BUSY),
            (true, false) => Ok(()),
        };
        let region = &mut self.regions[index];
        assert_eq!(self.keys.deregister(&region.mr), expected);
        region.alive &= expected.is_err();
    }

    fn rereg(
        &mut self,
        which: &Index,
        range: Option<Range>,
        pd: Option<usize>,
        access: Option<u32>,
    ) {
        if self.regions.is_empty() {
            return;
        }
        let index = Self::near_end(which, self.regions.len());
        let busy = self.is_bound(index);
        let memory = range.map(|range| self.memory(range));
        let region = &mut self.regions[index];
        let nothing = match range {
            Some(range) => range == (0, 0),
            None => access.is_some() && (region.start, region.length) == (0, 0),
        };
        let expected = match (region.alive, nothing, busy) {
            (false, ..) | (_, true, _) => Err(Errno::INVAL),
            (true, false, true) => Err(Errno::BUSY),
            _ => Ok(()),
        };
        let domain = pd.map(|pd| self.pds[pd]);
        let done = self.keys.rereg(&region.mr, memory, domain, access);
        assert_eq!(done.map(|_| ()), expected);
        if expected.is_err() {
            return;
        }
        region.pd = pd.unwrap_or(region.pd);
        region.access = access.unwrap_or(region.access);
        if let Some(range) = range {
            (region.start, region.length, region.shift) = (range.0, range.1, 0);
        }
    }

    fn allocate(&mut self, pd: usize, kind: ibv_mw_type) {
        let (mw, rkey) = self.keys.alloc_mw(self.pds[pd], kind).expect("allocated");
        self.known.push(rkey);
        self.windows.push(Window {
            mw: Arc::new(mw),
            alive: true,
            kind,
            pd,
            rkey,
            bound: None,
        });
    }

    fn deallocate(&mut self, which: &Index) {
        if self.windows.is_empty() {
            return;
        }
        let index = Self::near_end(which, self.windows.len());
        let window = &mut self.windows[index];
        let done = self.keys.dealloc_mw(&window.mw);
        assert_eq!(done.is_ok(), window.alive);
        window.alive = false;
        window.bound = None;
    }

    fn bind(
        &mut self,
        mw: &Index,
        mr: Option<&Index>,
        range: Range,
        access: usize,
        caller: Caller,
        tag: u8,
    ) {
        if self.windows.is_empty() || self.regions.is_empty() {
            return;
        }
        let access = [READ, WRITE, READ | WRITE, IBV_ACCESS_MW_BIND][access];
        let index = Self::near_end(mw, self.windows.len());
        let region = mr.map(|mr| Self::near_end(mr, self.regions.len()));
        let shift = region.map_or(0, |region| self.regions[region].shift);
        let who = self.peer(caller);
        let window = &self.windows[index];
        let rkey = window.rkey & !0xff | u32::from(tag);
        let binding = Binding {
            mw: Arc::clone(&window.mw),
            rkey,
            mr: region.map(|region| Arc::clone(&self.regions[region].mr)),
            address: self.at + range.0 + shift,
            length: range.1,
            access,
        };
        let region = region.filter(|_| range.1 > 0);
        let expected = self.may_bind(index, region, range, access, caller);
        let done = self.keys.bind(who, &binding);
        assert_eq!(done, if expected { Ok(()) } else { Err(Fault) });
        if !expected {
            return;
        }
        self.known.push(rkey);
        let window = &mut self.windows[index];
        window.rkey = rkey;
        window.bound = region.map(|region| Bound {
            region,
            start: range.0,
            length: range.1,
            shift,
            access,
            qpn: caller.1,
        });
    }

    fn may_bind(
        &self,
        window: usize,
        region: Option<usize>,
        range: Range,
        access: u32,
        caller: Caller,
    ) -> bool {
        let window = &self.windows[window];
        let type_1 = window.kind == IBV_MW_TYPE_1;
        let free = type_1 || window.bound.is_none();
        if !window.alive || window.pd != caller.0 || !free {
            return false;
        }
        let Some(region) = region else {
            return type_1;
        };
        let region = &self.regions[region];
        let changes = access & WRITE != 0;
        region.alive
            && region.pd == caller.0
            && region.access & IBV_ACCESS_MW_BIND != 0
            && access != IBV_ACCESS_MW_BIND
            && (!changes || region.access & IBV_ACCESS_LOCAL_WRITE != 0)
            && range.0 >= region.start
            && range.0 + range.1 <= region.start + region.length
    }

    fn invalidate(&mut self, key: u32, caller: Caller) {
        let who = self.peer(caller);
        let window = self.windows.iter_mut().find(|window| {
            let type_2 = window.kind == IBV_MW_TYPE_2;
            let bound = window.bound.as_ref();
            let qpn = bound.is_some_and(|bound| bound.qpn == caller.1);
            window.alive && window.rkey == key && type_2 && qpn && window.pd == caller.0
        });
        let done = self.keys.invalidate(who, key, key & 1 == 0);
        assert_eq!(done.is_ok(), window.is_some());
        if let Some(window) = window {
            window.bound = None;
        }
    }

    fn write(&mut self, key: u32, range: Range, caller: Caller) {
        for (shift, address) in self.shifts(range) {
            self.fill = self.fill.wrapping_add(1);
            let data = vec![self.fill; size(range.1)];
            let open = self.remote(key, caller, WRITE);
            let place = open.and_then(|open| Self::place(&open, shift, range));
            let done =
                self.keys
                    .using(AccessMode::Direct)
                    .write(self.peer(caller), key, address, &data);
            assert_eq!(done.is_ok(), place.is_some() || range.1 == 0);
            if let Some(place) = place {
                self.bytes[place].fill(self.fill);
            }
        }
    }

    fn read(&mut self, key: u32, range: Range, caller: Caller) {
        for (shift, address) in self.shifts(range) {
            let mut data = vec![0; size(range.1)];
            let open = self.remote(key, caller, READ);
            let place = open.and_then(|open| Self::place(&open, shift, range));
            let done = self.keys.using(AccessMode::Direct).read(
                self.peer(caller),
                key,
                address,
                &mut data,
                &mut FoundPage::default(),
            );
            assert_eq!(done.is_ok(), place.is_some() || range.1 == 0);
            if let Some(place) = place {
                assert_eq!(data, self.bytes[place]);
            }
        }
    }

    fn gather(&mut self, key: u32, range: Range, pd: usize) {
        for (shift, address) in self.shifts(range) {
            let mut data = vec![0; size(range.1)];
            let region = self
                .regions
                .iter()
                .find(|region| region.alive && region.mr.key() == key && region.pd == pd);
            let open = region.map(|region| Open {
                start: region.start,
                length: region.length,
                shift: region.shift,
            });
            let place = open.and_then(|open| Self::place(&open, shift, range));
            let length = u32::try_from(range.1).expect("small");
            let done = self.keys.using(AccessMode::Direct).gather(
                self.pds[pd],
                sge(key, address, length),
                &mut data,
            );
            assert_eq!(done.is_ok(), place.is_some() || range.1 == 0);
            if let Some(place) = place {
                assert_eq!(data, self.bytes[place]);
            }
        }
    }
}

proptest! {
    #[test]
    fn keys_follow_the_model(steps in steps()) {
        let mut model = Model::new();
        for step in &steps {
            model.step(step);
        }
        let mut memory = vec![0; model.bytes.len()];
        model.scratch.memory().read(0, &mut memory).expect("inside");
        prop_assert_eq!(memory, model.bytes);
        prop_assert!(model.scratch.unmap().is_ok());
    }
}
