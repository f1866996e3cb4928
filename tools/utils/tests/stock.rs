//! Our programs beside those of Debian's ibverbs-utils, over the library of this workspace and
//! `uroce_lo`: the same words on stdout and stderr, the same status, and they talk to each other.
//!
//! Everything runs in separate network namespaces. Numbers that differ from run to run (of queue
//! pairs and packets, times, rates) are masked; one line of usage, `--json`, exists only here.

#![allow(clippy::unwrap_used)] // a test that cannot continue ends

use std::{
    fmt::Write,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use watchdog::Watched;

const STOCK: &str = "/usr/bin";

/// The folder of our programs.
fn ours() -> &'static str {
    let program = Path::new(env!("CARGO_BIN_EXE_ibv_devices"));
    program.parent().and_then(Path::to_str).unwrap()
}

/// Whether Debian's programs are there to be compared with, and namespaces can be made.
fn can_compare() -> bool {
    if !Path::new(STOCK).join("ibv_rc_pingpong").exists() {
        println!("skipped: there is no {STOCK}/ibv_rc_pingpong (Debian: ibverbs-utils)");
        return false;
    }
    let possible = script("true", &[]).status.success();
    if !possible {
        println!("skipped: no network namespace can be made here");
    }
    possible
}

/// Runs a shell script in a new network where `lo` is up.
fn script(text: &str, env: &[(&str, &str)]) -> Output {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let library = c_tests::library::built_library().unwrap();
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !root {
        command.arg("--map-root-user");
    }
    command
        .args(["bash", "-c"])
        .arg(format!("ip link set lo up || exit\n{text}"))
        .env("LD_LIBRARY_PATH", library)
        .env("UROCE_DEVICES", "lo")
        .env_remove("UROCE_FAULTS")
        .envs(env.iter().copied())
        .watched_output()
        .unwrap()
}

/// Runs our program and the stock one in the same network: node GUIDs differ between namespaces.
fn run_both(line: &str) -> [(String, String, Option<i32>); 2] {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let program = line.split(' ').next().unwrap();
    let part = |number: usize, folder: &str| {
        let to = format!("{}/{number}", dir.display());
        format!(
            "(exec -a {program} {folder}/{line} </dev/null) >{to}.out 2>{to}.err; echo $? >{to}.code"
        )
    };
    let output = script(&format!("{}\n{}", part(0, ours()), part(1, STOCK)), &[]);
    assert!(output.status.success(), "{line}: {output:?}");
    [0, 1].map(|number| {
        let read = |what: &str| std::fs::read(dir.join(format!("{number}.{what}"))).unwrap();
        let code = String::from_utf8(read("code")).unwrap();
        (
            blot(&read("out")),
            blot(&read("err")),
            code.trim().parse().ok(),
        )
    })
}

/// Runs one program of a folder under its plain name, as if it had been found in PATH.
fn run(folder: &str, line: &str) -> (String, String, Option<i32>) {
    let program = line.split(' ').next().unwrap();
    let output = script(
        &format!("exec -a {program} {folder}/{line} </dev/null"),
        &[],
    );
    (
        blot(&output.stdout),
        blot(&output.stderr),
        output.status.code(),
    )
}

/// Text without the line that is ours and without the numbers that no two runs have in common.
fn blot(text: &[u8]) -> String {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let mut clean = String::new();
    for line in text.lines().filter(|line| !line.contains("--json ")) {
        let varies = [" address:", " in ", "cycles =", "LID "];
        if !varies.iter().any(|word| line.contains(word)) {
            writeln!(clean, "{line}").unwrap();
            continue;
        }
        let mut words = Vec::new();
        for word in line.split(' ') {
            let bare = word.trim_end_matches([',', ':']);
            let digits = bare.trim_start_matches("0x");
            let hexadecimal = digits.len() == 6 && u32::from_str_radix(digits, 16).is_ok();
            let number = bare.contains('.') && bare.parse::<f64>().is_ok();
            words.push(
                match hexadecimal
                    || number
                    || line.contains("cycles =") && bare.parse::<u64>().is_ok()
                {
                    true => word.replace(bare, "#"),
                    false => word.to_owned(),
                },
            );
        }
        writeln!(clean, "{}", words.join(" ")).unwrap();
    }
    clean
}

