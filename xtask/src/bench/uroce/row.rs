//! A row of the table: the work, its reference, and the bound.
#![forbid(unsafe_code)]

/// The bound of the ratio of ours to the peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// Anything: the row is there to compare others with.
    Any,
}

impl Bound {
    pub fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
            Self::Any => true,
        }
    }
}

/// Where a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// This machine, both processes on `lo`.
    Loopback,
    /// This machine, across a pair of Ethernet interfaces with this MTU.
    Pair(u32),
    /// This machine, four hosts with a bridge between them.
    FourHosts,
    /// The virtual machine, across a pair of Ethernet interfaces.
    Guest,
    /// The same, with each end's packets delayed and lost as tc-netem(8) says it.
    Netem(&'static str),
    /// By the test `scale`.
    Scale,
}

/// A run of the bench that measures several locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// This machine.
    Here,
    /// The virtual machine.
    Guest,
}

impl Location {
    /// The run that it belongs to.
    pub fn site(self) -> Option<Site> {
        match self {
            Self::Loopback | Self::Pair(_) | Self::FourHosts => Some(Site::Here),
            Self::Guest | Self::Netem(_) => Some(Site::Guest),
            Self::Scale => None,
        }
    }

    /// Whether each process is on a separate host.
    pub fn has_two_hosts(self) -> bool {
        matches!(self, Self::Pair(_) | Self::Guest | Self::Netem(_))
    }

    /// Rounds at most: emulation is slow, and so are paths with a delay.
    pub fn rounds(self) -> usize {
        match self {
            Self::Loopback | Self::Pair(_) | Self::FourHosts | Self::Scale => usize::MAX,
            Self::Guest => 7,
            Self::Netem(_) => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One way.
    Microseconds,
    /// Millions of messages a second.
    Messages,
    /// Mebibytes a second.
    Mebibytes,
    Bytes,
    /// How often something happens.
    Times,
}

impl Unit {
    /// The figure as a cost: less is better.
    pub fn cost(self, figure: f64) -> f64 {
        match self {
            Self::Microseconds | Self::Bytes | Self::Times => figure,
            Self::Messages | Self::Mebibytes => figure.recip(),
        }
    }
}

/// How uroce's packets travel (`UROCE_CARRIER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Udp,
    Shm,
}

impl Carrier {
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Shm => "shm",
        }
    }
}

/// A program of perftest over some device.
#[derive(Clone, Copy, Debug)]
pub struct Perftest {
    pub program: &'static str,
    pub options: &'static str,
    /// The field of the table's row that is the figure.
    pub field: usize,
}

/// The figure that is taken from the output of `raw`, which is in nanoseconds for one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The median of groups, as microseconds.
    Time,
    /// The mean, as mebibytes a second.
    Bandwidth,
    /// The mean, as millions a second.
    Rate,
}

/// How the sockets of the program `raw` send a datagram to and fro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// The sockets are connected.
    Connected,
    /// Each call names addresses and the time to live, as packets of RoCE v2 need it.
    EachCall,
}

impl Addressing {
    /// The kind of the program.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connected => "udp",
            Self::EachCall => "addressed",
        }
    }
}

/// perftest's fields.
pub const TYPICAL: usize = 4;
pub const AVERAGE: usize = 5;
pub const BANDWIDTH: usize = 3;
pub const RATE: usize = 4;
/// ucx_perftest's fields, behind `Final:`.
pub const UCX_MEDIAN: usize = 1;
pub const UCX_BANDWIDTH: usize = 5;
pub const UCX_RATE: usize = 7;

/// What ucx_perftest does.
#[derive(Clone, Copy, Debug)]
pub struct UcxTest {
    pub test: &'static str,
    /// Bytes of a message.
    pub size: u32,
    pub count: u32,
    /// The field of its last line that is the figure.
    pub field: usize,
}

/// A stream of datagrams as long as packets of RoCE v2.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams {
    /// Bytes of payload, so often.
    pub size: u32,
    pub count: u32,
    /// Bytes of payload of each datagram: the path MTU.
    pub payload: u32,
    /// Both ends also compute the check sum of each, and copy it to or from its place.
    pub checked: bool,
}

/// What the ranks of `guest/mpi-speed.py` do.
#[derive(Clone, Copy, Debug)]
pub struct MpiTest {
    pub test: &'static str,
    /// Bytes of a message.
    pub size: u32,
    pub count: u32,
}

