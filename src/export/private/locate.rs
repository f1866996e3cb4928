//! Where the context lies in the `verbs_context` that a provider passes.
//!
//! Providers pass the address of their `verbs_context`. Generations differ in the length of the
//! members before the `ibv_context`. The node decides, except for node 59, whose releases 62 and 63
//! have one member more: there the size decides, which the library itself wrote.

use kit::{
    abi::{ibv_context, verbs_context},
    generation::Layout,
};
use std::{ffi::c_void, mem::offset_of};

/// How far the size lies in front of the `ibv_context`.
const SIZE_BELOW: usize = offset_of!(verbs_context, context) - offset_of!(verbs_context, sz);

/// The `ibv_context` in a context of a provider of that node; NULL for another context.
///
/// # Safety
/// `base` is NULL or a `verbs_context` of that node that this library made ready.
pub unsafe fn context<const NODE: u16>(base: *mut c_void) -> *mut ibv_context {
    if base.is_null() {
        return std::ptr::null_mut();
    }
    let found = Layout::of_node(NODE).find(|layout| {
        // SAFETY: the layouts of a node are in the order of their sizes, so this lies within the
        // provider's object.
        let size = unsafe {
            base.byte_add(layout.context_offset() - SIZE_BELOW)
                .cast::<usize>()
                .read()
        };
        size == layout.context_size
    });
    found.map_or(std::ptr::null_mut(), |layout| {
        base.wrapping_byte_add(layout.context_offset()).cast()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context of that many bytes, with its size where a context has it.
    fn made(layout: &Layout) -> Vec<u64> {
        let mut words = vec![0; layout.context_size / 8];
        words[(layout.context_offset() - SIZE_BELOW) / 8] = layout.context_size as u64;
        words
    }

    fn offset<const NODE: u16>(words: &mut [u64]) -> Option<usize> {
        let base = words.as_mut_ptr();
        // SAFETY: a context as far as its size, which is all that is read.
        let found = unsafe { context::<NODE>(base.cast()) };
        (!found.is_null()).then(|| found.addr() - base.addr())
    }

    #[test]
    fn each_layout_has_its_place() {
        for layout in Layout::of_node(59) {
            let found = offset::<59>(&mut made(layout));
            assert_eq!(found, Some(layout.context_offset()));
        }
        let of = |node| Layout::of_node(node).next().unwrap();
        assert_eq!(offset::<34>(&mut made(of(34))), Some(320));
        assert_eq!(offset::<57>(&mut made(of(57))), Some(320));
        assert_eq!(offset::<64>(&mut made(of(64))), Some(368));
        assert_eq!(offset::<65>(&mut made(of(65))), Some(368));
    }

    #[test]
    fn other_pointers_have_no_context() {
        assert_eq!(offset::<59>(&mut [0; 128]), None);
        // SAFETY: NULL.
        assert!(unsafe { context::<34>(std::ptr::null_mut()) }.is_null());
    }
}
