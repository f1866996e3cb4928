//! `ibv_cmd_*` of flow rules and flow actions.

use super::buffer::bytes;
use crate::{export::ret, private};
use kit::{
    abi::{
        handle::{Ctx, Flow, FlowAction, Qp, flow_action_number, specs},
        *,
    },
    errno::{Errno, Result},
    uverbs::{
        Driver, Link,
        flow::{self, NewFlow},
        flow_action::{self, Esp},
    },
};
use std::ffi::{c_int, c_void};

unsafe extern "C" fn create_flow(
    pair: *mut ibv_qp,
    rule: *mut ibv_flow,
    attr: *mut ibv_flow_attr,
    ucmd: *mut c_void,
    ucmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue pair, a new object, the application's attributes
    // with their specifications behind them, and its own buffer.
    ret::command(unsafe {
        Qp::from_command(pair).and_then(|h| {
            let rule = rule.as_mut().ok_or(Errno::INVAL)?;
            let specs = specs(ret::not_null(attr)?);
            let new = NewFlow {
                qp: h.number(),
                attr_type: (*attr).type_,
                priority: (*attr).priority,
                port: (*attr).port,
                flags: (*attr).flags,
            };
            let mut driver = Driver::data(bytes(ucmd, ucmd_size));
            rule.handle = flow::create_flow(&h.ctx(), &new, specs, &mut driver)?;
            rule.context = h.ctx().as_ptr();
            Ok(())
        })
    })
}
private!(create_flow => "ibv_cmd_create_flow");

unsafe extern "C" fn destroy_flow(rule: *mut ibv_flow) -> c_int {
    // SAFETY: the provider passes a live rule.
    ret::command(
        unsafe { Flow::from_command(rule) }.and_then(|h| flow::destroy_flow(&h.ctx(), h.number())),
    )
}
private!(destroy_flow => "ibv_cmd_destroy_flow");

/// A structure that comes in kinds: the kind and its bytes; none for NULL.
///
/// # Safety
/// `at` is NULL or good for `len` bytes during `'a`.
unsafe fn kind<'a>(kind: u32, at: *mut c_void, len: u16) -> Result<Option<(u8, &'a [u8])>> {
    if at.is_null() {
        return Ok(None);
    }
    let kind = u8::try_from(kind).map_err(|_| Errno::INVAL)?;
    // SAFETY: vouched for by the caller.
    Ok(Some((kind, unsafe { bytes(at, len.into()) })))
}

/// # Safety
/// The memory that the attributes point to is valid for `'a`.
unsafe fn esp(attr: &ibv_flow_action_esp_attr) -> Result<Esp<'_>> {
    let extended = attr.comp_mask & IBV_FLOW_ACTION_ESP_MASK_ESN != 0;
    // SAFETY: vouched for by the caller.
    unsafe {
        Ok(Esp {
            esn: extended.then_some(&attr.esn),
            keymat: kind(attr.keymat_proto, attr.keymat_ptr, attr.keymat_len)?,
            replay: kind(attr.replay_proto, attr.replay_ptr, attr.replay_len)?,
            encap: attr.esp_encap.as_ref(),
            attrs: attr.esp_attr.as_ref(),
        })
    }
}

unsafe extern "C" fn create_flow_action_esp(
    context: *mut ibv_context,
    attr: *mut ibv_flow_action_esp_attr,
    action: *mut verbs_flow_action,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes an open context, the application's attributes, a new object
    // and its own attributes.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let esp = esp(attr.as_ref().ok_or(Errno::INVAL)?)?;
            let action = action.as_mut().ok_or(Errno::INVAL)?;
            let mut driver = Driver::linked(Link::from_raw(link));
            action.handle = flow_action::create_flow_action_esp(&ctx, esp, &mut driver)?;
            action.action.context = context;
            action.type_ = IBV_FLOW_ACTION_ESP;
            Ok(())
        })
    })
}
private!(create_flow_action_esp => "ibv_cmd_create_flow_action_esp");

/// A live flow action and its number; a verbs_flow_action starts with its ibv_flow_action.
///
/// # Safety
/// `action` is live or NULL.
unsafe fn numbered<'a>(action: *mut verbs_flow_action) -> Result<(FlowAction<'a>, u32)> {
    // SAFETY: vouched for by the caller.
    unsafe {
        let h = FlowAction::from_command(action.cast())?;
        let number = flow_action_number(h.as_ptr()).ok_or(Errno::INVAL)?;
        Ok((h, number))
    }
}

unsafe extern "C" fn modify_flow_action_esp(
    action: *mut verbs_flow_action,
    attr: *mut ibv_flow_action_esp_attr,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider passes a live action, the application's attributes and its own.
    ret::command(unsafe {
        numbered(action).and_then(|(h, number)| {
            let esp = esp(attr.as_ref().ok_or(Errno::INVAL)?)?;
            let mut driver = Driver::linked(Link::from_raw(link));
            flow_action::modify_flow_action_esp(&h.ctx(), number, esp, &mut driver)
        })
    })
}
private!(modify_flow_action_esp => "ibv_cmd_modify_flow_action_esp");

unsafe extern "C" fn destroy_flow_action(action: *mut verbs_flow_action) -> c_int {
    // SAFETY: the provider passes a live action.
    ret::command(
        unsafe { numbered(action) }
            .and_then(|(h, number)| flow_action::destroy_flow_action(&h.ctx(), number)),
    )
}
private!(destroy_flow_action => "ibv_cmd_destroy_flow_action");
