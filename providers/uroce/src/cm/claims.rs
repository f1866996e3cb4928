//! Bound ports, and their owners among the processes of the user in this network namespace.
//!
//! A claim is a listening abstract socket `\0uroce/<slot>/cm/<port
//! space>/<port>/<address>/<mode>/<token>`, a name that ends with the process. As all names of
//! uroce it proves nothing by itself: only names count for which the kernel confirms the user as
//! owner ([`crate::carrier::registry`]). A process that claims a port first has a name of another
//! mode, and of two that claim the same port at once one gives way
//! ([`election`](crate::carrier::registry::election)). Ports are independent of TCP's and UDP's.
//!
//! A port that was given up may leave a name that claims nothing for a while: a process may claim
//! it, and requests for it wait for that ([`Claim::linger`]). Other releases ignore such names.

use crate::carrier::qpn;
use crate::carrier::registry::election::{Rival, Verdict, judge};
use crate::carrier::registry::{self, Listening, Token, User, owner};
use crate::carrier::udp::Socket;
use crate::named;
use kit::errno::{Errno, Result};
use rustix::net::SocketType;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};
use uroce_cm::ip::PortSpace;

const KIND: SocketType = SocketType::SEQPACKET;
/// How long to wait for another process that gives way, and how often to look.
const PAUSE: Duration = Duration::from_millis(1);
const LOOKS: u32 = 50;

/// The binding of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// One address, of this interface if it is link-local.
    To(IpAddr, u32),
    /// All addresses of IPv4.
    AnyV4,
    /// All of IPv6.
    AnyV6,
    /// All of both.
    Any,
}

impl Bound {
    /// An address that was asked for; `only` is `RDMA_OPTION_ID_AFONLY`.
    pub fn new(address: IpAddr, scope: u32, only: bool) -> Self {
        match address {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Self::AnyV4,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) if only => Self::AnyV6,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Self::Any,
            _ => Self::To(address, scope),
        }
    }

    fn families(&self) -> (bool, bool) {
        match self {
            Self::To(address, _) => (address.is_ipv4(), address.is_ipv6()),
            Self::AnyV4 => (true, false),
            Self::AnyV6 => (false, true),
            Self::Any => (true, true),
        }
    }

    /// Whether requests for an address are for the owner of this one.
    pub fn covers(&self, address: IpAddr, interface: u32) -> bool {
        let (v4, v6) = self.families();
        match self {
            Self::To(own, scope) => *own == address && (*scope == 0 || *scope == interface),
            _ => v4 && address.is_ipv4() || v6 && address.is_ipv6(),
        }
    }

    fn is_wildcard(&self) -> bool {
        !matches!(self, Self::To(..))
    }

    /// Why two claims exclude each other; `None` if they do not.
    fn conflict(&self, other: &Self) -> Option<Errno> {
        let (ours, theirs) = (self.families(), other.families());
        if !(ours.0 && theirs.0 || ours.1 && theirs.1) {
            return None;
        }
        match (self.is_wildcard(), other.is_wildcard()) {
            (false, false) => (self == other).then_some(Errno(libc::EADDRINUSE)),
            (true, true) => Some(Errno(libc::EADDRINUSE)),
            _ => Some(Errno(libc::EADDRNOTAVAIL)),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let bound = match text {
            "any" => Self::Any,
            "any4" => Self::AnyV4,
            "any6" => Self::AnyV6,
            _ => {
                let (address, scope) = text.split_once('%').unwrap_or((text, "0"));
                Self::To(address.parse().ok()?, scope.parse().ok()?)
            }
        };
        (bound.to_string() == text).then_some(bound)
    }
}

impl Display for Bound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::AnyV4 => f.write_str("any4"),
            Self::AnyV6 => f.write_str("any6"),
            Self::To(address, 0) => write!(f, "{address}"),
            Self::To(address, scope) => write!(f, "{address}%{scope}"),
        }
    }
}

/// A claim, by the process of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub slot: u16,
    pub space: PortSpace,
    pub port: u16,
    pub bound: Bound,
    /// `RDMA_OPTION_ID_REUSEADDR`.
    pub shared: bool,
}

/// What a name says of its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Its process is about to claim it.
    Claiming,
    /// It belongs to its process, which does not give way.
    Owned,
    /// It belonged to its process a moment ago.
    Lingering,
}

/// A name of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    port: Port,
    mode: Mode,
    token: Token,
}

