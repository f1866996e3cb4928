#![forbid(unsafe_code)]
//! Selects the sockets and programs that use rsockets.

use std::path::Path;

/// A line of four words: program, domain, type, protocol. `*` matches any value.
const FILE: &str = "/etc/rdma/rsocket/preload_config";

const AF_IB: i32 = 27;
const DOMAINS: [(&str, i32); 3] = [
    ("INET", libc::AF_INET),
    ("INET6", libc::AF_INET6),
    ("IB", AF_IB),
];
const TYPES: [(&str, i32); 2] = [("STREAM", libc::SOCK_STREAM), ("DGRAM", libc::SOCK_DGRAM)];
const PROTOCOLS: [(&str, i32); 2] = [("TCP", libc::IPPROTO_TCP), ("UDP", libc::IPPROTO_UDP)];

/// A line of the file; `None` matches any value.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    program: Option<String>,
    domain: Option<i32>,
    kind: Option<i32>,
    protocol: Option<i32>,
}

/// The sockets to convert.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config(Vec<Rule>);

/// The socket that a program asks for.
#[derive(Clone, Copy)]
pub struct Socket {
    pub domain: i32,
    /// The type without flags.
    pub kind: i32,
    pub protocol: i32,
}

impl Config {
    /// The configuration of the machine. Without a file all sockets are converted.
    pub fn of_machine() -> Self {
        let text = std::fs::read(FILE).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Lines that cannot be parsed are ignored.
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(Rule::parse).collect())
    }

    /// Whether a socket becomes an rsocket.
    pub fn takes(&self, program: &str, socket: Socket) -> bool {
        let protocol = match (socket.protocol, socket.kind) {
            (0, libc::SOCK_STREAM) => libc::IPPROTO_TCP,
            (0, libc::SOCK_DGRAM) => libc::IPPROTO_UDP,
            (protocol, _) => protocol,
        };
        let socket = Socket { protocol, ..socket };
        self.0.is_empty() || self.0.iter().any(|rule| rule.takes(program, socket))
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut next = || words.next();
        let program = next()?;
        Some(Self {
            program: (program != "*").then(|| program.to_owned()),
            domain: number(next()?, &["AF_", "PF_"], &DOMAINS)?,
            kind: number(next()?, &["SOCK_"], &TYPES)?,
            protocol: number(next()?, &["IPPROTO_"], &PROTOCOLS)?,
        })
    }

    fn takes(&self, program: &str, socket: Socket) -> bool {
        let begins = |start: &String| {
            let beginning = program.as_bytes().get(..start.len());
            beginning.is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()))
        };
        let is = |wanted: Option<i32>, number| wanted.is_none_or(|wanted| wanted == number);
        self.program.as_ref().is_none_or(begins)
            && is(self.domain, socket.domain)
            && is(self.kind, socket.kind)
            && is(self.protocol, socket.protocol)
    }
}

/// The number of a name that may begin with one of these; `*` matches any. None for an unknown
/// word.
fn number(word: &str, starts: &[&str], names: &[(&str, i32)]) -> Option<Option<i32>> {
    if word == "*" {
        return Some(None);
    }
    let word = word.to_ascii_uppercase();
    let short = starts.iter().find_map(|start| word.strip_prefix(start));
    let short = short.unwrap_or(&word);
    let found = names.iter().find(|(name, _)| *name == short)?;
    Some(Some(found.1))
}

/// The name of this program, as it was started.
pub fn program() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Socket = Socket {
        domain: libc::AF_INET,
        kind: libc::SOCK_STREAM,
        protocol: 0,
    };
    const DATAGRAM: Socket = Socket {
        kind: libc::SOCK_DGRAM,
        ..STREAM
    };

    #[test]
    fn without_a_line_everything_is_taken() {
        for text in ["", "# a b c d\n", "iperf inet stream\n", "x inet raw *\n"] {
            let config = Config::parse(text);
            assert_eq!(config, Config::default(), "{text}");
            assert!(config.takes("any", STREAM) && config.takes("any", DATAGRAM));
        }
    }

    #[test]
    fn a_line_names_program_domain_type_and_protocol() {
        let config = Config::parse("# sockets\niperf AF_INET SOCK_STREAM *\nrr pf_inet6 * tcp\n");
        assert!(config.takes("iperf", STREAM) && config.takes("IPERF3", STREAM));
        assert!(!config.takes("iper", STREAM) && !config.takes("curl", STREAM));
        assert!(!config.takes("iperf", DATAGRAM));
        let v6 = Socket {
            domain: libc::AF_INET6,
            ..STREAM
        };
        assert!(config.takes("rr", v6) && !config.takes("rr", STREAM));
        assert!(!config.takes("iperf3", v6));
    }

    #[test]
    fn a_protocol_that_is_not_named_is_that_of_the_type() {
        let config = Config::parse("* * * UDP");
        assert!(config.takes("x", DATAGRAM) && !config.takes("x", STREAM));
        let config = Config::parse("* * * IPPROTO_TCP and more");
        assert!(config.takes("x", STREAM) && !config.takes("x", DATAGRAM));
    }
}
