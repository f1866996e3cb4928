#![forbid(unsafe_code)]
//! Why a call failed, as far as the id and the errno value say.

use super::about::About;
use crate::abi::{Channel, MAX_DEPTH, event_name, event_type, port_space};
use crate::id::Id;
use crate::registry;
use crate::verbs::DeviceList;
use kit::cm::Call;
use kit::errno::Errno;
use std::sync::Arc;

/// The reason, as a sentence.
pub fn why(call: Call, id: Option<&Arc<Id>>, about: &About, e: Errno) -> String {
    if e.raw() == libc::EBADF {
        return "The event channel is destroyed, or its descriptor closed: ids are destroyed before \
                their channel."
            .to_owned();
    }
    match (call, id) {
        (Call::CreateEventChannel | Call::GetDevices | Call::GetAddrInfo, _) => of_channel(e),
        (Call::CreateId, _) => of_creation(about, e),
        (Call::AckCmEvent, _) => "The pointer is no event of this library, or was acknowledged \
                                  already: rdma_ack_cm_event frees it."
            .to_owned(),
        (Call::BindAddr | Call::ResolveAddr, Some(id)) => of_addresses(call, id, about, e),
        (Call::Listen, Some(id)) => of_listen(id, e),
        (Call::Connect | Call::Accept, Some(id)) => of_connection(call, id, about, e),
        (Call::CreateQp | Call::CreateQpEx, Some(id)) => of_queue_pair(id, about, e),
        (_, Some(id)) => of_other(call, id, e),
        (_, None) => general(call),
    }
}

/// Failures of what a channel is made with.
pub fn of_channel(e: Errno) -> String {
    match e.raw() {
        libc::ENODEV => "libibverbs lists no RDMA device here. A device in user space needs none \
                         of the kernel's: UROCE_DEVICES=lo, or the names of other interfaces \
                         (docs/uroce.md)."
            .to_owned(),
        libc::ENOENT | libc::ENXIO => {
            "There is no /dev/infiniband/rdma_cm, and no device in user space either: load the \
             kernel's connection manager ('modprobe rdma_ucm'), hand the file into the container, \
             or set UROCE_DEVICES."
                .to_owned()
        }
        libc::EACCES | libc::EPERM => {
            "This process may not open /dev/infiniband/rdma_cm: udev gives it mode 0666 where \
             rdma-core's rules are installed; in a container the control group has to allow it."
                .to_owned()
        }
        libc::EMFILE | libc::ENFILE => {
            "There are no more file descriptors ('ulimit -n'): each event channel has one, and each \
             id without a channel."
                .to_owned()
        }
        libc::EINVAL => "An argument is NULL that must not be.".to_owned(),
        _ => "The connection manager answered this.".to_owned(),
    }
}

fn of_creation(about: &About, e: Errno) -> String {
    match (e, about) {
        (Errno::INVAL, About::Space(space)) if !is_space(*space) => {
            format!(
                "There is no port space {space:#x}: RDMA_PS_TCP, _UDP, _IPOIB and _IB are known."
            )
        }
        (Errno::NOMEM, _) => "The id is synchronous (no event channel was passed), and a channel \
                              for it could not be opened: see rdma_create_event_channel."
            .to_owned(),
        _ => of_channel(e),
    }
}

fn is_space(space: u32) -> bool {
    use port_space::*;
    [RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB].contains(&space)
}

fn of_addresses(call: Call, id: &Arc<Id>, about: &About, e: Errno) -> String {
    let About::Address(is_one, ip) = about else {
        return general(call);
    };
    if e == Errno::INVAL && !is_one {
        return "The address is NULL, or its sa_family is none of AF_INET, AF_INET6 and AF_IB."
            .to_owned();
    }
    if e == Errno::INVAL {
        return state(
            id,
            "An id is bound once, and its address resolved once; families of source and \
             destination are equal.",
        );
    }
    match ip {
        Some(ip) => format!("{ip}: {}", of_address(id, e)),
        None => of_address(id, e),
    }
}

