#![forbid(unsafe_code)]
//! The layouts of the structures that the library shares with providers in C, for each release of
//! rdma-core from 34 to 65. Providers of several releases work side by side in one process.
//!
//! A provider names its generation by the node of its symbols, `IBVERBS_PRIVATE_<N>`. Layouts have
//! changed within a node too (seven under node 34, two under node 59), so the release decides.
//! Layouts are data:
//!
//! - a [`Layout`] describes a range of releases: the size of `verbs_context`, the offset of the
//!   mask in `verbs_qp`, the size of `ibv_port_attr`, the verbs of `verbs_context_ops`, and whether
//!   `verbs_sysfs_dev` has the number of ports;
//! - a [`SlotPosition`] is the position of a slot in a provider's table. One list of verbs, each
//!   with the release that added it, serves all layouts, because a verb keeps its position relative
//!   to the others.
//!
//! *Invariant.* Releases add members to `verbs_context` only at its front. A context of any
//! generation therefore ends with the [`verbs_context`] of this crate, and the library works there;
//! before it, the library writes only the members of that generation. `sz` contains the size of
//! that generation. For node 59, whose two layouts differ in size, `sz` also locates the context.
//!
//! `Driver` carries the layout from registration on, and a context has it in its private part
//! ([`crate::table::Private`]). Code that reads or writes a provider's structure takes the layout
//! from there.
//!
//! Tests: `c-tests/tests/generations.rs`.

use crate::abi::{MUTEX_GROWTH, ibv_context, ibv_port_attr, verbs_context, verbs_qp, verbs_qp_own};
use crate::table::{LATER, SLOTS, later_slot, slot};
use core::mem::offset_of;

/// The layout of a range of releases.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number in the name of the private node.
    pub node: u16,
    /// The first release.
    pub first: u16,
    /// The last release.
    pub last: u16,
    /// Bytes of `verbs_context`, at the end of which the `ibv_context` lies.
    pub context_size: usize,
    /// Offset of `comp_mask` in `verbs_qp`; `xrcd` lies 8 bytes behind it.
    pub qp_mask: usize,
    /// Bytes of `ibv_port_attr`.
    pub port_attr: usize,
    /// Whether `ibv_cmd_reg_dmabuf_mr` is called with an eighth argument.
    pub dmabuf_link: bool,
    /// Whether `verbs_sysfs_dev` has `num_ports` before its last members.
    pub num_ports: bool,
}

/// A layout, with the size of the context and the mask of the queue pair where a mutex has 40
/// bytes.
const fn layout(
    node: u16,
    (first, last): (u16, u16),
    context_size: usize,
    qp_mask: usize,
) -> Layout {
    Layout {
        node,
        first,
        last,
        context_size: context_size + MUTEX_GROWTH,
        qp_mask: qp_mask + MUTEX_GROWTH,
        port_attr: if first >= 49 { 56 } else { 52 },
        dmabuf_link: first >= 54,
        num_ports: first >= 35,
    }
}

/// All layouts, oldest first.
pub static LAYOUTS: [Layout; 12] = [
    layout(34, (34, 34), 648, 344),
    layout(34, (35, 35), 648, 344),
    layout(34, (36, 43), 648, 344),
    layout(34, (44, 44), 648, 352),
    layout(34, (45, 48), 648, 360),
    layout(34, (49, 53), 648, 360),
    layout(34, (54, 56), 648, 360),
    layout(57, (57, 58), 648, 360),
    layout(59, (59, 61), 672, 360),
    layout(59, (62, 63), 680, 360),
    layout(64, (64, 64), 696, 360),
    layout(65, (65, 65), 696, 360),
];

/// The layout of providers in Rust: contexts and tables as in release 44, objects as in the
/// latest.
pub static OWN: Layout = Layout {
    node: 34,
    first: 44,
    last: 44,
    context_size: size_of::<verbs_context>(),
    qp_mask: offset_of!(verbs_qp_own, comp_mask),
    port_attr: size_of::<ibv_port_attr>(),
    dmabuf_link: false,
    num_ports: true,
};

/// The private nodes, latest first.
pub const NODES: [u16; 5] = [65, 64, 59, 57, 34];

/// The release of the distribution that the library is made for.
pub const USUAL_RELEASE: u16 = 44;

