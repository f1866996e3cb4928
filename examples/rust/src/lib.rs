//! Common code of the examples: opening a device, connecting two queue pairs, waiting for a
//! completion.
//!
//! The two ends of an example are two threads. Each opens the device by itself, and learns the
//! address of the other over a channel; programs on two machines would use a socket.
#![forbid(unsafe_code)]

use std::{
    env,
    error::Error,
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use verbs::tools::{
    Context, Devices,
    abi::{
        IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_MTU_1024, IBV_QP_ACCESS_FLAGS,
        IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER,
        IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY,
        IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_TIMEOUT, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
        IBV_QPT_RC, IBV_WC_SUCCESS,
    },
    completion::{Completion, Cq, status_text},
    memory::{Memory, Pd, Route},
    queue::{Change, Qp, Srq, Wanted},
};

/// The result of an example.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The port that is used.
pub const PORT: u8 = 1;
/// The GID that is used.
pub const GID_INDEX: u8 = 0;

/// Opens the device that the first word of the command line names, or the first one.
///
/// # Errors
/// If there is no device, or it cannot be opened.
pub fn open() -> Result<Context> {
    let name = env::args().nth(1);
    let devices = Devices::list()?;
    let device = devices
        .find(name.as_deref().map(str::as_bytes))
        .ok_or_else(|| format!("no RDMA device {}", name.unwrap_or_default()))?;
    Ok(device.open()?)
}

/// The peer's parameters of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The GID of its port.
    pub gid: [u8; 16],
    /// Its number.
    pub queue_pair: u32,
    /// The number of its first packet.
    pub psn: u32,
    /// Memory that the peer may write to: address and key.
    pub memory: Option<(u64, u32)>,
}

impl Address {
    /// Of a queue pair, with the memory that it lets the peer write to.
    ///
    /// # Errors
    /// The errno of ibv_query_gid(3).
    pub fn new(context: &Context, qp: &Qp, memory: Option<&Memory>) -> Result<Self> {
        Ok(Self {
            gid: context.query_gid(PORT, i32::from(GID_INDEX))?.bytes(),
            queue_pair: qp.number(),
            psn: qp.number() & 0xff_ffff,
            memory: memory.map(|memory| (memory.address(), memory.rkey())),
        })
    }
}

/// The other end of an example.
#[derive(Debug)]
pub struct Peer {
    to: Sender<Option<Address>>,
    from: Receiver<Option<Address>>,
}

impl Peer {
    /// Sends an address to the peer, and receives the peer's.
    ///
    /// # Errors
    /// If the peer has ended.
    pub fn exchange(&self, mine: Address) -> Result<Address> {
        self.to.send(Some(mine))?;
        self.from.recv()?.ok_or_else(|| "no address".into())
    }

    /// Waits until the peer has come to its barrier, too.
    ///
    /// # Errors
    /// If the peer has ended.
    pub fn barrier(&self) -> Result<()> {
        self.to.send(None)?;
        self.from.recv()?;
        Ok(())
    }
}

/// Runs two ends at the same time.
///
/// # Errors
/// The error of the first end that failed.
pub fn two_ends(one: fn(&Peer) -> Result<()>, other: fn(&Peer) -> Result<()>) -> Result<()> {
    let (to_other, from_one) = mpsc::channel();
    let (to_one, from_other) = mpsc::channel();
    let first = Peer {
        to: to_other,
        from: from_other,
    };
    let second = Peer {
        to: to_one,
        from: from_one,
    };
    let thread = thread::spawn(move || one(&first));
    let done = other(&second);
    drop(second);
    thread.join().map_err(|_| "a thread has panicked")??;
    done
}

/// A queue pair of a reliable connection, in INIT.
///
/// # Errors
/// Of ibv_create_qp(3), ibv_modify_qp(3).
pub fn create_rc(pd: &Pd, cq: &Cq, srq: Option<&Srq>) -> Result<Qp> {
    let qp = Qp::new(
        pd,
        cq,
        Wanted {
            kind: IBV_QPT_RC,
            sends: 16,
            receives: 16,
            srq,
            by_calls: false,
        },
    )?;
    let mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    let mut init = Change::to(IBV_QPS_INIT, mask);
    init.attr.port_num = PORT;
    init.attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    qp.modify(&init)?;
    Ok(qp)
}

/// The way to a GID.
#[must_use]
pub fn route(gid: [u8; 16]) -> Route {
    Route {
        port: PORT,
        global: Some((gid, GID_INDEX, 64)),
        ..Route::default()
    }
}

/// Takes a reliable connection to its peer: ready to receive, then ready to send.
///
/// # Errors
/// Of ibv_modify_qp(3).
pub fn connect_rc(qp: &Qp, mine: &Address, theirs: &Address) -> Result<()> {
    let mask = IBV_QP_PATH_MTU
        | IBV_QP_DEST_QPN
        | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC
        | IBV_QP_MIN_RNR_TIMER;
    let mut receive = Change::to(IBV_QPS_RTR, mask).by(route(theirs.gid));
    receive.attr.path_mtu = IBV_MTU_1024;
    receive.attr.dest_qp_num = theirs.queue_pair;
    receive.attr.rq_psn = theirs.psn;
    receive.attr.max_dest_rd_atomic = 1;
    receive.attr.min_rnr_timer = 12;
    qp.modify(&receive)?;
    let mask = IBV_QP_SQ_PSN
        | IBV_QP_TIMEOUT
        | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY
        | IBV_QP_MAX_QP_RD_ATOMIC;
    let mut send = Change::to(IBV_QPS_RTS, mask);
    send.attr.sq_psn = mine.psn;
    // 67 ms, seven times; for ever where the peer has no receive request.
    send.attr.timeout = 14;
    send.attr.retry_cnt = 7;
    send.attr.rnr_retry = 7;
    send.attr.max_rd_atomic = 1;
    Ok(qp.modify(&send)?)
}

/// Polls once.
///
/// # Errors
/// If polling fails, or the request has failed.
pub fn poll(cq: &Cq) -> Result<Option<Completion>> {
    let mut found = Vec::new();
    cq.poll(1, &mut found)
        .map_err(|answer| format!("ibv_poll_cq: {answer}"))?;
    match found.pop() {
        Some(wc) if wc.status != IBV_WC_SUCCESS => {
            Err(format!("request {}: {}", wc.id, status_text(wc.status)).into())
        }
        other => Ok(other),
    }
}

/// Polls until there is a completion.
///
/// # Errors
/// As for [`poll`].
pub fn wait_for_completion(cq: &Cq) -> Result<Completion> {
    loop {
        if let Some(wc) = poll(cq)? {
            return Ok(wc);
        }
        thread::yield_now();
    }
}
