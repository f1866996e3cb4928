#![forbid(unsafe_code)]
//! Options of sockets: rsetsockopt, rgetsockopt.

use super::datagram::DatagramState;
use super::socket::{Kind, Socket};
use super::stream::{Phase, StreamState};
use crate::{address, path};
use kit::errno::{Errno, Result};
use rustix::net::sockopt;

/// `SOL_RDMA`, and its names.
pub const SOL_RDMA: i32 = 0x10000;
mod rdma {
    pub const SQSIZE: i32 = 0;
    pub const RQSIZE: i32 = 1;
    pub const INLINE: i32 = 2;
    pub const IOMAPSIZE: i32 = 3;
    pub const ROUTE: i32 = 4;
}
/// `RDMA_OPTION_ID` and its names.
mod id_option {
    pub const LEVEL: i32 = 0;
    pub const TOS: i32 = 0;
    pub const REUSEADDR: i32 = 1;
    pub const AFONLY: i32 = 2;
}

/// Segment size before there is a path.
const MAX_SEGMENT: i32 = 2048;

/// The number in an option of the program.
///
/// # Errors
/// EINVAL for fewer bytes than an `int` has.
fn number(value: &[u8]) -> Result<i32> {
    let bytes = value.first_chunk().ok_or(Errno::INVAL)?;
    Ok(i32::from_ne_bytes(*bytes))
}

fn size(value: &[u8]) -> Result<u32> {
    u32::try_from(number(value)?).map_err(|_| Errno::INVAL)
}

const UNKNOWN: Errno = Errno(libc::ENOTSUP);

impl Socket {
    /// # Errors
    /// Those of the kind of the socket; EINVAL and EDOM for an invalid time.
    pub fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => return self.receive_timeout.set(value),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => return self.send_timeout.set(value),
            _ => {}
        }
        match &self.kind {
            Kind::Stream(state) => state.lock().set_option(level, name, value),
            Kind::Datagram(state) => state.lock().set_option(level, name, value),
        }
    }

    /// The value of an option.
    ///
    /// # Errors
    /// Those of the kind of the socket.
    pub fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        if level == libc::SOL_SOCKET
            && let Some(value) = self.own_option(name)
        {
            return Ok(value);
        }
        match &self.kind {
            Kind::Stream(state) => state.lock().option(level, name),
            Kind::Datagram(state) => state.lock().option(level, name),
        }
    }

    /// An option of `SOL_SOCKET` that each kind has.
    fn own_option(&self, name: i32) -> Option<Vec<u8>> {
        let (kind, protocol, is_listening) = match &self.kind {
            Kind::Stream(state) => {
                let is_listening = matches!(state.lock().phase, Phase::Listening(_));
                (libc::SOCK_STREAM, libc::IPPROTO_TCP, is_listening)
            }
            Kind::Datagram(_) => (libc::SOCK_DGRAM, libc::IPPROTO_UDP, false),
        };
        let number = match name {
            libc::SO_RCVTIMEO => return Some(self.receive_timeout.option()),
            libc::SO_SNDTIMEO => return Some(self.send_timeout.option()),
            libc::SO_TYPE => kind,
            libc::SO_PROTOCOL => protocol,
            libc::SO_DOMAIN => self.family,
            libc::SO_ACCEPTCONN => is_listening.into(),
            _ => return None,
        };
        Some(number.to_ne_bytes().to_vec())
    }
}

