#![forbid(unsafe_code)]
//! Why memory cannot be registered (ibv_reg_mr(3)).

use super::Reasons;
use kit::abi::*;
use kit::errno::Errno;
use kit::names;

/// A registration that failed.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Access flags.
    pub access: u32,
}

/// The limit of locked memory, and the locked memory of the process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Locked {
    /// RLIMIT_MEMLOCK; `None` for no limit.
    pub limit: Option<u64>,
    /// VmLck and VmPin of /proc/self/status together.
    pub used: u64,
    /// Whether the process may lock more than the limit (CAP_IPC_LOCK).
    pub exempt: bool,
}

/// A part of the process's memory, as in a line of /proc/self/maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte.
    pub begin: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
}

/// The arguments.
pub fn arguments(r: &Registration) -> String {
    let access = names::bits(r.access, names::ACCESS);
    let end = r.addr.saturating_add(r.length);
    format!("{} bytes at {:#x}..{end:#x}, {access}", r.length, r.addr)
}

/// Capabilities that the device reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Abilities {
    /// Memory regions on demand.
    pub odp: bool,
    /// `device_cap_flags_ex`; `None` if the device did not report them.
    pub capabilities: Option<u64>,
}

/// The access flags of each bit of `device_cap_flags_ex` (`IB_UVERBS_DEVICE_FLUSH_GLOBAL` and
/// `IB_UVERBS_DEVICE_FLUSH_PERSISTENT` of Linux 6.2).
const FLUSHES: [(u32, u64); 2] = [
    (IBV_ACCESS_FLUSH_GLOBAL, 1 << 38),
    (IBV_ACCESS_FLUSH_PERSISTENT, 1 << 39),
];

impl Abilities {
    /// Those of the flush flags in `access` that the device reports as unsupported.
    pub fn lacking_flushes(&self, access: u32) -> u32 {
        let lacks = |(flag, capability): &(u32, u64)| {
            let known = self.capabilities;
            (access & flag != 0 && known.is_some_and(|reported| reported & capability == 0))
                .then_some(*flag)
        };
        FLUSHES.iter().filter_map(lacks).sum()
    }
}

/// Why it was refused. `maps` is the text of /proc/self/maps.
pub fn reasons(
    r: &Registration,
    e: Errno,
    locked: &Locked,
    maps: &str,
    has: &Abilities,
) -> Reasons {
    let mut why = Reasons::default();
    flags(r.access, has, &mut why);
    why.add_if(r.length == 0, || "The length is 0.".to_owned());
    let wraps = r.addr.checked_add(r.length).is_none();
    why.add_if(wraps, || {
        "The range goes past the end of the address space.".to_owned()
    });
    let implicit = r.access & IBV_ACCESS_ON_DEMAND != 0;
    if !wraps && !implicit {
        range(r, maps, &mut why);
    }
    if e == Errno::NOMEM {
        memlock(r.length, locked, &mut why);
    }
    why
}

fn flags(access: u32, abilities: &Abilities, why: &mut Reasons) {
    let has = |flag| access & flag != 0;
    let remote = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    why.add_if(remote != 0 && !has(IBV_ACCESS_LOCAL_WRITE), || {
        format!(
            "{} needs IBV_ACCESS_LOCAL_WRITE beside it: memory that a peer may write must be \
             writable locally.",
            names::bits(remote, names::ACCESS)
        )
    });
    let known = names::ACCESS
        .iter()
        .fold(IBV_ACCESS_OPTIONAL_RANGE, |sum, (bit, _)| sum | bit);
    why.add_if(access & !known != 0, || {
        format!("The access flags {:#x} are not known.", access & !known)
    });
    why.add_if(has(IBV_ACCESS_ON_DEMAND) && !abilities.odp, || {
        "IBV_ACCESS_ON_DEMAND is asked for, which the device does not have (odp_caps of \
         ibv_query_device_ex): register without it."
            .to_owned()
    });
    why.add_if(
        has(IBV_ACCESS_HUGETLB) && !has(IBV_ACCESS_ON_DEMAND),
        || "IBV_ACCESS_HUGETLB has a meaning only together with IBV_ACCESS_ON_DEMAND.".to_owned(),
    );
    let flushes = abilities.lacking_flushes(access);
    why.add_if(flushes != 0, || {
        format!(
            "{} is asked for, a flush that the device does not have (device_cap_flags_ex of \
             ibv_query_device_ex): register without it.",
            names::bits(flushes, names::ACCESS)
        )
    });
}

