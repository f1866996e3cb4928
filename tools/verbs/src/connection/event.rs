//! Events, and the parameters of connections.
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use kit::cm::event_type;

use super::{Destination, failed, id::Id};
use crate::{
    error::Error,
    sys::cm::{Param, Taken},
};

/// Values that one end of a connection sends to the other, beside the queue pair's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// Bytes for the program of the other end: at most 56 with a request, 196 with an acceptance,
    /// 148 with a rejection; of datagrams, 180 with a request, 136 with an answer. The other end
    /// may see zeros behind them.
    pub private_data: Vec<u8>,
    /// How many RDMA reads and atomic operations this end answers at once. As many as the device
    /// can, if none is given; for an acceptance, as many as the peer asks for.
    pub responder_resources: Option<u8>,
    /// How many RDMA reads and atomic operations this end has in flight at once. As above.
    pub initiator_depth: Option<u8>,
}

impl Parameters {
    /// Parameters with private data.
    #[must_use]
    pub fn with_private_data(data: impl Into<Vec<u8>>) -> Self {
        Self {
            private_data: data.into(),
            ..Self::default()
        }
    }

    fn of(param: Param) -> Self {
        Self {
            private_data: param.private_data,
            responder_resources: Some(param.responder_resources),
            initiator_depth: Some(param.initiator_depth),
        }
    }
}

/// What happened to an id: `enum rdma_cm_event_type`. It is a copy; the library's own was
/// acknowledged.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The destination belongs to a device, which the id has now; [`Id::resolve_route`] follows.
    AddressResolved {
        /// The id.
        id: Id,
    },
    /// No device leads to the destination.
    AddressError {
        /// The id.
        id: Id,
        /// Why.
        error: Error,
    },
    /// The way is known; [`Id::prepare`] and [`Id::connect`] follow.
    RouteResolved {
        /// The id.
        id: Id,
    },
    /// There is no way.
    RouteError {
        /// The id.
        id: Id,
        /// Why.
        error: Error,
    },
    /// A peer asks for a connection; [`Id::prepare`] and [`Id::accept`] follow, or [`Id::reject`].
    /// If the new id is dropped, the request is rejected. Of an id of datagrams, a peer asks where
    /// to send them, and [`Id::accept_datagrams`] follows.
    ConnectRequest {
        /// The id that listens.
        listener: Id,
        /// A new id, for the connection.
        id: Id,
        /// The peer's parameters, seen from this end.
        parameters: Parameters,
    },
    /// The peer has accepted; [`Id::establish`] follows.
    ConnectResponse {
        /// The id.
        id: Id,
        /// The peer's parameters, seen from this end.
        parameters: Parameters,
    },
    /// The connection failed while it was made.
    ConnectError {
        /// The id.
        id: Id,
        /// Why.
        error: Error,
    },
    /// The peer does not answer.
    Unreachable {
        /// The id.
        id: Id,
        /// Why.
        error: Error,
    },
    /// The peer has rejected the request: its program, or its connection manager where nothing
    /// listens.
    Rejected {
        /// The id.
        id: Id,
        /// The reason of the message; 28 is the peer's program, 8 that nothing listens. Of an id of
        /// datagrams it is the status of the answer; 2 is the peer's program, 1 that nothing
        /// listens.
        reason: u32,
        /// Of the peer's program.
        private_data: Vec<u8>,
    },
    /// The connection is there: for the accepting end, and for both on iWARP.
    Established {
        /// The id.
        id: Id,
        /// The peer's parameters, seen from this end.
        parameters: Parameters,
    },
    /// The peer's answer to [`Id::request_datagrams`]: where datagrams are sent
    /// (RDMA_CM_EVENT_ESTABLISHED of an id of datagrams).
    DestinationResolved {
        /// The id.
        id: Id,
        /// The peer's queue pair.
        destination: Destination,
        /// Of the peer's program.
        private_data: Vec<u8>,
    },
    /// The id has joined a multicast group.
    MulticastJoin {
        /// The id.
        id: Id,
        /// The address that [`Id::join_multicast`] was called with.
        group: SocketAddr,
        /// Where its datagrams are sent, and where they are received ([`Destination::attach`]).
        destination: Destination,
    },
    /// The id could not join a multicast group, or is no longer a member.
    MulticastError {
        /// The id.
        id: Id,
        /// The address that [`Id::join_multicast`] was called with.
        group: SocketAddr,
        /// Why.
        error: Error,
    },
    /// The connection has ended. If the peer has ended it, [`Id::disconnect`] answers; without an
    /// answer the peer gets its event later.
    Disconnected {
        /// The id.
        id: Id,
    },
    /// The device is going away; its objects should be dropped.
    DeviceRemoval {
        /// The id.
        id: Id,
    },
    /// The address of the id belongs to another device now.
    AddressChange {
        /// The id.
        id: Id,
    },
    /// No late packet of the ended connection can come any more.
    TimewaitExit {
        /// The id.
        id: Id,
    },
    /// Another event.
    Other {
        /// The id.
        id: Id,
        /// Its number, `enum rdma_cm_event_type`.
        kind: u32,
        /// 0, a negative errno, or what the kind of event has there.
        status: i32,
    },
}

