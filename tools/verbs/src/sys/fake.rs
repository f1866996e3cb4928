//! A device with tag matching, rules of all kinds and flow actions, for tests: one of uroce, whose
//! context and completion queues have functions of this file in the place of those that uroce has
//! not. Their arguments, and the completions that they report, are kept by thread.

use std::{cell::RefCell, collections::VecDeque, ffi::c_int, ptr};

use kit::abi::{kernel::*, *};

use crate::{context::Context, device::Device};

type CreateSrq = unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
type CreateCq = unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
type Operate = unsafe extern "C" fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int;

/// An operation on a list of tags.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub wr: ibv_ops_wr,
    /// The first piece of the tag's memory.
    pub sge: Option<ibv_sge>,
}

/// A completion that is to be reported.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reported {
    pub wr_id: u64,
    pub status: ibv_wc_status,
    pub opcode: ibv_wc_opcode,
    pub flags: u32,
    pub bytes: u32,
    pub tag: (u64, u32),
    pub flow_tag: u32,
}

/// An action's parameters.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    pub esp: Option<ib_uverbs_flow_action_esp>,
    pub key: Option<ib_uverbs_flow_action_esp_keymat_aes_gcm>,
    pub replay: Option<u32>,
    pub esn: Option<u32>,
    pub around: Vec<(u16, Vec<u8>)>,
}

#[derive(Default)]
pub(crate) struct State {
    create_srq: Option<CreateSrq>,
    create_cq: Option<CreateCq>,
    operate: Option<Operate>,
    /// Calls about tags are passed to uroce.
    pub passes: bool,
    /// What the last tag matching queue was made with.
    pub srq: Option<ibv_srq_init_attr_ex>,
    /// `wc_flags` of the last completion queue.
    pub readers: u64,
    pub operations: Vec<Operation>,
    /// Numbers of receive requests.
    pub receives: Vec<u64>,
    /// What the next operation returns.
    pub errno: c_int,
    pub completions: VecDeque<Reported>,
    current: Reported,
    /// The attributes of rules, with their specifications.
    pub rules: Vec<Vec<u8>>,
    pub actions: Vec<Parameters>,
    /// How many actions and rules were destroyed.
    pub destroyed: (usize, usize),
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub(crate) fn with<T>(run: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(run)
}

/// Opens the device.
pub(crate) fn open() -> Context {
    crate::use_uroce("lo");
    let context = Device::find("uroce_lo").unwrap().open().unwrap();
    let at = context.object().as_ptr();
    // SAFETY: the context is open, and lies inside an extended one; nothing else uses it yet.
    unsafe {
        let around = at
            .byte_sub(std::mem::offset_of!(verbs_context, context))
            .cast::<verbs_context>();
        with(|state| {
            *state = State {
                create_srq: (*around).create_srq_ex,
                create_cq: (*around).create_cq_ex,
                operate: (*around).post_srq_ops,
                ..State::default()
            };
        });
        (*around).create_srq_ex = Some(create_srq);
        (*around).create_cq_ex = Some(create_cq);
        (*around).post_srq_ops = Some(operate);
        (*around).ibv_create_flow = Some(create_flow);
        (*around).ibv_destroy_flow = Some(destroy_flow);
        (*around).create_flow_action_esp = Some(create_action);
        (*around).modify_flow_action_esp = Some(modify_action);
        (*around).destroy_flow_action = Some(destroy_action);
        (*at).ops.post_srq_recv = Some(receive);
    }
    context
}

/// A plain shared receive queue in the place of one with tags.
unsafe extern "C" fn create_srq(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: as the caller has it.
    unsafe {
        let (create, passes) = with(|state| {
            state.srq = Some(*attr);
            (state.create_srq, state.passes)
        });
        let mut plain = *attr;
        if !passes {
            plain.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
            plain.srq_type = IBV_SRQT_BASIC;
        }
        create.map_or(ptr::null_mut(), |create| create(context, &raw mut plain))
    }
}

/// A completion queue that reports the completions of the test.
unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: as the caller has it.
    unsafe {
        let create = with(|state| {
            state.readers = (*attr).wc_flags;
            state.create_cq
        });
        let mut plain = *attr;
        plain.wc_flags &= !u64::from(IBV_WC_EX_WITH_TM_INFO | IBV_WC_EX_WITH_FLOW_TAG);
        let Some(create) = create else {
            return ptr::null_mut();
        };
        let cq = create(context, &raw mut plain);
        if !cq.is_null() {
            (*cq).start_poll = Some(start);
            (*cq).next_poll = Some(next);
            (*cq).end_poll = Some(end);
            (*cq).read_opcode = Some(opcode);
            (*cq).read_wc_flags = Some(flags);
            (*cq).read_byte_len = Some(bytes);
            (*cq).read_vendor_err = Some(zero);
            (*cq).read_qp_num = Some(zero);
            (*cq).read_src_qp = Some(zero);
            (*cq).read_slid = Some(zero);
            (*cq).read_sl = Some(zero_byte);
            (*cq).read_dlid_path_bits = Some(zero_byte);
            (*cq).read_tm_info = Some(tag);
            (*cq).read_flow_tag = Some(flow_tag);
        }
        cq
    }
}

