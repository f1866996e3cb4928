//! The messages: each field with its place (IBTA volume 1, 12.6).

use super::bits::{BODY, get, get_bytes, put, put_bytes};

/// The value of a field, for those that list them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Declares the messages. A line of numbers is a field: its type, the byte it begins in, the bits
/// to be skipped there, and its width in bits. A line of bytes is a field: how many, and where.
macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $name:ident = $attribute:literal, $called:literal {
            $( $(#[$number_doc:meta])* $number:ident: $type:ty = $at:literal, $bit:literal, $width:literal; )*
            ;
            $( $(#[$bytes_doc:meta])* $bytes:ident: $length:literal at $start:literal; )*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name {
                $( $(#[$number_doc])* pub $number: $type, )*
                $( $(#[$bytes_doc])* pub $bytes: [u8; $length], )*
            }

            impl Default for $name {
                fn default() -> Self {
                    Self::read(&[0; BODY])
                }
            }

            impl $name {
                fn read(body: &[u8; BODY]) -> Self {
                    Self {
                        $( $number: get::<$type, $at, $bit, $width>(body), )*
                        $( $bytes: get_bytes::<$start, $length>(body), )*
                    }
                }

                fn write(&self, body: &mut [u8; BODY]) {
                    $( put::<$type, $at, $bit, $width>(body, self.$number); )*
                    $( put_bytes::<$start, $length>(body, &self.$bytes); )*
                }

                /// The fields by name, in the order of their places: numbers, then bytes.
                #[must_use]
                pub fn fields(&self) -> Vec<(&'static str, Value)> {
                    vec![
                        $( (stringify!($number), Value::Number(self.$number.into())), )*
                        $( (stringify!($bytes), Value::Bytes(self.$bytes.to_vec())), )*
                    ]
                }
            }
        )*

        /// A message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant)] // all are written to and read from 232 bytes
        pub enum Message {
            $( $(#[$doc])* $name($name), )*
        }

        impl Message {
            /// The message of an attribute id; `None` for another's.
            pub(super) fn read(attribute: u16, body: &[u8; BODY]) -> Option<Self> {
                match attribute {
                    $( $attribute => Some(Self::$name($name::read(body))), )*
                    _ => None,
                }
            }

            /// Its bytes.
            pub(super) fn body(&self) -> [u8; BODY] {
                let mut body = [0; BODY];
                match self {
                    $( Self::$name(message) => message.write(&mut body), )*
                }
                body
            }

            /// The attribute id that names its kind in the datagram's header.
            #[must_use]
            pub fn attribute(&self) -> u16 {
                match self {
                    $( Self::$name(_) => $attribute, )*
                }
            }

            /// The name in the specification.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => $called, )*
                }
            }

            /// The fields by name.
            #[must_use]
            pub fn fields(&self) -> Vec<(&'static str, Value)> {
                match self {
                    $( Self::$name(message) => message.fields(), )*
                }
            }
        }

        $(
            impl From<$name> for Message {
                fn from(message: $name) -> Self {
                    Self::$name(message)
                }
            }
        )*
    };
}

messages! {
    /// Request for communication: opens a connection.
    Req = 0x0010, "REQ" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// Vendor of enhanced connection options; 0 without. The options are
        /// [`Mad::modifier`](super::Mad::modifier).
        vendor_id: u32 = 5, 0, 24;
        /// The service.
        service_id: u64 = 8, 0, 64;
        /// Node GUID of the sender.
        local_ca_guid: u64 = 16, 0, 64;
        /// Q_Key of the sender.
        local_q_key: u32 = 28, 0, 32;
        /// Queue pair of the sender.
        local_qpn: u32 = 32, 0, 24;
        /// Reads and atomic operations that the sender answers at once.
        responder_resources: u8 = 35, 0, 8;
        /// End-to-end context; not used.
        local_eecn: u32 = 36, 0, 24;
        /// Reads and atomic operations that the sender has under way at once.
        initiator_depth: u8 = 39, 0, 8;
        /// End-to-end context; not used.
        remote_eecn: u32 = 40, 0, 24;
        /// In which time the receiver is to answer: 4.096 microseconds times two to its power.
        remote_cm_response_timeout: u8 = 43, 0, 5;
        /// 0 RC, 1 UC, 3 XRC (with the extended type 1).
        transport_service_type: u8 = 43, 5, 2;
        /// Whether the sender uses end-to-end credits.
        end_to_end_flow_control: bool = 43, 7, 1;
        /// The first PSN that the sender wants to receive.
        starting_psn: u32 = 44, 0, 24;
        /// In which time the sender answers: 4.096 microseconds times two to its power.
        local_cm_response_timeout: u8 = 47, 0, 5;
        /// Retries of the connection.
        retry_count: u8 = 47, 5, 3;
        /// The P_Key.
        partition_key: u16 = 48, 0, 16;
        /// The path MTU: 1 (256 bytes) to 5 (4096 bytes).
        path_packet_payload_mtu: u8 = 50, 0, 4;
        /// Reliable datagrams; not used.
        rdc_exists: bool = 50, 4, 1;
        /// RNR retries of the connection; 7 is for ever.
        rnr_retry_count: u8 = 50, 5, 3;
        /// How often a message of the communication manager is repeated.
        max_cm_retries: u8 = 51, 0, 4;
        /// Whether the queue pair of the sender has a shared receive queue.
        srq: bool = 51, 4, 1;
        /// 1 for XRC.
        extended_transport_type: u8 = 51, 5, 3;
        /// Primary path: LID of the sender.
        primary_local_port_lid: u16 = 52, 0, 16;
        /// Primary path: LID of the receiver.
        primary_remote_port_lid: u16 = 54, 0, 16;
        /// Primary path: flow label.
        primary_flow_label: u32 = 88, 0, 20;
        /// Primary path: static rate.
        primary_packet_rate: u8 = 91, 2, 6;
        /// Primary path: traffic class.
        primary_traffic_class: u8 = 92, 0, 8;
        /// Primary path: hop limit.
        primary_hop_limit: u8 = 93, 0, 8;
        /// Primary path: service level.
        primary_sl: u8 = 94, 0, 4;
        /// Primary path: whether both are of one subnet.
        primary_subnet_local: bool = 94, 4, 1;
        /// Primary path: timeout of the queue pair of the sender: 4.096 microseconds times two to
        /// its power.
        primary_local_ack_timeout: u8 = 95, 0, 5;
        /// Alternate path: LID of the sender.
        alternate_local_port_lid: u16 = 96, 0, 16;
        /// Alternate path: LID of the receiver.
        alternate_remote_port_lid: u16 = 98, 0, 16;
        /// Alternate path: flow label.
        alternate_flow_label: u32 = 132, 0, 20;
        /// Alternate path: static rate.
        alternate_packet_rate: u8 = 135, 2, 6;
        /// Alternate path: traffic class.
        alternate_traffic_class: u8 = 136, 0, 8;
        /// Alternate path: hop limit.
        alternate_hop_limit: u8 = 137, 0, 8;
        /// Alternate path: service level.
        alternate_sl: u8 = 138, 0, 4;
        /// Alternate path: whether both are of one subnet.
        alternate_subnet_local: bool = 138, 4, 1;
        /// Alternate path: timeout of the queue pair of the sender: 4.096 microseconds times two to
        /// its power.
        alternate_local_ack_timeout: u8 = 139, 0, 5;
        /// Whether the sender suggests alternate paths.
        sap_supported: bool = 139, 5, 1;
        ;
        /// Primary path: GID of the sender.
        primary_local_port_gid: 16 at 56;
        /// Primary path: GID of the receiver.
        primary_remote_port_gid: 16 at 72;
        /// Alternate path: GID of the sender.
        alternate_local_port_gid: 16 at 100;
        /// Alternate path: GID of the receiver.
        alternate_remote_port_gid: 16 at 116;
        /// Private data of the sending program, padded with zeros.
        private_data: 92 at 140;
    }
    /// Message receipt acknowledgement: asks the peer to wait.
    Mra = 0x0011, "MRA" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        /// Which message is acknowledged: 0 REQ, 1 REP, 2 another.
        message_mraed: u8 = 8, 0, 2;
        /// How long the sender needs: 4.096 microseconds times two to its power.
        service_timeout: u8 = 9, 0, 5;
        ;
        /// Private data of the sending program, padded with zeros.
        private_data: 222 at 10;
    }
    /// Reject.
    Rej = 0x0012, "REJ" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        /// Which message is rejected: 0 REQ, 1 REP, 2 another or none.
        message_rejected: u8 = 8, 0, 2;
        /// How many bytes of the additional information count.
        additional_information_length: u8 = 9, 0, 7;
        /// Why (IBTA volume 1, 12.6.7.2).
        reason: u16 = 10, 0, 16;
        ;
        /// Further information about the reason or status.
        additional_information: 72 at 12;
        /// Private data of the sending program, padded with zeros.
        private_data: 148 at 84;
    }
    /// Reply to a request.
    Rep = 0x0013, "REP" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        /// Q_Key of the sender.
        local_q_key: u32 = 8, 0, 32;
        /// Queue pair of the sender.
        local_qpn: u32 = 12, 0, 24;
        /// Vendor of enhanced connection options, the highest byte.
        vendor_id_h: u8 = 15, 0, 8;
        /// The queue pair of an XRC target.
        local_ee_context_number: u32 = 16, 0, 24;
        /// Vendor of enhanced connection options, the middle byte.
        vendor_id_m: u8 = 19, 0, 8;
        /// The first PSN that the sender wants to receive.
        starting_psn: u32 = 20, 0, 24;
        /// Vendor of enhanced connection options, the lowest byte.
        vendor_id_l: u8 = 23, 0, 8;
        /// Reads and atomic operations that the sender answers at once.
        responder_resources: u8 = 24, 0, 8;
        /// Reads and atomic operations that the sender has under way at once.
        initiator_depth: u8 = 25, 0, 8;
        /// How late the sender acknowledges: 4.096 microseconds times two to its power.
        target_ack_delay: u8 = 26, 0, 5;
        /// Whether the alternate path is taken; not used.
        failover_accepted: u8 = 26, 5, 2;
        /// Whether the sender uses end-to-end credits.
        end_to_end_flow_control: bool = 26, 7, 1;
        /// RNR retries of the connection; 7 is for ever.
        rnr_retry_count: u8 = 27, 0, 3;
        /// Whether the queue pair of the sender has a shared receive queue.
        srq: bool = 27, 3, 1;
        /// Node GUID of the sender.
        local_ca_guid: u64 = 28, 0, 64;
        ;
        /// Private data of the sending program, padded with zeros.
        private_data: 196 at 36;
    }
    /// Ready to use: the reply has come.
    Rtu = 0x0014, "RTU" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        ;
        /// Private data of the sending program, padded with zeros.
        private_data: 224 at 8;
    }
    /// Request for communication release.
    Dreq = 0x0015, "DREQ" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        /// Queue pair of the receiver.
        remote_qpn: u32 = 8, 0, 24;
        ;
        /// Private data of the sending program, padded with zeros.
        private_data: 220 at 12;
    }
    /// Reply to a release.
    Drep = 0x0016, "DREP" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        ;
        /// Private data of the sending program, padded with zeros.
        private_data: 224 at 8;
    }
    /// Service id resolution request: asks for the datagram queue pair of a service.
    SidrReq = 0x0017, "SIDR REQ" {
        /// The communication id of the sender of the request.
        request_id: u32 = 0, 0, 32;
        /// The P_Key.
        partition_key: u16 = 4, 0, 16;
        /// The service.
        service_id: u64 = 8, 0, 64;
        ;
        /// Private data of the sending program, padded with zeros.
        private_data: 216 at 16;
    }
    /// Service id resolution response.
    SidrRep = 0x0018, "SIDR REP" {
        /// The communication id of the sender of the request.
        request_id: u32 = 0, 0, 32;
        /// 0, or why there is no queue pair: 1 not supported, 2 rejected, 3 no queue pair, 4
        /// redirect, 5 version.
        status: u8 = 4, 0, 8;
        /// How many bytes of the additional information count.
        additional_information_length: u8 = 5, 0, 8;
        /// Vendor of enhanced connection options, the highest byte.
        vendor_id_h: u16 = 6, 0, 16;
        /// The queue pair of the service.
        qpn: u32 = 8, 0, 24;
        /// Vendor of enhanced connection options, the lowest byte.
        vendor_id_l: u8 = 11, 0, 8;
        /// The service.
        service_id: u64 = 12, 0, 64;
        /// Its Q_Key.
        q_key: u32 = 20, 0, 32;
        ;
        /// Further information about the reason or status.
        additional_information: 72 at 24;
        /// Private data of the sending program, padded with zeros.
        private_data: 136 at 96;
    }
    /// Load alternate path. Not used on RoCE.
    Lap = 0x0019, "LAP" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        /// Queue pair of the receiver.
        remote_qpn: u32 = 12, 0, 24;
        /// In which time the receiver is to answer: 4.096 microseconds times two to its power.
        remote_cm_response_timeout: u8 = 15, 0, 5;
        /// Alternate path: LID of the sender.
        alternate_local_port_lid: u16 = 20, 0, 16;
        /// Alternate path: LID of the receiver.
        alternate_remote_port_lid: u16 = 22, 0, 16;
        /// Alternate path: flow label.
        alternate_flow_label: u32 = 56, 0, 20;
        /// Alternate path: traffic class.
        alternate_traffic_class: u8 = 59, 0, 8;
        /// Alternate path: hop limit.
        alternate_hop_limit: u8 = 60, 0, 8;
        /// Alternate path: static rate.
        alternate_packet_rate: u8 = 61, 2, 6;
        /// Alternate path: service level.
        alternate_sl: u8 = 62, 0, 4;
        /// Alternate path: whether both are of one subnet.
        alternate_subnet_local: bool = 62, 4, 1;
        /// Alternate path: timeout of the queue pair of the sender: 4.096 microseconds times two to
        /// its power.
        alternate_local_ack_timeout: u8 = 63, 0, 5;
        ;
        /// Alternate path: GID of the sender.
        alternate_local_port_gid: 16 at 24;
        /// Alternate path: GID of the receiver.
        alternate_remote_port_gid: 16 at 40;
        /// Private data of the sending program, padded with zeros.
        private_data: 168 at 64;
    }
    /// Alternate path response. Not used on RoCE.
    Apr = 0x001a, "APR" {
        /// The communication id of the sender.
        local_comm_id: u32 = 0, 0, 32;
        /// The communication id of the receiver; 0 if the sender does not know it.
        remote_comm_id: u32 = 4, 0, 32;
        /// How many bytes of the additional information count.
        additional_information_length: u8 = 8, 0, 8;
        /// 0, or why the path is not taken.
        ar_status: u8 = 9, 0, 8;
        ;
        /// Further information about the reason or status.
        additional_information: 72 at 12;
        /// Private data of the sending program, padded with zeros.
        private_data: 148 at 84;
    }
}
