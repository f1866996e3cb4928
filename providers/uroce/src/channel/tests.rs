use super::*;
use kit::abi::*;
use kit::provider::Token;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;

fn read(fd: &OwnedFd) -> Vec<u8> {
    let mut bytes = [0; 64];
    let length = rustix::io::read(fd, &mut bytes).expect("a record");
    bytes[..length].to_vec()
}

/// Events of poll(2) now: those that programs request, and unrequested ones.
#[expect(clippy::disallowed_methods, reason = "all events are wanted")]
fn ready(fd: &OwnedFd) -> PollFlags {
    let all = PollFlags::IN | PollFlags::OUT | PollFlags::PRI | PollFlags::RDHUP;
    let mut watched = [PollFd::from_borrowed_fd(fd.as_fd(), all)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&now)).expect("polled");
    watched[0].revents()
}

fn is_readable(fd: &OwnedFd) -> bool {
    ready(fd) == PollFlags::IN
}

fn completion(token: u64) -> Vec<u8> {
    token.to_ne_bytes().to_vec()
}

#[test]
fn records_have_the_kernels_formats_one_a_read() {
    let (records, fd) = Records::new(Kind::Asynchronous).expect("made");
    assert!(!is_readable(&fd));
    records.completion(Token(0x1122_3344_5566_7788));
    records.asynchronous(IBV_EVENT_QP_FATAL, Token(5));
    records.port(IBV_EVENT_PORT_ERR, 1);
    assert!(is_readable(&fd));
    assert_eq!(read(&fd), 0x1122_3344_5566_7788u64.to_ne_bytes());
    let asynchronous = |element: u64, event: u32| {
        let mut bytes = element.to_ne_bytes().to_vec();
        bytes.extend(event.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    };
    assert_eq!(read(&fd), asynchronous(5, IBV_EVENT_QP_FATAL));
    assert_eq!(read(&fd), asynchronous(1, IBV_EVENT_PORT_ERR));
    assert!(!is_readable(&fd));
}

#[test]
fn the_application_can_read_and_nothing_else() {
    use rustix::io::{Errno as Os, write};
    for kind in [Kind::Completions, Kind::Asynchronous] {
        let (records, fd) = Records::new(kind).expect("made");
        assert_eq!(ready(&fd), PollFlags::empty());
        assert_eq!(write(&fd, &[0; 16]), Err(Os::BADF));
        records.asynchronous(IBV_EVENT_COMM_EST, Token(1));
        assert_eq!(ready(&fd), PollFlags::IN);
        read(&fd);
        assert_eq!(
            ready(&fd),
            PollFlags::empty(),
            "as long as the channel lives"
        );
        let another = fd.try_clone().expect("duplicated");
        drop(fd);
        assert_eq!(ready(&another), PollFlags::empty());
        assert_eq!(records.take_back(Token(1)), 1);
    }
}

#[test]
fn edges_are_reported_once_an_event() {
    use rustix::event::epoll;
    let (records, fd) = Records::new(Kind::Completions).expect("made");
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("made");
    let both = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(&set, &fd, epoll::EventData::new_u64(1), both).expect("added");
    let woken = || {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 4];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        epoll::wait(&set, &mut events, Some(&now)).expect("waited")
    };
    assert_eq!(woken(), 0);
    for token in 0..3 {
        // Whether or not the one before was read.
        records.completion(Token(token));
        assert_eq!((woken(), woken()), (1, 0));
    }
    for token in 0..3 {
        assert_eq!(read(&fd), completion(token));
        assert_eq!(woken(), 0);
    }
}

#[test]
fn a_descriptor_that_does_not_block_returns_eagain() {
    let (records, fd) = Records::new(Kind::Completions).expect("made");
    rustix::io::ioctl_fionbio(&fd, true).expect("set");
    let mut bytes = [0; 8];
    let nothing = rustix::io::read(&fd, &mut bytes);
    assert_eq!(nothing, Err(rustix::io::Errno::AGAIN));
    assert_eq!(records.take_back(Token(1)), 0);
    records.completion(Token(3));
    assert_eq!(rustix::io::read(&fd, &mut bytes), Ok(8));
}

