//! Commands, by number (`linux/include/uapi/rdma/rdma_user_cm.h`).

use super::state::{Cm, Discarded, State};
use super::{address, id};
use bytemuck::Zeroable;
use kit::cm::*;
use kit::errno::{Errno, Result};

/// Splits bytes into the command and the rest.
fn split<C: Command>(bytes: &[u8]) -> Result<(C, &[u8])> {
    let (command, rest) = bytes.split_at_checked(size_of::<C>()).ok_or(Errno::INVAL)?;
    Ok((bytemuck::pod_read_unaligned(command), rest))
}

/// Reads a command, carries it out, and writes the response.
fn carry_out<C: Command>(
    bytes: &[u8],
    response: &mut [u8],
    call: impl FnOnce(&C, &[u8]) -> Result<C::Response>,
) -> Result<()> {
    let (command, rest) = split::<C>(bytes)?;
    let room = response
        .get_mut(..size_of::<C::Response>())
        .ok_or(Errno(libc::ENOSPC))?;
    room.copy_from_slice(bytemuck::bytes_of(&call(&command, rest)?));
    Ok(())
}

impl Cm {
    /// Carries out a command on a channel.
    ///
    /// # Errors
    /// ENODEV if there is no such channel; ENOSYS for an unknown command; ENOSPC without room for
    /// the response; EINVAL for a command that is too short, and for an id of another channel; the
    /// command's own.
    pub fn ask(
        &self,
        channel: u32,
        number: u32,
        command: &[u8],
        response: &mut [u8],
    ) -> Result<()> {
        self.with(|state| {
            if !state.channels.contains_key(&channel) {
                return Err(Errno::NODEV);
            }
            state.ask(channel, number, command, response)
        })
    }
}

impl State {
    fn ask(&mut self, channel: u32, number: u32, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        match number {
            CreateId::NUMBER => carry_out(bytes, out, |c, _| self.create(channel, c)),
            DestroyId::NUMBER => carry_out(bytes, out, |c: &DestroyId, _| {
                self.of(channel, c.id)?;
                self.count(self.ids.contains_key(&c.id).then_some(c.id))
            }),
            Bind::NUMBER => carry_out(bytes, out, |c: &Bind, _| {
                self.of(channel, c.id)?;
                self.bind(c.id, address::parse(&c.addr, c.addr_size)?)
            }),
            ResolveAddr::NUMBER => carry_out(bytes, out, |c: &ResolveAddr, _| {
                self.of(channel, c.id)?;
                let source = match c.src_size {
                    0 => None,
                    size => Some(address::parse(&c.src_addr, size)?),
                };
                let destination = address::parse(&c.dst_addr, c.dst_size)?;
                self.resolve_address(c.id, (source, destination), c.timeout_ms)
            }),
            ResolveRoute::NUMBER => carry_out(bytes, out, |c: &ResolveRoute, _| {
                self.of(channel, c.id)?;
                if c.timeout_ms == 0 {
                    return Err(Errno::INVAL);
                }
                self.resolve_route(c.id)
            }),
            QueryAddr::NUMBER => self.query(channel, bytes, out),
            Listen::NUMBER => carry_out(bytes, out, |c: &Listen, _| {
                self.of(channel, c.id)?;
                self.listen(c.id, c.backlog)
            }),
            Connect::NUMBER => carry_out(bytes, out, |c: &Connect, _| {
                self.of(channel, c.id)?;
                self.connect(c.id, &c.conn_param, c.ece)
            }),
            Accept::NUMBER => carry_out(bytes, out, |c: &Accept, _| {
                self.of(channel, c.id)?;
                match c.conn_param.valid {
                    0 => self.establish(c.id),
                    _ => self.accept(c.id, c.uid, &c.conn_param, c.ece),
                }
            }),
            Reject::NUMBER => carry_out(bytes, out, |c: &Reject, _| {
                self.of(channel, c.id)?;
                let length = usize::from(c.private_data_len);
                let data = c.private_data.get(..length).ok_or(Errno::INVAL)?;
                self.reject(c.id, c.reason, data)
            }),
            Disconnect::NUMBER => carry_out(bytes, out, |c: &Disconnect, _| {
                self.of(channel, c.id)?;
                self.disconnect(c.id)
            }),
            InitQpAttr::NUMBER => carry_out(bytes, out, |c: &InitQpAttr, _| {
                self.of(channel, c.id)?;
                self.id(c.id)?.qp_attr(c.qp_state)
            }),
            GetEvent::NUMBER => carry_out(bytes, out, |_: &GetEvent, _| self.event(channel)),
            SetOption::NUMBER => carry_out(bytes, out, |c: &SetOption, value| {
                self.of(channel, c.id)?;
                self.set_option(c.id, (c.level, c.optname), value)
            }),
            Notify::NUMBER => carry_out(bytes, out, |c: &Notify, _| {
                self.of(channel, c.id)?;
                self.notify(c.id, c.event)
            }),
            JoinMulticast::NUMBER => carry_out(bytes, out, |c: &JoinMulticast, _| {
                self.of(channel, c.id)?;
                let group = address::parse(&c.addr, c.addr_size)?;
                let number = self.join(c.id, c.uid, group, c.join_flags)?;
                Ok(Number { number })
            }),
            LeaveMulticast::NUMBER => carry_out(bytes, out, |c: &LeaveMulticast, _| {
                let number = self.leave(channel, c.id)?;
                Ok(Number { number })
            }),
            MigrateId::NUMBER => carry_out(bytes, out, |c: &MigrateId, _| {
                self.of(c.fd, c.id)?;
                let number = self.migrate(c.id, channel)?;
                Ok(Number { number })
            }),
            WriteEvent::NUMBER => carry_out(bytes, out, |c: &WriteEvent, _| {
                self.of(channel, c.id)?;
                self.post_event(c.id, c.event, c.status, |record| record.set_arg(c.arg));
                Ok(())
            }),
            _ => Err(Errno::NOSYS),
        }
    }

