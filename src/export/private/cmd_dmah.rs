//! `ibv_cmd_*` of handles of hints.

use crate::{export::ret, private};
use kit::{
    abi::{handle::Ctx, *},
    errno::Errno,
    uverbs::dmah::{self, Hints},
};
use std::ffi::c_int;

unsafe extern "C" fn alloc_dmah(
    context: *mut ibv_context,
    new: *mut verbs_dmah,
    attr: *const ibv_dmah_init_attr,
) -> c_int {
    // SAFETY: the provider passes its context, a new object and the application's attributes.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let (attr, new) = attr.as_ref().zip(new.as_mut()).ok_or(Errno::INVAL)?;
            let gives = |member| attr.comp_mask & member != 0;
            let hints = Hints {
                cpu_id: gives(IBV_DMAH_INIT_ATTR_MASK_CPU_ID).then_some(attr.cpu_id),
                tph_mem_type: gives(IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE)
                    .then_some(attr.tph_mem_type),
                ph: gives(IBV_DMAH_INIT_ATTR_MASK_PH).then_some(attr.ph),
            };
            new.handle = dmah::alloc(&ctx, &hints)?;
            new.dmah.context = ctx.as_ptr();
            Ok(())
        })
    })
}
private!(alloc_dmah => "ibv_cmd_alloc_dmah", [59, 64, 65]);

unsafe extern "C" fn free_dmah(dmah: *mut verbs_dmah) -> c_int {
    // SAFETY: the provider passes a live handle.
    ret::command(unsafe {
        dmah.as_ref()
            .ok_or(Errno::INVAL)
            .and_then(|h| dmah::free(&Ctx::from_raw(h.dmah.context)?, h.handle))
    })
}
private!(free_dmah => "ibv_cmd_free_dmah", [59, 64, 65]);