/// Why an address leads nowhere: of a call, or of RDMA_CM_EVENT_ADDR_ERROR.
pub fn of_address(id: &Arc<Id>, e: Errno) -> String {
    let low = |port: u16| (1..1024).contains(&port);
    let port = id
        .block
        .source()
        .map_or(0, |source| u16::from_be(source.port()));
    match e.raw() {
        libc::ENODEV => format!(
            "The address is on no interface of this network namespace, or on one without an RDMA \
             device. {}",
            devices(id)
        ),
        libc::EADDRNOTAVAIL => "No interface of this network namespace has the address.".to_owned(),
        libc::EADDRINUSE => {
            "Another id is bound to the port: of this process, of another one, or of one that has \
             not ended yet ('uroce-stat' lists those of devices in user space). RDMA_OPTION_ID_REUSEADDR \
             lets both have it if neither listens."
                .to_owned()
        }
        libc::EACCES | libc::EPERM if low(port) => {
            "The port is below net.ipv4.ip_unprivileged_port_start: it needs CAP_NET_BIND_SERVICE."
                .to_owned()
        }
        libc::ENETUNREACH | libc::EHOSTUNREACH => {
            "There is no route to the destination, or its host does not answer on the link \
             ('ip route get ADDRESS', 'ip neigh')."
                .to_owned()
        }
        libc::ETIMEDOUT => "The destination did not answer on the link within timeout_ms: no host \
                            has the address ('ip neigh'), or it is down."
            .to_owned(),
        libc::EACCES | libc::EPERM => {
            "The port, or the device, is not for this process: ports below \
             net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE."
                .to_owned()
        }
        _ => format!("The connection manager answered this. {}", devices(id)),
    }
}

/// The devices that there are.
fn devices(id: &Id) -> String {
    let Ok(list) = DeviceList::new() else {
        return "There is no device.".to_owned();
    };
    let names = list.devices().map(|device| device.name());
    let names = names.collect::<Vec<_>>().join(", ");
    let source = Channel::of(id.block.channel()).and_then(registry::known_source);
    let is_kernel = source.is_some_and(|source| source.kernel().is_some());
    let note = if is_kernel && names.contains("uroce_") {
        " The kernel has a connection manager (/dev/infiniband/rdma_cm), so ids do not reach those \
         of uroce."
    } else {
        ""
    };
    format!("Devices: {names}.{note}")
}

fn of_listen(id: &Arc<Id>, e: Errno) -> String {
    match e.raw() {
        libc::EINVAL => state(id, "An id listens that is bound (rdma_bind_addr), once."),
        _ => of_address(id, e),
    }
}

fn of_connection(call: Call, id: &Arc<Id>, about: &About, e: Errno) -> String {
    if e != Errno::INVAL {
        return of_queue_pair_moves(e);
    }
    let About::Depths(depths) = about else {
        return general(call);
    };
    if depths.is_none() && id.qp().is_none() && id.block.ps() == port_space::RDMA_PS_TCP {
        return "The id has no queue pair and the call no parameters: the peer has to learn a queue \
                pair's number (rdma_create_qp, or conn_param.qp_num)."
            .to_owned();
    }
    if let (Some((resources, depth)), Some(most)) = (depths, id.capabilities()) {
        let exceeds = |wanted: u8, most: u8| wanted != MAX_DEPTH && wanted > most;
        let (most_resources, most_depth) = (most.max_responder_resources, most.max_initiator_depth);
        if exceeds(*resources, most_resources) {
            return format!(
                "responder_resources {resources} is more than the device has: max_qp_rd_atom \
                 {most_resources}. RDMA_MAX_RESP_RES is as many as there are."
            );
        }
        if exceeds(*depth, most_depth) {
            return format!(
                "initiator_depth {depth} is more than the device has: max_qp_init_rd_atom \
                 {most_depth}. RDMA_MAX_INIT_DEPTH is as many as there are."
            );
        }
    }
    if call == Call::Connect {
        return state(
            id,
            "An id connects once, after RDMA_CM_EVENT_ROUTE_RESOLVED. Private data of RC is 56 \
             bytes at most, of UD 180.",
        );
    }
    state(
        id,
        "An id is accepted that came with RDMA_CM_EVENT_CONNECT_REQUEST, once. Private data of RC \
         is 196 bytes at most, of UD 136.",
    )
}

fn of_queue_pair_moves(e: Errno) -> String {
    match e.raw() {
        libc::ENOTCONN | libc::ECONNRESET => "The peer is gone.".to_owned(),
        libc::ECONNREFUSED => {
            "The peer rejected; the line before this one has its reason.".to_owned()
        }
        libc::ETIMEDOUT => {
            "The peer's connection manager did not answer; the line before this one says more."
                .to_owned()
        }
        _ => "ibv_modify_qp, or the connection manager, answered this; a line of libibverbs says \
              more of the first."
            .to_owned(),
    }
}

