//! The messages between the two ends: a line of JSON each.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv6Addr, TcpStream},
};

use serde_json::{Value, json};

use super::choice::PATIENCE;

/// Longer lines are not read.
const LONGEST: u64 = 16384;
/// Both ends must have this version.
const VERSION: u64 = 1;

/// The facts of an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hello {
    /// The device.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// Its maker and kind, as numbers.
    pub vendor: (u32, u32),
    /// Its firmware; empty for none.
    pub firmware: String,
    /// Whether the link is Ethernet's.
    pub ethernet: bool,
    /// `enum ibv_port_state`.
    pub state: u32,
    /// In bytes.
    pub mtu: u32,
    /// The LID, on InfiniBand.
    pub lid: u16,
    /// The GID, if there is one.
    pub gid: Option<[u8; 16]>,
    /// Whether it is one of RoCE v2.
    pub roce_v2: bool,
    /// The queue pair, and the number of its first packet.
    pub queue_pair: (u32, u32),
    /// The memory, and its key.
    pub memory: (u64, u32),
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// In front of everything.
    Hello(Hello),
    /// The queue pair can receive.
    Ready,
    /// The step of that name is done at this end.
    Done(String),
    /// This end gives up, and why.
    Failed(String),
}

impl Message {
    fn json(&self) -> Value {
        match self {
            Self::Hello(hello) => json!({"version": VERSION, "hello": hello.json()}),
            Self::Ready => json!({"ready": true}),
            Self::Done(step) => json!({"done": step}),
            Self::Failed(reason) => json!({"failed": reason}),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        if let Some(hello) = value.get("hello") {
            let same = value.get("version")?.as_u64()? == VERSION;
            return same.then(|| Hello::read(hello).map(Self::Hello))?;
        }
        let text = |name| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(step) = text("done") {
            return Some(Self::Done(step));
        }
        if let Some(reason) = text("failed") {
            return Some(Self::Failed(reason));
        }
        value.get("ready").map(|_| Self::Ready)
    }
}

impl Hello {
    pub(super) fn json(&self) -> Value {
        json!({
            "device": self.device,
            "port": self.port,
            "vendor": [self.vendor.0, self.vendor.1],
            "firmware": self.firmware,
            "ethernet": self.ethernet,
            "state": self.state,
            "mtu": self.mtu,
            "lid": self.lid,
            "gid": self.gid.map(|gid| Ipv6Addr::from(gid).to_string()),
            "roce_v2": self.roce_v2,
            "queue_pair": [self.queue_pair.0, self.queue_pair.1],
            "memory": [self.memory.0, self.memory.1],
        })
    }

    fn read(value: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_u64();
        let small = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let get = |name: &str| value.get(name);
        let text = |name| get(name)?.as_str().map(str::to_owned);
        let flag = |name| get(name)?.as_bool();
        let of = |name, place: usize| get(name)?.get(place);
        let gid = match get("gid")? {
            Value::Null => None,
            gid => Some(gid.as_str()?.parse::<Ipv6Addr>().ok()?.octets()),
        };
        Some(Self {
            device: text("device")?,
            port: u8::try_from(number(get("port")?)?).ok()?,
            vendor: (small(of("vendor", 0)?)?, small(of("vendor", 1)?)?),
            firmware: text("firmware")?,
            ethernet: flag("ethernet")?,
            state: small(get("state")?)?,
            mtu: small(get("mtu")?)?,
            lid: u16::try_from(number(get("lid")?)?).ok()?,
            gid,
            roce_v2: flag("roce_v2")?,
            queue_pair: (small(of("queue_pair", 0)?)?, small(of("queue_pair", 1)?)?),
            memory: (number(of("memory", 0)?)?, small(of("memory", 1)?)?),
        })
    }
}

/// The conversation.
pub(super) struct Talk {
    stream: BufReader<TcpStream>,
}

impl Talk {
    pub fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub fn send(&mut self, message: &Message) -> Result<(), String> {
        let line = format!("{}\n", message.json());
        let written = self.stream.get_mut().write_all(line.as_bytes());
        written.map_err(|error| format!("the other end is gone: {error}"))
    }

    pub fn receive(&mut self) -> Result<Message, String> {
        let mut line = String::new();
        let read = self.stream.by_ref().take(LONGEST).read_line(&mut line);
        match read {
            Ok(0) => Err("the other end hung up".into()),
            Ok(_) => {
                let strange =
                    || format!("the other end is no ibv_doctor of this version: {line:?}");
                Message::read(&line).ok_or_else(strange)
            }
            Err(error) => Err(format!("the other end says nothing: {error}")),
        }
    }

    /// Receives this message and no other.
    pub fn expect(&mut self, message: &Message) -> Result<(), String> {
        match self.receive()? {
            received if received == *message => Ok(()),
            Message::Failed(reason) => Err(format!("the other end: {reason}")),
            received => Err(format!(
                "the other end sent {received:?} in place of {message:?}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let hello = Hello {
            device: "mlx5_0".into(),
            port: 2,
            vendor: (0x2c9, 4119),
            firmware: "16.35.2000".into(),
            ethernet: true,
            state: 4,
            mtu: 4096,
            lid: 7,
            gid: Some([0xfe; 16]),
            roce_v2: true,
            queue_pair: (0xabc, 0xffffff),
            memory: (u64::MAX, 12),
        };
        let without = Hello {
            gid: None,
            ..hello.clone()
        };
        for message in [
            Message::Hello(hello),
            Message::Hello(without),
            Message::Ready,
            Message::Done("write".into()),
            Message::Failed("no \"device\"".into()),
        ] {
            let line = message.json().to_string();
            assert_eq!(Message::read(&line), Some(message), "{line}");
        }
    }

    #[test]
    fn other_messages_are_refused() {
        for line in [
            "",
            "{}",
            "GET / HTTP/1.1",
            r#"{"version":2,"hello":{}}"#,
            r#"{"version":1,"hello":{"device":1}}"#,
        ] {
            assert_eq!(Message::read(line), None, "{line}");
        }
    }
}
