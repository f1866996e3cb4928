//! `--pair`: two machines exchange their facts, compare them, and then exchange data.
//!
//! One waits, the other one calls. Over TCP they exchange lines of JSON (`talk`); over RDMA they
//! exchange a message, a write and a read in each direction, and check the bytes (`work`).

mod choice;
mod compare;
mod end;
mod outcome;
mod talk;

pub use compare::compare;
pub use outcome::{Outcome, Step};
pub use talk::Hello;

pub use choice::{Choice, PATIENCE};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

use end::End;
use talk::{Message, Talk};

/// Runs one end: with a host it calls, without one it waits.
#[must_use]
pub fn run(choice: &Choice, host: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    let connected = match host {
        Some(host) => call(host, choice.tcp),
        None => wait(choice.tcp),
    };
    match connected {
        Ok(stream) => {
            if let Err(reason) = test(choice, stream, host.is_some(), &mut outcome) {
                outcome.fail(reason);
            }
        }
        Err(reason) => outcome.fail(reason),
    }
    outcome
}

fn call(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("{host}: {error}"))?;
    let mut reason = format!("{host} has no address");
    for address in found {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                reason = format!("{address}: {error}; is ibv_doctor --pair running there?")
            }
        }
    }
    Err(reason)
}

fn wait(port: u16) -> Result<TcpStream, String> {
    let all = [
        // Takes IPv4 as well, where that is not switched off.
        SocketAddr::from(([0_u16; 8], port)),
        SocketAddr::from(([0_u8; 4], port)),
    ];
    let listener =
        TcpListener::bind(&all[..]).map_err(|error| format!("TCP port {port}: {error}"))?;
    eprintln!("waiting for ibv_doctor --pair of the other machine, TCP port {port}");
    let (stream, _) = listener.accept().map_err(|error| error.to_string())?;
    Ok(stream)
}

fn test(
    choice: &Choice,
    stream: TcpStream,
    calls: bool,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let local = stream.local_addr().map_err(|error| error.to_string())?.ip();
    let mut talk = Talk::new(stream).map_err(|error| error.to_string())?;
    // The other end receives the reason why there is nothing to test with.
    let mut end = match End::new(choice, local) {
        Ok(end) => end,
        Err(reason) => {
            talk.send(&Message::Failed(reason.clone()))?;
            return Err(reason);
        }
    };
    talk.send(&Message::Hello(end.hello().clone()))?;
    let peer = match talk.receive()? {
        Message::Hello(peer) => peer,
        Message::Failed(reason) => return Err(format!("the other end: {reason}")),
        other => {
            return Err(format!(
                "the other end sent {other:?} in place of a greeting"
            ));
        }
    };
    outcome.ends = Some((end.hello().clone(), peer.clone()));
    outcome.findings = compare(end.hello(), &peer);
    if let Err(reason) = end.connect(&peer) {
        // It gives up as well; if it has gone already, this end's reason is the one to report.
        let _ = talk.send(&Message::Failed(reason.clone()));
        return Err(reason);
    }
    talk.send(&Message::Ready)?;
    talk.expect(&Message::Ready)?;
    if calls {
        end::lead(&mut end, &mut talk, &peer, outcome)
    } else {
        end::follow(&mut end, &mut talk, outcome)
    }
}
