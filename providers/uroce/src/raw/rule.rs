//! Rules: the checked attributes of ibv_create_flow(3).

use super::counters::Counters;
use super::headers::{Headers, TCP, UDP};
use crate::device::NUMBER;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{FlowInit, FlowPart, Provider};
use std::sync::Arc;

/// The order in which kinds of rules are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `IBV_FLOW_ATTR_NORMAL`.
    Normal,
    /// `IBV_FLOW_ATTR_MC_DEFAULT`: groups that no other rule matches.
    Groups,
    /// `IBV_FLOW_ATTR_ALL_DEFAULT`: packets that no other rule matches.
    All,
    /// `IBV_FLOW_ATTR_SNIFFER`: a copy of everything, sent frames included.
    Sniffer,
}

/// The header that a field is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Ethernet,
    Ipv4,
    Ipv6,
    Tcp,
    Udp,
}

impl Layer {
    /// Layers of which a rule has one.
    fn level(self) -> u8 {
        match self {
            Self::Ethernet => 2,
            Self::Ipv4 | Self::Ipv6 => 3,
            Self::Tcp | Self::Udp => 4,
        }
    }
}

/// The fields of one header that a rule compares.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    layer: Layer,
    value: Vec<u8>,
    mask: Vec<u8>,
}

/// The conditions of a rule, and the outcome for a matching frame. Equal rules share frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Kind.
    pub kind: Kind,
    /// Among rules of a kind the lowest is asked first.
    pub priority: u16,
    filters: Vec<Filter>,
    /// `IBV_FLOW_ATTR_FLAGS_DONT_TRAP`: rules of lower priority get the frame too.
    pub passes_on: bool,
    /// `IBV_FLOW_SPEC_ACTION_DROP`.
    pub drops: bool,
}

/// A rule, and the counters that it moves.
pub type Counted = (Rule, Vec<Arc<Counters>>);

/// The rule that a program asks for.
///
/// # Errors
/// EINVAL for an unknown kind or port, two filters of one layer, a misplaced filter; EOPNOTSUPP for
/// tunnels, tags, and rules for sent frames.
pub fn rule<P>(init: &FlowInit<'_, P>) -> Result<Counted>
where
    P: Provider<Counters = Counters>,
{
    let kind = match init.attr_type {
        IBV_FLOW_ATTR_NORMAL => Kind::Normal,
        IBV_FLOW_ATTR_MC_DEFAULT => Kind::Groups,
        IBV_FLOW_ATTR_ALL_DEFAULT => Kind::All,
        IBV_FLOW_ATTR_SNIFFER => Kind::Sniffer,
        _ => return Err(Errno::INVAL),
    };
    let passes_on = init.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP != 0;
    if init.flags & IBV_FLOW_ATTR_FLAGS_EGRESS != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let bad = init.flags & !IBV_FLOW_ATTR_FLAGS_DONT_TRAP != 0
        || init.port != NUMBER
        || passes_on && kind != Kind::Normal;
    if bad {
        return Err(Errno::INVAL);
    }
    let mut rule = Rule {
        kind,
        priority: init.priority,
        filters: Vec::new(),
        passes_on,
        drops: false,
    };
    let mut counters = Vec::new();
    for part in &init.parts {
        match part {
            FlowPart::Filter { kind, value, mask } => rule.add(*kind, value, mask)?,
            FlowPart::Drop => rule.drops = true,
            FlowPart::Count(more) => counters.push(Arc::clone(more)),
            FlowPart::Tag(_) => return Err(Errno::OPNOTSUPP),
        }
    }
    Ok((rule, counters))
}

impl Rule {
    fn add(&mut self, kind: ibv_flow_spec_type, value: &[u8], mask: &[u8]) -> Result<()> {
        let layer = match kind {
            IBV_FLOW_SPEC_ETH => Layer::Ethernet,
            IBV_FLOW_SPEC_IPV4 | IBV_FLOW_SPEC_IPV4_EXT => Layer::Ipv4,
            IBV_FLOW_SPEC_IPV6 => Layer::Ipv6,
            IBV_FLOW_SPEC_TCP => Layer::Tcp,
            IBV_FLOW_SPEC_UDP => Layer::Udp,
            _ => return Err(Errno::OPNOTSUPP),
        };
        let again = |known: &Filter| known.layer.level() == layer.level();
        if self.kind != Kind::Normal || self.filters.iter().any(again) {
            return Err(Errno::INVAL);
        }
        // Bits that do not count are no difference between rules.
        let value = value.iter().zip(mask).map(|(value, mask)| value & mask);
        self.filters.push(Filter {
            layer,
            value: value.collect(),
            mask: mask.to_vec(),
        });
        self.filters.sort_by_key(|filter| filter.layer.level());
        Ok(())
    }

    /// Whether a frame is one that the rule is about.
    #[must_use]
    pub fn matches(&self, headers: &Headers<'_>) -> bool {
        match self.kind {
            Kind::Groups => headers.is_group(),
            Kind::All | Kind::Sniffer => true,
            Kind::Normal => self.filters.iter().all(|filter| filter.matches(headers)),
        }
    }

    /// The Ethernet address that frames must be for; `None` if several can be.
    #[must_use]
    pub fn destination(&self) -> Option<[u8; 6]> {
        let filter = self.filters.first()?;
        let exact =
            filter.layer == Layer::Ethernet && filter.mask.first_chunk() == Some(&[0xff; 6]);
        filter.value.first_chunk().filter(|_| exact).copied()
    }
}

/// Where the tag stands in `ibv_flow_eth_filter`.
const TAG: usize = 14;

impl Filter {
    fn matches(&self, headers: &Headers<'_>) -> bool {
        match self.layer {
            Layer::Ethernet => {
                let asks_tag = self.mask.iter().skip(TAG).any(|mask| *mask != 0);
                (headers.tagged || !asks_tag) && self.agrees(&headers.ethernet)
            }
            Layer::Ipv4 => {
                let found = headers.network.and_then(|network| network.ipv4());
                found.is_some_and(|found| self.agrees(&found))
            }
            Layer::Ipv6 => {
                let found = headers.network.and_then(|network| network.ipv6());
                found.is_some_and(|found| self.agrees(&found))
            }
            Layer::Tcp => self.ports(headers, TCP),
            Layer::Udp => self.ports(headers, UDP),
        }
    }

    fn ports(&self, headers: &Headers<'_>, protocol: u8) -> bool {
        let found = headers.transport.filter(|found| found.protocol == protocol);
        found.is_some_and(|found| self.agrees(&found.filter()))
    }

    fn agrees(&self, found: &[u8]) -> bool {
        let wanted = self.value.iter().zip(&self.mask);
        wanted
            .zip(found)
            .all(|((value, mask), found)| found & mask == *value)
    }
}

#[cfg(test)]
pub mod tests;