/// The transport of OpenMPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiTransport {
    /// OpenMPI's own.
    Tcp,
    /// UCX over TCP.
    UcxTcp,
    /// UCX over uroce by UDP.
    Uroce,
}

/// The transports that UCX may use.
#[derive(Clone, Copy, Debug)]
pub enum Transports {
    /// The value of `UCX_TLS`.
    Named(&'static str),
    /// Reliable connections over uroce.
    Uroce(Carrier),
}

/// The program that shows a command uroce's devices where UCX looks for them.
pub const SYSFS: &str = "uroce-sysfs";
/// The value of `UCX_TLS` over uroce: reliable connections, which datagrams set up.
pub const UCX_OVER_UROCE: &str = "rc_verbs,ud_verbs:aux,self";

/// A file of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedFile {
    /// In /dev/shm: every process that has it open can shorten it.
    DevShm,
    /// Of memfd_create(2), sealed against being shortened.
    SealedMemfd,
}

/// The work of a row.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// perftest over uroce.
    Uroce(Perftest, Carrier),
    /// The same, with a file of shared memory as each side's buffer.
    UroceShared(Perftest, SharedFile),
    /// perftest over uroce by UDP, while both sides lose packets (`UROCE_FAULTS`).
    Lossy(Perftest, &'static str),
    /// The bytes that this sends over `lo`.
    OnTheWire(Perftest, &'static str),
    /// Nothing is measured: the figure itself.
    Fixed(f64),
    /// ucx_perftest over these transports.
    Ucx(UcxTest, Transports),
    /// OpenMPI on four hosts.
    Mpi(MpiTest, MpiTransport),
    /// The program `raw`: kind, bytes, rounds, and the wanted figure.
    Raw(&'static str, u32, u32, Quantity),
    /// The program `raw` by UDP sockets between the hosts: addressing, bytes, how often.
    Sockets(Addressing, u32, u32),
    /// Messages of 64 bytes by the program `raw` into so many receive queues, how many.
    Queues(u32, u32),
    /// A stream of UDP datagrams between the hosts, by the program `raw`.
    Datagrams(Datagrams),
    /// perftest over the kernel's soft-RoCE.
    Rxe(Perftest),
    /// qperf: the test, the message size.
    Tcp(&'static str, u32),
    /// Nothing of that kind is known.
    Nothing,
}

impl Work {
    /// Whether the library is what does the work.
    pub fn runs_uroce(self) -> bool {
        match self {
            Self::Uroce(..)
            | Self::UroceShared(..)
            | Self::Lossy(..)
            | Self::OnTheWire(..)
            | Self::Ucx(_, Transports::Uroce(_))
            | Self::Mpi(_, MpiTransport::Uroce) => true,
            Self::Fixed(_)
            | Self::Mpi(_, MpiTransport::Tcp | MpiTransport::UcxTcp)
            | Self::Ucx(_, Transports::Named(_))
            | Self::Raw(..)
            | Self::Sockets(..)
            | Self::Queues(..)
            | Self::Datagrams(_)
            | Self::Rxe(_)
            | Self::Tcp(..)
            | Self::Nothing => false,
        }
    }
}

pub struct Row {
    pub name: &'static str,
    pub against: &'static str,
    pub place: Location,
    pub unit: Unit,
    pub bound: Bound,
    pub ours: Work,
    pub peer: Work,
}

pub const MEMORY: &str = "memory per idle RC queue pair, 10000 connected in one process";
pub const WAKE_UPS: &str = "wake-ups in 3 s of a process with 10000 idle RC queue pairs";

pub const fn udp(program: &'static str, options: &'static str, field: usize) -> Work {
    let perftest = Perftest {
        program,
        options,
        field,
    };
    Work::Uroce(perftest, Carrier::Udp)
}

pub const fn shm(program: &'static str, options: &'static str, field: usize) -> Work {
    let perftest = Perftest {
        program,
        options,
        field,
    };
    Work::Uroce(perftest, Carrier::Shm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_met_at_their_edge() {
        assert!(Bound::AtMost(1.2).is_met(1.2));
        assert!(!Bound::AtMost(1.2).is_met(1.21));
        assert!(Bound::AtLeast(0.95).is_met(0.95));
        assert!(!Bound::AtLeast(0.95).is_met(0.94));
        assert!(Bound::Any.is_met(7.0));
    }
}