impl StreamState {
    /// # Errors
    /// ENOTSUP for an unknown option; EINVAL for an invalid value, and for sizes after connecting
    /// has begun; the connection manager's.
    pub fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        match level {
            libc::SOL_SOCKET => self.set_socket_option(name, value),
            libc::IPPROTO_TCP => self.set_tcp_option(name, value),
            libc::IPPROTO_IPV6 if name == libc::IPV6_V6ONLY => {
                self.options.v6_only = number(value)? != 0;
                let flag = i32::from(self.options.v6_only).to_ne_bytes();
                address::set_option(&self.cm.id, id_option::LEVEL, id_option::AFONLY, &flag)
            }
            libc::IPPROTO_IP if name == libc::IP_TOS => {
                self.options.tos = number(value)?;
                let [tos, ..] = self.options.tos.to_le_bytes();
                address::set_option(&self.cm.id, id_option::LEVEL, id_option::TOS, &[tos])
            }
            SOL_RDMA => self.set_rdma_option(name, value),
            _ => Err(UNKNOWN),
        }
    }

    fn set_socket_option(&mut self, name: i32, value: &[u8]) -> Result<()> {
        match name {
            libc::SO_REUSEADDR => {
                self.options.reuse_address = number(value)? != 0;
                let flag = i32::from(self.options.reuse_address).to_ne_bytes();
                let set =
                    address::set_option(&self.cm.id, id_option::LEVEL, id_option::REUSEADDR, &flag);
                // Kernels without this option have no other behaviour.
                match set {
                    Err(Errno::NOSYS) => Ok(()),
                    other => other,
                }
            }
            libc::SO_RCVBUF => {
                let wanted = size(value)?;
                if self.is_fresh() || matches!(self.phase, Phase::Listening(_)) {
                    self.sizes.set_receive_buffer(wanted.saturating_mul(2));
                }
                Ok(())
            }
            libc::SO_SNDBUF => {
                let wanted = size(value)?;
                if self.is_fresh() || matches!(self.phase, Phase::Listening(_)) {
                    self.sizes.set_send_buffer(wanted.saturating_mul(2));
                }
                Ok(())
            }
            libc::SO_LINGER => {
                let (on, seconds) = value.split_first_chunk::<4>().ok_or(Errno::INVAL)?;
                self.options.linger = (i32::from_ne_bytes(*on), number(seconds)?);
                Ok(())
            }
            libc::SO_KEEPALIVE => {
                self.options.keep_alive = number(value)? != 0;
                Ok(())
            }
            libc::SO_OOBINLINE => {
                self.options.oob_inline = number(value)? != 0;
                Ok(())
            }
            _ => Err(UNKNOWN),
        }
    }

    fn set_tcp_option(&mut self, name: i32, value: &[u8]) -> Result<()> {
        let options = &mut self.options;
        match name {
            libc::TCP_NODELAY => options.no_delay = number(value)? != 0,
            libc::TCP_MAXSEG => options.max_segment = Some(number(value)?),
            libc::TCP_KEEPIDLE => match size(value)? {
                0 => return Err(Errno::INVAL),
                seconds => options.keep_idle = Some(seconds),
            },
            libc::TCP_KEEPINTVL => options.keep_interval = size(value)?,
            libc::TCP_KEEPCNT => options.keep_count = size(value)?,
            _ => return Err(UNKNOWN),
        }
        Ok(())
    }

    fn set_rdma_option(&mut self, name: i32, value: &[u8]) -> Result<()> {
        if !self.is_fresh() {
            return Err(Errno::INVAL);
        }
        match name {
            rdma::SQSIZE => self.sizes.set_send_queue(size(value)?),
            rdma::RQSIZE => self.sizes.set_receive_queue(size(value)?),
            rdma::INLINE => self.sizes.set_inline(size(value)?),
            rdma::IOMAPSIZE => self.sizes.set_iomap(size(value)?),
            rdma::ROUTE => self.options.route = value.to_vec(),
            _ => return Err(UNKNOWN),
        }
        Ok(())
    }

    /// The value of an option.
    ///
    /// # Errors
    /// ENOTSUP for an unknown option; EINVAL for a buffer smaller than a number.
    pub fn option(&mut self, level: i32, name: i32) -> Result<Vec<u8>> {
        let options = &self.options;
        let int = |value: i32| Ok(value.to_ne_bytes().to_vec());
        let word = |value: u32| Ok(value.to_ne_bytes().to_vec());
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = self.error.take().map_or_else(|| self.failure(), |e| e.0);
                int(error)
            }
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => int(options.reuse_address.into()),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => word(self.sizes.receive_buffer),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => word(self.sizes.send_buffer),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let (on, seconds) = options.linger;
                Ok([on.to_ne_bytes(), seconds.to_ne_bytes()].concat())
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => int(options.keep_alive.into()),
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => int(options.oob_inline.into()),
            (libc::SOL_SOCKET, libc::SO_BROADCAST) => int(0),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => int(options.no_delay.into()),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                int(options.max_segment.unwrap_or_else(|| self.path_mtu()))
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => word(options.idle()),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => word(options.keep_interval),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => word(options.keep_count),
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => int(options.v6_only.into()),
            (libc::IPPROTO_IP, libc::IP_TOS) => int(options.tos),
            (SOL_RDMA, rdma::SQSIZE) => word(self.sizes.send_queue),
            (SOL_RDMA, rdma::RQSIZE) => word(self.sizes.receive_queue),
            (SOL_RDMA, rdma::INLINE) => word(self.inline()),
            (SOL_RDMA, rdma::IOMAPSIZE) => word(self.sizes.iomap),
            (SOL_RDMA, rdma::ROUTE) => Ok(options.route.clone()),
            _ => Err(UNKNOWN),
        }
    }

    /// The device may accept more inline data than requested.
    fn inline(&self) -> u32 {
        match &self.phase {
            Phase::Connected(connection) => {
                let inline = connection.endpoint.limits.inline;
                u32::try_from(inline).unwrap_or(u32::MAX)
            }
            _ => self.sizes.inline,
        }
    }

    /// Bytes of a packet on the path.
    fn path_mtu(&self) -> i32 {
        let path = self.cm.id.backend().and_then(path::first);
        let mtu = path.ok().flatten().map(|path| path.mtu);
        // An enumeration: 1 is 256 bytes, each following value twice as many.
        mtu.map_or(MAX_SEGMENT, |mtu| 128 << mtu.clamp(1, 5))
    }

    fn failure(&self) -> i32 {
        match &self.phase {
            Phase::Connected(connection) if connection.stream.has_failed() => libc::EIO,
            _ => 0,
        }
    }
}