impl Layout {
    /// The layout of a release under a node; `None` for an unknown one.
    pub fn of(node: u16, release: u16) -> Option<&'static Self> {
        LAYOUTS
            .iter()
            .find(|layout| layout.node == node && layout.has(release))
    }

    /// The layouts of a node, oldest first.
    pub fn of_node(node: u16) -> impl Iterator<Item = &'static Self> {
        LAYOUTS.iter().filter(move |layout| layout.node == node)
    }

    /// Whether it is that of a release.
    pub fn has(&self, release: u16) -> bool {
        (self.first..=self.last).contains(&release)
    }

    /// Where the `ibv_context` lies in `verbs_context`.
    pub const fn context_offset(&self) -> usize {
        self.context_size - size_of::<ibv_context>()
    }

    /// Where the [`verbs_context`] of this crate begins in the provider's.
    pub const fn inner_offset(&self) -> usize {
        self.context_size - size_of::<verbs_context>()
    }

    /// The verbs of `struct verbs_context_ops`, in order.
    pub fn verbs(&self) -> impl Iterator<Item = SlotPosition> {
        VERBS
            .iter()
            .filter(|verb| verb.since <= self.first)
            .map(|verb| verb.place)
    }

    /// Whether the structure of verbs is the one of this crate.
    pub fn has_our_verbs(&self) -> bool {
        (36..59).contains(&self.first)
    }

    /// Slots of `struct verbs_context_ops`.
    pub const fn slots(&self) -> usize {
        let (mut at, mut slots) = (0, 0);
        while at < VERBS.len() {
            if VERBS[at].since <= self.first {
                slots += 1;
            }
            at += 1;
        }
        slots
    }
}

/// Where the library keeps a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotPosition {
    /// In a slot of the table.
    Table(usize),
    /// In a slot of the later verbs.
    Later(usize),
}

/// A verb, and the release that brought it.
struct Verb {
    since: u16,
    place: SlotPosition,
}

const fn old(since: u16, slot: usize) -> Verb {
    let place = SlotPosition::Table(slot);
    Verb { since, place }
}

const fn new(since: u16, slot: usize) -> Verb {
    let place = SlotPosition::Later(slot);
    Verb { since, place }
}

/// All verbs in the order that every release has them in.
static VERBS: [Verb; SLOTS + LATER] = [
    old(34, slot::advise_mr),
    new(64, later_slot::alloc_buf),
    old(34, slot::alloc_dm),
    new(59, later_slot::alloc_dmah),
    old(34, slot::alloc_mw),
    old(34, slot::alloc_null_mr),
    old(34, slot::alloc_parent_domain),
    old(34, slot::alloc_pd),
    old(34, slot::alloc_td),
    old(34, slot::async_event),
    old(34, slot::attach_counters_point_flow),
    old(34, slot::attach_mcast),
    old(34, slot::bind_mw),
    old(34, slot::close_xrcd),
    old(34, slot::cq_event),
    old(34, slot::create_ah),
    new(65, later_slot::create_comp_cntr),
    old(34, slot::create_counters),
    old(34, slot::create_cq),
    old(34, slot::create_cq_ex),
    old(34, slot::create_flow),
    old(34, slot::create_flow_action_esp),
    old(34, slot::create_qp),
    old(34, slot::create_qp_ex),
    old(34, slot::create_rwq_ind_table),
    old(34, slot::create_srq),
    old(34, slot::create_srq_ex),
    old(34, slot::create_wq),
    new(59, later_slot::dealloc_dmah),
    old(34, slot::dealloc_mw),
    old(34, slot::dealloc_pd),
    old(34, slot::dealloc_td),
    old(34, slot::dereg_mr),
    old(34, slot::destroy_ah),
    new(65, later_slot::destroy_comp_cntr),
    old(34, slot::destroy_counters),
    old(34, slot::destroy_cq),
    old(34, slot::destroy_flow),
    old(34, slot::destroy_flow_action),
    old(34, slot::destroy_qp),
    old(34, slot::destroy_rwq_ind_table),
    old(34, slot::destroy_srq),
    old(34, slot::destroy_wq),
    old(34, slot::detach_mcast),
    new(62, later_slot::dm_export_dmabuf_fd),
    new(64, later_slot::free_buf),
    old(34, slot::free_context),
    old(34, slot::free_dm),
    old(34, slot::get_srq_num),
    old(35, slot::import_dm),
    old(34, slot::import_mr),
    old(34, slot::import_pd),
    new(65, later_slot::inc_comp_cntr),
    new(65, later_slot::inc_err_comp_cntr),
    old(34, slot::modify_cq),
    old(34, slot::modify_flow_action_esp),
    old(34, slot::modify_qp),
    old(34, slot::modify_qp_rate_limit),
    old(34, slot::modify_srq),
    old(34, slot::modify_wq),
    old(34, slot::open_qp),
    old(34, slot::open_xrcd),
    old(34, slot::poll_cq),
    old(34, slot::post_recv),
    old(34, slot::post_send),
    old(34, slot::post_srq_ops),
    old(34, slot::post_srq_recv),
    new(65, later_slot::qp_attach_comp_cntr),
    new(65, later_slot::query_comp_cntr_caps),
    old(34, slot::query_device_ex),
    old(34, slot::query_ece),
    old(34, slot::query_port),
    new(62, later_slot::query_port_speed),
    old(34, slot::query_qp),
    old(36, slot::query_qp_data_in_order),
    old(34, slot::query_rt_values),
    old(34, slot::query_srq),
    new(65, later_slot::read_comp_cntr),
    old(34, slot::read_counters),
    new(65, later_slot::read_err_comp_cntr),
    old(34, slot::reg_dm_mr),
    old(34, slot::reg_dmabuf_mr),
    old(34, slot::reg_mr),
    new(59, later_slot::reg_mr_ex),
    old(34, slot::req_notify_cq),
    old(34, slot::rereg_mr),
    old(34, slot::resize_cq),
    new(65, later_slot::set_comp_cntr),
    old(34, slot::set_ece),
    new(65, later_slot::set_err_comp_cntr),
    old(35, slot::unimport_dm),
    old(34, slot::unimport_mr),
    old(34, slot::unimport_pd),
];