const ALONE: &[&str] = &[
    "ibv_devices",
    "ibv_devices -x",
    "ibv_devinfo",
    "ibv_devinfo -v",
    "ibv_devinfo -l",
    "ibv_devinfo --list",
    "ibv_devinfo -l -x",
    "ibv_devinfo -d uroce_lo -i 1",
    "ibv_devinfo --ib-d uroce_lo --verb",
    "ibv_devinfo -i 2",
    "ibv_devinfo -i 257",
    "ibv_devinfo -i 0",
    "ibv_devinfo -i 0x1",
    "ibv_devinfo -d nix",
    "ibv_devinfo -d",
    "ibv_devinfo -x",
    "ibv_devinfo --ib",
    "ibv_devinfo --list=3",
    "ibv_devinfo word",
    "ibv_asyncwatch -d nix",
    "ibv_asyncwatch -h",
    "ibv_asyncwatch -x",
    "ibv_rc_pingpong -j -o",
    "ibv_rc_pingpong -P",
    "ibv_rc_pingpong -j -s 100000000",
    "ibv_ud_pingpong -s 5000",
    "ibv_srq_pingpong -q 300 -r 400",
    "ibv_srq_pingpong -q 9 -r 4",
    "ibv_srq_pingpong -s 0",
];

const ALL_PINGPONGS: &[&str] = &[
    "-x",
    "--po",
    "--i",
    "-p",
    "a b",
    "-d nix",
    "-m 1",
    "-m 1000",
    "-p 70000",
    "-i 7",
    "-i 7 127.0.0.1",
    "127.0.0.1 -p 9",
    "nosuch.invalid",
    "-g 999 127.0.0.1",
];

#[test]
fn programs_print_and_answer_as_the_stock_ones_do() {
    if !can_compare() {
        return;
    }
    let pingpongs = ["rc", "uc", "ud", "srq", "xsrq"];
    let of_all = pingpongs.iter().flat_map(|name| {
        let line = move |options: &&str| format!("ibv_{name}_pingpong {options}");
        ALL_PINGPONGS.iter().map(line)
    });
    let lines: Vec<String> = ALONE
        .iter()
        .map(|l| (*l).to_owned())
        .chain(of_all)
        .collect();
    for line in &lines {
        let [here, stock] = run_both(line);
        assert_eq!(here, stock, "{line}");
    }
}

/// The use of the port's state in a script.
#[test]
fn the_pipeline_that_people_use_finds_the_mtu() {
    if !can_compare() {
        return;
    }
    let text = |folder| format!("{folder}/ibv_devinfo | grep -A 17 uroce_lo | grep active_mtu");
    let found = script(&text(ours()), &[]).stdout;
    assert_eq!(found, b"\t\t\tactive_mtu:\t\t4096 (5)\n");
    assert_eq!(found, script(&text(STOCK), &[]).stdout);
}

/// Kernel without RDMA and no device of uroce.
#[test]
fn without_devices_they_print_the_same() {
    if !can_compare() {
        return;
    }
    for line in [
        "ibv_devices",
        "ibv_devinfo",
        "ibv_devinfo -l",
        "ibv_rc_pingpong",
    ] {
        let one = |folder: &str| {
            let output = script(&format!("{folder}/{line}"), &[("UROCE_DEVICES", "")]);
            (output.stdout, output.stderr, output.status.code())
        };
        assert_eq!(one(ours()), one(STOCK), "{line}");
    }
}

/// Program and options; both ends get the same. Without `-t -e`: the stock program ends with an
/// error when it gets an event for a completion that it has polled already.
const PAIRS: &[&str] = &[
    "ibv_rc_pingpong -g 0 -c -n 50",
    "ibv_rc_pingpong -g 1 -c -e -n 50 -s 100000 -m 4096",
    "ibv_rc_pingpong -g 0 -N -c -e -n 50 -r 5",
    "ibv_rc_pingpong --ib-dev=uroce_lo --ib-port=1 --gid-idx=0 --sl=3 --mtu=512 --ts --iters=50",
    "ibv_rc_pingpong -g 0 -t -N -n 50",
    "ibv_rc_pingpong -g 0 -j -c -n 50",
    "ibv_rc_pingpong -g 0 -o -P -c -n 50",
    "ibv_rc_pingpong -g 0 -O -c -n 50",
    "ibv_uc_pingpong -d uroce_lo -i 1 -g 0 -l 3 --chk --rx-depth 20 -n 50",
    "ibv_uc_pingpong -g 1 -e -n 50 -s 5000",
    "ibv_ud_pingpong -d uroce_lo -i 1 -g 0 -l 3 --chk --size 700 -n 50",
    "ibv_ud_pingpong -g 1 -c -e -n 50 -s 4096",
    "ibv_srq_pingpong -d uroce_lo -i 1 -g 0 -l 3 --chk --num-qp=2 -m 256 -n 50",
    "ibv_srq_pingpong -g 0 -e -n 200 -q 3 -r 20",
    "ibv_srq_pingpong -g 0 -o -n 50",
    "ibv_xsrq_pingpong -g 0",
    "ibv_xsrq_pingpong -d uroce_lo -i 1 -g 0 -l 3 --events -m 2048 -n 20",
    "ibv_xsrq_pingpong -g 0 -o -s 100000",
];