impl Named {
    fn parse(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix("uroce/")?.split('/');
        let slot = words.next()?.parse().ok()?;
        if words.next()? != "cm" {
            return None;
        }
        let space = u16::from_str_radix(words.next()?, 16).ok()?;
        let (port, bound) = (words.next()?.parse().ok()?, Bound::parse(words.next()?)?);
        let mode = words.next()?;
        let named = Self {
            port: Port {
                slot,
                space: PortSpace::from_number(space)?,
                port,
                bound,
                shared: mode.ends_with('s'),
            },
            mode: match mode {
                "l" => Mode::Lingering,
                _ if mode.starts_with('c') => Mode::Claiming,
                _ => Mode::Owned,
            },
            token: Token::parse(words.next()?)?,
        };
        let is_whole = named.to_string() == name && (1..=qpn::LAST).contains(&slot);
        is_whole.then_some(named)
    }

    fn listen(&self) -> Result<Socket> {
        registry::listen_at(KIND, &named::name(&self.to_string())?)
    }
}

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Port {
            slot,
            space,
            port,
            bound,
            shared,
        } = self.port;
        let (space, token) = (space.number(), self.token);
        let mode = match (self.mode, shared) {
            (Mode::Owned, true) => "s",
            (Mode::Owned, false) => "x",
            (Mode::Claiming, true) => "cs",
            (Mode::Claiming, false) => "cx",
            (Mode::Lingering, _) => "l",
        };
        write!(f, "uroce/{slot}/cm/{space:x}/{port}/{bound}/{mode}/{token}")
    }
}

impl Port {
    /// Whether this is a port of an address, in any port space.
    pub fn is_at(&self, port: u16, address: IpAddr, interface: u32) -> bool {
        self.port == port && self.bound.covers(address, interface)
    }

    fn conflict(&self, other: &Self) -> Option<Errno> {
        if (self.space, self.port) != (other.space, other.port) || self.shared && other.shared {
            return None;
        }
        self.bound.conflict(&other.bound)
    }
}

/// A port that is this process's until this is dropped.
#[derive(Debug)]
pub struct Claim {
    named: Named,
    _name: Socket,
}

impl Claim {
    /// Claims a port.
    ///
    /// # Errors
    /// EADDRINUSE, EADDRNOTAVAIL if another id has it, of this process or another of the user's;
    /// EMFILE, ENFILE, ENOBUFS, ENOMEM if that is not known; of socket(2), bind(2), listen(2).
    pub fn new(port: Port) -> Result<Self> {
        let claiming = Named {
            port,
            mode: Mode::Claiming,
            token: Token::random(),
        };
        let name = claiming.listen()?;
        claiming.settle()?;
        let named = Named {
            mode: Mode::Owned,
            ..claiming
        };
        let claim = Self {
            named,
            _name: named.listen()?,
        };
        // Until here others could see the former alone.
        drop(name);
        Ok(claim)
    }

    /// Gives the port up: any process may claim it. As long as the answer is kept, requests for the
    /// port wait for that.
    ///
    /// # Errors
    /// Of socket(2), bind(2), listen(2).
    pub fn linger(self) -> Result<Self> {
        let named = Named {
            port: Port {
                shared: false,
                ..self.named.port
            },
            mode: Mode::Lingering,
            token: Token::random(),
        };
        Ok(Self {
            named,
            _name: named.listen()?,
        })
    }

    /// The claimed port.
    pub fn port(&self) -> &Port {
        &self.named.port
    }

    /// Whether the port is not shared, so that it can be listened on.
    ///
    /// # Errors
    /// EADDRINUSE if it is shared; EMFILE, ENFILE, ENOBUFS, ENOMEM if that is not known.
    pub fn is_alone(&self) -> Result<()> {
        let alone = Port {
            shared: false,
            ..self.named.port
        };
        let rivals = self.named.rivals(&alone)?;
        rivals
            .first()
            .map_or(Ok(()), |_| Err(Errno(libc::EADDRINUSE)))
    }
}

impl Named {
    fn rivals(&self, wanted: &Port) -> Result<Vec<(Rival, Errno)>> {
        let names = users()?.into_iter();
        let others = names.filter(|name| name.token != self.token);
        let conflicts = others.filter_map(|other| {
            let rival = match other.mode {
                Mode::Owned => Rival::Owner,
                Mode::Claiming => Rival::Claiming(other.token),
                Mode::Lingering => return None,
            };
            Some((rival, wanted.conflict(&other.port)?))
        });
        Ok(conflicts.collect())
    }

