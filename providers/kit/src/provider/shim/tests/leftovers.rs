//! A context that is closed while objects are left.

use super::*;

#[test]
fn verbs_of_objects_left_in_a_closed_context_return_errors() {
    let state = Arc::new(State::default());
    let device = device(&state);
    let mut bench = Bench::of(device, Arc::clone(&state));
    let (pd, cq) = (bench.pd(), bench.cq_ex(0));
    let qp = made(bench.qp_ex(&mut qp_attr_ex(cq.cast(), IBV_QPT_RC, pd, 4)));
    // SAFETY: the context is open, and closed once; its objects are left on purpose, and their
    // blocks stay.
    unsafe {
        let ops = &(*bench.context).ops;
        let table = bench.table();
        let (dealloc, post) = (table.dealloc_pd(), ops.post_send.unwrap());
        (table.free_context())(bench.context);
        assert_eq!(state.live(), 3, "the provider is gone");
        assert!(Ctx::from_raw(bench.context).is_err());
        let ops = &(*bench.context).ops;
        let mut bad = null_mut();
        let code = (ops.post_send.unwrap())(qp, null_mut(), &raw mut bad);
        assert_eq!(code, libc::EOPNOTSUPP);
        assert_eq!(post(qp, null_mut(), &raw mut bad), INVAL);
        assert_eq!(dealloc(pd), INVAL);
        assert_eq!(((*cq).start_poll.unwrap())(cq, null_mut()), INVAL);
        let extended = qp.cast::<ibv_qp_ex>();
        ((*extended).wr_start.unwrap())(extended);
        assert_eq!(((*extended).wr_complete.unwrap())(extended), INVAL);
    }
    drop(bench.device.take());
    core::mem::forget(bench);
}
