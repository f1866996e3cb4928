//! The calls of librdmacm, as `IBVERBS_TRACE` records them: names, and what their words are called.

macro_rules! calls {
    ($( $call:ident $name:literal $words:literal; )*) => {
        /// A call of librdmacm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is explained by its man page")]
        pub enum Call {
            $( $call, )*
        }

        /// All of them with their names and words, in the order of their numbers.
        pub const CALLS: &[(Call, &str, &str)] = &[ $( (Call::$call, $name, $words), )* ];
    };
}

calls! {
    CreateEventChannel "rdma_create_event_channel" "";
    DestroyEventChannel "rdma_destroy_event_channel" "channel";
    GetCmEvent "rdma_get_cm_event" "channel event id type status";
    AckCmEvent "rdma_ack_cm_event" "event";
    WriteCmEvent "rdma_write_cm_event" "id event status arg";
    CreateId "rdma_create_id" "channel ps";
    DestroyId "rdma_destroy_id" "id";
    MigrateId "rdma_migrate_id" "id channel";
    BindAddr "rdma_bind_addr" "id family port";
    ResolveAddr "rdma_resolve_addr" "id family port timeout_ms";
    ResolveRoute "rdma_resolve_route" "id timeout_ms";
    Listen "rdma_listen" "id backlog";
    SetOption "rdma_set_option" "id level name length";
    Connect "rdma_connect" "id qp_num responder_resources initiator_depth private_data_len";
    Accept "rdma_accept" "id qp_num responder_resources initiator_depth private_data_len";
    Establish "rdma_establish" "id";
    Reject "rdma_reject" "id private_data_len";
    RejectEce "rdma_reject_ece" "id private_data_len";
    Notify "rdma_notify" "id event";
    Disconnect "rdma_disconnect" "id";
    GetRequest "rdma_get_request" "id";
    SetLocalEce "rdma_set_local_ece" "id";
    GetRemoteEce "rdma_get_remote_ece" "id";
    CreateQp "rdma_create_qp" "id pd";
    CreateQpEx "rdma_create_qp_ex" "id";
    DestroyQp "rdma_destroy_qp" "id";
    CreateSrq "rdma_create_srq" "id pd";
    CreateSrqEx "rdma_create_srq_ex" "id";
    DestroySrq "rdma_destroy_srq" "id";
    InitQpAttr "rdma_init_qp_attr" "id";
    CreateEp "rdma_create_ep" "pd";
    DestroyEp "rdma_destroy_ep" "id";
    GetAddrInfo "rdma_getaddrinfo" "";
    ResolveAddrInfo "rdma_resolve_addrinfo" "id";
    QueryAddrInfo "rdma_query_addrinfo" "id";
    JoinMulticast "rdma_join_multicast" "id family";
    JoinMulticastEx "rdma_join_multicast_ex" "id";
    LeaveMulticast "rdma_leave_multicast" "id family";
    GetDevices "rdma_get_devices" "";
}

impl Call {
    /// Its place in [`CALLS`].
    #[must_use]
    pub fn number(self) -> usize {
        CALLS.iter().position(|row| row.0 == self).unwrap_or(0)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        CALLS.get(self.number()).map_or("", |row| row.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_of_the_interface() {
        assert_eq!(Call::CreateEventChannel.number(), 0);
        assert_eq!(Call::Connect.name(), "rdma_connect");
        assert_eq!(Call::GetDevices.number(), CALLS.len() - 1);
        assert!(CALLS.iter().all(|(_, name, _)| name.starts_with("rdma_")));
    }
}
