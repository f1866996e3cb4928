//! Commands that came after the kernel of the tests' virtual machine: completion counters, the
//! speed of a port.

use crate::abi::ibv_comp_cntr_caps;
use crate::abi::kernel::ioctl::*;
use crate::errno::{Errno, Result};
use crate::sys::ioctl::Ioctl;
use crate::uverbs::Driver;
use crate::uverbs::comp_cntr::{self, Change, Entry};
use crate::uverbs::device::query_port_speed;
use crate::uverbs::fake::{Call, Fake};

/// The call: object, method, and the bytes or the number of each attribute.
fn asked(fake: &Fake<'_>) -> (u16, u16, Vec<(u16, u64)>) {
    let asked = fake.asked.borrow();
    let Some(Call::Ioctl(object, method, attrs)) = asked.last() else {
        panic!("not a method: {asked:?}");
    };
    let attrs = attrs.iter().map(|(attr, _)| (attr.id, attr.data));
    (*object, *method, attrs.collect())
}

fn kernel<'f>(answer: impl FnMut(&mut Ioctl<'_>) -> Result<()> + 'f) -> Fake<'f> {
    Fake::new(answer, |_| panic!("these commands are not written"))
}

#[test]
fn counts_are_set_added_to_and_attached() {
    let fake = kernel(|_| Ok(()));
    let modified = |entry, change| {
        comp_cntr::modify(&fake, 5, entry, change).unwrap();
        asked(&fake)
    };
    let call = |entry, operation, value| {
        let attrs = vec![(0, 5), (1, entry), (2, operation), (3, value)];
        (
            UVERBS_OBJECT_COMP_CNTR,
            UVERBS_METHOD_COMP_CNTR_MODIFY,
            attrs,
        )
    };
    assert_eq!(modified(Entry::Completed, Change::Set(9)), call(0, 0, 9));
    assert_eq!(modified(Entry::Failed, Change::Inc(8)), call(1, 1, 8));

    comp_cntr::attach(&fake, 7, 5, 3).unwrap();
    let attached = (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR);
    let (object, method, attrs) = asked(&fake);
    assert_eq!((object, method), attached);
    assert_eq!(attrs, [(0, 7), (1, 5), (2, 3)]);

    comp_cntr::destroy(&fake, 5).unwrap();
    let (object, method, attrs) = asked(&fake);
    assert_eq!(
        (object, method),
        (UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_DESTROY)
    );
    assert_eq!(attrs, [(0, 5)]);
    comp_cntr::create(&fake, &mut Driver::none()).unwrap();
    assert_eq!(asked(&fake).1, UVERBS_METHOD_COMP_CNTR_CREATE);
}

#[test]
fn a_kernel_that_does_not_know_a_command_is_eopnotsupp() {
    for unknown in [Errno::PROTONOSUPPORT, Errno(libc::ENOTTY), Errno::OPNOTSUPP] {
        let fake = kernel(|_| Err(unknown));
        let not_there = Errno::OPNOTSUPP;
        assert_eq!(comp_cntr::query_caps(&fake), Err(not_there));
        assert_eq!(
            comp_cntr::create(&fake, &mut Driver::none()),
            Err(not_there)
        );
        assert_eq!(comp_cntr::destroy(&fake, 1), Err(not_there));
        assert_eq!(comp_cntr::read(&fake, 1, Entry::Completed), Err(not_there));
        assert_eq!(comp_cntr::attach(&fake, 1, 2, 1), Err(not_there));
        assert_eq!(query_port_speed(&fake, 1), Err(not_there));
    }
    let fake = kernel(|_| Err(Errno::BUSY));
    assert_eq!(comp_cntr::destroy(&fake, 1), Err(Errno::BUSY));
}

#[test]
fn answers_come_back() {
    let fake = kernel(|call| {
        let (_, method) = call.target();
        match method {
            UVERBS_METHOD_QUERY_PORT_SPEED => call.answer(1, &4000u64.to_ne_bytes()),
            UVERBS_METHOD_COMP_CNTR_READ => call.answer(2, &77u64.to_ne_bytes()),
            _ => {
                call.answer(0, &3u32.to_ne_bytes());
                call.answer(1, &9u64.to_ne_bytes());
                call.answer(2, &5u32.to_ne_bytes());
            }
        }
        Ok(())
    });
    assert_eq!(query_port_speed(&fake, 2), Ok(4000));
    assert_eq!(
        asked(&fake).2[0],
        (UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, 2)
    );
    assert_eq!(comp_cntr::read(&fake, 4, Entry::Failed), Ok(77));
    assert_eq!(asked(&fake).2[..2], [(0, 4), (1, 1)]);
    let caps = ibv_comp_cntr_caps {
        max_value: 9,
        max_counters: 3,
        supported_qp_attach_ops: 5,
    };
    assert_eq!(comp_cntr::query_caps(&fake), Ok(caps));
}
