//! Strings and rates.

use crate::{
    core::{rate, text},
    symver,
};
use kit::abi::{ibv_event_type, ibv_node_type, ibv_port_state, ibv_rate, ibv_wc_status};
use std::ffi::{c_char, c_int};

extern "C" fn node_type_str(value: ibv_node_type) -> *const c_char {
    text::node_type(value).as_ptr()
}
symver!(node_type_str => "ibv_node_type_str", "IBVERBS_1.1");

extern "C" fn port_state_str(value: ibv_port_state) -> *const c_char {
    text::port_state(value).as_ptr()
}
symver!(port_state_str => "ibv_port_state_str", "IBVERBS_1.1");

extern "C" fn event_type_str(value: ibv_event_type) -> *const c_char {
    text::event_type(value).as_ptr()
}
symver!(event_type_str => "ibv_event_type_str", "IBVERBS_1.1");

extern "C" fn wc_status_str(value: ibv_wc_status) -> *const c_char {
    text::wc_status(value).as_ptr()
}
symver!(wc_status_str => "ibv_wc_status_str", "IBVERBS_1.1");

extern "C" fn rate_to_mult(code: ibv_rate) -> c_int {
    rate::to_mult(code)
}
symver!(rate_to_mult => "ibv_rate_to_mult", "IBVERBS_1.0");

extern "C" fn mult_to_rate(mult: c_int) -> ibv_rate {
    rate::from_mult(mult)
}
symver!(mult_to_rate => "mult_to_ibv_rate", "IBVERBS_1.0");

extern "C" fn rate_to_mbps(code: ibv_rate) -> c_int {
    rate::to_mbps(code)
}
symver!(rate_to_mbps => "ibv_rate_to_mbps", "IBVERBS_1.1");

extern "C" fn mbps_to_rate(mbps: c_int) -> ibv_rate {
    rate::from_mbps(mbps)
}
symver!(mbps_to_rate => "mbps_to_ibv_rate", "IBVERBS_1.1");
