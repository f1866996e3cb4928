//! Raw packets: queue pairs, rules, work queues and counters, on the loopback interface and across
//! a pair of Ethernet interfaces, in a network namespace.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]

mod alone;
mod ends;

#[test]
fn in_a_namespace() {
    if rustix::process::geteuid().is_root() {
        alone::in_a_namespace();
    } else {
        eprintln!("skipped: raw packets need CAP_NET_RAW");
    }
}

mod inside {
    use super::alone::there;
    use super::ends::End;
    use bytemuck::Zeroable;
    use kit::abi::*;
    use kit::errno::Errno;
    use kit::provider::{
        Data, FlowInit, FlowPart, Inline, Provider, QpInit, ReceiveRequest, Rss, SendRequest,
        Token, WqChange, WqInit,
    };
    use std::net::{Ipv4Addr, UdpSocket};
    use std::process::Command;
    use std::sync::Arc;
    use uroce::context::Context;
    use watchdog::Watched;

    type Flow = Arc<<Context as Provider>::Flow>;
    type Counters = Arc<<Context as Provider>::Counters>;

    const GROUP: [u8; 6] = [1, 0x50, 0x56, 0x19, 0x20, 0xa7];

    /// A frame of UDP over IPv4 from an address.
    fn frame(to: [u8; 6], from: [u8; 4], length: usize) -> Vec<u8> {
        let mut frame = to.to_vec();
        frame.extend([2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0]);
        let total = u16::try_from(length - 14).expect("short enough");
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend(from);
        frame.extend([2, 2, 2, 2, 4, 210, 22, 46]);
        frame.extend((total - 20).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend((frame.len()..length).map(|at| u8::try_from(at % 251).expect("a byte")));
        frame
    }

    /// Brings an end to a state, from RESET on.
    fn to(end: &End, states: &[ibv_qp_state]) {
        let mut attr = ibv_qp_attr::zeroed();
        attr.port_num = 1;
        for state in states {
            attr.qp_state = *state;
            let port = if *state == IBV_QPS_INIT {
                IBV_QP_PORT
            } else {
                0
            };
            end.modify(&attr, IBV_QP_STATE | port);
        }
    }

    const READY: [ibv_qp_state; 3] = [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS];

    /// An end that sends and receives.
    fn end(interface: &str) -> End {
        let end = End::of(interface, IBV_QPT_RAW_PACKET);
        to(&end, &READY);
        end
    }

    /// Sends a frame that lies in two pieces of the end's memory.
    fn send(end: &End, id: u64, frame: &[u8]) {
        let length = u32::try_from(frame.len()).expect("short enough");
        end.put(0, frame);
        let sges = [end.sge(0, 9), end.sge(9, length - 9)];
        assert_eq!(post(end, id, IBV_WR_SEND, Data::Sges(&sges)), Ok(()));
    }

    fn post(end: &End, id: u64, opcode: u32, data: Data<'_>) -> Result<(), Errno> {
        let request: SendRequest<'_, Context> = SendRequest {
            data,
            ..SendRequest::new(id, opcode, 0)
        };
        let mut requests = Some(request).into_iter();
        end.qp().post_send(&mut requests)
    }

    fn flow(end: &End, attr_type: u32, parts: Vec<FlowPart<'_, Context>>) -> Flow {
        let init = FlowInit {
            attr_type,
            priority: 0,
            port: 1,
            flags: 0,
            parts,
        };
        let made = end.context().create_flow(end.qp(), &init);
        Arc::new(made.expect("a rule"))
    }