    /// Waits for the processes that give way.
    fn settle(&self) -> Result<()> {
        for _ in 0..LOOKS {
            let (rivals, errors): (Vec<_>, Vec<_>) = self.rivals(&self.port)?.into_iter().unzip();
            match (judge(self.token, &rivals), errors.first()) {
                (Verdict::Keep, _) | (_, None) => return Ok(()),
                (Verdict::Withdraw, Some(error)) => return Err(*error),
                (Verdict::Wait, _) => kit::sys::sched::sleep(PAUSE),
            }
        }
        Err(Errno(libc::EADDRINUSE))
    }
}

/// Names of claims that are the user's.
///
/// # Errors
/// EMFILE, ENFILE, ENOBUFS, ENOMEM: then it is not known which there are.
fn users() -> Result<Vec<Named>> {
    of_listing(registry::listening())
}

/// The same, by a list of sockets.
fn of_listing(listed: Result<Vec<Listening>>) -> Result<Vec<Named>> {
    let user = User::own();
    let mut ours = Vec::new();
    for socket in registry::known(listed)? {
        if let Some(named) = Named::parse(&socket.name)
            && is_users(&socket, user)?
        {
            ours.push(named);
        }
    }
    Ok(ours)
}

fn is_users(socket: &Listening, user: User) -> Result<bool> {
    match socket.user {
        Some(whose) => Ok(user.is(whose)),
        None => is_bound(&socket.name, user),
    }
}

/// Whether a process of the user has this name now.
fn is_bound(name: &str, user: User) -> Result<bool> {
    let Ok(name) = named::name(name) else {
        return Ok(false);
    };
    match owner::connect_to_ours(KIND, &name, user) {
        Ok(_) => Ok(true),
        Err(error) if error.is_shortage() => Err(error),
        // Of one that is there, the queue may be full.
        Err(error) => Ok(error == Errno::AGAIN),
    }
}

/// Claims as they were listed last: they are not listed for each request that comes.
///
/// A list is older than the end of a claim, perhaps, and than the next claim to the same port. Its
/// slot may belong to another process by then. So a claim is used only if its name is bound still:
/// the token in it is of this claim alone.
#[derive(Debug, Default)]
pub struct Lookup {
    listed: Vec<Named>,
    /// Those that linger.
    lingering: Vec<Port>,
    /// When, and for how long that is good.
    latest: Option<(Instant, Duration)>,
}

/// Where requests for a port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// To the process of a slot.
    At(u16),
    /// To no process.
    Unclaimed,
    /// To no process yet: a listener was closed a moment ago. To be asked again after this time.
    Lingers(Duration),
    /// That is not known before this time has passed.
    Later(Duration),
}

impl Lookup {
    /// How long a list is good, at least, how many times as long as it takes, and at most.
    const SOONEST: Duration = Duration::from_millis(2);
    const SHARE: u32 = 20;
    const LATEST: Duration = Duration::from_millis(200);

    /// The owner of a port for an address.
    pub fn find(&mut self, space: PortSpace, port: u16, address: IpAddr, interface: u32) -> Found {
        self.find_by(users, (space, port), (address, interface))
    }

    fn find_by(
        &mut self,
        users: impl FnOnce() -> Result<Vec<Named>>,
        (space, port): (PortSpace, u16),
        (address, interface): (IpAddr, u32),
    ) -> Found {
        let is_at = |claim: &Port| claim.is_at(port, address, interface);
        let lookup = |listed: &[Named]| {
            // One of the address itself goes before one of all.
            let claims = listed.iter().filter(|claim| is_at(&claim.port));
            let claims = claims.filter(|claim| claim.port.space == space);
            claims
                .min_by_key(|claim| claim.port.bound.is_wildcard())
                .copied()
        };
        let left = self.latest.map_or(Duration::ZERO, |(since, good)| {
            good.saturating_sub(since.elapsed())
        });
        if !left.is_zero() {
            let Some(claim) = lookup(&self.listed) else {
                return Found::Later(left);
            };
            match is_bound(&claim.to_string(), User::own()) {
                Ok(true) => return Found::At(claim.port.slot),
                Ok(false) => self.listed.retain(|listed| *listed != claim),
                Err(_) => return Found::Later(left.min(Self::SOONEST)),
            }
        }
        let Ok(good) = self.list(users) else {
            return Found::Later(Self::SOONEST);
        };
        match lookup(&self.listed) {
            Some(claim) => Found::At(claim.port.slot),
            // The next listener may have another port space.
            None if self.lingering.iter().any(is_at) => Found::Lingers(good),
            None => Found::Unclaimed,
        }
    }

