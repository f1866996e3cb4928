//! Names that providers print.

use crate::{core::text, private};
use kit::abi::ibv_wr_opcode;
use std::ffi::c_char;

extern "C" fn wr_opcode_str(value: ibv_wr_opcode) -> *const c_char {
    text::wr_opcode(value).as_ptr()
}
private!(wr_opcode_str => "ibv_wr_opcode_str", [34, 57, 59, 64, 65]);