    fn destination(to: &[u8; 6]) -> FlowPart<'static, Context> {
        let mut value = [0; 16];
        value[..6].copy_from_slice(to);
        let mut mask = [0; 16];
        mask[..6].fill(0xff);
        FlowPart::Filter {
            kind: IBV_FLOW_SPEC_ETH,
            value: value.to_vec().leak(),
            mask: mask.to_vec().leak(),
        }
    }

    fn source(address: [u8; 4]) -> FlowPart<'static, Context> {
        let value = [address, [0; 4]].concat();
        FlowPart::Filter {
            kind: IBV_FLOW_SPEC_IPV4,
            value: value.leak(),
            mask: &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        }
    }

    fn counters(end: &End) -> Counters {
        let made = end.context().create_counters().expect("counters");
        let counters = Arc::new(made);
        for (what, index) in [(IBV_COUNTER_PACKETS, 0), (IBV_COUNTER_BYTES, 1)] {
            let attached = end.context().attach_counter(&counters, what, index);
            attached.expect("attached");
        }
        counters
    }

    fn counted(end: &End, counters: &Counters) -> [u64; 2] {
        let mut values = [0; 2];
        let read = end.context().read_counters(counters, &mut values);
        read.expect("read");
        values
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn frames_come_to_the_queues_that_the_rules_name() {
        if !there() {
            return;
        }
        let (a, b, c) = (end("lo"), end("lo"), end("lo"));
        let _to_b = flow(&b, IBV_FLOW_ATTR_NORMAL, vec![source([1, 1, 1, 1])]);
        let rest = flow(&c, IBV_FLOW_ATTR_MC_DEFAULT, Vec::new());
        for (id, length) in [(1, 60), (2, 1024), (3, 9000), (4, 60_000)] {
            b.post_recv(id, 0, 65_000);
            c.post_recv(id, 0, 65_000);
            for (from, to) in [([1, 1, 1, 1], &b), ([9, 9, 9, 9], &c)] {
                let frame = frame(GROUP, from, length);
                send(&a, id, &frame);
                let sent = a.completion();
                assert_eq!((sent.wr_id, sent.status), (id, IBV_WC_SUCCESS));
                assert_eq!((sent.opcode, sent.qp_num), (IBV_WC_SEND, a.number()));
                let got = to.completion();
                assert_eq!((got.wr_id, got.status), (id, IBV_WC_SUCCESS));
                assert_eq!((got.opcode, got.qp_num), (IBV_WC_RECV, to.number()));
                let size = u32::try_from(length).expect("short enough");
                assert_eq!((got.byte_len, got.wc_flags), (size, 0));
                assert_eq!(to.bytes(0, size), frame);
            }
        }
        // A rule that is gone leads nowhere: the next that arrives is b's.
        c.context().destroy_flow(&rest).expect("destroyed");
        c.post_recv(9, 0, 100);
        b.post_recv(9, 0, 100);
        send(&a, 5, &frame(GROUP, [9, 9, 9, 9], 60));
        send(&a, 6, &frame(GROUP, [1, 1, 1, 1], 60));
        assert_eq!(b.completion().wr_id, 9);
        assert!(c.poll().is_empty());
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_frame_that_does_not_fit_leaves_the_request() {
        if !there() {
            return;
        }
        let (a, b) = (end("lo"), end("lo"));
        let _flow = flow(&b, IBV_FLOW_ATTR_NORMAL, vec![source([1; 4])]);
        b.post_recv(1, 0, 100);
        send(&a, 1, &frame(GROUP, [1; 4], 101));
        send(&a, 2, &frame(GROUP, [1; 4], 100));
        let got = b.completion();
        assert_eq!((got.wr_id, got.byte_len), (1, 100));
        b.post_recv(2, 0, 100);
        to(&b, &[IBV_QPS_ERR]);
        let flushed = b.completion();
        assert_eq!((flushed.wr_id, flushed.status), (2, IBV_WC_WR_FLUSH_ERR));
        b.post_recv(3, 0, 100);
        assert_eq!(b.completion().status, IBV_WC_WR_FLUSH_ERR);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn memory_without_a_key_ends_it() {
        if !there() {
            return;
        }
        let (a, b) = (end("lo"), end("lo"));
        let _flow = flow(&b, IBV_FLOW_ATTR_NORMAL, vec![source([1; 4])]);
        let mut sge = b.sge(0, 100);
        sge.lkey ^= 0x100;
        let sges = [sge];
        let mut requests = std::iter::once(ReceiveRequest { id: 7, sges: &sges });
        let posted = b.context().post_recv(b.qp(), &mut requests);
        posted.expect("posted");
        b.post_recv(8, 0, 100);
        send(&a, 1, &frame(GROUP, [1; 4], 60));
        let got = b.completion();
        assert_eq!((got.wr_id, got.status), (7, IBV_WC_LOC_PROT_ERR));
        assert_eq!(b.completion().status, IBV_WC_WR_FLUSH_ERR);
        assert_eq!(b.state(), IBV_QPS_ERR);
        assert_eq!(a.completion().status, IBV_WC_SUCCESS);
        let mut sge = a.sge(0, 100);
        sge.lkey ^= 0x100;
        let sges = [sge];
        assert_eq!(post(&a, 3, IBV_WR_SEND, Data::Sges(&sges)), Ok(()));
        assert_eq!(a.completion().status, IBV_WC_LOC_PROT_ERR);
        assert_eq!(a.state(), IBV_QPS_SQE);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn malformed_frames_are_refused() {
        if !there() {
            return;
        }
        let a = end("lo");
        let short = [a.sge(0, 13)];
        let bad = [
            post(&a, 1, IBV_WR_SEND, Data::Sges(&short)),
            post(&a, 1, IBV_WR_SEND_WITH_IMM, Data::Sges(&[a.sge(0, 60)])),
            post(&a, 1, IBV_WR_RDMA_WRITE, Data::Sges(&[a.sge(0, 60)])),
            post(&a, 1, IBV_WR_SEND, Data::Sges(&[a.sge(0, 60); 11])),
        ];
        assert_eq!(bad, [Err(Errno::INVAL); 4]);
        let early = End::of("lo", IBV_QPT_RAW_PACKET);
        let answer = post(&early, 1, IBV_WR_SEND, Data::Sges(&[early.sge(0, 60)]));
        assert_eq!(answer, Err(Errno::INVAL));
        let mut cap = ibv_qp_cap::zeroed();
        let mut init = init(&a, &mut cap);
        init.max_tso_header = 32;
        let made = a.context().create_qp(&mut init);
        assert_eq!(made.err(), Some(Errno::OPNOTSUPP));
        let mut attr = ibv_qp_attr::zeroed();
        attr.rate_limit = 5;
        let limited = a.context().modify_qp(a.qp(), &attr, IBV_QP_RATE_LIMIT);
        assert_eq!(limited, Err(Errno::OPNOTSUPP));
    }

    fn init<'a>(end: &'a End, cap: &'a mut ibv_qp_cap) -> QpInit<'a, Context> {
        QpInit {
            token: Token(5),
            qp_type: IBV_QPT_RAW_PACKET,
            pd: Some(end.domain()),
            send_cq: Some(end.completions()),
            recv_cq: Some(end.completions()),
            srq: None,
            xrcd: None,
            cap,
            sq_sig_all: true,
            create_flags: 0,
            source_qpn: 0,
            max_tso_header: 0,
            send_ops: 0,
            rss: None,
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn rules_count_and_drop() {
        if !there() {
            return;
        }
        let (a, b, c) = (end("lo"), end("lo"), end("lo"));
        let (all, dropped) = (counters(&b), counters(&b));
        let drops = vec![source([1; 4]), FlowPart::Drop, FlowPart::Count(&dropped)];
        let _drops = flow(&b, IBV_FLOW_ATTR_NORMAL, drops);
        let rest = vec![FlowPart::Count(&all)];
        let _rest = flow(&b, IBV_FLOW_ATTR_ALL_DEFAULT, rest);
        let _sniffer = flow(&c, IBV_FLOW_ATTR_SNIFFER, Vec::new());
        b.post_recv(1, 0, 100);
        for id in 0..2 {
            c.post_recv(id, 0, 100);
        }
        send(&a, 1, &frame(GROUP, [1; 4], 70));
        send(&a, 2, &frame(GROUP, [2; 4], 80));
        assert_eq!(b.completion().byte_len, 80);
        assert_eq!((c.completion().byte_len, c.completion().byte_len), (70, 80));
        assert_eq!(counted(&b, &dropped), [1, 70]);
        assert_eq!(counted(&b, &all), [1, 80]);
        let rc = End::new(IBV_QPT_RC);
        let ud = End::new(IBV_QPT_UD);
        for (end, errno) in [(&rc, Errno::INVAL), (&ud, Errno::OPNOTSUPP)] {
            let init = FlowInit {
                attr_type: IBV_FLOW_ATTR_NORMAL,
                priority: 0,
                port: 1,
                flags: 0,
                parts: Vec::new(),
            };
            let made = end.context().create_flow(end.qp(), &init);
            assert_eq!(made.err(), Some(errno));
        }
    }

    type Wq = Arc<<Context as Provider>::Wq>;

    fn wq(end: &End, max_wr: u32) -> Result<(Wq, u32), Errno> {
        let mut init = WqInit {
            pd: end.domain(),
            cq: end.completions(),
            max_wr,
            max_sge: 1,
            flags: 0,
        };
        let (wq, number) = end.context().create_wq(&mut init)?;
        Ok((Arc::new(wq), number))
    }

    fn change(end: &End, wq: &Wq, state: ibv_wq_state) -> Result<u32, Errno> {
        let change = WqChange {
            state: Some(state),
            ..WqChange::default()
        };
        end.context().modify_wq(wq, &change)
    }

    fn post_wq(end: &End, wq: &Wq, id: u64) -> Result<(), Errno> {
        let sges = [end.sge(0, 100)];
        let mut requests = std::iter::once(ReceiveRequest { id, sges: &sges });
        end.context().post_wq_recv(wq, &mut requests)
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn frames_are_spread_over_work_queues() {
        if !there() {
            return;
        }
        let (a, b) = (end("lo"), end("lo"));
        let queues: Vec<_> = (0..4).map(|_| wq(&b, 64).expect("a queue")).collect();
        for (queue, _) in &queues {
            assert_eq!(post_wq(&b, queue, 0), Err(Errno::INVAL), "in RESET");
            change(&b, queue, IBV_WQS_RDY).expect("ready");
            for id in 0..64 {
                assert_eq!(post_wq(&b, queue, id), Ok(()));
            }
            assert_eq!(post_wq(&b, queue, 64), Err(Errno::NOMEM));
        }
        let list: Vec<_> = queues.iter().map(|(queue, _)| queue).collect();
        let (table, _) = b.context().create_wq_table(&list).expect("a table");
        let table = Arc::new(table);
        let key: Vec<u8> = (0..40u8).map(|at| at.wrapping_mul(37) ^ 0x5a).collect();
        let rss = |key, fields: u32| Rss {
            table: &table,
            function: 1,
            key,
            fields: u64::from(fields),
        };
        let make = |rss| {
            let mut cap = ibv_qp_cap::zeroed();
            let mut init = init(&b, &mut cap);
            (init.send_cq, init.recv_cq, init.rss) = (None, None, Some(rss));
            b.context().create_qp(&mut init)
        };
        assert_eq!(make(rss(&key[1..], 1)).err(), Some(Errno::INVAL));
        assert_eq!(make(rss(&key, 1 << 8)).err(), Some(Errno::OPNOTSUPP));
        let (qp, _) = make(rss(&key, IBV_RX_HASH_SRC_IPV4)).expect("a queue pair");
        let qp = Arc::new(qp);
        let rule = FlowInit {
            attr_type: IBV_FLOW_ATTR_NORMAL,
            priority: 0,
            port: 1,
            flags: 0,
            parts: vec![destination(&GROUP)],
        };
        let flow = b.context().create_flow(&qp, &rule).expect("a rule");
        let mut by_source = Vec::new();
        for round in 0..2 {
            for last in 0..32 {
                send(&a, 1, &frame(GROUP, [10, 0, 0, last], 60));
                assert_eq!(a.completion().status, IBV_WC_SUCCESS);
                let got = b.completion();
                assert_eq!(got.status, IBV_WC_SUCCESS);
                match round {
                    0 => by_source.push(got.qp_num),
                    _ => assert_eq!(by_source[usize::from(last)], got.qp_num),
                }
            }
        }
        for (_, number) in &queues {
            let hits = by_source.iter().filter(|met| *met == number).count();
            assert!(hits > 0, "{by_source:?}");
        }
        drop(flow);
        change(&b, &queues[0].0, IBV_WQS_ERR).expect("in error");
        assert_eq!(change(&b, &queues[0].0, IBV_WQS_RDY), Err(Errno::INVAL));
        let flushed = b.completion();
        assert_eq!(flushed.status, IBV_WC_WR_FLUSH_ERR);
        assert_eq!(flushed.qp_num, queues[0].1);
        b.context().destroy_qp(&qp).expect("destroyed");
        for (queue, _) in &queues {
            b.context().destroy_wq(queue).expect("destroyed");
        }
        assert!(b.poll().is_empty(), "no rule is left");
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn limits_are_reached() {
        if !there() {
            return;
        }
        let b = end("lo");
        let mut reported = ibv_device_attr_ex::zeroed();
        b.context().query_device(&mut reported).expect("queried");
        let most = reported.orig_attr.max_qp_wr.cast_unsigned();
        assert_eq!(wq(&b, most + 1).err(), Some(Errno::INVAL));
        assert_eq!(wq(&b, 0).err(), Some(Errno::INVAL));
        let (queue, _) = wq(&b, most).expect("a queue");
        change(&b, &queue, IBV_WQS_RDY).expect("ready");
        for id in 0..u64::from(most) {
            assert_eq!(post_wq(&b, &queue, id), Ok(()));
        }
        assert_eq!(post_wq(&b, &queue, 1), Err(Errno::NOMEM));
        let size =
            usize::try_from(reported.rss_caps.max_rwq_indirection_table_size).expect("a size");
        let list = vec![&queue; size];
        assert!(b.context().create_wq_table(&list).is_ok());
        let list = vec![&queue; size * 2];
        let refused = b.context().create_wq_table(&list).err();
        assert_eq!(refused, Some(Errno::INVAL));
        b.context().destroy_wq(&queue).expect("destroyed");
        let mut queues = Vec::new();
        let refused = loop {
            match wq(&b, 1) {
                Ok((queue, _)) => queues.push(queue),
                Err(e) => break e,
            }
        };
        assert_eq!(refused, Errno::NOMEM);
        let most = usize::try_from(reported.max_wq_type_rq).expect("a count");
        assert!(queues.len() + 1 >= most, "{} of {most}", queues.len());
        for queue in &queues {
            b.context().destroy_wq(queue).expect("destroyed");
        }
    }

    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        assert!(status.expect("ip").success(), "ip {arguments}");
    }

    /// Waits until interfaces accept frames, which happens after the kernel reports them up.
    fn until_up(names: [&str; 2]) {
        for name in names {
            loop {
                let reported = Command::new("ip")
                    .args(["-o", "link", "show", name])
                    .output();
                let reported = reported.expect("ip").stdout;
                if String::from_utf8_lossy(&reported).contains("state UP") {
                    break;
                }
                std::thread::yield_now();
            }
        }
    }

    /// The sum of bytes in pairs, as check sums of the Internet are made; 0xffff over all that a
    /// right one covers, itself included.
    fn sum(parts: &[&[u8]]) -> u16 {
        let bytes = parts.concat();
        let pairs = bytes.chunks(2).map(|pair| {
            let low = pair.get(1).copied().unwrap_or(0);
            u64::from(u16::from_be_bytes([pair[0], low]))
        });
        let total = pairs.sum::<u64>() % 0xffff;
        match u16::try_from(total).expect("smaller") {
            0 => 0xffff,
            rest => rest,
        }
    }

    /// Over the header, and over the datagram, of a frame of UDP over IPv4.
    fn sums(frame: &[u8]) -> [u16; 2] {
        let length = &frame[38..40];
        let datagram = sum(&[&frame[26..34], &[0, 17], length, &frame[34..]]);
        [sum(&[&frame[14..34]]), datagram]
    }

    fn udp_socket(address: [u8; 4]) -> (UdpSocket, u16) {
        let socket = UdpSocket::bind((Ipv4Addr::from(address), 0)).expect("a socket");
        let port = socket.local_addr().expect("its address").port();
        (socket, port)
    }

    fn to_port(port: u16) -> FlowPart<'static, Context> {
        let value = [port.to_be_bytes(), [0; 2]].concat();
        FlowPart::Filter {
            kind: IBV_FLOW_SPEC_UDP,
            value: value.leak(),
            mask: &[0xff, 0xff, 0, 0],
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn check_sums_that_the_kernel_leaves_to_the_device_are_made() {
        if !there() {
            return;
        }
        let b = end("lo");
        let (socket, port) = udp_socket([127, 0, 0, 1]);
        let _flow = flow(&b, IBV_FLOW_ATTR_NORMAL, vec![to_port(port)]);
        for length in [1, 2, 77, 1400] {
            b.post_recv(1, 0, 2048);
            let payload = vec![0xa5; length];
            let sent = socket.send_to(&payload, ("127.0.0.1", port));
            assert_eq!(sent.expect("sent"), length);
            let got = b.completion();
            assert_eq!(sums(&b.bytes(0, got.byte_len)), [0xffff; 2]);
            assert_eq!(got.wc_flags, IBV_WC_IP_CSUM_OK);
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_request_can_leave_check_sums_to_the_device() {
        const OWN: [u8; 6] = [2, 0, 0, 0, 0, 0x13];
        if !there() {
            return;
        }
        ip("link add raw2 type veth peer name raw3");
        ip("link set raw2 up");
        ip("link set raw3 address 02:00:00:00:00:13 up");
        ip("address add 10.3.0.1/24 dev raw3");
        until_up(["raw2", "raw3"]);
        let (a, b) = (end("raw2"), end("raw3"));
        let (socket, port) = udp_socket([10, 3, 0, 1]);
        let _flow = flow(&b, IBV_FLOW_ATTR_NORMAL, vec![to_port(port)]);
        for (length, inline) in [(60, true), (61, false), (1500, false)] {
            let mut bytes = frame(OWN, [10, 3, 0, 2], length);
            bytes[30..34].copy_from_slice(&[10, 3, 0, 1]);
            bytes[36..38].copy_from_slice(&port.to_be_bytes());
            a.put(0, &bytes);
            let size = u32::try_from(length).expect("short enough");
            let sges = [a.sge(0, 20), a.sge(20, size - 20)];
            for flags in [0, IBV_SEND_IP_CSUM] {
                b.post_recv(1, 0, 2048);
                let data = if inline {
                    Data::Inline(Inline::Bytes(&bytes))
                } else {
                    Data::Sges(&sges)
                };
                let request: SendRequest<'_, Context> = SendRequest {
                    data,
                    ..SendRequest::new(1, IBV_WR_SEND, flags)
                };
                let posted = a.qp().post_send(&mut Some(request).into_iter());
                posted.expect("posted");
                assert_eq!(a.completion().status, IBV_WC_SUCCESS);
                let got = b.completion();
                let arrived = b.bytes(0, got.byte_len);
                if flags == 0 {
                    assert_eq!((got.wc_flags, &arrived), (0, &bytes));
                } else {
                    assert_eq!(got.wc_flags, IBV_WC_IP_CSUM_OK);
                    assert_eq!(sums(&arrived), [0xffff; 2]);
                }
            }
            // The kernel takes only the frame whose sums are right. The memory is as it was.
            let mut room = [0; 2048];
            let received = socket.recv(&mut room).expect("received");
            assert_eq!(room[..received], bytes[42..]);
            assert_eq!(a.bytes(0, size), bytes);
        }
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn frames_cross_an_ethernet() {
        if !there() {
            return;
        }
        ip("link add raw0 type veth peer name raw1");
        ip("link set raw0 address 02:00:00:00:00:10 up");
        ip("link set raw1 address 02:00:00:00:00:11 up");
        until_up(["raw0", "raw1"]);
        let (near, far, own) = (end("raw0"), end("raw1"), end("raw0"));
        // An unused address, a tag, and a group that the near side listens to as well.
        let unused = [2, 0, 0, 0, 0, 0x77];
        let parts = vec![destination(&unused)];
        let _nobodys = flow(&far, IBV_FLOW_ATTR_NORMAL, parts);
        let _group = flow(&far, IBV_FLOW_ATTR_NORMAL, vec![destination(&GROUP)]);
        let _back = flow(&own, IBV_FLOW_ATTR_NORMAL, vec![destination(&GROUP)]);
        for id in 0..3 {
            far.post_recv(id, 4096 * u32::try_from(id).expect("a few"), 2048);
        }
        own.post_recv(0, 0, 2048);
        let mut tagged = frame(unused, [1; 4], 1514);
        tagged.splice(12..12, [0x81, 0, 0xac, 0x0c]);
        let frames = [
            frame(unused, [1; 4], 1514),
            tagged,
            frame(GROUP, [2; 4], 60),
        ];
        for (id, frame) in (0..).zip(&frames) {
            send(&near, id, frame);
            assert_eq!(near.completion().status, IBV_WC_SUCCESS);
            let got = far.completion();
            let length = u32::try_from(frame.len()).expect("short enough");
            assert_eq!((got.wr_id, got.byte_len), (id, length));
            let at = 4096 * u32::try_from(id).expect("a few");
            assert_eq!(&far.bytes(at, length), frame);
        }
        let got = own.completion();
        assert_eq!((got.byte_len, own.bytes(0, 60)), (60, frames[2].clone()));
        // Longer than the interface takes.
        send(&near, 7, &frame(unused, [1; 4], 1515));
        let failed = near.completion();
        assert_eq!((failed.wr_id, failed.status), (7, IBV_WC_LOC_LEN_ERR));
        assert_eq!(near.state(), IBV_QPS_SQE);
        assert_eq!(
            post(&near, 8, IBV_WR_SEND, Data::Sges(&[near.sge(0, 60)])),
            Ok(())
        );
        assert_eq!(near.completion().status, IBV_WC_WR_FLUSH_ERR);
        to(&near, &[IBV_QPS_RTS]);
        far.post_recv(9, 0, 2048);
        send(&near, 9, &frames[0]);
        assert_eq!(near.completion().status, IBV_WC_SUCCESS);
        assert_eq!(far.completion().wr_id, 9);
        // Without a link frames are lost, as on a card.
        ip("link set raw0 down");
        send(&near, 10, &frames[0]);
        assert_eq!(near.completion().status, IBV_WC_SUCCESS);
        ip("link del raw0");
        send(&near, 11, &frames[0]);
        assert_eq!(near.completion().status, IBV_WC_SUCCESS);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn many_frames_leave_in_order() {
        if !there() {
            return;
        }
        let (a, b) = (end("lo"), end("lo"));
        let _flow = flow(&b, IBV_FLOW_ATTR_NORMAL, vec![source([1; 4])]);
        let total = 5000u32;
        for id in 0..64 {
            b.post_recv(id, 8192, 100);
        }
        let (mut posted, mut sent, mut got) = (0u32, 0u32, 0u32);
        while got < total {
            // Half of the capacity, so that none is lost for want of a request.
            while posted < total && posted < got + 32 && posted < sent + 32 {
                let mut bytes = frame(GROUP, [1; 4], 60);
                bytes[56..].copy_from_slice(&posted.to_be_bytes());
                send(&a, posted.into(), &bytes);
                posted += 1;
                for wc in a.poll() {
                    assert_eq!((wc.wr_id, wc.status), (sent.into(), IBV_WC_SUCCESS));
                    sent += 1;
                }
            }
            for wc in a.poll() {
                assert_eq!((wc.wr_id, wc.status), (sent.into(), IBV_WC_SUCCESS));
                sent += 1;
            }
            for wc in b.poll() {
                assert_eq!(wc.wr_id, u64::from(got));
                b.post_recv(u64::from(got + 64), 8192, 100);
                got += 1;
            }
        }
        assert_eq!(posted, total);
    }

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn without_the_right_nothing_is_made() {
        const POOR: &str = "UROCE_TEST_POOR";
        if !there() {
            return;
        }
        if std::env::var_os(POOR).is_none() {
            let program = std::env::current_exe().expect("a test program");
            let output = Command::new("setpriv")
                .args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"])
                .arg(program)
                .args(["--ignored", "--exact", "--nocapture"])
                .arg("inside::without_the_right_nothing_is_made")
                .env(POOR, "1")
                .watched_output()
                .expect("setpriv");
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{printed}");
            assert!(printed.contains("1 passed"), "{printed}");
            return;
        }
        let rc = End::new(IBV_QPT_RC);
        let mut cap = ibv_qp_cap::zeroed();
        let made = rc.context().create_qp(&mut init(&rc, &mut cap));
        assert_eq!(made.err(), Some(Errno(libc::EPERM)));
    }
}
