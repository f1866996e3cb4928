#![forbid(unsafe_code)]
//! The form of a record, and the names of its parts.

use kit::cm::CALLS;

/// Calls that are recorded besides the table's verbs, in the order of their numbers after those.
pub const EXTRA: [(&str, &str); 3] = [
    ("start_poll", "cq wr_id status opcode qp_num"),
    ("next_poll", "cq wr_id status opcode qp_num"),
    ("wr_complete", "qp"),
];

macro_rules! later {
    ($( $call:ident $name:literal $words:literal; )*) => {
        /// A call that came after the verbs of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is explained by its man page")]
        pub enum Later {
            $( $call, )*
        }

        /// All of them with their names and words, in the order of their numbers behind [`EXTRA`].
        const LATER: &[(Later, &str, &str)] = &[ $( (Later::$call, $name, $words), )* ];
    };
}

later! {
    AllocDmah "alloc_dmah" "context attr";
    DeallocDmah "dealloc_dmah" "dmah";
    RegMrEx "reg_mr_ex" "pd attr length iova access lkey";
    DmExportDmabufFd "dm_export_dmabuf_fd" "dm";
    QueryPortSpeed "query_port_speed" "context port_num speed";
    AllocBuf "alloc_buf" "pd size buf";
    FreeBuf "free_buf" "buf";
    ExportBufDmabufFd "export_buf_dmabuf_fd" "buf";
    QueryCompCntrCaps "query_comp_cntr_caps" "context caps size";
    CreateCompCntr "create_comp_cntr" "context attr";
    DestroyCompCntr "destroy_comp_cntr" "comp_cntr";
    SetCompCntr "set_comp_cntr" "comp_cntr value";
    SetErrCompCntr "set_err_comp_cntr" "comp_cntr value";
    IncCompCntr "inc_comp_cntr" "comp_cntr value";
    IncErrCompCntr "inc_err_comp_cntr" "comp_cntr value";
    ReadCompCntr "read_comp_cntr" "comp_cntr value_at";
    ReadErrCompCntr "read_err_comp_cntr" "comp_cntr value_at";
    QpAttachCompCntr "qp_attach_comp_cntr" "qp comp_cntr attr";
}

impl Later {
    fn row(self) -> (usize, &'static str, &'static str) {
        let found = LATER.iter().enumerate().find(|(_, row)| row.0 == self);
        found.map_or((0, "", ""), |(at, row)| (at, row.1, row.2))
    }

    /// The call's name without `ibv_`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The number of its name in a file.
    pub fn number(self) -> usize {
        VERBS.len() + EXTRA.len() + self.row().0
    }

    /// Those of its arguments that are numbers, in words.
    pub fn arguments(self, words: &[u64]) -> String {
        const NUMBERS: [&str; 6] = ["port_num", "size", "length", "iova", "access", "value"];
        let named = self.row().2.split(' ').zip(words);
        let reported = named
            .filter(|(name, _)| NUMBERS.contains(name))
            .map(|(name, word)| format!("{name} {word}"));
        reported.collect::<Vec<_>>().join(", ")
    }
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The number of its name.
    pub call: usize,
    /// The thread.
    pub thread: u32,
    /// When it began, nanoseconds of CLOCK_MONOTONIC.
    pub begin: u64,
    /// How long it took, nanoseconds.
    pub took: u64,
    /// The errno of a failure, 0 for none.
    pub error: u32,
    /// The result: a count, or the address of a new object.
    pub value: u64,
    /// The arguments, and the recorded members of those that are structures.
    pub words: &'a [u64],
}

impl Record<'_> {
    /// Appends the record: call, thread, time since `since`, duration, error, value, the number of
    /// words, and those.
    pub fn put(&self, since: u64, to: &mut Vec<u8>) {
        let head = [
            self.call as u64,
            self.thread.into(),
            // A thread may have begun before the chunk's first record.
            zigzag(self.begin.wrapping_sub(since)),
            self.took,
            self.error.into(),
            self.value,
            self.words.len() as u64,
        ];
        for number in head.iter().chain(self.words) {
            leb128(*number, to);
        }
    }
}

/// Small numbers for small differences of either sign.
fn zigzag(difference: u64) -> u64 {
    let sign = if difference >> 63 == 0 { 0 } else { u64::MAX };
    (difference << 1) ^ sign
}

fn leb128(mut number: u64, to: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            to.push(low & 0x7f);
            return;
        }
        to.push(low | 0x80);
    }
}

macro_rules! names {
    ($( $slot:literal $name:ident ( $($arg:ty),* ) $(-> $ret:ty)?, $default:ident $(, mirror $($mirror:ident).+)? ; )*) => {
        /// Each verb's number, name and the types of its arguments.
        const VERBS: &[(usize, &str, &[&str])] = &[
            $( ($slot, stringify!($name), &[$( stringify!($arg) ),*]), )*
        ];
    };
}

kit::each_verb!(names);

/// The recorded members of a call's structures, behind its arguments. Those behind `...` repeat.
pub fn details(verb: &str) -> &'static str {
    match verb {
        "modify_qp" => "state dest_qp_num",
        "create_qp" | "create_qp_ex" => {
            "type max_send_wr max_recv_wr send_cq recv_cq srq sq_sig_all qp_num"
        }
        "post_send" => "requests posted ... wr_id opcode send_flags bytes",
        "post_recv" | "post_srq_recv" => "requests posted ... wr_id bytes",
        "poll_cq" => "... wr_id status opcode qp_num",
        "reg_mr" => "lkey",
        _ => "",
    }
}

