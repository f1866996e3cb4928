//! Protection, thread, parent and XRC domains, address handles.

use super::*;
use crate::abi::handle::Srq;
use core::ffi::c_void;
use std::sync::Mutex;

#[test]
fn domains_are_made_and_given_back() {
    let bench = Bench::new();
    let pd = bench.pd();
    // SAFETY: the domain is live.
    assert_eq!(unsafe { (*pd).context }, bench.context);
    bench.state.refuse(Errno::BUSY);
    assert_eq!(bench.dealloc_pd(pd), BUSY);
    assert_eq!(bench.dealloc_pd(pd), 0);
    assert_eq!(bench.dealloc_pd(null_mut()), INVAL);
    bench.state.refuse(Errno::NOMEM);
    // SAFETY: the context is open.
    let alloc = || unsafe { (bench.table().alloc_pd())(bench.context) };
    assert_eq!(refused(alloc), Errno::NOMEM);
    assert!(bench.is_empty());
}

#[test]
fn a_domain_stays_while_something_is_in_it() {
    let bench = Bench::new();
    let pd = bench.pd();
    let ah = bench.ah(pd, 5);
    assert_eq!(bench.dealloc_pd(pd), BUSY);
    assert_eq!(bench.state.asked(), ["alloc_pd", "create_ah 5"]);
    // SAFETY: the handle is live.
    assert_eq!(unsafe { (*ah).pd }, pd);
    bench.state.refuse(Errno::IO);
    assert_eq!(bench.destroy_ah(ah), libc::EIO);
    assert_eq!(bench.dealloc_pd(pd), BUSY, "the handle is still there");
    assert_eq!(bench.destroy_ah(ah), 0);
    bench.state.refuse(Errno::INVAL);
    // SAFETY: the attributes are numbers.
    unsafe {
        let mut attr: ibv_ah_attr = zeroed();
        let create = bench.table().create_ah();
        assert_eq!(refused(|| create(pd, &raw mut attr)), Errno::INVAL);
        assert_eq!(refused(|| create(pd, null_mut())), Errno::INVAL);
        assert_eq!(refused(|| create(null_mut(), &raw mut attr)), Errno::INVAL);
    }
    assert_eq!(bench.dealloc_pd(pd), 0, "a failure holds nothing");
}

fn parent_attr(pd: *mut ibv_pd, td: *mut ibv_td) -> ibv_parent_domain_init_attr {
    ibv_parent_domain_init_attr {
        pd,
        td,
        comp_mask: 0,
        alloc: None,
        free: None,
        pd_context: null_mut(),
    }
}

fn td(bench: &Bench) -> *mut ibv_td {
    let mut attr = ibv_td_init_attr { comp_mask: 0 };
    // SAFETY: the context is open.
    made(unsafe { (bench.table().alloc_td())(bench.context, &raw mut attr) })
}

fn parent(bench: &Bench, attr: &mut ibv_parent_domain_init_attr) -> *mut ibv_pd {
    // SAFETY: the objects of the attributes are live.
    unsafe { (bench.table().alloc_parent_domain())(bench.context, attr) }
}

#[test]
fn thread_domains() {
    let bench = Bench::new();
    let td = td(&bench);
    // SAFETY: the domain is live until it is given back.
    unsafe {
        assert_eq!((*td).context, bench.context);
        let alloc = bench.table().alloc_td();
        let mut attr = ibv_td_init_attr { comp_mask: 1 };
        assert_eq!(
            refused(|| alloc(bench.context, &raw mut attr)),
            Errno::INVAL
        );
        assert_eq!(refused(|| alloc(bench.context, null_mut())), Errno::INVAL);
        assert_eq!((bench.table().dealloc_td())(td), 0);
        assert_eq!((bench.table().dealloc_td())(null_mut()), INVAL);
    }
}

