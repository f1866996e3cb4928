//! Making ids, addresses, options.

use super::{ret, step};
use crate::abi::{Address, Channel, rdma_cm_id, rdma_event_channel};
use crate::observe::{self, About};
use crate::{address, destroy, id, registry, symver, sync};
use core::ffi::{c_int, c_void};
use kit::abi::be16;
use kit::cm::Call;
use kit::errno::{Errno, Result};

/// The place of a result.
///
/// # Errors
/// EINVAL for NULL.
pub fn room<T>(at: *mut T) -> Result<*mut T> {
    if at.is_null() {
        return Err(Errno::INVAL);
    }
    Ok(at)
}

/// Family and port of an address, as they are recorded.
pub fn family_and_port(address: Option<Address>) -> [u64; 2] {
    address.map_or([0, 0], |address| {
        let port = u16::from_be(address.port());
        [address.family().into(), port.into()]
    })
}

unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    at: *mut *mut rdma_cm_id,
    context: *mut c_void,
    port_space: u32,
) -> c_int {
    let words = [channel.addr() as u64, port_space.into()];
    let create = || {
        let at = room(at)?;
        let qp_type = id::qp_type_of(port_space);
        let made = address::create(Channel::of(channel), context, port_space, qp_type)?;
        // SAFETY: the program passes room for a pointer.
        unsafe { at.write(made.block.as_ptr()) };
        Ok(made)
    };
    let about = || About::Space(port_space);
    let made = observe::call((Call::CreateId, 0, &words), about, |id| id.uid(), create);
    ret::minus_one(made.map(drop))
}
symver!(rdma_create_id => "rdma_create_id", "RDMACM_1.0");

unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    ret::with(Call::DestroyId, id, &[], destroy::id)
}
symver!(rdma_destroy_id => "rdma_destroy_id", "RDMACM_1.0");

unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, to: *mut libc::sockaddr) -> c_int {
    // SAFETY: the program passes an address of the length that its family has, or NULL.
    let to = unsafe { ret::address(to) };
    let known = to.ok();
    let about = || About::address(known);
    ret::with_more(Call::BindAddr, id, &family_and_port(known), about, |id| {
        address::bind(id, &to?)
    })
}
symver!(rdma_bind_addr => "rdma_bind_addr", "RDMACM_1.0");

unsafe extern "C" fn resolve_addr(
    id: *mut rdma_cm_id,
    source: *mut libc::sockaddr,
    destination: *mut libc::sockaddr,
    milliseconds: c_int,
    waiting: *mut step::Waiting,
) -> c_int {
    let started = step::started(Call::ResolveAddr, id, || {
        // SAFETY: as above.
        let known = unsafe { ret::address(destination) }.ok();
        let [family, port] = family_and_port(known);
        let words = [family, port, ret::word(milliseconds)];
        (words, About::address(known))
    });
    started.run(waiting, |id| {
        // SAFETY: as above.
        let source = unsafe { Address::from_raw(source) }?;
        // SAFETY: as above.
        let destination = unsafe { ret::address(destination) }?;
        address::resolve_addr(id, source.as_ref(), &destination, milliseconds)?;
        Ok(sync::complete(id))
    })
}
crate::hidden!(resolve_addr => "ferroverbs_cm_resolve_addr");

unsafe extern "C" fn resolve_route(
    id: *mut rdma_cm_id,
    milliseconds: c_int,
    waiting: *mut step::Waiting,
) -> c_int {
    let words = || ([ret::word(milliseconds)], About::Nothing);
    let started = step::started(Call::ResolveRoute, id, words);
    started.run(waiting, |id| {
        address::resolve_route(id, milliseconds)?;
        Ok(sync::complete(id))
    })
}
crate::hidden!(resolve_route => "ferroverbs_cm_resolve_route");

unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    let words = [ret::word(backlog)];
    ret::with(Call::Listen, id, &words, |id| address::listen(id, backlog))
}
symver!(rdma_listen => "rdma_listen", "RDMACM_1.0");

unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> be16 {
    be16::from_wire(registry::id(id.addr()).map_or(0, |id| address::ports(&id).0))
}
symver!(rdma_get_src_port => "rdma_get_src_port", "RDMACM_1.0");

unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> be16 {
    be16::from_wire(registry::id(id.addr()).map_or(0, |id| address::ports(&id).1))
}
symver!(rdma_get_dst_port => "rdma_get_dst_port", "RDMACM_1.0");

unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: usize,
) -> c_int {
    let value = if value.is_null() || length == 0 {
        &[][..]
    } else {
        // SAFETY: the program passes a value of that length.
        unsafe { core::slice::from_raw_parts(value.cast::<u8>(), length) }
    };
    let words = [ret::word(level), ret::word(name), length as u64];
    ret::with(Call::SetOption, id, &words, |id| {
        address::set_option(id, level, name, value)
    })
}
symver!(rdma_set_option => "rdma_set_option", "RDMACM_1.0");
