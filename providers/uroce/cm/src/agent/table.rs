//! Connections and resolutions by the ids in messages. Each change goes through [`Table::change`],
//! which updates the indices.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use super::{
    connection::Connection,
    event::Id,
    resolution::{Answering, Asking},
};

/// A connection or resolution, and the way to its peer.
#[derive(Debug)]
pub struct Entry<P> {
    pub path: P,
    pub role: Role,
    /// The listener whose backlog it counts in, until the program has answered.
    pub pending: Option<u64>,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // connections are the common case
pub enum Role {
    Connection(Connection),
    Asking(Asking),
    Answering(Answering),
}

/// The keys of an entry besides its id, as they were when it was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keys<P> {
    peer: Option<(u64, u32)>,
    qp: Option<(u64, u32)>,
    request: Option<(P, u32)>,
    deadline: Option<u64>,
}

#[derive(Debug)]
pub struct Table<P> {
    entries: HashMap<Id, Entry<P>>,
    peers: HashMap<(u64, u32), Id>,
    qps: HashMap<(u64, u32), Id>,
    requests: HashMap<(P, u32), Id>,
    deadlines: BTreeSet<(u64, Id)>,
}

impl<P> Default for Table<P> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            peers: HashMap::new(),
            qps: HashMap::new(),
            requests: HashMap::new(),
            deadlines: BTreeSet::new(),
        }
    }
}

impl<P: Copy + Eq + Hash> Table<P> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, id: Id) -> Option<&Entry<P>> {
        self.entries.get(&id)
    }

    /// All ids.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.entries.keys().copied()
    }

    /// A connection, and the way to its peer.
    pub fn connection(&self, id: Id) -> Option<(P, &Connection)> {
        let entry = self.get(id)?;
        match &entry.role {
            Role::Connection(connection) => Some((entry.path, connection)),
            Role::Asking(_) | Role::Answering(_) => None,
        }
    }

    /// The connection with a peer's GUID and communication id.
    pub fn by_peer(&self, peer: (u64, u32)) -> Option<Id> {
        self.peers.get(&peer).copied()
    }

    /// The connection with a peer's queue pair.
    pub fn by_qp(&self, qp: (u64, u32)) -> Option<Id> {
        self.qps.get(&qp).copied()
    }

    /// The resolution that a request of a peer has made.
    pub fn by_request(&self, request: (P, u32)) -> Option<Id> {
        self.requests.get(&request).copied()
    }

    pub fn deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// An entry whose deadline has passed.
    pub fn due(&self, now: u64) -> Option<Id> {
        let (deadline, id) = *self.deadlines.first()?;
        (deadline <= now).then_some(id)
    }

    pub fn is_over(&self, id: Id) -> bool {
        self.connection(id)
            .is_some_and(|(_, connection)| connection.is_over())
    }

    pub fn insert(&mut self, id: Id, entry: Entry<P>) {
        self.index(id, &keys(&entry));
        self.entries.insert(id, entry);
    }

    pub fn remove(&mut self, id: Id) -> Option<Entry<P>> {
        let entry = self.entries.remove(&id)?;
        self.unindex(id, &keys(&entry));
        Some(entry)
    }

    /// Changes an entry; `None` if it does not exist.
    pub fn change<T>(&mut self, id: Id, run: impl FnOnce(&mut Entry<P>) -> T) -> Option<T> {
        let entry = self.entries.get_mut(&id)?;
        let before = keys(entry);
        let answer = run(entry);
        let after = keys(entry);
        if before != after {
            self.unindex(id, &before);
            self.index(id, &after);
        }
        Some(answer)
    }

    fn index(&mut self, id: Id, keys: &Keys<P>) {
        // The first connection of a peer's queue pair keeps it: later ones are refused while it
        // does.
        keys.peer.map(|key| self.peers.entry(key).or_insert(id));
        keys.qp.map(|key| self.qps.entry(key).or_insert(id));
        keys.request
            .map(|key| self.requests.entry(key).or_insert(id));
        keys.deadline
            .map(|deadline| self.deadlines.insert((deadline, id)));
    }

    fn unindex(&mut self, id: Id, keys: &Keys<P>) {
        if let Some(key) = keys.peer.filter(|key| self.peers.get(key) == Some(&id)) {
            self.peers.remove(&key);
        }
        if let Some(key) = keys.qp.filter(|key| self.qps.get(key) == Some(&id)) {
            self.qps.remove(&key);
        }
        if let Some(key) = keys
            .request
            .filter(|key| self.requests.get(key) == Some(&id))
        {
            self.requests.remove(&key);
        }
        keys.deadline
            .map(|deadline| self.deadlines.remove(&(deadline, id)));
    }
}

fn keys<P: Copy>(entry: &Entry<P>) -> Keys<P> {
    let mut keys = Keys {
        peer: None,
        qp: None,
        request: None,
        deadline: None,
    };
    match &entry.role {
        Role::Connection(connection) => {
            keys.peer = connection.peer();
            keys.qp = connection.peer_qp();
            keys.deadline = connection.deadline();
        }
        Role::Asking(asking) => keys.deadline = Some(asking.deadline()),
        Role::Answering(answering) => keys.request = Some((entry.path, answering.request_id())),
    }
    keys
}