fn of_queue_pair(id: &Arc<Id>, about: &About, e: Errno) -> String {
    let general = "ibv_create_qp or ibv_modify_qp answered this; a line of libibverbs says more.";
    if e != Errno::INVAL {
        return general.to_owned();
    }
    if id.qp().is_some() {
        return "The id has a queue pair already.".to_owned();
    }
    if id.block.verbs().is_null() {
        return "The id is at no device yet: queue pairs are made after \
                RDMA_CM_EVENT_ADDR_RESOLVED, or by the id of a request."
            .to_owned();
    }
    let About::QueuePair {
        pd,
        context,
        send_cq,
        recv_cq,
    } = about
    else {
        return "qp_init_attr is NULL.".to_owned();
    };
    if *pd != 0 && *context != id.block.verbs().addr() {
        return "The protection domain is of another device, or of another context of the device: \
                it is made with the id's verbs, or NULL is passed."
            .to_owned();
    }
    let differs = |own: usize, given: usize| own != 0 && given != 0 && own != given;
    if differs(id.block.send_cq().addr(), *send_cq) || differs(id.block.recv_cq().addr(), *recv_cq)
    {
        return "The id has a completion queue already, and another one is passed.".to_owned();
    }
    general.to_owned()
}

fn of_other(call: Call, id: &Arc<Id>, e: Errno) -> String {
    let has_qp = id.qp().is_some();
    match (call, e.raw()) {
        (Call::ResolveRoute, libc::EINVAL) => state(
            id,
            "A route is resolved once, after RDMA_CM_EVENT_ADDR_RESOLVED.",
        ),
        (Call::Disconnect | Call::Notify, libc::EINVAL | libc::ENOTCONN) => {
            state(id, "A connection is needed.")
        }
        (Call::Establish, libc::EINVAL) if has_qp => {
            "The id has a queue pair: the library itself establishes the connection then."
                .to_owned()
        }
        (Call::SetLocalEce | Call::GetRemoteEce, libc::EINVAL) if has_qp => {
            "The id has a queue pair, whose options the library exchanges: ECE is the program's \
             only if the queue pair is (rdma_cm_id.qp is NULL)."
                .to_owned()
        }
        (Call::Reject | Call::RejectEce, libc::EINVAL) => state(
            id,
            "An id is rejected that came with RDMA_CM_EVENT_CONNECT_REQUEST and was not answered.",
        ),
        (Call::GetRequest, libc::EINVAL) if !id.is_sync() => {
            "The listener has an event channel: its requests come by rdma_get_cm_event.".to_owned()
        }
        (Call::MigrateId, libc::EINVAL) => "The id has no event channel already, or the new \
                                            channel is of another connection manager."
            .to_owned(),
        (Call::LeaveMulticast, libc::EADDRNOTAVAIL) => {
            "The id has not joined this group.".to_owned()
        }
        (Call::JoinMulticast | Call::JoinMulticastEx, libc::EINVAL) => state(
            id,
            "Groups are joined by ids of RDMA_PS_UDP or RDMA_PS_IPOIB that are at a device.",
        ),
        (Call::WriteCmEvent, libc::EINVAL) => "Programs write RDMA_CM_EVENT_USER alone.".to_owned(),
        (Call::CreateSrq | Call::CreateSrqEx, libc::EINVAL) if id.block.verbs().is_null() => {
            "The id is at no device yet: see RDMA_CM_EVENT_ADDR_RESOLVED.".to_owned()
        }
        (Call::InitQpAttr, libc::EINVAL) => state(
            id,
            "Attributes of a state are known when the id has come so far: INIT from the device on, \
             RTR and RTS from RDMA_CM_EVENT_CONNECT_REQUEST or _RESPONSE on.",
        ),
        (Call::SetOption, libc::EINVAL | libc::ENOSYS) => {
            "The option is unknown, its value is of another length, or it is too late for it."
                .to_owned()
        }
        _ => general(call),
    }
}

/// What an id has done so far, after what a call needs.
fn state(id: &Arc<Id>, needed: &str) -> String {
    let last = match id.last_event().and_then(event_name) {
        Some(name) => format!("its last event is {}", name.to_string_lossy()),
        None => "it has had no event".to_owned(),
    };
    let device = if id.block.verbs().is_null() {
        "is at no device"
    } else {
        "is at a device"
    };
    let hint = match id.last_event() {
        Some(event_type::DISCONNECTED | event_type::REJECTED | event_type::UNREACHABLE) => {
            " Each attempt needs a new id."
        }
        _ => "",
    };
    format!("{needed} This id {device}, and {last}.{hint}")
}

fn general(call: Call) -> String {
    format!(
        "The connection manager returned this; the man page of {} explains it.",
        call.name()
    )
}