unsafe extern "C" fn start(cq: *mut ibv_cq_ex, _: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: as the caller has it.
    unsafe { next(cq) }
}

unsafe extern "C" fn next(cq: *mut ibv_cq_ex) -> c_int {
    let Some(now) = with(|state| state.completions.pop_front()) else {
        return libc::ENOENT;
    };
    with(|state| state.current = now);
    // SAFETY: as the caller has it.
    unsafe {
        (*cq).wr_id = now.wr_id;
        (*cq).status = now.status;
    }
    0
}

unsafe extern "C" fn end(_: *mut ibv_cq_ex) {}

unsafe extern "C" fn opcode(_: *mut ibv_cq_ex) -> ibv_wc_opcode {
    with(|state| state.current.opcode)
}

unsafe extern "C" fn flags(_: *mut ibv_cq_ex) -> u32 {
    with(|state| state.current.flags)
}

unsafe extern "C" fn bytes(_: *mut ibv_cq_ex) -> u32 {
    with(|state| state.current.bytes)
}

unsafe extern "C" fn zero(_: *mut ibv_cq_ex) -> u32 {
    0
}

unsafe extern "C" fn zero_byte(_: *mut ibv_cq_ex) -> u8 {
    0
}

unsafe extern "C" fn tag(_: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    let (tag, priv_) = with(|state| state.current.tag);
    // SAFETY: as the caller has it.
    unsafe { info.write(ibv_wc_tm_info { tag, priv_ }) }
}

unsafe extern "C" fn flow_tag(_: *mut ibv_cq_ex) -> u32 {
    with(|state| state.current.flow_tag)
}

unsafe extern "C" fn receive(
    _: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: as the caller has it.
    let number = unsafe { (*wr).wr_id };
    with(|state| state.receives.push(number));
    0
}

unsafe extern "C" fn operate(
    srq: *mut ibv_srq,
    wr: *mut ibv_ops_wr,
    bad: *mut *mut ibv_ops_wr,
) -> c_int {
    if let Some(uroce) = with(|state| state.operate.filter(|_| state.passes)) {
        // SAFETY: as the caller has it.
        return unsafe { uroce(srq, wr, bad) };
    }
    with(|state| {
        // SAFETY: as the caller has it.
        unsafe {
            if state.errno != 0 {
                *bad = wr;
                return state.errno;
            }
            assert!((*wr).next.is_null());
            if (*wr).opcode == IBV_WR_TAG_ADD {
                (*wr).tm.handle = 100 + u32::try_from(state.operations.len()).unwrap();
            }
            let add = (*wr).tm.add;
            let sge = (add.num_sge > 0).then(|| add.sg_list.read());
            state.operations.push(Operation { wr: *wr, sge });
        }
        0
    })
}

unsafe extern "C" fn create_flow(qp: *mut ibv_qp, attr: *mut ibv_flow_attr) -> *mut ibv_flow {
    // SAFETY: as the caller has it.
    let (context, rule) = unsafe {
        let rule = std::slice::from_raw_parts(attr.cast::<u8>(), (*attr).size.into());
        ((*qp).context, rule.to_vec())
    };
    with(|state| state.rules.push(rule));
    Box::into_raw(Box::new(ibv_flow {
        comp_mask: 0,
        context,
        handle: 0,
    }))
}