/// The names of a verb's arguments, if their types are ambiguous.
fn named(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "reg_mr" => "pd addr length iova access",
        "rereg_mr" => "mr flags pd addr length access",
        "reg_dm_mr" => "pd dm offset length access",
        "reg_dmabuf_mr" => "pd offset length iova fd access",
        "modify_qp" => "qp attr attr_mask",
        "query_qp" => "qp attr attr_mask init_attr",
        "modify_srq" => "srq attr attr_mask",
        "create_cq" => "context cqe channel comp_vector",
        "resize_cq" => "cq cqe",
        "req_notify_cq" => "cq solicited_only",
        "poll_cq" => "cq num_entries wc",
        "post_send" => "qp send_wr bad_wr",
        "post_recv" => "qp recv_wr bad_wr",
        "post_srq_recv" => "srq recv_wr bad_wr",
        "post_srq_ops" => "srq ops_wr bad_wr",
        "advise_mr" => "pd advice flags sg_list num_sge",
        "read_counters" => "counters values count flags",
        "query_port" => "context port_num attr",
        "query_device_ex" => "context input attr size",
        "attach_mcast" | "detach_mcast" => "qp gid lid",
        _ => return None,
    })
}

/// How many calls there are.
pub fn verbs() -> usize {
    VERBS.len()
}

/// The number of the name of a call of librdmacm, by its place in [`CALLS`].
pub fn of_librdmacm(call: usize) -> Option<usize> {
    (call < CALLS.len()).then_some(VERBS.len() + EXTRA.len() + LATER.len() + call)
}

/// The names as a chunk has them: a line a call, its name and those of its words.
pub fn names() -> Vec<u8> {
    let mut text = String::new();
    for (_, name, arguments) in VERBS {
        text += &super::super::explain::call_name(name);
        match named(name) {
            Some(names) => {
                text.push(' ');
                text += names;
            }
            None => arguments.iter().for_each(|argument| {
                text.push(' ');
                text += word(argument);
            }),
        }
        for detail in details(name).split_whitespace() {
            text.push(' ');
            text += detail;
        }
        text.push('\n');
    }
    let later = LATER.iter().map(|(_, name, words)| (*name, *words));
    for (name, words) in EXTRA.into_iter().chain(later) {
        text += &format!("ibv_{name} {words}\n");
    }
    for (_, name, words) in CALLS {
        text += name;
        for word in words.split_whitespace() {
            text.push(' ');
            text += word;
        }
        text.push('\n');
    }
    text.into_bytes()
}

/// The name of an argument: its C type without the common parts.
fn word(argument: &str) -> &str {
    let last = argument.rsplit(' ').next().unwrap_or(argument);
    let name = last.strip_prefix("ibv_").unwrap_or(last);
    match name {
        "verbs_mr" => "mr",
        "c_void" => "addr",
        "c_int" | "c_uint" | "u8" | "u16" | "u32" | "u64" | "usize" => "arg",
        "ib_uverbs_advise_mr_advice" => "advice",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let mut bytes = Vec::new();
        leb128(5, &mut bytes);
        leb128(300, &mut bytes);
        assert_eq!(bytes, [5, 0xac, 2]);
        bytes.clear();
        leb128(u64::MAX, &mut bytes);
        assert_eq!(bytes.len(), 10);
        assert_eq!(zigzag(1), 2);
        assert_eq!(zigzag(0u64.wrapping_sub(1)), 1);
    }

    #[test]
    fn the_names_stand_at_their_numbers() {
        assert!(VERBS.iter().enumerate().all(|(at, (slot, ..))| at == *slot));
        let names = String::from_utf8(names()).unwrap();
        assert!(names.contains("\nibv_poll_cq cq num_entries wc ... wr_id status opcode qp_num\n"));
        assert!(names.contains("\nibv_reg_mr pd addr length iova access lkey\n"));
        for (_, name, arguments) in VERBS {
            let named = named(name).map(|names| names.split(' ').count());
            assert!(named.is_none_or(|count| count == arguments.len()), "{name}");
        }
        for line in names.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let distinct: std::collections::BTreeSet<_> = words.iter().collect();
            assert_eq!(words.len(), distinct.len(), "{line}");
        }
        assert_eq!(
            names.lines().count(),
            VERBS.len() + EXTRA.len() + LATER.len() + CALLS.len()
        );
        let connect = of_librdmacm(kit::cm::Call::Connect.number()).unwrap();
        let line = names.lines().nth(connect).unwrap();
        assert!(line.starts_with("rdma_connect id qp_num"), "{line}");
        assert_eq!(of_librdmacm(CALLS.len()), None);
        for (call, name, words) in LATER {
            let line = names.lines().nth(call.number());
            assert_eq!(line, Some(format!("ibv_{name} {words}").as_str()));
        }
        assert_eq!(
            Later::QueryPortSpeed.arguments(&[7, 1, 9]),
            "port_num 1",
            "no addresses"
        );
    }

    #[test]
    fn a_record_is_a_row_of_numbers() {
        let record = Record {
            call: 3,
            thread: 4,
            begin: 110,
            took: 7,
            error: 22,
            value: 0,
            words: &[1, 2],
        };
        let mut bytes = Vec::new();
        record.put(100, &mut bytes);
        assert_eq!(bytes, [3, 4, 20, 7, 22, 0, 2, 1, 2]);
    }
}