/// Finds parts of the range that are not mapped, or have too few rights.
fn range(r: &Registration, maps: &str, why: &mut Reasons) {
    let writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    let end = r.addr.saturating_add(r.length);
    let mut at = r.addr;
    for mapping in mappings(maps).filter(|m| m.end > r.addr && m.begin < end) {
        if mapping.begin > at {
            break;
        }
        if r.access & writes != 0 && !mapping.writable {
            let (begin, end) = (mapping.begin, mapping.end);
            why.add(format!(
                "{begin:#x}..{end:#x} is mapped without the right to write, which the access \
                 flags ask for."
            ));
            return;
        }
        if !mapping.readable {
            let (begin, end) = (mapping.begin, mapping.end);
            why.add(format!(
                "{begin:#x}..{end:#x} is mapped without the right to read."
            ));
            return;
        }
        at = mapping.end;
    }
    why.add_if(at < end && !maps.is_empty(), || {
        format!(
            "From {at:#x} on nothing is mapped: the buffer is shorter than the length, or was \
             freed or unmapped."
        )
    });
}

/// The mappings of a text in the form of /proc/self/maps.
pub fn mappings(maps: &str) -> impl Iterator<Item = Mapping> {
    maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let mut rights = rest.chars();
        Some(Mapping {
            begin: u64::from_str_radix(begin, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            readable: rights.next()? == 'r',
            writable: rights.next()? == 'w',
        })
    })
}

fn memlock(length: u64, locked: &Locked, why: &mut Reasons) {
    let Some(limit) = locked.limit else {
        why.add(
            "The process may lock any amount (RLIMIT_MEMLOCK is unlimited), so the memory of the \
             machine, a control group's limit, or the device's table of regions (max_mr) is used \
             up.",
        );
        return;
    };
    let used = locked.used;
    if locked.exempt {
        why.add(format!(
            "The limit of lockable memory ({limit} bytes) does not hold for this process \
             (CAP_IPC_LOCK), so memory or the device's table of regions (max_mr) is used up."
        ));
        return;
    }
    let over = used.saturating_add(length) > limit;
    why.add(format!(
        "RLIMIT_MEMLOCK is {limit} bytes, of which {used} are locked or pinned now{}. Raise it: \
         'ulimit -l unlimited', 'memlock' in /etc/security/limits.conf, LimitMEMLOCK=infinity in \
         a systemd unit, or --ulimit memlock=-1 for a container.",
        if over {
            ", so this region does not fit"
        } else {
            ""
        }
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "1000-3000 rw-p 0 00:00 0\n3000-4000 r--p 0 00:00 0 /x\n8000-9000 rw-p 0\n";

    /// A device without regions on demand, which flushes for visibility alone.
    const GLOBAL_FLUSH: Abilities = Abilities {
        odp: false,
        capabilities: Some(1 << 38),
    };

    fn of(addr: u64, length: u64, access: u32) -> Registration {
        Registration {
            addr,
            length,
            access,
        }
    }

    fn explanation(r: Registration, e: Errno) -> String {
        let locked = Locked {
            limit: Some(65536),
            used: 4096,
            exempt: false,
        };
        reasons(&r, e, &locked, MAPS, &GLOBAL_FLUSH).text()
    }

    #[test]
    fn contradictions_of_flags() {
        let text = explanation(of(0x1000, 16, IBV_ACCESS_REMOTE_WRITE), Errno::INVAL);
        assert!(text.contains("IBV_ACCESS_REMOTE_WRITE needs IBV_ACCESS_LOCAL_WRITE"));
        let text = explanation(of(0x1000, 16, 0x4000_0000), Errno::INVAL);
        assert!(text.contains("0x40000000 are not known"));
        let text = explanation(of(0x1000, 16, IBV_ACCESS_ON_DEMAND), Errno::INVAL);
        assert!(text.contains("odp_caps"));
        let flushes = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
        let text = explanation(of(0x1000, 16, 1 | flushes), Errno::INVAL);
        assert!(text.starts_with("IBV_ACCESS_FLUSH_PERSISTENT is asked for, a flush"));
        assert_eq!(explanation(of(0x1000, 16, 1), Errno::INVAL), "");
    }

    #[test]
    fn holes_and_rights() {
        let efault = Errno(libc::EFAULT);
        assert!(explanation(of(0x1000, 0x5000, 0), efault).contains("From 0x4000 on nothing"));
        assert!(explanation(of(0x5000, 1, 0), efault).contains("From 0x5000 on nothing"));
        assert!(
            explanation(of(0x2000, 0x1800, 1), efault).contains("0x3000..0x4000 is mapped without")
        );
        assert_eq!(explanation(of(0x2000, 0x1800, 0), efault), "");
        assert!(explanation(of(u64::MAX, 2, 0), efault).contains("past the end"));
    }

    #[test]
    fn the_limit_is_reported() {
        let text = explanation(of(0x1000, 0x2000, 1), Errno::NOMEM);
        assert!(text.contains("RLIMIT_MEMLOCK is 65536 bytes, of which 4096"));
        assert!(!text.contains("does not fit"));
        let r = of(0x1000, 0x2000, 1);
        let full = Locked {
            limit: Some(8192),
            used: 4096,
            exempt: false,
        };
        let text = reasons(&r, Errno::NOMEM, &full, MAPS, &GLOBAL_FLUSH).text();
        assert!(text.contains("does not fit"));
    }
}
