//! Exchanges over a device: messages, RDMA and atomic operations, datagrams and their answers,
//! connections by address. Both ends are in this process.
//!
//!     cargo run --example device                    # uroce on the loopback interface
//!     cargo run --example device rxe0 192.0.2.1     # a device of the kernel, and its address
#![forbid(unsafe_code)]

use std::{env, error::Error, net::IpAddr, thread};

use verbs::{
    Access, Buffer, Completion, CompletionQueue, Device, ProtectionDomain, QueuePair,
    ReceiveRequest, Reliable, SendRequest,
    connection::{Connection, DatagramListener, Datagrams, Listener, Lookup, Options},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes of the global routing header, in front of a datagram.
const HEADER: usize = 40;

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "uroce_lo".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1".to_owned());
    if name == "uroce_lo" {
        verbs::use_uroce("lo");
    }
    verbs::fork_init()?;
    let context = Device::find(&name)?.open()?;
    let pd = context.protection_domain()?;
    reliable(&pd)?;
    println!("messages, RDMA and atomic operations");
    datagrams(&pd)?;
    println!("datagrams and answers");
    let address = address.parse()?;
    connection(address)?;
    println!("a connection by address");
    datagrams_by_address(address)?;
    println!("datagrams by address");
    Ok(())
}

fn filled(pd: &ProtectionDomain, bytes: &[u8]) -> Result<Buffer> {
    let mut buffer = pd.buffer(bytes.len())?;
    buffer.copy_from_slice(bytes);
    Ok(buffer)
}

/// The next completion, which has to be a success.
fn one(cq: &CompletionQueue) -> Result<Completion> {
    let mut all = cq.wait()?;
    match (all.pop(), all.is_empty()) {
        (Some(completion), true) => Ok(completion.success()?),
        _ => Err("more than one completion".into()),
    }
}

fn expect(is_right: bool, what: &str) -> Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(format!("{what} is wrong").into()),
    }
}

fn reliable(pd: &ProtectionDomain) -> Result<()> {
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let context = pd.context();
    let (here, there) = (context.completion_queue(64)?, context.completion_queue(64)?);
    let build = |cq| {
        pd.reliable(cq)
            .access(access)
            .segments(2)
            .inline(16)
            .build()
    };
    let (a, b) = (build(&here)?, build(&there)?);
    let (at_a, at_b) = (a.endpoint(), b.endpoint());
    let (a, b): (QueuePair<Reliable>, _) = (a.connect(&at_b)?, b.connect(&at_a)?);

    // Longer than several packets, in two pieces.
    let text: Vec<u8> = (0..=250).cycle().take(20_000).collect();
    let (front, rest) = text.split_at(7);
    b.post_receive(ReceiveRequest::new(pd.buffer(text.len())?))?;
    let message = SendRequest::send(filled(pd, front)?).and(filled(pd, rest)?);
    a.post(message.immediate(5))?;
    one(&here)?;
    let received = one(&there)?;
    expect(received.immediate == Some(5), "the immediate data")?;
    let buffer = received.into_buffer().ok_or("no buffer")?;
    expect(*buffer == *text, "the message")?;

    let region = pd.memory_region(4096, access)?;
    let remote = region.remote();
    let part = |range| remote.slice(range).ok_or("a part of the region");
    a.post(SendRequest::write(filled(pd, b"written")?, part(8..15)?))?;
    one(&here)?;
    a.post(SendRequest::write_inline(*b"inline", part(16..22)?))?;
    one(&here)?;
    let mut bytes = [0; 14];
    region.read(8, &mut bytes)?;
    expect(bytes == *b"written\0inline", "the written memory")?;
    a.post(SendRequest::read(pd.buffer(7)?, part(8..15)?))?;
    let buffer = one(&here)?.into_buffer().ok_or("no buffer")?;
    expect(*buffer == *b"written", "the read memory")?;
    region.write(0, &40_u64.to_ne_bytes())?;
    a.post(SendRequest::fetch_add(pd.buffer(8)?, part(0..8)?, 2))?;
    let before = one(&here)?.into_buffer().ok_or("no buffer")?;
    expect(*before == 40_u64.to_ne_bytes(), "the value before")?;
    a.post(SendRequest::compare_swap(pd.buffer(8)?, part(0..8)?, 42, 7))?;
    one(&here)?;
    expect(region.read_u64(0)? == 7, "the value after")?;

    // All requests come back.
    b.post_receive(ReceiveRequest::new(pd.buffer(8)?))?;
    b.shut_down()?;
    let flushed = there.wait()?;
    expect(flushed.len() == 1, "the number of flushed requests")
}