#[test]
fn a_parent_domain_is_used_as_the_domain_it_wraps() {
    let bench = Bench::new();
    let (pd, td) = (bench.pd(), td(&bench));
    let parent = made(parent(&bench, &mut parent_attr(pd, td)));
    bench.state.asked();
    let ah = bench.ah(parent, 1);
    assert_eq!(bench.dealloc_pd(pd), BUSY);
    assert_eq!(bench.dealloc_pd(parent), BUSY);
    // SAFETY: the domain is live.
    assert_eq!(unsafe { (bench.table().dealloc_td())(td) }, BUSY);
    assert_eq!(bench.destroy_ah(ah), 0);
    assert_eq!(bench.dealloc_pd(pd), BUSY, "wrapped");
    assert_eq!(bench.dealloc_pd(parent), 0);
    assert_eq!(
        bench.state.asked(),
        ["create_ah 1", "destroy_ah"],
        "the provider has one domain only"
    );
    // SAFETY: as above; not used any more.
    assert_eq!(unsafe { (bench.table().dealloc_td())(td) }, 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn parent_domains_refuse_unknown_attributes() {
    let (bench, other) = (Bench::new(), Bench::new());
    let (pd, foreign) = (bench.pd(), other.pd());
    let foreign_td = td(&other);
    let none = null_mut();
    let mut unknown = parent_attr(pd, none);
    unknown.comp_mask = 8;
    for mut attr in [
        unknown,
        parent_attr(none.cast(), none),
        parent_attr(foreign, none),
        parent_attr(pd, foreign_td),
    ] {
        assert_eq!(refused(|| parent(&bench, &mut attr)), Errno::INVAL);
    }
    // SAFETY: the context is open, and the domain is not used any more.
    unsafe {
        let alloc = bench.table().alloc_parent_domain();
        assert_eq!(refused(|| alloc(bench.context, none.cast())), Errno::INVAL);
        assert_eq!((other.table().dealloc_td())(foreign_td), 0);
    }
    assert_eq!(bench.dealloc_pd(pd), 0);
    assert_eq!(other.dealloc_pd(foreign), 0);
}

/// The requests to an application's allocator, and its results.
#[derive(Default)]
struct Pool {
    given: Mutex<Vec<(usize, usize)>>,
    /// The result: 0 memory, 1 the default, 2 NULL, 3 memory that is not aligned.
    mode: u8,
    pd: Mutex<usize>,
}

unsafe extern "C" fn pool_alloc(
    pd: *mut ibv_pd,
    context: *mut c_void,
    size: usize,
    alignment: usize,
    _: u64,
) -> *mut c_void {
    // SAFETY: the tests pass a pool as the domain's context.
    let pool = unsafe { &*context.cast::<Pool>() };
    *pool.pd.lock().unwrap() = pd.addr();
    // SAFETY: a power of two.
    let block = unsafe { libc::aligned_alloc(alignment, (size + 8).next_multiple_of(alignment)) };
    // SAFETY: new memory of that size, with anything in it.
    unsafe { block.write_bytes(0xa5, size + 8) };
    let given = match pool.mode {
        0 => block,
        3 => block.wrapping_byte_add(8),
        1 => core::ptr::without_provenance_mut(usize::MAX),
        _ => null_mut(),
    };
    if matches!(pool.mode, 1 | 2) {
        // SAFETY: nothing refers to it.
        unsafe { libc::free(block) };
    } else {
        pool.given
            .lock()
            .unwrap()
            .push((block.addr(), given.addr()));
    }
    given
}

unsafe extern "C" fn pool_free(_: *mut ibv_pd, context: *mut c_void, block: *mut c_void, _: u64) {
    // SAFETY: as above.
    let pool = unsafe { &*context.cast::<Pool>() };
    let mut given = pool.given.lock().unwrap();
    let at = given.iter().position(|(_, at)| *at == block.addr());
    let (whole, _) = given.remove(at.expect("given by this pool"));
    // SAFETY: given above, and given back once.
    unsafe { libc::free(block.wrapping_byte_sub(block.addr() - whole)) };
}

fn pooled(bench: &Bench, pd: *mut ibv_pd, pool: &Pool) -> *mut ibv_pd {
    let mut attr = parent_attr(pd, null_mut());
    attr.comp_mask = 3;
    attr.alloc = Some(pool_alloc);
    attr.free = Some(pool_free);
    attr.pd_context = core::ptr::from_ref(pool).cast_mut().cast();
    made(parent(bench, &mut attr))
}

#[test]
fn objects_of_a_parent_domain_come_from_its_allocator() {
    let bench = Bench::new();
    let (pd, pool) = (bench.pd(), Pool::default());
    let parent = pooled(&bench, pd, &pool);
    let mut attr = cq_attr(0);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = parent;
    let create_cq = bench.table().create_cq_ex();
    // SAFETY: the objects of the attributes are live; the queues are new.
    unsafe {
        let cq = made(create_cq(bench.context, &raw mut attr)).cast::<ibv_cq>();
        Cq::init(cq, bench.ctx(), None, null_mut());
        assert_eq!((*cq).channel, null_mut(), "zeroed, whatever the pool gave");
        let qp = bench.qp(parent, cq, IBV_QPT_RC);
        let mut attr: ibv_srq_init_attr = zeroed();
        let srq = made((bench.table().create_srq())(parent, &raw mut attr));
        Srq::init(
            srq,
            crate::abi::handle::Pd::from_raw(parent).unwrap(),
            null_mut(),
        );
        assert_eq!(pool.given.lock().unwrap().len(), 3);
        assert_eq!(*pool.pd.lock().unwrap(), parent.addr());
        assert_eq!(bench.dealloc_pd(parent), BUSY);
        assert_eq!((bench.table().destroy_srq())(srq), 0);
        assert_eq!(bench.destroy_qp(qp), 0);
        assert_eq!(bench.dealloc_pd(parent), BUSY, "the queue");
        assert_eq!(bench.destroy_cq(cq), 0);
    }
    assert!(pool.given.lock().unwrap().is_empty());
    assert_eq!(bench.dealloc_pd(parent), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn allocators_may_refuse_or_leave_it_to_the_library() {
    let bench = Bench::new();
    let (pd, cq) = (bench.pd(), bench.cq());
    for (mode, answer) in [(1, None), (2, Some(Errno::NOMEM)), (3, Some(Errno::INVAL))] {
        let pool = Pool {
            mode,
            ..Pool::default()
        };
        let parent = pooled(&bench, pd, &pool);
        let mut attr = qp_attr(cq, IBV_QPT_RC);
        // SAFETY: the objects of the attributes are live.
        let mut create = || unsafe { (bench.table().create_qp())(parent, &raw mut attr) };
        match answer {
            None => assert_eq!(bench.destroy_qp(made(create())), 0),
            Some(e) => assert_eq!(refused(create), e),
        }
        assert!(pool.given.lock().unwrap().is_empty());
        assert_eq!(bench.dealloc_pd(parent), 0);
    }
    let pool = Pool::default();
    let parent = pooled(&bench, pd, &pool);
    bench.state.refuse(Errno::NOMEM);
    let mut attr = qp_attr(cq, IBV_QPT_RC);
    // SAFETY: as above.
    let create = || unsafe { (bench.table().create_qp())(parent, &raw mut attr) };
    assert_eq!(refused(create), Errno::NOMEM);
    assert!(pool.given.lock().unwrap().is_empty(), "given back");
    assert_eq!(bench.dealloc_pd(parent), 0);
    assert_eq!(bench.destroy_cq(cq), 0);
    assert_eq!(bench.dealloc_pd(pd), 0);
}

#[test]
fn xrc_domains_take_a_file_or_none() {
    let bench = Bench::new();
    let open = bench.table().open_xrcd();
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: 3,
        fd: -1,
        oflags: libc::O_CREAT | libc::O_CLOEXEC,
    };
    // SAFETY: the context is open; domains are live until they are closed.
    unsafe {
        let anonymous = made(open(bench.context, &raw mut attr));
        assert_eq!((*anonymous).context, bench.context);
        attr.fd = 0;
        let shared = made(open(bench.context, &raw mut attr));
        let flags = libc::O_CREAT;
        assert_eq!(
            bench.state.asked(),
            [
                format!("open_xrcd false {flags}"),
                format!("open_xrcd true {flags}")
            ]
        );
        attr.fd = -2;
        assert_eq!(
            refused(|| open(bench.context, &raw mut attr)),
            Errno(libc::EBADF)
        );
        attr.comp_mask = 1;
        assert_eq!(refused(|| open(bench.context, &raw mut attr)), Errno::INVAL);
        attr.comp_mask = 7;
        assert_eq!(
            refused(|| open(bench.context, &raw mut attr)),
            Errno::OPNOTSUPP
        );
        assert_eq!(refused(|| open(bench.context, null_mut())), Errno::INVAL);
        let close = bench.table().close_xrcd();
        bench.state.refuse(Errno::BUSY);
        assert_eq!(close(anonymous), BUSY);
        assert_eq!((close(anonymous), close(shared)), (0, 0));
        assert_eq!(close(null_mut()), INVAL);
    }
    assert!(bench.is_empty());
}
