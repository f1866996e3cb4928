//! Programs whose C library reports pages of 64 KiB, as kernels of arm64 and ppc64el may have them.
//! The kernel's pages stay as they are; so the test shows that the library computes with the
//! reported size, not what another kernel does.
//!
//! Left out are programs that map single pages, whose neighbours would belong to them. The heap
//! begins at a multiple of 64 KiB and has room behind the memory in use, as under such a kernel.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use c_tests::{
    Result,
    build::{COMBOS, binary},
    library::built_library,
    tree::Program,
};
use watchdog::Watched;

mod common;

/// Reports the size, and at the end how often it was asked for.
const REPORTS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

#define BYTES 65536

static unsigned long asked;

unsigned long getauxval(unsigned long type)
{
	unsigned long (*next)(unsigned long) = dlsym(RTLD_NEXT, "getauxval");

	if (type != AT_PAGESZ)
		return next(type);
	asked++;
	return BYTES;
}

long sysconf(int name)
{
	long (*next)(int) = dlsym(RTLD_NEXT, "sysconf");

	if (name != _SC_PAGESIZE)
		return next(name);
	asked++;
	return BYTES;
}

__attribute__((constructor)) static void align_the_heap(void)
{
	sbrk(BYTES - (uintptr_t)sbrk(0) % BYTES);
	mallopt(M_TOP_PAD, 64 * BYTES);
	mallopt(M_MMAP_THRESHOLD, 64 * BYTES);
}

__attribute__((destructor)) static void report(void)
{
	fprintf(stderr, "asked %lu times\n", asked);
}
"#;

/// The programs, all of which use devices of uroce.
const PROGRAMS: [&str; 10] = [
    "no_device/fork",
    "post_44/connection_manager",
    "post_44/flush",
    "post_44/ofa",
    "post_44/xrc",
    "self_checking/descriptors",
    "self_checking/ece",
    "self_checking/explain_events",
    "self_checking/old",
    "self_checking/validate_objects",
];

#[test]
fn the_library_takes_the_size_of_pages_that_is_reported() -> Result<()> {
    let programs = common::compiled()?;
    let dir = tempfile::tempdir()?;
    let preload = compile(dir.path())?;
    let combo = COMBOS.into_iter().find(|combo| combo.name() == "ours-gcc");
    let combo = combo.ok_or("no such compilation")?;
    for key in PROGRAMS {
        let program = Program::from_key(key).ok_or(key)?;
        let output = Command::new(binary(&programs, combo, &program))
            .env("LD_LIBRARY_PATH", built_library()?)
            .env("LD_PRELOAD", &preload)
            .watched_output()?;
        let printed = text(&output);
        assert!(output.status.success(), "{key}: {printed}");
        let last = output.stdout.trim_ascii_end();
        let done = last.ends_with(b"done") || printed.contains("\nskipped: ");
        assert!(done, "{key}: {printed}");
        let asked = printed.lines().any(|line| {
            line.strip_prefix("asked ")
                .is_some_and(|rest| rest != "0 times")
        });
        assert!(asked, "{key} asked for no size: {printed}");
    }
    Ok(())
}

fn compile(dir: &Path) -> Result<std::path::PathBuf> {
    let (source, library) = (dir.join("pages.c"), dir.join("pages.so"));
    fs::write(&source, REPORTS)?;
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]);
    let status = compile.args([&library, &source]).status()?;
    assert!(
        status.success(),
        "the library that reports does not compile"
    );
    Ok(library)
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}
