//! Providers of every layout of the private interface, made from the tables of layouts, loaded
//! into one process at once.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use c_tests::{
    Result,
    library::built_library,
    stub,
    tree::{package_dir, workspace_dir},
};
use watchdog::Watched;

/// A row of the table of layouts: the differences from this release on.
struct Layout {
    release: u16,
    node: u16,
    context: u16,
    qp_mask: u16,
    port_attr: u16,
    dmabuf_arguments: u16,
}

fn rows(name: &str) -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(package_dir().join("data").join(name))?;
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().map(split).collect())
}

fn layouts() -> Result<Vec<Layout>> {
    let mut layouts = Vec::new();
    for row in rows("generation-layouts.tsv")?.iter().skip(1) {
        let numbers: Vec<u16> = row
            .iter()
            .map(|n| n.parse())
            .collect::<std::result::Result<_, _>>()?;
        let [
            release,
            node,
            context,
            qp_mask,
            port_attr,
            _,
            dmabuf_arguments,
        ] = numbers[..]
        else {
            return Err(format!("not a row of layouts: {row:?}").into());
        };
        layouts.push(Layout {
            release,
            node,
            context,
            qp_mask,
            port_attr,
            dmabuf_arguments,
        });
    }
    Ok(layouts)
}

/// The header of one plugin.
fn header(layout: &Layout) -> Result<String> {
    let table = rows("generation-verbs.tsv")?;
    let since: Vec<u16> = table[0][1..]
        .iter()
        .map(|n| n.parse())
        .collect::<std::result::Result<_, _>>()?;
    let column = since.iter().rposition(|since| *since <= layout.release);
    let column = column.ok_or("no column of verbs")? + 1;
    let Layout {
        release,
        node,
        context,
        qp_mask,
        port_attr,
        dmabuf_arguments,
    } = layout;
    let mut text = format!(
        "#define RELEASE {release}\n#define NODE {node}\n#define NAME \"gen{release}\"\n\
         #define CONTEXT_SIZE {context}\n#define QP_MASK {qp_mask}\n\
         #define PORT_ATTR {port_attr}\n#define DMABUF_ARGUMENTS {dmabuf_arguments}\n"
    );
    let there = table[1..].iter().filter(|row| row[column] != "-");
    let verbs: Vec<(&str, &str)> = there.map(|row| (&*row[0], &*row[column])).collect();
    writeln!(text, "#define SLOTS {}", verbs.len())?;
    for (verb, slot) in &verbs {
        writeln!(text, "#define SLOT_{verb} {slot}")?;
    }
    let list: Vec<String> = verbs.iter().map(|(v, s)| format!("V({v}, {s})")).collect();
    writeln!(text, "#define VERBS(V) {}", list.join(" "))?;
    Ok(text)
}