impl Event {
    /// The event, unless it is one of an id that was dropped.
    pub(super) fn of(taken: Taken) -> Option<Self> {
        use event_type::*;
        /// The kernel's number, which `kit` does not need.
        const ADDR_CHANGE: u32 = 14;
        let Taken {
            kind,
            status,
            number,
            request,
            mut param,
            ud,
        } = taken;
        // Dropped with the listening id, a request is rejected.
        let request = request.map(Id::of);
        let id = Id::find(number)?;
        let error = |function| failed(function, status);
        if let Some(ud) = ud {
            let destination = Destination::new(ud.attr, ud.number, ud.qkey);
            let private_data = ud.private_data;
            match kind {
                MULTICAST_JOIN | MULTICAST_ERROR => {
                    let groups = id.groups();
                    let group = groups.iter().find(|(number, _)| *number == ud.join);
                    // One of a group that was left.
                    let (_, group) = *group?;
                    drop(groups);
                    return Some(match (kind, status) {
                        (MULTICAST_JOIN, 0) => Self::MulticastJoin {
                            id,
                            group,
                            destination,
                        },
                        _ => Self::MulticastError {
                            id,
                            group,
                            error: error("rdma_join_multicast"),
                        },
                    });
                }
                ESTABLISHED => {
                    return Some(Self::DestinationResolved {
                        id,
                        destination,
                        private_data,
                    });
                }
                // A status of the answer, and no errno.
                UNREACHABLE if status > 0 => {
                    return Some(Self::Rejected {
                        id,
                        reason: status.unsigned_abs(),
                        private_data,
                    });
                }
                _ => param.private_data = private_data,
            }
        }
        Some(match (kind, request) {
            (CONNECT_REQUEST, Some(request)) if request.is_datagram() => Self::ConnectRequest {
                listener: id,
                id: request,
                parameters: Parameters::with_private_data(param.private_data),
            },
            (CONNECT_REQUEST, Some(request)) => {
                let parameters = Parameters::of(param);
                request.asked(&parameters);
                Self::ConnectRequest {
                    listener: id,
                    id: request,
                    parameters,
                }
            }
            (ADDR_RESOLVED, _) => Self::AddressResolved { id },
            (ADDR_ERROR, _) => Self::AddressError {
                id,
                error: error("rdma_resolve_addr"),
            },
            (ROUTE_RESOLVED, _) => Self::RouteResolved { id },
            (ROUTE_ERROR, _) => Self::RouteError {
                id,
                error: error("rdma_resolve_route"),
            },
            (CONNECT_RESPONSE, _) => Self::ConnectResponse {
                id,
                parameters: Parameters::of(param),
            },
            (CONNECT_ERROR, _) => Self::ConnectError {
                id,
                error: error("rdma_connect"),
            },
            (UNREACHABLE, _) => Self::Unreachable {
                id,
                error: error("rdma_connect"),
            },
            (REJECTED, _) => Self::Rejected {
                id,
                reason: status.unsigned_abs(),
                private_data: param.private_data,
            },
            (ESTABLISHED, _) => Self::Established {
                id,
                parameters: Parameters::of(param),
            },
            (DISCONNECTED, _) => Self::Disconnected { id },
            (DEVICE_REMOVAL, _) => Self::DeviceRemoval { id },
            (ADDR_CHANGE, _) => Self::AddressChange { id },
            (TIMEWAIT_EXIT, _) => Self::TimewaitExit { id },
            _ => Self::Other { id, kind, status },
        })
    }

    /// The id that the event is of; of a request, the new one.
    #[must_use]
    pub fn id(&self) -> &Id {
        match self {
            Self::AddressResolved { id }
            | Self::AddressError { id, .. }
            | Self::RouteResolved { id }
            | Self::RouteError { id, .. }
            | Self::ConnectRequest { id, .. }
            | Self::ConnectResponse { id, .. }
            | Self::ConnectError { id, .. }
            | Self::Unreachable { id, .. }
            | Self::Rejected { id, .. }
            | Self::Established { id, .. }
            | Self::DestinationResolved { id, .. }
            | Self::MulticastJoin { id, .. }
            | Self::MulticastError { id, .. }
            | Self::Disconnected { id }
            | Self::DeviceRemoval { id }
            | Self::AddressChange { id }
            | Self::TimewaitExit { id }
            | Self::Other { id, .. } => id,
        }
    }
}