impl DatagramState {
    /// # Errors
    /// ENOTSUP for an unknown option; EINVAL for an invalid value, and for sizes after the first
    /// use; those of setsockopt(2).
    pub fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                sockopt::set_socket_reuseaddr(self.udp(), number(value)? != 0)?;
            }
            (libc::SOL_SOCKET, libc::SO_BROADCAST) => {
                sockopt::set_socket_broadcast(self.udp(), number(value)? != 0)?;
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                self.sizes
                    .set_receive_buffer(size(value)?.saturating_mul(2));
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                self.sizes.set_send_buffer(size(value)?.saturating_mul(2));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
                sockopt::set_ipv6_v6only(self.udp(), number(value)? != 0)?;
            }
            (SOL_RDMA, _) if !self.is_fresh() => return Err(Errno::INVAL),
            (SOL_RDMA, rdma::SQSIZE) => self.sizes.set_send_queue(size(value)?),
            (SOL_RDMA, rdma::RQSIZE) => self.sizes.set_receive_queue(size(value)?),
            (SOL_RDMA, rdma::INLINE) => self.sizes.set_inline(size(value)?),
            _ => return Err(UNKNOWN),
        }
        Ok(())
    }

    /// The value of an option.
    ///
    /// # Errors
    /// ENOTSUP for an unknown option; those of getsockopt(2).
    pub fn option(&mut self, level: i32, name: i32) -> Result<Vec<u8>> {
        let value = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => 0,
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                u32::from(sockopt::socket_reuseaddr(self.udp())?)
            }
            (libc::SOL_SOCKET, libc::SO_BROADCAST) => {
                u32::from(sockopt::socket_broadcast(self.udp())?)
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => self.sizes.receive_buffer,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.sizes.send_buffer,
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => u32::from(sockopt::ipv6_v6only(self.udp())?),
            (SOL_RDMA, rdma::SQSIZE) => self.sizes.send_queue,
            (SOL_RDMA, rdma::RQSIZE) => self.sizes.receive_queue,
            (SOL_RDMA, rdma::INLINE) => self.sizes.inline,
            _ => return Err(UNKNOWN),
        };
        Ok(value.to_ne_bytes().to_vec())
    }
}
