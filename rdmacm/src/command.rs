#![forbid(unsafe_code)]
//! An id at a connection manager that takes the kernel's commands.

use crate::abi::{Address, Conn};
use crate::backend::Backend;
use crate::request::Request;
use crate::source::Source;
use bytemuck::Zeroable;
use kit::abi::kernel::ib_uverbs_qp_attr;
use kit::cm::*;
use kit::errno::Result;

/// The channel to which an id sends its commands.
pub trait File: Send + Sync + Sized + 'static {
    /// # Errors
    /// The command's; EBADF after the channel is destroyed.
    #[inline(always)]
    fn ask<C: Command>(&self, command: C) -> Result<C::Response> {
        let mut response = Zeroable::zeroed();
        self.ask_into(&mut Request::of(command), &mut response)?;
        Ok(response)
    }

    /// The same, with a response that is filled in. Members that an older kernel does not write
    /// remain.
    ///
    /// # Errors
    /// As above.
    fn ask_into<C: Command>(
        &self,
        request: &mut Request<C>,
        response: &mut C::Response,
    ) -> Result<()>;

    /// # Errors
    /// The command's.
    fn set_option(&self, command: SetOption, value: &[u8]) -> Result<()>;

    /// Moves an id to another channel, and returns the number of events that were delivered.
    ///
    /// # Errors
    /// EINVAL for a channel of another connection manager; the command's.
    fn migrate(&self, number: u32, to: &Source) -> Result<u32>;

    /// The same, for a request that arrived at the id.
    fn of_request(&self) -> Self;

    /// The channel is destroyed.
    fn orphan(&self);
}

/// An id: a number on a channel.
pub struct CommandId<F> {
    file: F,
    number: u32,
}

impl<F: File> CommandId<F> {
    /// Makes an id whose events contain `uid`.
    ///
    /// # Errors
    /// EINVAL for an unknown port space.
    pub fn create(file: F, uid: u64, port_space: u32, qp_type: u32) -> Result<Self> {
        let created = file.ask(CreateId {
            uid,
            // The kernel's field is shorter than the enumeration: a larger value is invalid.
            ps: u16::try_from(port_space).unwrap_or(0),
            qp_type: u8::try_from(qp_type).unwrap_or(0),
            ..CreateId::default()
        })?;
        Ok(Self {
            file,
            number: created.number,
        })
    }

    /// The id of a request that came to this listener.
    pub fn of_request(&self, number: u32) -> Self {
        Self {
            file: self.file.of_request(),
            number,
        }
    }

    fn addresses(&self, option: u32, found: &mut Addresses) -> Result<()> {
        let query = QueryAddr {
            id: self.number,
            option,
            ..QueryAddr::default()
        };
        self.file.ask_into(&mut Request::of(query), found)
    }
}

impl<F: File> Backend for CommandId<F> {
    fn destroy(&self) -> Result<u32> {
        let destroy = DestroyId {
            id: self.number,
            ..DestroyId::default()
        };
        self.file.ask(destroy).map(|answer| answer.number)
    }

    fn bind(&self, address: &Address) -> Result<()> {
        self.file.ask(Bind {
            id: self.number,
            addr_size: address.size(),
            reserved: 0,
            addr: address.storage(),
        })
    }

    fn resolve_addr(
        &self,
        source: Option<&Address>,
        destination: &Address,
        milliseconds: i32,
    ) -> Result<()> {
        let mut request = Request::<ResolveAddr>::zeroed();
        let command = &mut request.command;
        command.id = self.number;
        command.timeout_ms = milliseconds.cast_unsigned();
        if let Some(source) = source {
            command.src_size = source.size();
            source.write_to(&mut command.src_addr);
        }
        command.dst_size = destination.size();
        destination.write_to(&mut command.dst_addr);
        self.file.ask_into(&mut request, &mut ())
    }

    fn resolve_route(&self, milliseconds: i32) -> Result<()> {
        self.file.ask(ResolveRoute {
            id: self.number,
            timeout_ms: milliseconds.cast_unsigned(),
        })
    }

    fn binding(&self, found: &mut Addresses) -> Result<()> {
        // Kernels before 5.6 do not report the index.
        found.ibdev_index = u32::MAX;
        self.addresses(query::ADDR, found)
    }

    fn gids(&self, found: &mut Addresses) -> Result<()> {
        self.addresses(query::GID, found)
    }

    fn paths(&self, found: &mut Paths) -> Result<()> {
        let query = QueryPath {
            id: self.number,
            option: query::PATH,
            ..QueryPath::default()
        };
        self.file.ask_into(&mut Request::of(query), found)
    }

