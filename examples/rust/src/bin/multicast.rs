//! Datagrams to a multicast group: `multicast [DEVICE]`.
//!
//! Shown: unreliable datagrams, the 40 bytes in front of each, attaching to a group, address
//! handles. Over RoCE a group is an IPv4 or IPv6 multicast address, written as a GID.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use example::{GID_INDEX, PORT, Peer, Result, open, two_ends, wait_for_completion};
use verbs::tools::{
    abi::{
        IBV_ACCESS_LOCAL_WRITE, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY, IBV_QP_SQ_PSN,
        IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UD, IBV_SEND_SIGNALED,
    },
    completion::Cq,
    memory::{Ah, Memory, Pd, Registration, Route},
    queue::{Change, Datagram, Qp, Send, Wanted},
};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const QKEY: u32 = 0x1111_1111;
const HEADER: usize = 40;
const SIZE: usize = 16;
const TOTAL: u8 = 8;
/// The queue pair number of all multicast groups.
const MULTICAST: u32 = 0xff_ffff;

struct End {
    qp: Qp,
    cq: Cq,
    pd: Pd,
}

impl End {
    fn new() -> Result<Self> {
        let context = open()?;
        let pd = Pd::new(&context)?;
        let cq = Cq::new(&context, 32, None, false)?;
        let requests = u32::from(TOTAL);
        let wanted = Wanted {
            kind: IBV_QPT_UD,
            sends: requests,
            receives: requests,
            srq: None,
            by_calls: false,
        };
        let qp = Qp::new(&pd, &cq, wanted)?;
        let mut init = Change::to(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
        init.attr.port_num = PORT;
        init.attr.qkey = QKEY;
        qp.modify(&init)?;
        qp.modify(&Change::to(IBV_QPS_RTR, 0))?;
        qp.modify(&Change::to(IBV_QPS_RTS, IBV_QP_SQ_PSN))?;
        Ok(Self { qp, cq, pd })
    }

    fn memory(&self, length: usize) -> Result<Memory> {
        let registration = Registration {
            access: IBV_ACCESS_LOCAL_WRITE,
            ..Registration::default()
        };
        Memory::new(&self.pd, length, 0, registration).map_err(|error| error.to_string().into())
    }
}

fn group() -> [u8; 16] {
    GROUP.to_ipv6_mapped().octets()
}

fn receive(peer: &Peer) -> Result<()> {
    let end = End::new()?;
    end.qp.attach(group())?;
    let memories: Vec<_> = (0..TOTAL)
        .map(|_| end.memory(HEADER + SIZE))
        .collect::<Result<_>>()?;
    for (id, memory) in (0..).zip(&memories) {
        // Each request needs room for the network header in front of the data.
        end.qp.receive(id, memory, HEADER + SIZE)?;
    }
    peer.barrier()?;
    for _ in 0..TOTAL {
        let wc = wait_for_completion(&end.cq)?;
        let memory = memories
            .get(usize::try_from(wc.id)?)
            .ok_or("an unknown request")?;
        let text = memory.read(HEADER, SIZE)?;
        println!("{}", String::from_utf8_lossy(&text).trim_end_matches('\0'));
    }
    end.qp.detach(group())?;
    peer.barrier()
}

fn send(peer: &Peer) -> Result<()> {
    let end = End::new()?;
    let memory = end.memory(SIZE)?;
    let ah = Ah::new(
        &end.pd,
        Route {
            port: PORT,
            global: Some((group(), GID_INDEX, 1)),
            ..Route::default()
        },
    )?;
    peer.barrier()?;
    for number in 0..TOTAL {
        memory.write(0, format!("datagram {number}").as_bytes())?;
        end.qp.send(&Send {
            id: u64::from(number),
            memory: &memory,
            offset: 0,
            length: SIZE,
            flags: IBV_SEND_SIGNALED,
            to: Some(Datagram {
                ah: &ah,
                queue_pair: MULTICAST,
                qkey: QKEY,
            }),
            remote: None,
            srq: 0,
            immediate: 0,
        })?;
        wait_for_completion(&end.cq)?;
    }
    peer.barrier()
}

fn main() -> Result<()> {
    two_ends(send, receive)
}
