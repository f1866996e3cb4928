#![forbid(unsafe_code)]
//! Keys, and the memory that they give access to.

use super::requests::Piece;
use super::{Kind, World};
use kit::abi::*;
use std::collections::{BTreeMap, BTreeSet};

/// Keys that are remembered after their regions are gone.
const REMEMBERED: usize = 65536;

/// A region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    object: usize,
    pd: usize,
    /// The first address by which work requests name it, and its bytes.
    iova: u64,
    length: u64,
    access: u32,
    /// Where it lies, if in the process's memory.
    memory: Option<(usize, usize)>,
}

/// Regions by context and local key.
#[derive(Debug, Default)]
pub struct Regions {
    live: BTreeMap<(usize, u32), Region>,
    keys: BTreeMap<usize, (usize, u32)>,
    /// The names of those that are gone.
    dead: BTreeMap<(usize, u32), String>,
    /// Domains that wrap another.
    parents: BTreeMap<usize, usize>,
    /// Contexts whose keys all come from observed calls.
    all_seen: BTreeSet<usize>,
}

impl Regions {
    fn base(&self, pd: usize) -> usize {
        self.parents.get(&pd).copied().unwrap_or(pd)
    }

    /// Forgets a region by its object.
    pub fn remove(&mut self, object: usize) {
        self.parents.remove(&object);
        let Some(key) = self.keys.remove(&object) else {
            return;
        };
        let live = self.live.get(&key).copied();
        // The key may be another region's already.
        if let Some(region) = live.filter(|region| region.object == object) {
            self.live.remove(&key);
            if self.dead.len() >= REMEMBERED {
                self.dead.pop_first();
            }
            let name = format!("{:#x}+{}", region.iova, region.length);
            self.dead.insert(key, name);
        }
    }

    /// Forgets a context.
    pub fn close(&mut self, context: usize) {
        self.live.retain(|(owner, _), _| *owner != context);
        self.dead.retain(|(owner, _), _| *owner != context);
        self.all_seen.remove(&context);
    }
}

/// A registration that worked.
#[derive(Clone, Copy, Debug)]
pub struct NewRegion {
    /// Address of the `ibv_mr`.
    pub object: usize,
    /// Its context.
    pub context: usize,
    /// Its domain.
    pub pd: usize,
    /// `lkey`.
    pub lkey: u32,
    /// The first address by which work requests name it.
    pub iova: u64,
    /// Bytes.
    pub length: u64,
    /// Access flags.
    pub access: u32,
    /// Where it lies, if in the process's memory.
    pub memory: Option<(usize, usize)>,
}

impl World {
    /// Notes that a context's keys are all made by calls that are seen here.
    pub fn keys_are_seen(&mut self, context: usize) {
        self.regions.all_seen.insert(context);
    }

    /// Notes a domain that wraps another.
    pub fn parent_domain(&mut self, pd: usize, base: usize) {
        let base = self.regions.base(base);
        self.regions.parents.insert(pd, base);
    }

    /// Notes a new region.
    pub fn registered(&mut self, new: &NewRegion) {
        let label = format!(
            "lkey {:#x}, {} bytes at {:#x}",
            new.lkey, new.length, new.iova
        );
        self.made(Kind::Region, new.object, new.context, &label);
        self.put(new);
    }

    /// Records a region after its change.
    pub fn reregistered(&mut self, new: &NewRegion) {
        self.regions.remove(new.object);
        self.put(new);
    }

    fn put(&mut self, new: &NewRegion) {
        let key = (new.context, new.lkey);
        self.regions.dead.remove(&key);
        let region = Region {
            object: new.object,
            pd: self.regions.base(new.pd),
            iova: new.iova,
            length: new.length,
            access: new.access,
            memory: new.memory,
        };
        self.regions.keys.insert(new.object, key);
        self.regions.live.insert(key, region);
    }

    /// The memory of a region that is about to be deregistered.
    pub fn memory_of(&self, object: usize) -> Option<(usize, usize)> {
        let key = self.regions.keys.get(&object)?;
        self.regions.live.get(key)?.memory
    }

    /// Reports a region whose memory is not mapped any more.
    pub fn unmapped(&mut self, object: usize) {
        let name = self.objects.name(object);
        self.find("unmapped", object, || {
            format!(
                "The memory of {name} was unmapped while it was registered: deregister first. The \
                 device may have used pages that no process sees, or memory that was mapped there \
                 later."
            )
        });
    }

    /// Checks one piece of a queue's request. `written` means that the device writes there.
    pub fn check_piece(
        &mut self,
        queue: usize,
        context: usize,
        pd: usize,
        p: Piece,
        written: bool,
    ) {
        if p.length == 0 {
            return;
        }
        let name = self.objects.name(queue);
        let key = p.lkey;
        let Some(region) = self.regions.live.get(&(context, key)).copied() else {
            self.unknown_key(queue, context, key, &name);
            return;
        };
        if region.pd != self.regions.base(pd) {
            self.find("domain", queue, || {
                format!(
                    "A request on {name} uses lkey {key:#x}, whose region is of another protection \
                     domain than the queue."
                )
            });
        }
        let (begin, end) = (p.addr, p.addr.saturating_add(p.length));
        let zero = region.access & IBV_ACCESS_ZERO_BASED != 0;
        let first = if zero { 0 } else { region.iova };
        let behind = first.saturating_add(region.length);
        if begin < first || end > behind {
            self.find("range", queue, || {
                format!(
                    "A request on {name} names {begin:#x}..{end:#x}, which is not inside the \
                     region of lkey {key:#x}, {first:#x}..{behind:#x}."
                )
            });
        }
        if written && region.access & IBV_ACCESS_LOCAL_WRITE == 0 {
            self.find("access", queue, || {
                format!(
                    "A request on {name} has the device write to the region of lkey {key:#x}, \
                     which was registered without IBV_ACCESS_LOCAL_WRITE."
                )
            });
        }
    }

    fn unknown_key(&mut self, queue: usize, context: usize, key: u32, name: &str) {
        if let Some(gone) = self.regions.dead.get(&(context, key)).cloned() {
            self.find("key", queue, || {
                format!(
                    "A request on {name} uses lkey {key:#x}, whose region ({gone}) was \
                     deregistered."
                )
            });
        } else if self.regions.all_seen.contains(&context) {
            self.find("key", queue, || {
                format!(
                    "A request on {name} uses lkey {key:#x}, which no region of the device has."
                )
            });
        }
    }
}
