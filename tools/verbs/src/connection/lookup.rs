//! Addresses of names.
#![forbid(unsafe_code)]

use std::{
    ffi::CString,
    io,
    net::{SocketAddr, ToSocketAddrs},
    vec,
};

use kit::{
    abi::{IBV_QPT_RC, IBV_QPT_UD},
    cm::port_space::{RDMA_PS_TCP, RDMA_PS_UDP},
};

use crate::{
    error::{Error, Result},
    sys::cm::lookup::{Address, FAMILY, NO_ROUTE, NUMERIC_HOST, PASSIVE, find},
};

impl Address {
    /// Whether it is the address of a listener.
    #[must_use]
    pub fn is_passive(&self) -> bool {
        self.flags & PASSIVE != 0
    }

    /// Whether it is for datagrams.
    #[must_use]
    pub fn is_datagram(&self) -> bool {
        self.queue_pair_type == IBV_QPT_UD
    }
}

impl ToSocketAddrs for Address {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let address = match self.is_passive() {
            true => self.source,
            false => self.destination,
        };
        Ok(Vec::from_iter(address).into_iter())
    }
}

/// A question for the addresses of a name: rdma_getaddrinfo(3).
///
/// ```
/// use verbs::connection::{Connection, Listener, Lookup};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # verbs::use_uroce("lo");
/// let here = Lookup::new().passive().find(Some("127.0.0.1"), Some("0"))?;
/// let listener = Listener::bind(&here[0])?;
/// let port = listener.local_addr().ok_or("no address")?.port().to_string();
/// # let server = std::thread::spawn(move || listener.accept());
/// let there = Lookup::new().find(Some("127.0.0.1"), Some(&port))?;
/// let connection = Connection::connect(&there[0])?;
/// # server.join().map_err(|_| "panicked")??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "`find` asks"]
pub struct Lookup(Address);

impl Lookup {
    /// Any address, for a reliable connection or datagrams.
    pub fn new() -> Self {
        Self::default()
    }

    /// The address of a listener. Without a node it is that of all interfaces.
    pub fn passive(mut self) -> Self {
        self.0.flags |= PASSIVE;
        self
    }

    /// The node is a number: no name is looked up.
    pub fn numeric_host(mut self) -> Self {
        self.0.flags |= NUMERIC_HOST;
        self
    }

    /// No route is looked up.
    pub fn no_route(mut self) -> Self {
        self.0.flags |= NO_ROUTE;
        self
    }

    /// Addresses of IPv4.
    pub fn ipv4(self) -> Self {
        self.family(libc::AF_INET)
    }

    /// Addresses of IPv6.
    pub fn ipv6(self) -> Self {
        self.family(libc::AF_INET6)
    }

    fn family(mut self, family: i32) -> Self {
        self.0.flags |= FAMILY;
        self.0.family = family;
        self
    }

    /// For reliable connections.
    pub fn reliable(self) -> Self {
        self.port_space(RDMA_PS_TCP).queue_pair_type(IBV_QPT_RC)
    }

    /// For datagrams.
    pub fn datagrams(self) -> Self {
        self.port_space(RDMA_PS_UDP).queue_pair_type(IBV_QPT_UD)
    }

    /// For a port space: `enum rdma_port_space`.
    pub fn port_space(mut self, space: u32) -> Self {
        self.0.port_space = space;
        self
    }

    /// For a type of queue pair: `enum ibv_qp_type`, [`abi`](crate::abi)`::IBV_QPT_*`.
    pub fn queue_pair_type(mut self, kind: u32) -> Self {
        self.0.queue_pair_type = kind;
        self
    }

    /// The address of this end, for an answer that has none.
    pub fn source(mut self, address: SocketAddr) -> Self {
        self.0.source = Some(address);
        self
    }

    /// The address of the other end, for a question without a node and a service.
    pub fn destination(mut self, address: SocketAddr) -> Self {
        self.0.destination = Some(address);
        self
    }

    /// Asks for a node, which is a name or a number, and a service, which is a name or a port. It
    /// waits for the answer.
    ///
    /// # Errors
    /// Of rdma_getaddrinfo(3): EADDRNOTAVAIL if no address has this name and service, EAGAIN if the
    /// question may be asked again, ENODEV where there is no device; EINVAL for a name with a zero
    /// byte, and without a node, a service and hints.
    pub fn find(&self, node: Option<&str>, service: Option<&str>) -> Result<Vec<Address>> {
        let invalid = Error::new("rdma_getaddrinfo", libc::EINVAL);
        let text = |text: Option<&str>| {
            let text = text.map(CString::new).transpose();
            text.map_err(|_| invalid.because("a name with a zero byte"))
        };
        let (node, service) = (text(node)?, text(service)?);
        find(node.as_ref(), service.as_ref(), &self.0)
    }
}