    fn listen(&self, backlog: i32) -> Result<()> {
        self.file.ask(Listen {
            id: self.number,
            backlog,
        })
    }

    fn connect(&self, conn: &Conn, data: [&[u8]; 2], ece: Ece) -> Result<()> {
        let mut request = Request::<Connect>::zeroed();
        let command = &mut request.command;
        conn.write_to(&mut command.conn_param);
        data.iter().for_each(|data| command.conn_param.append(data));
        command.id = self.number;
        command.ece = ece;
        self.file.ask_into(&mut request, &mut ())
    }

    fn accept(&self, uid: u64, given: Option<(&Conn, &[u8])>, ece: Ece) -> Result<()> {
        let mut request = Request::<Accept>::zeroed();
        let command = &mut request.command;
        command.uid = uid;
        if let Some((conn, data)) = given {
            conn.write_to(&mut command.conn_param);
            command.conn_param.append(data);
        }
        command.id = self.number;
        command.ece = ece;
        self.file.ask_into(&mut request, &mut ())
    }

    fn reject(&self, reason: u8, data: &[u8]) -> Result<()> {
        let mut command = Reject {
            id: self.number,
            reason,
            ..Reject::zeroed()
        };
        let length = u8::try_from(data.len()).unwrap_or(u8::MAX);
        command.private_data_len = length;
        command.private_data[..length.into()].copy_from_slice(&data[..length.into()]);
        self.file.ask(command)
    }

    fn disconnect(&self) -> Result<()> {
        self.file.ask(Disconnect { id: self.number })
    }

    fn notify(&self, event: u32) -> Result<()> {
        self.file.ask(Notify {
            id: self.number,
            event,
        })
    }

    fn qp_attr(&self, state: u32, attr: &mut ib_uverbs_qp_attr) -> Result<()> {
        let command = InitQpAttr {
            id: self.number,
            qp_state: state,
            ..InitQpAttr::default()
        };
        self.file.ask_into(&mut Request::of(command), attr)
    }

    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let command = SetOption {
            optval: 0,
            id: self.number,
            level: level.cast_unsigned(),
            optname: name.cast_unsigned(),
            optlen: u32::try_from(value.len()).unwrap_or(u32::MAX),
        };
        self.file.set_option(command, value)
    }

    fn join(&self, uid: u64, group: &Address, flags: u16) -> Result<u32> {
        let joined = self.file.ask(JoinMulticast {
            response: 0,
            uid,
            id: self.number,
            addr_size: group.size(),
            join_flags: flags,
            addr: group.storage(),
        })?;
        Ok(joined.number)
    }

    fn leave(&self, join: u32) -> Result<u32> {
        let leave = LeaveMulticast {
            id: join,
            ..LeaveMulticast::default()
        };
        self.file.ask(leave).map(|answer| answer.number)
    }

    fn migrate(&self, to: &Source) -> Result<u32> {
        self.file.migrate(self.number, to)
    }

    fn write_event(&self, event: u32, status: i32, arg: u64) -> Result<()> {
        self.file.ask(WriteEvent {
            id: self.number,
            reserved: 0,
            event,
            status,
            arg,
            rest: [0; 296],
        })
    }

    fn orphan(&self) {
        self.file.orphan();
    }

    fn number(&self) -> u32 {
        self.number
    }
}

/// A channel for tests.
#[cfg(test)]
pub mod fake {
    use super::*;
    use bytemuck::bytes_of_mut;
    use kit::sync::Mutex;
    use std::sync::Arc;

    /// Notes the commands, and answers each by the number of delivered events.
    #[derive(Clone)]
    pub struct Fake {
        pub commands: Arc<Mutex<Vec<u32>>>,
        pub events: u32,
    }

    impl File for Fake {
        fn ask_into<C: Command>(
            &self,
            _: &mut Request<C>,
            response: &mut C::Response,
        ) -> Result<()> {
            self.commands.lock().push(C::NUMBER);
            if let Some(number) = bytes_of_mut(response).first_chunk_mut() {
                *number = self.events.to_ne_bytes();
            }
            Ok(())
        }

        fn set_option(&self, _: SetOption, _: &[u8]) -> Result<()> {
            Ok(())
        }

        fn migrate(&self, _: u32, _: &Source) -> Result<u32> {
            Ok(self.events)
        }

        fn of_request(&self) -> Self {
            self.clone()
        }

        fn orphan(&self) {}
    }
}