fn datagrams(pd: &ProtectionDomain) -> Result<()> {
    const KEY: u32 = 0x1234;
    let context = pd.context();
    let (here, there) = (context.completion_queue(64)?, context.completion_queue(64)?);
    let (client, server) = (
        pd.datagram(&here).build(KEY)?,
        pd.datagram(&there).build(KEY)?,
    );
    client.post_receive(ReceiveRequest::new(pd.buffer(HEADER + 16)?))?;
    server.post_receive(ReceiveRequest::new(pd.buffer(HEADER + 16)?))?;
    let to = client.address_handle(&server.endpoint())?;
    let question = SendRequest::send(filled(pd, b"question")?);
    client.post_to(question, &to, server.number(), KEY)?;
    one(&here)?;
    let question = one(&there)?;
    expect(question.bytes == HEADER + 8, "the length of a datagram")?;
    let sender = server.sender(&question)?;
    expect(
        sender.gid == client.endpoint().gid,
        "the address of the sender",
    )?;
    let to = server.answer_handle(&question)?;
    let answer = SendRequest::send(filled(pd, b"answer")?);
    server.post_to(answer, &to, question.source, KEY)?;
    one(&there)?;
    let answer = one(&here)?.into_buffer().ok_or("no buffer")?;
    expect(
        answer.get(HEADER..HEADER + 6) == Some(b"answer"),
        "the answer",
    )
}

fn connection(address: IpAddr) -> Result<()> {
    let listener = Listener::bind((address, 0))?;
    let port = listener.local_addr().ok_or("no port")?.port().to_string();
    let server = thread::spawn(move || -> verbs::Result<Vec<Completion>> {
        let request = listener.request()?;
        let connection = request.accept(&Options::new().private_data(*b"welcome"))?;
        connection.post_receive(ReceiveRequest::new(connection.buffer(64)?))?;
        connection.completions()
    });
    let there = Lookup::new().reliable();
    let there = there.find(Some(&address.to_string()), Some(&port))?;
    let there = there.first().ok_or("no address")?;
    let connection = Connection::connect(there)?;
    expect(
        connection.private_data().starts_with(b"welcome"),
        "the private data",
    )?;
    let mut message = connection.buffer(5)?;
    message.copy_from_slice(b"hello");
    connection.post(SendRequest::send(message))?;
    for completion in connection.completions()? {
        completion.success()?;
    }
    let received = server.join().map_err(|_| "the server panicked")??;
    expect(
        received
            .iter()
            .all(|one| one.result.is_ok() && one.bytes == 5),
        "the message",
    )?;
    connection.disconnect()?;
    Ok(())
}

fn datagrams_by_address(address: IpAddr) -> Result<()> {
    let listener = DatagramListener::bind((address, 0))?;
    let to = listener.local_addr().ok_or("no address")?;
    let server = thread::spawn(move || -> verbs::Result<usize> {
        let server = Datagrams::bind((address, 0))?;
        server.post_receive(ReceiveRequest::new(server.buffer(HEADER + 16)?))?;
        listener.request()?.accept_with(&server, b"")?;
        let question = server.completions()?;
        let mut bytes = 0;
        for one in &question {
            bytes += one.bytes;
            let answer = SendRequest::send(server.buffer(3)?);
            server.post_to(answer, &server.sender(one)?)?;
            server.completions()?;
        }
        Ok(bytes)
    });
    let client = Datagrams::connect(to)?;
    client.post_receive(ReceiveRequest::new(client.buffer(HEADER + 16)?))?;
    client.post(SendRequest::send(client.buffer(9)?))?;
    let mut answers = 0;
    while answers == 0 {
        let done = client.completions()?;
        answers = done.iter().filter(|one| one.bytes == HEADER + 3).count();
    }
    let received = server.join().map_err(|_| "the server panicked")??;
    expect(received == HEADER + 9, "the datagram")
}
