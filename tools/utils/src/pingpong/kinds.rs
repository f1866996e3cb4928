//! How the programs differ: options, defaults, words.

use verbs::tools::getopt::Opt;

use crate::program::JSON_USAGE;

/// The transport of the messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Transport {
    Rc,
    Uc,
    Ud,
    /// RC, with one receive queue for all queue pairs.
    Srq,
}

/// A program.
pub struct Kind {
    pub(super) transport: Transport,
    /// The size of a message, in bytes, if none is given.
    pub(super) size: usize,
    /// Its options.
    pub options: &'static [Opt],
    usage: &'static str,
}

impl Kind {
    pub(super) fn usage(&self, program: &str) -> String {
        head(program) + self.usage + JSON_USAGE
    }
}

/// How the usage of all of them begins.
pub(super) fn head(program: &str) -> String {
    format!(
        "Usage:\n\
         \x20 {program}            start a server and wait for connection\n\
         \x20 {program} <host>     connect to server at <host>\n\
         \n\
         Options:\n\
         \x20 -p, --port=<port>      listen on/connect to port <port> (default 18515)\n\
         \x20 -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n\
         \x20 -i, --ib-port=<port>   use port <port> of IB device (default 1)\n"
    )
}

/// `ibv_rc_pingpong`.
pub const RC: Kind = Kind {
    transport: Transport::Rc,
    size: 4096,
    options: &[
        Opt::new('p', "port", true),
        Opt::new('d', "ib-dev", true),
        Opt::new('i', "ib-port", true),
        Opt::new('s', "size", true),
        Opt::new('m', "mtu", true),
        Opt::new('r', "rx-depth", true),
        Opt::new('n', "iters", true),
        Opt::new('l', "sl", true),
        Opt::new('e', "events", false),
        Opt::new('g', "gid-idx", true),
        Opt::new('o', "odp", false),
        Opt::new('O', "iodp", false),
        Opt::new('P', "prefetch", false),
        Opt::new('t', "ts", false),
        Opt::new('c', "chk", false),
        Opt::new('j', "dm", false),
        Opt::new('N', "new_send", false),
    ],
    usage: "  -s, --size=<size>      size of message to exchange (default 4096)
  -m, --mtu=<size>       path MTU (default 1024)
  -r, --rx-depth=<dep>   number of receives to post at a time (default 500)
  -n, --iters=<iters>    number of exchanges (default 1000)
  -l, --sl=<sl>          service level value
  -e, --events           sleep on CQ events (default poll)
  -g, --gid-idx=<gid index> local port gid index
  -o, --odp\t\t    use on demand paging
  -O, --iodp\t\t    use implicit on demand paging
  -P, --prefetch\t    prefetch an ODP MR
  -t, --ts\t            get CQE with timestamp
  -c, --chk\t            validate received buffer
  -j, --dm\t            use device memory
  -N, --new_send            use new post send WR API
",
};

/// `ibv_uc_pingpong`.
pub const UC: Kind = Kind {
    transport: Transport::Uc,
    size: 4096,
    options: &[
        Opt::new('p', "port", true),
        Opt::new('d', "ib-dev", true),
        Opt::new('i', "ib-port", true),
        Opt::new('s', "size", true),
        Opt::new('m', "mtu", true),
        Opt::new('r', "rx-depth", true),
        Opt::new('n', "iters", true),
        Opt::new('l', "sl", true),
        Opt::new('e', "events", false),
        Opt::new('g', "gid-idx", true),
        Opt::new('c', "chk", false),
    ],
    usage: "  -s, --size=<size>      size of message to exchange (default 4096)
  -m, --mtu=<size>       path MTU (default 1024)
  -r, --rx-depth=<dep>   number of receives to post at a time (default 500)
  -n, --iters=<iters>    number of exchanges (default 1000)
  -l, --sl=<sl>          service level value
  -e, --events           sleep on CQ events (default poll)
  -g, --gid-idx=<gid index> local port gid index
  -c, --chk              validate received buffer
",
};

/// `ibv_ud_pingpong`. Its usage names 2048 as the default size; the actual default is 1024.
pub const UD: Kind = Kind {
    transport: Transport::Ud,
    size: 1024,
    options: &[
        Opt::new('p', "port", true),
        Opt::new('d', "ib-dev", true),
        Opt::new('i', "ib-port", true),
        Opt::new('s', "size", true),
        Opt::new('r', "rx-depth", true),
        Opt::new('n', "iters", true),
        Opt::new('l', "sl", true),
        Opt::new('e', "events", false),
        Opt::new('g', "gid-idx", true),
        Opt::new('c', "chk", false),
    ],
    usage: "  -s, --size=<size>      size of message to exchange (default 2048)
  -r, --rx-depth=<dep>   number of receives to post at a time (default 500)
  -n, --iters=<iters>    number of exchanges (default 1000)
  -l, --sl=<SL>          send messages with service level <SL> (default 0)
  -e, --events           sleep on CQ events (default poll)
  -g, --gid-idx=<gid index> local port gid index
  -c, --chk              validate received buffer
",
};

/// `ibv_srq_pingpong`.
pub const SRQ: Kind = Kind {
    transport: Transport::Srq,
    size: 4096,
    options: &[
        Opt::new('p', "port", true),
        Opt::new('d', "ib-dev", true),
        Opt::new('i', "ib-port", true),
        Opt::new('s', "size", true),
        Opt::new('m', "mtu", true),
        Opt::new('q', "num-qp", true),
        Opt::new('r', "rx-depth", true),
        Opt::new('n', "iters", true),
        Opt::new('l', "sl", true),
        Opt::new('e', "events", false),
        Opt::new('o', "odp", false),
        Opt::new('g', "gid-idx", true),
        Opt::new('c', "chk", false),
    ],
    usage: "  -s, --size=<size>      size of message to exchange (default 4096)
  -m, --mtu=<size>       path MTU (default 1024)
  -q, --num-qp=<num>     number of QPs to use (default 16)
  -r, --rx-depth=<dep>   number of receives to post at a time (default 500)
  -n, --iters=<iters>    number of exchanges per QP(default 1000)
  -l, --sl=<sl>          service level value
  -e, --events           sleep on CQ events (default poll)
  -g, --gid-idx=<gid index> local port gid index
  -o, --odp\t\t    use on demand paging
  -c, --chk              validate received buffer
",
};