    /// The processes that were listed last.
    pub fn slots(&self) -> Vec<u16> {
        let mut slots: Vec<_> = self.listed.iter().map(|claim| claim.port.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The list has named a process that is not there any more. The next one is made at once.
    pub fn forget(&mut self, slot: u16) {
        self.listed.retain(|claim| claim.port.slot != slot);
        self.latest = None;
    }

    /// Lists claims, and returns for how long the list is good.
    ///
    /// # Errors
    /// Those of [`users`]: then the former list is good for a little longer.
    fn list(&mut self, users: impl FnOnce() -> Result<Vec<Named>>) -> Result<Duration> {
        let began = Instant::now();
        let names = users().inspect_err(|_| {
            self.latest = Some((began, Self::SOONEST));
        })?;
        let of = |mode: Mode| names.iter().filter(move |name| name.mode == mode);
        self.listed = of(Mode::Owned).copied().collect();
        self.lingering = of(Mode::Lingering).map(|name| name.port).collect();
        let good = (began.elapsed() * Self::SHARE).clamp(Self::SOONEST, Self::LATEST);
        self.latest = Some((Instant::now(), good));
        Ok(good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A port that no other test has.
    fn port(port: u16, bound: Bound) -> Port {
        Port {
            slot: 1,
            space: PortSpace::Ib,
            port,
            bound,
            shared: false,
        }
    }

    fn to(text: &str) -> Bound {
        Bound::To(text.parse().expect("an address"), 0)
    }

    #[test]
    fn names_are_read_as_they_were_written_and_fit() {
        let longest = "fe80:1111:2222:3333:4444:5555:6666:7777";
        let bounds = [
            Bound::Any,
            Bound::AnyV4,
            Bound::AnyV6,
            to("10.1.2.3"),
            Bound::To(longest.parse().expect("an address"), 9999),
        ];
        for bound in bounds {
            let token = Token::random();
            let port = Port {
                slot: 1022,
                ..port(65535, bound)
            };
            for (mode, shared) in [
                (Mode::Owned, true),
                (Mode::Owned, false),
                (Mode::Claiming, true),
                (Mode::Claiming, false),
                (Mode::Lingering, false),
            ] {
                let port = Port { shared, ..port };
                let named = Named { port, mode, token };
                let name = named.to_string();
                assert!(super::named::name(&name).is_ok(), "{name}");
                assert_eq!(Named::parse(&name), Some(named));
                assert_eq!(Named::parse(&format!("{name}/x")), None);
            }
        }
    }

    #[test]
    fn wildcards_exclude_addresses_of_their_family() {
        let used = Some(Errno(libc::EADDRINUSE));
        let unavailable = Some(Errno(libc::EADDRNOTAVAIL));
        let v4 = to("10.1.2.3");
        assert_eq!(v4.conflict(&to("10.1.2.4")), None);
        assert_eq!(v4.conflict(&v4), used);
        assert_eq!(v4.conflict(&Bound::AnyV4), unavailable);
        assert_eq!(Bound::Any.conflict(&v4), unavailable);
        assert_eq!(Bound::AnyV6.conflict(&v4), None);
        assert_eq!(Bound::AnyV6.conflict(&Bound::Any), used);
        assert!(Bound::Any.covers("10.1.2.3".parse().expect("ip"), 1));
        assert!(!Bound::AnyV6.covers("10.1.2.3".parse().expect("ip"), 1));
    }

    #[test]
    fn a_port_is_one_ids() {
        let wanted = port(50_001, to("10.1.2.3"));
        let claim = Claim::new(wanted).expect("claimed");
        assert_eq!(Claim::new(wanted).err(), Some(Errno(libc::EADDRINUSE)));
        let any = port(50_001, Bound::Any);
        assert_eq!(Claim::new(any).err(), Some(Errno(libc::EADDRNOTAVAIL)));
        assert_eq!(claim.is_alone(), Ok(()));
        let mut lookup = Lookup::default();
        let address = "10.1.2.3".parse().expect("an address");
        let found = lookup.find(PortSpace::Ib, 50_001, address, 1);
        assert_eq!(found, Found::At(1));
        drop(claim);
        let found = lookup.find(PortSpace::Ib, 50_001, address, 1);
        assert_eq!(found, Found::Unclaimed);
        let found = lookup.find(PortSpace::Ib, 50_001, address, 1);
        assert!(matches!(found, Found::Later(_)), "{found:?}");
        assert!(Claim::new(any).is_ok());
    }

    #[test]
    fn a_claim_of_an_old_list_is_not_the_next_one_of_the_same_port() {
        let listed_slowly = || {
            std::thread::sleep(Lookup::LATEST / Lookup::SHARE);
            users()
        };
        let wanted = port(50_005, to("10.1.2.3"));
        let address = "10.1.2.3".parse().expect("an address");
        let mut lookup = Lookup::default();
        let mut find = || lookup.find_by(listed_slowly, (PortSpace::Ib, 50_005), (address, 1));
        let first = Claim::new(wanted).expect("claimed");
        assert_eq!([find(), find()], [Found::At(1); 2]);
        drop(first);
        let next = Claim::new(Port { slot: 2, ..wanted }).expect("claimed again");
        assert_eq!([find(), find()], [Found::At(2); 2]);
        drop(next);
        assert_eq!(find(), Found::Unclaimed);
    }

    #[test]
    fn a_port_that_lingers_can_be_claimed_and_is_found_only_as_such() {
        let wanted = port(50_003, to("10.1.2.3"));
        let address = "10.1.2.3".parse().expect("an address");
        let find = || Lookup::default().find(PortSpace::Ib, 50_003, address, 1);
        let claim = Claim::new(wanted).expect("claimed");
        let lingering = claim.linger().expect("a name");
        assert!(matches!(find(), Found::Lingers(_)), "{:?}", find());
        let again = Claim::new(port(50_003, Bound::Any)).expect("claimed again");
        assert_eq!(again.is_alone(), Ok(()));
        assert_eq!(find(), Found::At(1));
        drop(again);
        assert!(matches!(find(), Found::Lingers(_)), "{:?}", find());
        drop(lingering);
        assert_eq!(find(), Found::Unclaimed);
    }

    #[test]
    fn a_list_that_cannot_be_made_now_is_no_empty_list() {
        let short = Errno(libc::EMFILE);
        assert_eq!(of_listing(Err(short)), Err(short));
        // Nothing is known where nothing can be listed at any time.
        assert_eq!(of_listing(Err(Errno(libc::EACCES))), Ok(Vec::new()));
        let named = Named {
            port: port(50_004, to("10.1.2.3")),
            mode: Mode::Owned,
            token: Token::random(),
        };
        let address = "10.1.2.3".parse().expect("an address");
        let mut lookup = Lookup::default();
        let mut find = |list: Result<Vec<Named>>| {
            // The list is as old as it can be.
            lookup.latest = None;
            lookup.find_by(|| list, (PortSpace::Ib, 50_004), (address, 1))
        };
        assert_eq!(find(Err(short)), Found::Later(Lookup::SOONEST));
        assert_eq!(find(Ok(vec![named])), Found::At(1));
        assert_eq!(find(Err(short)), Found::Later(Lookup::SOONEST));
        assert_eq!(find(Ok(Vec::new())), Found::Unclaimed);
        // The former list stays.
        assert_eq!(find(Ok(vec![named])), Found::At(1));
        assert_eq!(find(Err(short)), Found::Later(Lookup::SOONEST));
        assert_eq!(lookup.slots(), [1]);
    }

    #[test]
    fn sharers_can_be_bound_and_cannot_listen() {
        let wanted = Port {
            shared: true,
            ..port(50_002, Bound::AnyV4)
        };
        let one = Claim::new(wanted).expect("claimed");
        assert_eq!(one.is_alone(), Ok(()));
        let two = Claim::new(wanted).expect("claimed, too");
        assert_eq!(one.is_alone(), Err(Errno(libc::EADDRINUSE)));
        drop(two);
        assert_eq!(one.is_alone(), Ok(()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "uroce/1/cm/(106|111|x)/[0-9]{1,6}/(any|any4|[0-9.:%a-f]{1,12})/(c?[sx]|l)/[0-9a-f]{23,25}") {
            if let Some(named) = Named::parse(&text) {
                prop_assert_eq!(named.to_string(), text);
            }
        }
    }
}