/// The outputs of both ends, with their statuses.
fn pair(server: &str, client: &str, line: &str) -> [String; 2] {
    let output = script(
        &format!(
            "{server}/{line} >$DIR/server 2>&1 & server=$!
             until grep -q ':4853 .* 0A ' /proc/net/tcp; do
                 kill -0 $server 2>/dev/null || break; sleep 0.02
             done
             {client}/{line} 127.0.0.1 >$DIR/client 2>&1; echo \"status $?\" >>$DIR/client
             wait $server; echo \"status $?\" >>$DIR/server
             cat $DIR/server; echo ----; cat $DIR/client"
        ),
        &[("DIR", tempfile::tempdir().unwrap().keep().to_str().unwrap())],
    );
    let text = blot(&output.stdout);
    let (server, client) = text.split_once("----\n").unwrap();
    [server.to_owned(), client.to_owned()]
}

#[test]
fn pingpongs_play_with_the_stock_ones() {
    if !can_compare() {
        return;
    }
    for line in PAIRS {
        let wanted = pair(STOCK, STOCK, line);
        assert!(wanted[1].contains("status 0"), "{line}: {wanted:?}");
        for (server, client) in [(ours(), STOCK), (STOCK, ours()), (ours(), ours())] {
            assert_eq!(
                pair(server, client, line),
                wanted,
                "{server} {client} {line}"
            );
        }
    }
}

#[test]
fn one_server_of_ours_takes_two_stock_clients() {
    if !can_compare() {
        return;
    }
    for (server, client) in [(ours(), STOCK), (STOCK, ours())] {
        let output = script(
            &format!(
                "{server}/ibv_xsrq_pingpong -g 0 -c 2 & server=$!
                 until grep -q ':4853 .* 0A ' /proc/net/tcp; do sleep 0.02; done
                 {client}/ibv_xsrq_pingpong -g 0 127.0.0.1 & first=$!
                 {client}/ibv_xsrq_pingpong -g 0 127.0.0.1 && wait $first && wait $server"
            ),
            &[],
        );
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.matches("success").count(), 3, "{text}");
    }
}

/// A peer that ends a connection before it began leaves no program waiting.
#[test]
fn a_peer_that_goes_away_is_an_error() {
    if !can_compare() {
        return;
    }
    for name in ["rc", "uc", "ud", "srq", "xsrq"] {
        let output = script(
            &format!(
                "{}/ibv_{name}_pingpong -g 0 & server=$!
                 until grep -q ':4853 .* 0A ' /proc/net/tcp; do sleep 0.02; done
                 exec 3<>/dev/tcp/127.0.0.1/18515; echo -n 0000: >&3; exec 3>&-
                 wait $server",
                ours()
            ),
            &[],
        );
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(
            printed.contains("Couldn't read remote address"),
            "{printed}"
        );
    }
}