#[test]
fn an_object_that_goes_takes_only_its_own_records_along() {
    let (records, fd) = Records::new(Kind::Asynchronous).expect("made");
    for token in [1, 2, 1, 3, 1] {
        records.asynchronous(IBV_EVENT_COMM_EST, Token(token));
    }
    records.port(IBV_EVENT_PORT_ACTIVE, 1);
    read(&fd);
    assert_eq!(records.take_back(Token(1)), 1, "one was read");
    assert_eq!(read(&fd)[..8], 2u64.to_ne_bytes());
    assert_eq!(read(&fd)[..8], 3u64.to_ne_bytes());
    let port = read(&fd);
    assert_eq!(port[..8], 1u64.to_ne_bytes());
    assert_eq!(port[8..12], IBV_EVENT_PORT_ACTIVE.to_ne_bytes());
    assert!(!is_readable(&fd));
    assert_eq!(records.take_back(Token(1)), 0, "it is gone");
    assert_eq!(records.take_back(Token(2)), 1);
}

#[test]
fn records_that_there_is_no_room_for_follow_in_order() {
    const ALL: u64 = 5000;
    let (records, fd) = Records::new(Kind::Completions).expect("made");
    for token in 0..ALL {
        records.completion(Token(token));
    }
    let reader = std::thread::spawn(move || {
        let seen: Vec<Vec<u8>> = (0..ALL - 2).map(|_| read(&fd)).collect();
        (seen, fd)
    });
    // One that was kept, and one in the socket; the reader has them before or never.
    let (seen, fd) = reader.join().expect("read");
    assert_eq!(seen, (0..ALL - 2).map(completion).collect::<Vec<_>>());
    assert_eq!(records.take_back(Token(ALL - 1)), 0);
    assert_eq!(read(&fd), completion(ALL - 2));
    assert!(!is_readable(&fd));
    records.completion(Token(7));
    assert_eq!(read(&fd), completion(7));
}

#[test]
fn kept_records_are_taken_back_too() {
    let (records, fd) = Records::new(Kind::Completions).expect("made");
    for _ in 0..2000 {
        records.completion(Token(1));
        records.completion(Token(2));
    }
    assert_eq!(records.take_back(Token(1)), 0);
    let all: Vec<Vec<u8>> = (0..2000).map(|_| read(&fd)).collect();
    assert!(all.iter().all(|record| *record == completion(2)));
    assert!(!is_readable(&fd));
    assert_eq!(records.take_back(Token(2)), 2000);
}

#[test]
fn every_record_is_read_or_taken_back_with_concurrent_readers() {
    for round in 0..20u64 {
        let (records, fd) = Records::new(Kind::Completions).expect("made");
        let reader = std::thread::spawn(move || {
            let mut counts = [0u32; 3];
            loop {
                let record = read(&fd);
                let token = u64::from_ne_bytes(record[..8].try_into().expect("8 bytes"));
                if token == 99 {
                    return counts;
                }
                counts[usize::try_from(token).expect("small")] += 1;
            }
        });
        for n in 0..600 {
            records.completion(Token(n % 3));
            if n == 100 + round * 20 {
                std::thread::yield_now();
            }
        }
        let reported = records.take_back(Token(1));
        records.completion(Token(99));
        let counts = reader.join().expect("read");
        assert_eq!(counts[1], reported);
        assert_eq!((counts[0], counts[2]), (200, 200));
    }
}

#[test]
fn nothing_is_left_of_a_channel_with_unread_records() {
    let (records, fd) = Records::new(Kind::Completions).expect("made");
    for token in 0..2000 {
        records.completion(Token(token));
    }
    assert!(is_readable(&fd));
    drop(records);
    // There are no further writes, so the thread that sent the events without room has ended or
    // sees it.
    assert_eq!(read(&fd), Vec::<u8>::new());
}

#[test]
fn channels_are_found_by_their_descriptors() {
    let channels = Channels::default();
    let (one, other) = (
        channels.create().expect("made"),
        channels.create().expect("made"),
    );
    channels
        .find(one.as_fd())
        .expect("known")
        .completion(Token(4));
    assert_eq!(read(&one), completion(4));
    assert!(!is_readable(&other));
    channels.destroy(one.as_fd());
    assert_eq!(channels.find(one.as_fd()).err(), Some(Errno::INVAL));
    assert!(channels.find(other.as_fd()).is_ok());
}
