//! The C door: every exported function, by object. Each converts, calls and converts back.

pub mod private;
pub mod ret;

mod address;
mod ah;
mod buf;
mod channel;
mod comp_cntr;
mod compat_1_0;
mod context;
mod cq;
mod device;
mod dm;
mod dmah;
mod event;
#[cfg(test)]
pub mod fake;
mod fork;
mod gid;
mod marshal;
mod mr;
mod mr_ex;
mod observe;
mod ofa;
mod pd;
mod pkey;
mod port;
mod qp;
mod resolve;
mod srq;
mod text;

/// What has to be done before the first device is looked for.
fn start() {
    crate::core::init::once(private::disassociate::allow_disassociate, observe::ask);
}
