//! getaddrinfo(3).

use crate::abi::Address;
use core::ffi::{CStr, c_int};
use core::ptr::null_mut;
use kit::sys::{memory, pthread};

/// A question to getaddrinfo(3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Question {
    pub flags: c_int,
    pub family: c_int,
    pub socktype: c_int,
    pub protocol: c_int,
}

/// The first address of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub family: c_int,
    pub socktype: c_int,
    pub protocol: c_int,
    pub address: Address,
}

/// Looks for a node and service.
///
/// # Errors
/// The value of getaddrinfo(3); EAI_FAMILY for an address that an id cannot have.
pub fn first(
    node: Option<&CStr>,
    service: Option<&CStr>,
    question: Question,
) -> Result<Found, c_int> {
    let text = |text: Option<&CStr>| text.map_or(core::ptr::null(), CStr::as_ptr);
    let hints = memory::zeroed(size_of::<libc::addrinfo>()).map_err(|_| libc::EAI_MEMORY)?;
    let hints = hints.cast::<libc::addrinfo>();
    let mut list = null_mut();
    // SAFETY: zeros are a valid addrinfo; the strings end with NUL; the answer is freed once, after
    // its first entry is read.
    unsafe {
        (*hints).ai_flags = question.flags;
        (*hints).ai_family = question.family;
        (*hints).ai_socktype = question.socktype;
        (*hints).ai_protocol = question.protocol;
        let answer = pthread::without_cancellation(|| {
            libc::getaddrinfo(text(node), text(service), hints, &raw mut list)
        });
        memory::free(hints.cast());
        if answer != 0 {
            return Err(answer);
        }
        let entry = list.read();
        let address = Address::from_raw(entry.ai_addr);
        libc::freeaddrinfo(list);
        let address = address.ok().flatten().ok_or(libc::EAI_FAMILY)?;
        Ok(Found {
            family: entry.ai_family,
            socktype: entry.ai_socktype,
            protocol: entry.ai_protocol,
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_without_a_resolver() {
        let question = Question {
            flags: libc::AI_NUMERICHOST,
            ..Question::default()
        };
        let found = first(Some(c"10.9.0.2"), Some(c"7471"), question).unwrap();
        assert_eq!((found.family, found.address.size()), (libc::AF_INET, 16));
        assert_eq!(u16::from_be(found.address.port()), 7471);
        let none = first(Some(c"no number"), None, question);
        assert_eq!(none.map(|found| found.family), Err(libc::EAI_NONAME));
    }
}
