//! On the loopback interface of this machine, as root.

use super::*;
use crate::errno::Errno;
use std::os::fd::AsFd;

/// Index of `lo`, which every network namespace has.
const LO: u32 = 1;

fn pair() -> Option<(OwnedFd, OwnedFd)> {
    match (open(LO, false), open(LO, true)) {
        (Ok(sends), Ok(listens)) => Some((sends, listens)),
        (sends, _) => {
            let refused = sends.err();
            assert_eq!(refused, Some(Errno(libc::EPERM)));
            eprintln!("skipped: packet sockets need CAP_NET_RAW");
            None
        }
    }
}

#[test]
fn frames_come_as_they_were_sent() {
    let Some((sends, listens)) = pair() else {
        return;
    };
    let reported = hardware(sends.as_fd()).expect("reported");
    assert!(reported.ethernet && reported.loopback);
    join(&listens, LO, Membership::Group([1, 0, 0x5e, 1, 2, 3])).expect("joined");
    // An experimental type, and bytes that no other program sends. The second has a tag.
    let mark = std::process::id().to_be_bytes();
    let mut plain = vec![0; 12];
    plain.extend([0x88, 0xb5]);
    plain.extend(mark);
    plain.extend([7; 100]);
    let mut tagged = vec![0; 12];
    tagged.extend([0x81, 0, 0x60, 5, 0x88, 0xb5]);
    tagged.extend(mark);
    tagged.extend([8; 100]);
    for frame in [&plain, &tagged] {
        let sent = rustix::net::send(&sends, frame, rustix::net::SendFlags::empty());
        assert_eq!(sent, Ok(frame.len()));
    }
    let mut receiver = FrameReceiver::new();
    let mut found = Vec::new();
    while found.len() < 2 {
        let Ok(count) = receiver.receive(listens.as_fd()) else {
            std::thread::yield_now();
            continue;
        };
        for frame in (0..count).filter_map(|at| receiver.frame(at)) {
            let ours = frame.bytes.windows(4).any(|bytes| bytes == mark);
            if ours && frame.origin == Origin::Received {
                found.push(frame.bytes.to_vec());
            }
        }
    }
    assert_eq!(found, [plain, tagged]);
}

#[test]
fn an_interface_that_is_not_there() {
    if pair().is_some() {
        let refused = open(0x7fff_fff0, true).err();
        assert_eq!(refused, Some(Errno::NODEV));
    }
}