// This code is compiled with the layout of release 44, and the queue pair of the latest.
const _: () = {
    let own = &LAYOUTS[3];
    assert!(own.first == USUAL_RELEASE);
    assert!(own.context_size == size_of::<verbs_context>());
    assert!(own.context_offset() == offset_of!(verbs_context, context));
    assert!(own.qp_mask == offset_of!(verbs_qp, comp_mask));
    assert!(own.qp_mask + 8 == offset_of!(verbs_qp, xrcd));
    assert!(own.port_attr == offset_of!(ibv_port_attr, active_speed_ex));
    assert!(own.slots() == SLOTS);
    let latest = &LAYOUTS[LAYOUTS.len() - 1];
    assert!(latest.qp_mask == OWN.qp_mask);
    assert!(latest.qp_mask + 8 == offset_of!(verbs_qp_own, xrcd));
    assert!(latest.port_attr == OWN.port_attr);
    assert!(latest.slots() == VERBS.len());
};

// Each verb has a separate position, in rising order of both kinds.
const _: () = {
    let (mut table, mut later, mut at) = (0, 0, 0);
    while at < VERBS.len() {
        match VERBS[at].place {
            SlotPosition::Table(slot) => {
                assert!(slot == table);
                table += 1;
            }
            SlotPosition::Later(slot) => {
                assert!(slot == later);
                later += 1;
            }
        }
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_one_layout_at_most() {
        for release in 0..100 {
            let found = LAYOUTS.iter().filter(|layout| layout.has(release)).count();
            assert_eq!(
                found,
                usize::from((34..=65).contains(&release)),
                "{release}"
            );
        }
        assert_eq!(Layout::of(57, 44), None);
        assert_eq!(Layout::of(34, 50), Some(&LAYOUTS[5]));
    }

    #[test]
    fn every_layout_has_a_node_that_is_listed() {
        for layout in &LAYOUTS {
            assert!(NODES.contains(&layout.node), "{layout:?}");
        }
        assert!(NODES.iter().all(|node| Layout::of_node(*node).count() > 0));
    }

    #[test]
    fn slots_are_as_many_as_each_release_had() {
        let slots: Vec<_> = LAYOUTS.iter().map(Layout::slots).collect();
        assert_eq!(slots, [73, 75, 76, 76, 76, 76, 76, 76, 79, 81, 83, 93]);
        for layout in &LAYOUTS {
            assert_eq!(layout.verbs().count(), layout.slots());
        }
    }

    /// The slots from which a provider of releases 59 to 61 went wrong under one of 62.
    #[test]
    fn the_same_verb_has_other_slots() {
        let slot_of = |release, place| {
            let layout = LAYOUTS.iter().find(|layout| layout.has(release)).unwrap();
            layout.verbs().position(|verb| verb == place).unwrap()
        };
        let free_context = SlotPosition::Table(slot::free_context);
        let places: Vec<_> = [34, 44, 57, 59, 62, 64, 65]
            .map(|release| slot_of(release, free_context))
            .into();
        assert_eq!(places, [39, 39, 39, 41, 42, 44, 46]);
        assert_eq!(slot_of(34, SlotPosition::Table(slot::unimport_pd)), 72);
        assert_eq!(slot_of(65, SlotPosition::Table(slot::unimport_pd)), 92);
        assert_eq!(
            slot_of(62, SlotPosition::Later(later_slot::query_port_speed)),
            64
        );
    }
}
