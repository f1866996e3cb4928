//! Flow actions: ibv_create_flow_action_esp(3).

use std::ptr;

use kit::abi::{kernel::*, *};

use super::{
    extended::extended,
    object::{Object, made, status},
};
use crate::{
    context::Context,
    error::{Error, Result},
};

/// An action.
pub(crate) type Action = Object<ibv_flow_action, Context>;

/// The parameters of an action, by value.
#[derive(Clone, Default)]
pub(crate) struct Esp {
    pub attributes: Option<ib_uverbs_flow_action_esp>,
    pub key: Option<ib_uverbs_flow_action_esp_keymat_aes_gcm>,
    pub replay: Option<ib_uverbs_flow_action_esp_replay_bmp>,
    pub esn: Option<u32>,
    /// Headers: their type and their filter, from the outer one to the inner one.
    pub around: Vec<(ibv_flow_spec_type, Vec<u8>)>,
}

/// The address of a value; NULL if there is none.
fn address<T>(value: Option<&mut T>) -> *mut T {
    value.map_or(ptr::null_mut(), ptr::from_mut)
}

/// The size of a value; 0 if there is none. None is as long as 100 bytes.
fn length<T>(value: Option<&T>) -> u16 {
    value.map_or(0, |value| u16::try_from(size_of_val(value)).unwrap_or(0))
}

/// The bits of an address, as the kernel's structures have them.
fn bits<T>(at: *const T) -> u64 {
    u64::try_from(at.expose_provenance()).unwrap_or(0)
}

impl Esp {
    /// Passes the structure to a verb, which has it during the call.
    fn pass<T>(
        &self,
        verb: &'static str,
        call: impl FnOnce(*mut ibv_flow_action_esp_attr) -> Result<T>,
    ) -> Result<T> {
        let mut own = self.clone();
        let mut list = Vec::with_capacity(own.around.len());
        for (kind, filter) in &own.around {
            let invalid = |_| Error::new(verb, libc::EINVAL);
            list.push(ib_uverbs_flow_action_esp_encap {
                val_ptr: bits(filter.as_ptr()),
                next_ptr: 0,
                len: u16::try_from(filter.len()).map_err(invalid)?,
                type_: u16::try_from(*kind).map_err(invalid)?,
                padding: [0; 4],
            });
        }
        // Each has the address of the next; the list is not moved any more.
        let addresses: Vec<u64> = list.iter().skip(1).map(|next| bits(next)).collect();
        for (one, next) in list.iter_mut().zip(addresses) {
            one.next_ptr = next;
        }
        let mut attr = ibv_flow_action_esp_attr {
            keymat_proto: IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM,
            keymat_len: length(own.key.as_ref()),
            keymat_ptr: address(own.key.as_mut()).cast(),
            replay_proto: match own.replay {
                Some(_) => IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP,
                None => IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE,
            },
            replay_len: length(own.replay.as_ref()),
            replay_ptr: address(own.replay.as_mut()).cast(),
            esp_attr: address(own.attributes.as_mut()),
            esp_encap: address(list.first_mut()),
            comp_mask: match own.esn {
                Some(_) => IBV_FLOW_ACTION_ESP_MASK_ESN,
                None => 0,
            },
            esn: own.esn.unwrap_or(0),
        };
        call(&raw mut attr)
    }
}

/// ibv_create_flow_action_esp(3).
pub(crate) fn create(context: &Context, esp: &Esp) -> Result<Action> {
    const VERB: &str = "ibv_create_flow_action_esp";
    let device = context.object();
    let create = extended!(device, "ibv_create_flow_action_esp", create_flow_action_esp)?;
    let destroy = extended!(device, "ibv_destroy_flow_action", destroy_flow_action)?;
    let mut esp = esp.clone();
    // A new action has all attributes, which may be zero.
    esp.attributes.get_or_insert_default();
    esp.pass(VERB, |attr| {
        // SAFETY: the device is open, and is kept; the parameters live during the call. The action
        // is new.
        unsafe {
            let at = made(VERB, create(device.as_ptr(), attr))?;
            Ok(Object::new(at, destroy, context.clone()))
        }
    })
}

/// ibv_modify_flow_action_esp(3).
pub(crate) fn modify(action: &Action, esp: &Esp) -> Result<()> {
    const VERB: &str = "ibv_modify_flow_action_esp";
    let device = action.object();
    let verb = extended!(device, "ibv_modify_flow_action_esp", modify_flow_action_esp)?;
    esp.pass(VERB, |attr| {
        // SAFETY: the action lives; the parameters live during the call.
        status(VERB, unsafe { verb(action.as_ptr(), attr) })
    })
}