unsafe extern "C" fn destroy_flow(flow: *mut ibv_flow) -> c_int {
    // SAFETY: `create_flow` made it.
    drop(unsafe { Box::from_raw(flow) });
    with(|state| state.destroyed.1 += 1);
    0
}

/// # Safety
/// The parameters and all that they point at live.
unsafe fn parameters(attr: *const ibv_flow_action_esp_attr) -> Parameters {
    // SAFETY: by the caller.
    unsafe {
        let attr = attr.read();
        let mut around = Vec::new();
        let mut next = attr.esp_encap;
        while let Some(one) = next.as_ref() {
            let filter = ptr::with_exposed_provenance::<u8>(one.val_ptr.try_into().unwrap());
            let filter = std::slice::from_raw_parts(filter, one.len.into());
            around.push((one.type_, filter.to_vec()));
            next = ptr::with_exposed_provenance_mut(one.next_ptr.try_into().unwrap());
        }
        let key = attr
            .keymat_ptr
            .cast::<ib_uverbs_flow_action_esp_keymat_aes_gcm>();
        let replay = attr
            .replay_ptr
            .cast::<ib_uverbs_flow_action_esp_replay_bmp>();
        let lengths = (usize::from(attr.keymat_len), usize::from(attr.replay_len));
        let size = |is_there: bool, size: usize| if is_there { size } else { 0 };
        assert_eq!(lengths.0, size(!key.is_null(), 56));
        assert_eq!(lengths.1, size(!replay.is_null(), 4));
        let bitmap = attr.replay_proto == IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP;
        assert_eq!(bitmap, !replay.is_null());
        let has_esn = attr.comp_mask & IBV_FLOW_ACTION_ESP_MASK_ESN != 0;
        Parameters {
            esp: attr.esp_attr.as_ref().copied(),
            key: key.as_ref().copied(),
            replay: replay.as_ref().map(|replay| replay.size),
            esn: has_esn.then_some(attr.esn),
            around,
        }
    }
}

unsafe extern "C" fn create_action(
    context: *mut ibv_context,
    attr: *mut ibv_flow_action_esp_attr,
) -> *mut ibv_flow_action {
    // SAFETY: as the caller has it.
    let given = unsafe { parameters(attr) };
    with(|state| state.actions.push(given));
    Box::into_raw(Box::new(ibv_flow_action { context }))
}

unsafe extern "C" fn modify_action(
    _: *mut ibv_flow_action,
    attr: *mut ibv_flow_action_esp_attr,
) -> c_int {
    // SAFETY: as the caller has it.
    let given = unsafe { parameters(attr) };
    with(|state| state.actions.push(given));
    0
}

unsafe extern "C" fn destroy_action(action: *mut ibv_flow_action) -> c_int {
    // SAFETY: `create_action` made it.
    drop(unsafe { Box::from_raw(action) });
    with(|state| state.destroyed.0 += 1);
    0
}

/// The specifications of a rule: each with its type.
pub(crate) fn specs(rule: &[u8]) -> Vec<(ibv_flow_spec_type, Vec<u8>)> {
    let (_, mut rest) = rule.split_at(size_of::<ibv_flow_attr>());
    let mut all = Vec::new();
    while !rest.is_empty() {
        let front: ibv_flow_spec_action_drop = structure(&rest[..8]);
        let (spec, behind) = rest.split_at(front.size.into());
        all.push((front.type_, spec.to_vec()));
        rest = behind;
    }
    all
}

/// A structure of C out of its bytes. Tests ask for structures of integers and pointers.
pub(crate) fn structure<T: Copy>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: there are as many bytes, and each value is one of the structure.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// Writes to memory of a request, as a device does.
pub(crate) fn write(sge: ibv_sge, bytes: &[u8]) {
    assert!(bytes.len() <= usize::try_from(sge.length).unwrap());
    let at = ptr::with_exposed_provenance_mut::<u8>(sge.addr.try_into().unwrap());
    // SAFETY: the memory belongs to a request in flight, which the test is the device of.
    unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
}
