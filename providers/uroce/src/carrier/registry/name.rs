//! The names of the sockets by which processes find each other. All are abstract (unix(7)), belong
//! to the network namespace, and end with the process that has them.

use super::Token;
use crate::named;
use kit::errno::Result;
use rustix::net::{SocketAddrUnix, SocketType};
use std::fmt::{self, Display, Formatter};

/// The highest slot. The one above is that of the multicast QP number, and 0 that of the numbers
/// below 16384, among which 0 and 1 are reserved.
pub const LAST: u16 = 1022;

/// The name of a socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Of a process that is about to claim a slot.
    Claim {
        /// The slot.
        slot: u16,
        /// Decides between two.
        token: Token,
    },
    /// Of a process that has a slot. It contains the names of the process's other sockets.
    Process(ProcessName),
    /// Of processes that may take QP numbers of a slot over.
    Kept {
        /// The slot.
        slot: u16,
        /// The random part of the name.
        token: Token,
    },
    /// Of a process that has taken a QP number over, a successor. In the name it is `heir`.
    Successor {
        /// The number.
        number: u32,
        /// The slot of the process.
        slot: u16,
        /// The random part of the name.
        token: Token,
    },
    /// The socket by which a process reports its counters. Without a token it is that of an older
    /// release, which has the slot.
    Statistics {
        /// The slot of the process.
        slot: u16,
        /// The random part of the name.
        token: Option<Token>,
    },
}

/// The name of a process that has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessName {
    /// The slot.
    pub slot: u16,
    /// The random part of the name.
    pub token: Token,
    /// End of the name of the socket that receives packets; without it that is `uroce/<slot>`.
    pub packets: Option<Token>,
    /// End of the name of the rendezvous socket of shared memory, if there is one.
    pub rendezvous: Option<Token>,
}

/// The name of the socket that takes packets. Without a token it is the one that older releases
/// have, too, and send to.
#[must_use]
pub fn packets(slot: u16, token: Option<Token>) -> String {
    match token {
        Some(token) => format!("uroce/{slot}/packets/{token}"),
        None => format!("uroce/{slot}"),
    }
}

/// The name of a rendezvous socket.
#[must_use]
pub fn rendezvous(slot: u16, token: Token) -> String {
    format!("uroce/{slot}/shm/{token}")
}

impl Name {
    /// Parses a name; `None` for another kind of name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix("uroce/")?.split('/');
        let mut word = || words.next();
        let (first, second) = (word()?, word()?);
        let name = if first == "heir" {
            Self::Successor {
                number: number(second)?,
                slot: number(word()?)?,
                token: Token::parse(word()?)?,
            }
        } else {
            let slot = number(first)?;
            match second {
                "claim" => Self::Claim {
                    slot,
                    token: Token::parse(word()?)?,
                },
                "kept" => Self::Kept {
                    slot,
                    token: Token::parse(word()?)?,
                },
                "stat" => Self::Statistics {
                    slot,
                    token: match word() {
                        Some(token) => Some(Token::parse(token)?),
                        None => None,
                    },
                },
                VERSION => Self::Process(ProcessName {
                    slot,
                    token: Token::parse(word()?)?,
                    packets: optional(word()?)?,
                    rendezvous: optional(word()?)?,
                }),
                _ => return None,
            }
        };
        (words.next().is_none() && is_slot(&name.slot())).then_some(name)
    }

    /// The slot that it is about.
    #[must_use]
    pub fn slot(&self) -> u16 {
        match *self {
            Self::Process(ProcessName { slot, .. })
            | Self::Claim { slot, .. }
            | Self::Kept { slot, .. }
            | Self::Successor { slot, .. }
            | Self::Statistics { slot, .. } => slot,
        }
    }

    /// The kind of socket with this name.
    #[must_use]
    pub fn kind(&self) -> SocketType {
        match self {
            Self::Statistics { .. } => SocketType::STREAM,
            _ => SocketType::SEQPACKET,
        }
    }

    /// The address.
    ///
    /// # Errors
    /// None that can happen: all fit.
    pub fn address(&self) -> Result<SocketAddrUnix> {
        named::name(&self.to_string())
    }
}

/// The form of [`Name::Process`]: of a process with another one nothing is known but that it has
/// other names.
const VERSION: &str = "2";
/// In the place of a missing token.
const NONE: &str = "-";

fn is_slot(slot: &u16) -> bool {
    (1..=LAST).contains(slot)
}

/// A number as it is written here: digits, without zeros in front.
fn number<N: std::str::FromStr + ToString>(text: &str) -> Option<N> {
    let number: N = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn optional(text: &str) -> Option<Option<Token>> {
    if text == NONE {
        return Some(None);
    }
    Token::parse(text).map(Some)
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim { slot, token } => write!(f, "uroce/{slot}/claim/{token}"),
            Self::Kept { slot, token } => write!(f, "uroce/{slot}/kept/{token}"),
            Self::Successor {
                number,
                slot,
                token,
            } => write!(f, "uroce/heir/{number}/{slot}/{token}"),
            Self::Statistics { slot, token: None } => write!(f, "uroce/{slot}/stat"),
            Self::Statistics {
                slot,
                token: Some(token),
            } => write!(f, "uroce/{slot}/stat/{token}"),
            Self::Process(name) => {
                write!(f, "uroce/{}/{VERSION}/{}", name.slot, name.token)?;
                for token in [name.packets, name.rendezvous] {
                    match token {
                        Some(token) => write!(f, "/{token}")?,
                        None => write!(f, "/{NONE}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_as_written_and_are_not_too_long() {
        let token = Token::random();
        let slot = LAST;
        let process = |packets, rendezvous| {
            Name::Process(ProcessName {
                slot,
                token,
                packets,
                rendezvous,
            })
        };
        let names = [
            Name::Claim { slot, token },
            Name::Kept { slot, token },
            Name::Successor {
                number: u32::MAX,
                slot,
                token,
            },
            Name::Statistics { slot, token: None },
            Name::Statistics {
                slot,
                token: Some(token),
            },
            process(None, None),
            process(Some(Token::random()), None),
            process(Some(Token::random()), Some(Token::random())),
        ];
        for name in names {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
            assert!(name.address().is_ok());
        }
        let longest = packets(slot, Some(token));
        assert!(named::name(&longest).is_ok());
        assert_eq!(Name::parse(&longest), None);
    }

    #[test]
    fn similar_names_are_refused() {
        let token = Token::random();
        for name in [
            "uroce/1".to_owned(),
            "uroce/0/stat".to_owned(),
            "uroce/1023/stat".to_owned(),
            "uroce/+1/stat".to_owned(),
            "uroce/01/stat".to_owned(),
            "uroce/1/stat/".to_owned(),
            format!("uroce/1/claim/{token}/x"),
            format!("uroce/1/3/{token}/-/-"),
            format!("uroce/1/2/{token}/-"),
            format!("uroce/heir/1/0/{token}"),
        ] {
            assert_eq!(Name::parse(&name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "uroce/([0-9a-f]{1,24}|heir|claim|kept|stat|2|-|/){1,12}") {
            if let Some(name) = Name::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