fn gcc(arguments: &mut Command) -> Result<()> {
    let output = arguments
        .output()
        .map_err(|e| format!("gcc: {e}; install the package gcc"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

/// A library to link plugins of that node with.
fn link_library(node: u16, dir: &Path) -> Result<PathBuf> {
    let dir = dir.join(format!("node-{node}"));
    fs::create_dir_all(&dir)?;
    let wanted = format!("IBVERBS_PRIVATE_{node}");
    let (mut code, mut map) = (String::new(), format!("{wanted} {{ global:\n"));
    for row in rows("symbols.tsv")?
        .iter()
        .chain(&rows("symbols-private.tsv")?)
    {
        if row[1] == wanted {
            writeln!(code, "void {}(void) {{}}", row[0])?;
            writeln!(map, "{};", row[0])?;
        }
    }
    map.push_str("};\n");
    fs::write(dir.join("stub.c"), code)?;
    fs::write(dir.join("stub.map"), map)?;
    gcc(Command::new("gcc")
        .args([
            "-shared",
            "-fPIC",
            "-w",
            "-Wl,-soname,libibverbs.so.1",
            "-o",
        ])
        .arg(dir.join("libibverbs.so"))
        .arg(format!(
            "-Wl,--version-script={}",
            dir.join("stub.map").display()
        ))
        .arg(dir.join("stub.c")))?;
    Ok(dir)
}

fn sources() -> PathBuf {
    package_dir().join("generations")
}

/// Makes a plugin, named as a release's file is.
fn plugin(layout: &Layout, dir: &Path) -> Result<PathBuf> {
    let release = layout.release;
    let own = dir.join(format!("gen{release}"));
    fs::create_dir_all(&own)?;
    fs::write(own.join("generation.h"), header(layout)?)?;
    let file = own.join(format!("libgen{release}.so.1.0.{release}.0"));
    gcc(Command::new("gcc")
        .args([
            "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o",
        ])
        .arg(&file)
        .arg(sources().join("plugin.c"))
        .arg("-I")
        .arg(&own)
        .arg("-I")
        .arg(sources())
        .arg("-L")
        .arg(link_library(layout.node, dir)?)
        .arg("-libverbs"))?;
    Ok(file)
}

/// Makes the program, with our headers.
fn program(dir: &Path) -> Result<PathBuf> {
    let names = dir.join("names");
    stub::build(&names)?;
    let file = dir.join("program");
    gcc(Command::new("gcc")
        .args(["-rdynamic", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&file)
        .arg(sources().join("program.c"))
        .arg("-I")
        .arg(workspace_dir().join("include"))
        .arg("-I")
        .arg(sources())
        .arg("-L")
        .arg(&names)
        .args(["-libverbs", "-ldl"]))?;
    Ok(file)
}

fn run(program: &Path, plugins: &[PathBuf], log: &Path) -> Result<Output> {
    Ok(command(program, plugins, log)?.watched_output()?)
}

fn command(program: &Path, plugins: &[PathBuf], log: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    command
        .args(plugins)
        .env("LD_LIBRARY_PATH", built_library()?)
        .env("VERBS_LOG_LEVEL", "3")
        .env("VERBS_LOG_FILE", log)
        .env_remove("IBVERBS_PROVIDER_RELEASE");
    Ok(command)
}

/// A number of a trace, and the bytes after it.
fn number(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0);
    let (own, rest) = bytes.split_at(length.ok_or("a number without an end")? + 1);
    let digits = own.iter().rev();
    let value = digits.fold(0usize, |value, byte| value << 7 | usize::from(byte & 0x7f));
    Ok((value, rest))
}

/// How often each call is in a trace.
fn recorded(mut bytes: &[u8]) -> Result<BTreeMap<String, usize>> {
    let (mut names, mut calls) = (Vec::new(), BTreeMap::new());
    while let Some((head, rest)) = bytes.split_at_checked(24) {
        let length = u32::from_le_bytes(head[12..16].try_into()?);
        let (mut body, rest) = rest.split_at(usize::try_from(length)?);
        if head[5] == 0 {
            let text = String::from_utf8(body.to_vec())?;
            let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
            names = text.lines().map(name).collect();
        }
        // Other chunks name calls and threads.
        if head[5] != 1 {
            body = &[];
        }
        while !body.is_empty() {
            // Call, thread, begin, time, error, value, and how many words there are.
            let (call, mut at) = number(body)?;
            let mut words = 0;
            for _ in 0..6 {
                (words, at) = number(at)?;
            }
            for _ in 0..words {
                (_, at) = number(at)?;
            }
            *calls.entry(names[call].clone()).or_default() += 1;
            body = at;
        }
        bytes = rest;
    }
    Ok(calls)
}

/// Calls newer than the verbs of release 44, which work with any provider.
const LATER: [&str; 4] = [
    "ibv_alloc_dmah",
    "ibv_dealloc_dmah",
    "ibv_dm_export_dmabuf_fd",
    "ibv_query_port_speed",
];
/// Those that only providers of the latest release are asked for here.
const LATEST: [&str; 8] = [
    "ibv_query_comp_cntr_caps",
    "ibv_set_comp_cntr",
    "ibv_set_err_comp_cntr",
    "ibv_inc_comp_cntr",
    "ibv_inc_err_comp_cntr",
    "ibv_read_comp_cntr",
    "ibv_read_err_comp_cntr",
    "ibv_qp_attach_comp_cntr",
];

/// A plugin of each layout.
fn plugins(layouts: &[Layout], dir: &Path) -> Result<Vec<PathBuf>> {
    layouts.iter().map(|layout| plugin(layout, dir)).collect()
}

#[test]
fn all_generations_work_in_one_process() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let layouts = layouts()?;
    let plugins = plugins(&layouts, dir.path())?;
    let output = run(&program(dir.path())?, &plugins, &dir.path().join("log"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    let end = format!("{} plugins, 0 failures\n", layouts.len());
    assert!(text.ends_with(&end), "{text}");
    Ok(())
}

/// Calls are recorded and explained for every generation, those that came later too.
#[test]
fn calls_of_all_generations_are_looked_at() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let layouts = layouts()?;
    let plugins = plugins(&layouts, dir.path())?;
    let program = program(dir.path())?;
    let log = dir.path().join("log");
    let trace = dir.path().join("trace");
    let output = command(&program, &plugins, &log)?
        .env("IBVERBS_TRACE", &trace)
        .env("COVERED", "1")
        .watched_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Each verb still comes to the provider, and no other one.
    assert!(output.status.success(), "{}: {text}", output.status);
    let calls = recorded(&fs::read(&trace)?)?;
    let count = |name: &str| calls.get(name).copied().unwrap_or(0);
    for name in ["ibv_alloc_pd", "ibv_create_comp_cntr"]
        .iter()
        .chain(&LATER)
    {
        assert_eq!(count(name), layouts.len(), "{name}: {calls:?}");
    }
    for name in LATEST {
        assert_eq!(count(name), 1, "{name}: {calls:?}");
    }
    assert!(count("ibv_reg_mr_ex") > 0 && count("ibv_alloc_buf") > 0);

    // To explain a failure other verbs are called, which the program counts as wrong ones.
    let report = dir.path().join("report");
    command(&program, &plugins, &log)?
        .env("IBVERBS_EXPLAIN", &report)
        .env("COVERED", "1")
        .watched_output()?;
    let report = fs::read_to_string(&report)?;
    let lacks = |name: &str| format!("libibverbs: {name}() on ");
    for name in [
        "ibv_alloc_dmah",
        "ibv_dealloc_dmah",
        "ibv_dm_export_dmabuf_fd",
    ] {
        let reported = report.lines().find(|line| line.starts_with(&lacks(name)));
        let reported = reported.ok_or(format!("{name} is not explained:\n{report}"))?;
        assert!(reported.contains("EOPNOTSUPP"), "{reported}");
        assert!(reported.contains("does not have this call"), "{reported}");
    }
    Ok(())
}

/// A plugin whose file contains a release of another node is not registered.
#[test]
fn a_plugin_that_contradicts_itself_is_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let layouts = layouts()?;
    let odd = layouts.iter().find(|layout| layout.release == 57);
    let file = plugin(odd.ok_or("a layout of release 57")?, dir.path())?;
    let right = layouts.iter().find(|layout| layout.release == 44);
    let named = plugin(right.ok_or("a layout of release 44")?, dir.path())?;
    // The release in its name is one of another node.
    let wrong = named.with_file_name("libgen44.so.1.0.57.0");
    fs::copy(&named, &wrong)?;
    let output = run(
        &program(dir.path())?,
        &[file, wrong],
        &dir.path().join("log"),
    )?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("driver 'gen44' is not used"), "{errors}");
    assert!(errors.contains("release 57"), "{errors}");
    assert!(!errors.contains("gen57"), "{errors}");
    Ok(())
}

/// A kernel with one device that no provider knows, so that all providers are loaded: a sysfs in a
/// folder, and a node for the device in a /dev of the command. Returns the program's output and the
/// log.
fn with_a_device(dir: &Path, drivers: &str, release: Option<&str>) -> Result<Option<String>> {
    if Path::new("/sys/class/infiniband").exists() {
        println!("skipped: this kernel has RDMA, and is asked for its devices");
        return Ok(None);
    }
    let class = dir.join("sys/class/infiniband_verbs");
    fs::create_dir_all(class.join("uverbs0"))?;
    fs::create_dir_all(dir.join("sys/class/infiniband/strange0"))?;
    fs::create_dir_all(dir.join("dev"))?;
    // The output of an earlier call.
    let log = dir.join("log");
    fs::write(&log, "")?;
    fs::write(class.join("abi_version"), "6\n")?;
    for (file, text) in [
        ("ibdev", "strange0\n"),
        ("abi_version", "1\n"),
        ("dev", "1:3\n"),
    ] {
        fs::write(class.join("uverbs0").join(file), text)?;
    }
    fs::write(
        dir.join("list.c"),
        "#include <infiniband/verbs.h>\n#include \"plugin.h\"\n\
         struct asked asked;\nstruct kernel kernel;\n\
         int main(void) { ibv_free_device_list(ibv_get_device_list(NULL)); return 0; }\n",
    )?;
    let names = dir.join("names");
    stub::build(&names)?;
    gcc(Command::new("gcc")
        .args(["-rdynamic", "-o"])
        .arg(dir.join("list"))
        .arg(dir.join("list.c"))
        .arg("-I")
        .arg(workspace_dir().join("include"))
        .arg("-I")
        .arg(sources())
        .arg("-L")
        .arg(&names)
        .arg("-libverbs"))?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]);
    if Command::new("id").arg("-u").output()?.stdout != b"0\n" {
        command.arg("--map-root-user");
    }
    let output = command
        .args(["sh", "-c"])
        .arg(
            "mount -t tmpfs dev $DIR/dev && mkdir $DIR/dev/infiniband || exit 9
             for node in null infiniband/uverbs0; do
               : >$DIR/dev/$node && mount --bind /dev/null $DIR/dev/$node || exit 9
             done
             mount --rbind $DIR/dev /dev || exit 9
             $DIR/list",
        )
        .env("DIR", dir)
        .env("SYSFS_PATH", dir.join("sys"))
        .env("RDMAV_DRIVERS", drivers)
        .env("UROCE_DEVICES", "")
        .env("LD_LIBRARY_PATH", built_library()?)
        .env("VERBS_LOG_LEVEL", "3")
        .env("VERBS_LOG_FILE", &log)
        .env_remove("IBVERBS_PROVIDER_RELEASE")
        .envs(release.map(|release| ("IBVERBS_PROVIDER_RELEASE", release)))
        .watched_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(0) {
        println!("skipped: no namespaces can be made here: {errors}");
        return Ok(None);
    }
    Ok(Some(fs::read_to_string(log)? + &errors))
}