    /// # Errors
    /// ENOENT if there is no such id, EINVAL if it is another channel's.
    fn of(&mut self, channel: u32, number: u32) -> Result<()> {
        let is_its = self.id(number)?.channel == channel;
        is_its.then_some(()).ok_or(Errno::INVAL)
    }

    fn create(&mut self, channel: u32, command: &CreateId) -> Result<Number> {
        let space = id::space_of(command.ps, command.qp_type)?;
        let number = self.number();
        self.ids
            .insert(number, id::Id::new(command.uid, channel, space));
        Ok(Number { number })
    }

    fn count(&mut self, id: Option<u32>) -> Result<Number> {
        let number = id.and_then(|id| self.end(id)).ok_or(Errno::NOENT)?;
        Ok(Number { number })
    }

    fn query(&mut self, channel: u32, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let (question, _) = split::<QueryAddr>(bytes)?;
        self.of(channel, question.id)?;
        let id = self.id(question.id)?;
        match question.option {
            query::ADDR => carry_out(bytes, out, |_: &QueryAddr, _| Ok(id.addresses())),
            query::GID => carry_out(bytes, out, |_: &QueryAddr, _| Ok(id.gids())),
            query::PATH => carry_out(bytes, out, |_: &QueryPath, _| {
                let mut paths = Paths::zeroed();
                if let (Some(path), [first, ..]) = (id.path(), &mut paths.path_data) {
                    *first = path;
                    paths.num_paths = 1;
                }
                Ok(paths)
            }),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Takes the next event of a channel.
    fn event(&mut self, channel: u32) -> Result<Record> {
        let channel = self.channels.get_mut(&channel).ok_or(Errno::NODEV)?;
        let event = channel.pop()?;
        let record = event.record;
        if let Some(id) = self.ids.get_mut(&event.counts_for) {
            id.reported = id.reported.wrapping_add(1);
        }
        if let Some(join) = event.join.and_then(|join| self.joins.get_mut(&join)) {
            join.reported = join.reported.wrapping_add(1);
        }
        if record.event == event_type::CONNECT_REQUEST {
            self.taken(record.id);
        }
        Ok(record)
    }

    /// A program has seen a request: its place in the backlog is free.
    fn taken(&mut self, number: u32) {
        let Some(id) = self.ids.get(&number) else {
            return;
        };
        if let (Some(comm_id), Some(node)) = (id.comm_id, id.node.clone()) {
            self.with_agent(&node, |agent| agent.taken(comm_id));
            self.discarded.push(Discarded::Node(node));
        }
    }

    fn migrate(&mut self, number: u32, to: u32) -> Result<u32> {
        let id = self.id(number)?;
        let (from, reported) = (id.channel, id.reported);
        id.channel = to;
        let moved = self
            .channels
            .get_mut(&from)
            .map(|channel| channel.take(|event| event.counts_for == number));
        let to = self.channels.get_mut(&to).ok_or(Errno::NODEV)?;
        for event in moved.into_iter().flatten() {
            to.push(event);
        }
        Ok(reported)
    }
}
