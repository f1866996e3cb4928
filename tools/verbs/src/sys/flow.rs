//! Flow rules and their counters: ibv_create_flow(3), ibv_create_counters(3).

use std::sync::Arc;

use kit::abi::*;

use super::{
    calls::{Qp, qp_number},
    extended::extended,
    flow_action::Action,
    object::{Object, made, status},
    spread::Spread,
};
use crate::{
    context::Context,
    error::{Error, Result},
};

/// Counters.
pub(crate) type Counting = Object<ibv_counters, Context>;

/// ibv_create_counters(3).
pub(crate) fn create_counters(context: &Context) -> Result<Counting> {
    let device = context.object();
    let create = extended!(device, "ibv_create_counters", create_counters)?;
    let destroy = extended!(device, "ibv_destroy_counters", destroy_counters)?;
    let mut attr = ibv_counters_init_attr { comp_mask: 0 };
    // SAFETY: the device is open, and is kept. The counters are new.
    unsafe {
        let at = made(
            "ibv_create_counters",
            create(device.as_ptr(), &raw mut attr),
        )?;
        Ok(Object::new(at, destroy, context.clone()))
    }
}

/// ibv_attach_counters_point_flow(3), without a flow.
pub(crate) fn attach_counter(
    counters: &Counting,
    what: ibv_counter_description,
    index: u32,
) -> Result<()> {
    const VERB: &str = "ibv_attach_counters_point_flow";
    let device = counters.object();
    let verb = extended!(
        device,
        "ibv_attach_counters_point_flow",
        attach_counters_point_flow
    )?;
    let mut attr = ibv_counter_attach_attr {
        counter_desc: what,
        index,
        comp_mask: 0,
    };
    // SAFETY: the counters live; the structure lives during the call.
    status(VERB, unsafe {
        verb(counters.as_ptr(), &raw mut attr, std::ptr::null_mut())
    })
}

/// ibv_read_counters(3).
pub(crate) fn read_counters(counters: &Counting, values: &mut [u64], cached: bool) -> Result<()> {
    const VERB: &str = "ibv_read_counters";
    let verb = extended!(counters.object(), "ibv_read_counters", read_counters)?;
    let count = u32::try_from(values.len()).map_err(|_| Error::new(VERB, libc::EINVAL))?;
    let flags = match cached {
        true => IBV_READ_COUNTERS_ATTR_PREFER_CACHED,
        false => 0,
    };
    // SAFETY: the counters live; there are as many values.
    status(VERB, unsafe {
        verb(counters.as_ptr(), values.as_mut_ptr(), count, flags)
    })
}

/// A queue pair that rules give frames.
pub(crate) enum Receiver {
    Own(Arc<Qp>),
    Spread(Arc<Spread>),
}

impl Receiver {
    fn as_ptr(&self) -> *mut ibv_qp {
        match self {
            Self::Own(qp) => qp.as_ptr(),
            Self::Spread(qp) => qp.as_ptr(),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        match self {
            Self::Own(qp) => qp.pd.context(),
            Self::Spread(qp) => qp.0.context(),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Own(qp) => qp_number(qp),
            Self::Spread(qp) => qp_number(qp),
        }
    }
}

/// What a specification names by its address.
pub(crate) enum Named {
    Counters { _kept: Arc<Counting> },
    Action { _kept: Arc<Action> },
}

/// A rule of a queue pair, which it keeps, with all that the specifications name.
pub(crate) type Flow = Object<ibv_flow, (Receiver, Vec<Named>)>;

/// A rule as the verb takes it: the attributes, and the specifications behind them.
pub(crate) struct Written {
    pub attr: ibv_flow_attr,
    /// Each has its type and size.
    pub specs: Vec<u8>,
    pub named: Vec<Named>,
}

/// ibv_create_flow(3).
pub(crate) fn create(qp: Receiver, written: Written) -> Result<Flow> {
    const VERB: &str = "ibv_create_flow";
    const FRONT: usize = size_of::<ibv_flow_attr>();
    let device = qp.context().object();
    let create = extended!(device, "ibv_create_flow", ibv_create_flow)?;
    let destroy = extended!(device, "ibv_destroy_flow", ibv_destroy_flow)?;
    let Written {
        mut attr,
        specs,
        named,
    } = written;
    let length = FRONT + specs.len();
    attr.size = u16::try_from(length).map_err(|_| Error::new(VERB, libc::EINVAL))?;
    // Words, as the structures want their alignment.
    let mut words = vec![0_u64; length.div_ceil(size_of::<u64>())];
    let at = words.as_mut_ptr().cast::<u8>();
    // SAFETY: there is room for the attributes and the specifications behind them. The queue pair
    // lives, and is kept; so is all that they name. The rule is new.
    unsafe {
        at.cast::<ibv_flow_attr>().write(attr);
        at.add(FRONT)
            .copy_from_nonoverlapping(specs.as_ptr(), specs.len());
        let flow = made(VERB, create(qp.as_ptr(), at.cast()))?;
        Ok(Object::new(flow, destroy, (qp, named)))
    }
}

/// The bytes of a pointer to counters or an action, in a specification.
pub(crate) fn pointer<T, P>(named: &Object<T, P>) -> [u8; 8] {
    named.as_ptr().expose_provenance().to_ne_bytes()
}