/// `RDMAV_DRIVERS` names files of several nodes, some of them of no use: of each name the latest
/// that can be used is.
#[test]
fn a_mixed_directory_gives_the_best_of_each() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let layouts = layouts()?;
    let mixed = dir.path().join("mixed");
    fs::create_dir(&mixed)?;
    let put = |release: u16, name: &str| -> Result<()> {
        let layout = layouts.iter().find(|layout| layout.release == release);
        let file = plugin(layout.ok_or("a layout of that release")?, dir.path())?;
        fs::copy(file, mixed.join(name))?;
        Ok(())
    };
    put(65, "libfirst-rdmav65.so")?;
    put(44, "libfirst-rdmav34.so")?;
    fs::write(mixed.join("libsecond-rdmav65.so"), "no shared object")?;
    // Nothing shows which of the two layouts of its node it has.
    put(59, "libsecond-rdmav59.so")?;
    put(57, "libsecond-rdmav57.so")?;
    put(64, "libthird-rdmav64.so")?;
    put(65, "libfourth-rdmav99.so")?;
    let stem = |name: &str| mixed.join(name).display().to_string();
    let drivers = ["libfirst", "libsecond", "libthird", "libfourth"].map(stem);
    let drivers = drivers.join(":");
    let Some(printed) = with_a_device(dir.path(), &drivers, None)? else {
        return Ok(());
    };
    for there in [
        "provider first: release 65",
        "provider second refused",
        "provider second: release 57 to 58, IBVERBS_PRIVATE_57",
        "provider third: release 64",
        "libfourth-rdmav99.so",
    ] {
        assert!(printed.contains(there), "{there}: {printed}");
    }
    let first = printed.matches("provider first: ").count();
    assert_eq!(first, 1, "{printed}");

    // The later one can be used if the configuration names it. Of another node it cannot be.
    let printed = with_a_device(dir.path(), &drivers, Some("second=59"))?.unwrap_or_default();
    assert!(printed.contains("provider second: release 59"), "{printed}");
    let printed = with_a_device(dir.path(), &drivers, Some("second=65"))?.unwrap_or_default();
    assert!(printed.contains("provider second refused"), "{printed}");
    Ok(())
}
