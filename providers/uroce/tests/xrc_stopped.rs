//! XRC targets of a stopped process: calls about them end, with the right errno.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as expected"
)]

mod alone;

use alone::{Player, receive_line, reply, role as my_role};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::Errno;
use kit::provider::{Provider, QpInit, Token};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use uroce::context::Context;
use uroce::device::ports;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

fn opened(path: &str) -> (Context, Arc<<Context as Provider>::Xrcd>) {
    let ports = ports().expect("ports");
    let interfaces = ports.look().expect("interfaces");
    let lo = interfaces.iter().find(|i| i.name == "lo").expect("lo");
    let port = ports.of(lo.index).expect("a port");
    let (context, _async) = Context::open(&port).expect("opens");
    let file = File::open(path).expect("a file");
    let xrcd = context.open_xrcd(Some(file.as_fd()), libc::O_CREAT);
    (context, Arc::new(xrcd.expect("a domain")))
}

/// The owner of a target.
#[test]
#[ignore = "the tests of `inside` start it"]
fn role() {
    let Some(path) = my_role() else {
        return;
    };
    let (context, xrcd) = opened(&path);
    let mut cap = ibv_qp_cap::zeroed();
    let mut init = QpInit {
        token: Token(2),
        qp_type: IBV_QPT_XRC_RECV,
        pd: None,
        send_cq: None,
        recv_cq: None,
        srq: None,
        xrcd: Some(&xrcd),
        cap: &mut cap,
        sq_sig_all: false,
        create_flags: 0,
        send_ops: 0,
        rss: None,
        max_tso_header: 0,
        source_qpn: 0,
    };
    let (target, number) = context.create_qp(&mut init).expect("a target");
    reply(&number.to_string());
    while let Some(line) = receive_line() {
        reply(&line);
    }
    context.destroy_qp(&Arc::new(target)).expect("destroyed");
}

mod inside {
    use super::*;

    const SILENT: Errno = Errno(libc::ETIMEDOUT);

    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn calls_to_a_stopped_owner_time_out() {
        if !alone::there() {
            return;
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("a name");
        let mut owner = Player::start(path);
        let number: u32 = owner.receive_line().parse().expect("a number");
        let (context, xrcd) = opened(path);
        let open = |token| context.open_qp(&xrcd, number, Token(token));
        let [one, other] = [3, 4].map(|token| Arc::new(open(token).expect("opened")));
        let mut attr = ibv_qp_attr::zeroed();
        assert_eq!(context.query_qp(&one, &mut attr), Ok(()));
        let stopped = owner.stop();
        std::thread::scope(|scope| {
            let opens = scope.spawn(|| open(5).err());
            let modifies = scope.spawn(|| {
                let mut attr = ibv_qp_attr::zeroed();
                attr.qp_state = IBV_QPS_INIT;
                attr.port_num = 1;
                let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
                context.modify_qp(&one, &attr, mask).err()
            });
            let destroys = scope.spawn(|| context.destroy_qp(&other));
            let queried = context.query_qp(&one, &mut attr);
            assert_eq!(queried, Err(SILENT));
            assert_eq!(opens.join().expect("ended"), Some(SILENT));
            assert_eq!(modifies.join().expect("ended"), Some(SILENT));
            assert!(destroys.join().expect("ended").is_ok());
        });
        drop(stopped);
        // It executes the requests that arrived meanwhile.
        assert_eq!(owner.ask("there"), "there");
        loop {
            assert_eq!(context.query_qp(&one, &mut attr), Ok(()));
            if attr.qp_state == IBV_QPS_INIT {
                break;
            }
            std::thread::yield_now();
        }
        assert!(context.destroy_qp(&one).is_ok());
        owner.end();
    }
}
