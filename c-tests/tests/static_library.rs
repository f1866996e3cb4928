//! The static library: programs link with it, by both linkers, wholly static too, and find each
//! public symbol in it; and it works.

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use c_tests::{
    Result,
    library::target_dir,
    tree::{package_dir, workspace_dir},
};
use watchdog::Watched;

/// Linker options of a program, beside the library.
const WAYS: [&[&str]; 3] = [&[], &["-fuse-ld=lld"], &["-static"]];

/// Names the devices that there are, and cancels a thread in a call over the first.
const MAIN: &str = r#"
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>

static void *wait_for_event(void *context)
{
	struct ibv_async_event event;

	ibv_get_async_event(context, &event);
	return NULL;
}

/* A thread that waits for an event that never arrives. */
static void cancel(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	pthread_t thread;
	void *end;

	pthread_create(&thread, NULL, wait_for_event, context);
	pthread_cancel(thread);
	pthread_join(thread, &end);
	puts(end == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
	ibv_close_device(context);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t i, there = 0;

	if (list && list[0])
		cancel(list[0]);

	for (i = 0; list && list[i]; i++)
		puts(ibv_get_device_name(list[i]));
	for (i = 0; i < SYMBOLS; i++)
		there += symbols[i] != NULL;
	printf("%zu symbols\n", there);
	return 0;
}
"#;

/// Builds the library as `cargo rustc` does, without the optimisations, and answers where it is.
fn archive() -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["rustc", "-p", "ferroverbs", "--crate-type", "staticlib"])
        .current_dir(workspace_dir())
        .status()?;
    assert!(status.success(), "the static library does not build");
    Ok(target_dir().join("debug/libibverbs.a"))
}

/// The public symbols that are the default of their name: a linker finds no other in an archive.
fn public() -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(package_dir().join("data/symbols.tsv"))?;
    let lines = text.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let public = lines
        .filter(|(_, node, default)| *default == "yes" && !node.starts_with("IBVERBS_PRIVATE"));
    Ok(public.map(|(name, ..)| name.to_owned()).collect())
}

/// The program, with the address of each symbol, in two files: one of them declares the headers'
/// functions as bytes.
fn sources(dir: &Path, symbols: &BTreeSet<String>) -> Result<[PathBuf; 2]> {
    let [main, table] = ["main.c", "table.c"].map(|name| dir.join(name));
    let head = format!(
        "#define SYMBOLS {}\nextern const void *const symbols[];\n",
        symbols.len()
    );
    fs::write(&main, head + MAIN)?;
    let mut text = String::new();
    for symbol in symbols {
        writeln!(text, "extern char {symbol}[];")?;
    }
    writeln!(text, "const void *const symbols[] = {{")?;
    for symbol in symbols {
        writeln!(text, "\t{symbol},")?;
    }
    fs::write(&table, text + "};\n")?;
    Ok([main, table])
}

#[test]
fn programs_link_with_the_static_library() -> Result<()> {
    let archive = archive()?;
    let symbols = public()?;
    assert!(symbols.len() > 90, "{symbols:?}");
    let dir = tempfile::tempdir()?;
    let sources = sources(dir.path(), &symbols)?;
    let program = dir.path().join("program");
    for way in WAYS {
        let output = Command::new("gcc")
            .arg(format!("-I{}", workspace_dir().join("include").display()))
            // Names of the headers are functions that gcc knows, as bytes.
            .arg("-fno-builtin")
            .arg("-o")
            .arg(&program)
            .args(&sources)
            .arg(&archive)
            .args(way)
            .output()?;
        assert!(output.status.success(), "{way:?}: {output:?}");
        works(&program, symbols.len())?;
    }
    Ok(())
}

/// Without any shared libibverbs.
fn works(program: &Path, symbols: usize) -> Result<()> {
    let mut possible = Command::new("unshare");
    possible.args(["--net", "--map-root-user", "true"]);
    let apart = possible
        .output()
        .is_ok_and(|output| output.status.success());
    let mut command = if apart {
        let mut command = Command::new("unshare");
        command.args(["--net", "--map-root-user", "sh", "-c"]);
        command.arg("ip link set lo up && exec \"$0\"").arg(program);
        command
    } else {
        println!("no network namespace can be made here: uroce is left out");
        Command::new(program)
    };
    let output = command
        .env("UROCE_DEVICES", if apart { "lo" } else { "" })
        .watched_output()?;
    let printed = String::from_utf8(output.stdout)?;
    assert!(
        printed.ends_with(&format!("{symbols} symbols\n")),
        "{printed}"
    );
    assert!(!apart || printed.contains("uroce_lo\n"), "{printed}");
    assert!(!apart || printed.contains("cancelled\n"), "{printed}");
    assert!(!printed.contains("not cancelled"), "{printed}");
    Ok(())
}
