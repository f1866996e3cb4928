//! Flow actions: ibv_create_flow_action_esp(3).

use super::{Driver, Ioctl, Kernel, add_driver, destroyed, run};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::{ib_uverbs_flow_action_esp, ib_uverbs_flow_action_esp_encap};
use crate::errno::Result;

/// Parameters of an ESP action. Missing parts keep the kernel's defaults, or their values.
#[derive(Clone, Copy, Default)]
pub struct Esp<'a> {
    /// Extended sequence number.
    pub esn: Option<&'a u32>,
    /// Key material: its kind and its structure.
    pub keymat: Option<(u8, &'a [u8])>,
    /// Replay protection: its kind and its structure.
    pub replay: Option<(u8, &'a [u8])>,
    /// The list of headers around.
    pub encap: Option<&'a ib_uverbs_flow_action_esp_encap>,
    /// The rest.
    pub attrs: Option<&'a ib_uverbs_flow_action_esp>,
}

impl<'a> Esp<'a> {
    fn add_to(self, call: &mut Ioctl<'a>) {
        if let Some(esn) = self.esn {
            call.value_in(UVERBS_ATTR_FLOW_ACTION_ESP_ESN, esn);
        }
        if let Some((kind, bytes)) = self.keymat {
            call.enum_in(UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT, kind, bytes);
        }
        if let Some((kind, bytes)) = self.replay {
            call.enum_in(UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY, kind, bytes);
        }
        if let Some(encap) = self.encap {
            call.value_in(UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP, encap);
        }
        if let Some(attrs) = self.attrs {
            call.value_in(UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, attrs);
        }
    }
}

/// Makes an ESP action; returns its handle.
///
/// # Errors
/// The kernel's own errno, EOPNOTSUPP or EPROTONOSUPPORT where the device has none.
pub fn create_flow_action_esp<K: Kernel + ?Sized>(
    kernel: &K,
    esp: Esp<'_>,
    driver: &mut Driver<'_>,
) -> Result<u32> {
    let mut call = Ioctl::new(
        UVERBS_OBJECT_FLOW_ACTION,
        UVERBS_METHOD_FLOW_ACTION_ESP_CREATE,
    );
    call.object_out(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE);
    esp.add_to(&mut call);
    add_driver(&mut call, driver);
    run(kernel, &mut call)?;
    call.object(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE)
}

/// Changes an ESP action.
///
/// # Errors
/// The kernel's own errno.
pub fn modify_flow_action_esp<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    esp: Esp<'_>,
    driver: &mut Driver<'_>,
) -> Result<()> {
    let mut call = Ioctl::new(
        UVERBS_OBJECT_FLOW_ACTION,
        UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY,
    );
    call.object_in(UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE, handle);
    esp.add_to(&mut call);
    add_driver(&mut call, driver);
    run(kernel, &mut call)
}

/// Ends a flow action.
///
/// # Errors
/// The kernel's own errno, EBUSY while a rule uses it.
pub fn destroy_flow_action<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    let mut call = Ioctl::new(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY);
    call.object_in(UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE, handle);
    destroyed(run(kernel, &mut call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;
    use crate::uverbs::fake::{Call, Fake};

    fn no_write(_: &mut crate::sys::write::Request<'_>) -> Result<()> {
        Err(Errno::IO)
    }

    #[test]
    fn passes_only_the_parts_given() {
        let fake = Fake::new(
            |call| {
                call.answer(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE, &[7]);
                Ok(())
            },
            no_write,
        );
        let attrs = ib_uverbs_flow_action_esp {
            spi: 5,
            ..Default::default()
        };
        let key = [9; 56];
        let esp = Esp {
            esn: Some(&3),
            keymat: Some((1, &key)),
            attrs: Some(&attrs),
            ..Esp::default()
        };
        assert_eq!(
            create_flow_action_esp(&fake, esp, &mut Driver::none()),
            Ok(7)
        );
        let Call::Ioctl(object, method, given) = &fake.asked.borrow()[0] else {
            panic!("an ioctl was expected");
        };
        assert_eq!((*object, *method), (13, 0));
        let ids: Vec<_> = given.iter().map(|(a, _)| (a.id, a.len, a.elem)).collect();
        assert_eq!(ids, [(0, 0, 0), (2, 4, 0), (3, 56, 1), (1, 24, 0)]);
        assert_eq!(given[1].1.as_deref(), Some(&3_u32.to_ne_bytes()[..]));
    }

    #[test]
    fn has_no_write_form() {
        let fake = Fake::new(|_| Err(Errno::PROTONOSUPPORT), no_write);
        let refused = modify_flow_action_esp(&fake, 7, Esp::default(), &mut Driver::none());
        assert_eq!(refused, Err(Errno::PROTONOSUPPORT));
        assert_eq!(destroy_flow_action(&fake, 7), Err(Errno::PROTONOSUPPORT));
    }
}