fn json(line: &str) -> Value {
    let output = script(&format!("{}/{line}", ours()), &[]);
    assert!(output.status.success(), "{line}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_has_the_values_of_the_text() {
    if !can_compare() {
        return;
    }
    // In one namespace, because node GUIDs differ between namespaces.
    let both = script(
        &format!("{0}/ibv_devices --json; {0}/ibv_devices", ours()),
        &[],
    );
    let mut both = both.stdout.splitn(2, |byte| *byte == b'\n');
    let devices: Value = serde_json::from_slice(both.next().unwrap()).unwrap();
    assert_eq!(devices[0]["device"], "uroce_lo");
    let text = String::from_utf8_lossy(both.next().unwrap());
    assert!(text.contains(devices[0]["node_guid"].as_str().unwrap()));

    assert_eq!(
        json("ibv_devinfo -l --json"),
        serde_json::json!(["uroce_lo"])
    );
    let info = json("ibv_devinfo --json");
    assert_eq!(info[0]["hca_id"], "uroce_lo");
    assert_eq!(info[0]["ports"][0]["active_mtu"], 4096);
    assert_eq!(info[0]["ports"][0]["state"], "PORT_ACTIVE");
    assert_eq!(info[0]["max_qp"], Value::Null);
    let info = json("ibv_devinfo -v --json");
    let (port, text) = (&info[0]["ports"][0], run(ours(), "ibv_devinfo -v").0);
    assert_eq!(port["gids"][0]["gid"], "::ffff:127.0.0.1");
    assert_eq!(port["gids"][1]["type"], "RoCE v2");
    for name in ["max_qp", "max_cqe", "max_srq_wr", "num_comp_vectors"] {
        let number = info[0][name].as_u64().unwrap();
        let line = text
            .lines()
            .find(|line| line.contains(&format!("\t{name}:")));
        assert!(line.unwrap().ends_with(&format!("\t{number}")), "{name}");
    }
}

#[test]
fn json_of_a_pingpong_has_both_addresses_and_the_rates() {
    if !can_compare() {
        return;
    }
    for line in [
        "ibv_rc_pingpong -g 0 -t -n 50",
        "ibv_srq_pingpong -g 0 -n 50 -q 2",
    ] {
        let output = script(
            &format!(
                "{0}/{line} --json & server=$!
                 until grep -q ':4853 .* 0A ' /proc/net/tcp; do sleep 0.02; done
                 {STOCK}/{line} 127.0.0.1 >/dev/null && wait $server",
                ours()
            ),
            &[],
        );
        assert!(output.status.success(), "{output:?}");
        let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(reported["bytes"], 4096 * 50 * 2);
        assert_eq!(reported["iters"], 50);
        let ends = reported["local"].as_array().unwrap().len();
        assert_eq!(ends, if line.contains("srq") { 2 } else { 1 });
        assert_eq!(reported["remote"].as_array().unwrap().len(), ends);
        assert_eq!(reported["remote"][0]["gid"], "::ffff:127.0.0.1");
        assert!(reported["usec_per_iter"].as_f64().unwrap() > 0.);
        let clock = &reported["receive_completion_clock_cycles"];
        assert_eq!(clock.is_object(), line.contains("-t"));
    }
}

/// The interface goes down while a program watches.
#[test]
fn the_watcher_prints_events_as_the_stock_one_does() {
    if !can_compare() {
        return;
    }
    let watch = |folder: &str| {
        let output = script(
            &format!(
                "{folder}/ibv_asyncwatch -d uroce_lo >$DIR/log & watcher=$!
                 until grep -q event $DIR/log; do sleep 0.02; done
                 ip link set lo down
                 until grep -q PORT_ERR $DIR/log; do sleep 0.02; done
                 ip link set lo up
                 until grep -q PORT_ACTIVE $DIR/log; do sleep 0.02; done
                 kill $watcher; cat $DIR/log"
            ),
            &[("DIR", tempfile::tempdir().unwrap().keep().to_str().unwrap())],
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let of_ports = |line: &&str| line.contains("PORT") || line.contains("FD");
        let mut lines: Vec<String> = text.lines().filter(of_ports).map(str::to_owned).collect();
        // The number of the descriptor is the process's own affair.
        let first = lines.first_mut().unwrap();
        first.truncate(first.rfind(' ').unwrap());
        lines
    };
    let reported = watch(ours());
    assert_eq!(reported[0], "uroce_lo: async event FD");
    assert_eq!(reported, watch(STOCK));
}

/// `ibv_devinfo -v | head -1` ends quietly.
#[test]
fn a_closed_pipe_ends_a_program_without_a_word() {
    if !can_compare() {
        return;
    }
    let output = script(
        &format!("{}/ibv_devinfo -v | true; echo ${{PIPESTATUS[0]}}", ours()),
        &[],
    );
    assert!(output.stderr.is_empty(), "{output:?}");
}
