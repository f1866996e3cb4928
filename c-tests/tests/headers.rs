//! The C headers: they compile alone in every language level, have the layouts and
//! values of the interface, behave where they are inline, serve the author of a
//! plugin, and can be read by bindgen.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use c_tests::{
    Result, elf,
    tree::{package_dir, workspace_dir},
};
use watchdog::Watched;

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

const C_LEVELS: [&str; 8] = [
    "c99", "c11", "c17", "c2x", "gnu99", "gnu11", "gnu17", "gnu2x",
];
const CXX_LEVELS: [&str; 8] = [
    "c++11", "c++14", "c++17", "c++20", "gnu++11", "gnu++14", "gnu++17", "gnu++20",
];

/// A compiler, the language it is asked for, and the Debian package it is in.
#[derive(Clone, Copy)]
struct Compiler {
    program: &'static str,
    language: &'static str,
    package: &'static str,
}

const COMPILERS: [Compiler; 4] = [
    Compiler {
        program: "gcc",
        language: "c",
        package: "gcc",
    },
    Compiler {
        program: "clang",
        language: "c",
        package: "clang",
    },
    Compiler {
        program: "g++",
        language: "c++",
        package: "g++",
    },
    Compiler {
        program: "clang++",
        language: "c++",
        package: "clang",
    },
];

impl Compiler {
    fn levels(self) -> &'static [&'static str] {
        if self.language == "c" {
            &C_LEVELS
        } else {
            &CXX_LEVELS
        }
    }

    /// Runs it on a level with our headers first in the search path.
    fn run(self, level: &str, arguments: &[&str], sources: &[PathBuf]) -> Result<Output> {
        let mut command = Command::new(self.program);
        command
            .arg(format!("-std={level}"))
            .arg("-I")
            .arg(include_dir())
            .arg("-I")
            .arg(rdmacm_include_dir())
            .args(arguments)
            .args(["-x", self.language])
            .args(sources);
        command.output().map_err(|e| {
            format!(
                "{}: {e}; install the package {}",
                self.program, self.package
            )
            .into()
        })
    }

    /// The same, with its output as the error if it did not succeed.
    fn must(self, level: &str, arguments: &[&str], sources: &[PathBuf]) -> Result<()> {
        let output = self.run(level, arguments, sources)?;
        if output.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&output.stderr);
        Err(format!("{} -std={level}:\n{printed}", self.program).into())
    }
}

fn include_dir() -> PathBuf {
    workspace_dir().join("include")
}

/// Those of librdmacm.
fn rdmacm_include_dir() -> PathBuf {
    workspace_dir().join("rdmacm/include")
}

fn source(name: &str) -> PathBuf {
    package_dir().join("headers").join(name)
}

/// A folder of this test alone, empty.
fn scratch(name: &str) -> Result<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("headers")
        .join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Every header below `dir`, as a program names it.
fn headers(dir: &Path, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            headers(&entry.path(), &format!("{name}/"), found)?;
        } else if name.ends_with(".h") {
            found.push(name);
        }
    }
    Ok(())
}

/// A file for each header that includes it alone, and then once more.
fn lone_includes(dir: &Path, names: &[String]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in names {
        let file = dir.join(name.replace(['/', '.'], "_") + ".c");
        let text = format!("#include <{name}>\n#include <{name}>\nint not_empty;\n");
        fs::write(&file, text)?;
        files.push(file);
    }
    Ok(files)
}

/// A file that includes all headers.
fn joint_include(dir: &Path, names: &[String]) -> Result<PathBuf> {
    let file = dir.join("all.c");
    let includes = names.iter().map(|name| format!("#include <{name}>\n"));
    fs::write(&file, includes.collect::<String>() + "int not_empty;\n")?;
    Ok(file)
}

/// That a header needs no other shows in each standard. The GNU dialect of a standard adds to its
/// words, which shows for all headers at once.
#[test]
fn every_header_compiles_alone_and_twice_in_every_standard_and_in_its_dialect() -> Result<()> {
    let mut names = Vec::new();
    headers(&include_dir(), "", &mut names)?;
    names.sort();
    // Headers of providers come before those that include verbs.h, and all of librdmacm's do.
    let mut rdmacm = Vec::new();
    headers(&rdmacm_include_dir(), "", &mut rdmacm)?;
    rdmacm.sort();
    names.append(&mut rdmacm);
    assert!(names.len() > 12, "only {} headers found", names.len());
    let dir = scratch("alone")?;
    let alone = &lone_includes(&dir, &names)?;
    let joint = &[joint_include(&dir, &names)?];
    let arguments = [&WARNINGS[..], &["-fsyntax-only"]].concat();

    let arguments = &arguments;
    thread::scope(|scope| {
        let started = COMPILERS.map(|compiler| {
            scope.spawn(move || -> Result<()> {
                for level in compiler.levels() {
                    let dialect = level.starts_with("gnu");
                    let files = if dialect { &joint[..] } else { &alone[..] };
                    compiler.must(level, arguments, files)?;
                }
                Ok(())
            })
        });
        for thread in started {
            thread
                .join()
                .expect("the thread compiles and cannot panic")?;
        }
        Ok(())
    })
}

/// Lines of a table, split into fields, without the heading.
fn table(name: &str) -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(source(name))?;
    let rows = text.lines().skip(1);
    Ok(rows
        .map(|l| l.split('\t').map(str::to_owned).collect())
        .collect())
}

/// Assertions of size, alignment and members for each type of a table.
fn layout_assertions(table_name: &str, text: &mut String) -> Result<usize> {
    let mut count = 0;
    for row in table(table_name)? {
        let [name, size, align, members] = &row[..] else {
            return Err(format!("{table_name}: not four fields: {row:?}").into());
        };
        writeln!(text, "static_assert(sizeof({name}) == {size}, \"size\");")?;
        writeln!(
            text,
            "static_assert(__alignof__({name}) == {align}, \"alignment\");"
        )?;
        for member in members.split_ascii_whitespace() {
            let place = member
                .split_once('=')
                .and_then(|(m, p)| Some((m, p.split_once('+')?)));
            let Some((member, (offset, size))) = place else {
                return Err(format!("{table_name}: {name}: not a member: {member}").into());
            };
            writeln!(
                text,
                "static_assert(offsetof({name}, {member}) == {offset}, \"offset\");"
            )?;
            if size != "0" {
                let taken = format!("sizeof((({name} *)0)->{member})");
                writeln!(
                    text,
                    "static_assert({taken} == {size}, \"size of member\");"
                )?;
            }
            count += 1;
        }
    }
    Ok(count)
}

/// A program that includes the complete public structures cannot be a provider; the compiler
/// reports it.
#[test]
fn a_provider_includes_its_headers_first() -> Result<()> {
    let dir = scratch("order")?;
    let file = dir.join("order.c");
    fs::write(
        &file,
        "#include <infiniband/verbs.h>\n#include <infiniband/driver.h>\n",
    )?;
    for compiler in COMPILERS {
        let level = compiler.levels()[0];
        let output = compiler.run(level, &["-fsyntax-only"], std::slice::from_ref(&file))?;
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(printed.contains("before infiniband/verbs.h"), "{printed}");
    }
    Ok(())
}

/// Assertions of the value of each enumerator and macro of a table.
fn value_assertions(table_name: &str, text: &mut String) -> Result<usize> {
    let mut count = 0;
    for row in table(table_name)? {
        let [name, size, values] = &row[..] else {
            return Err(format!("{table_name}: not three fields: {row:?}").into());
        };
        if name != "-" {
            writeln!(text, "static_assert(sizeof({name}) == {size}, \"size\");")?;
        }
        for value in values.split_ascii_whitespace() {
            let Some((name, value)) = value.split_once('=') else {
                return Err(format!("{table_name}: not a value: {value}").into());
            };
            writeln!(
                text,
                "static_assert((long long){name} == {value}LL, \"{name}\");"
            )?;
            count += 1;
        }
    }
    Ok(count)
}

const PUBLIC: [&str; 4] = [
    "infiniband/verbs.h",
    "infiniband/sa.h",
    "infiniband/opcode.h",
    "infiniband/tm_types.h",
];
const PRIVATE: [&str; 4] = [
    "infiniband/driver.h",
    "infiniband/kern-abi.h",
    "infiniband/cmd_ioctl.h",
    "infiniband/cmd_write.h",
];
const RDMACM: [&str; 6] = [
    "rdma/rdma_cma.h",
    "rdma/rdma_verbs.h",
    "rdma/rsocket.h",
    "rdma/rdma_cma_abi.h",
    "infiniband/acm.h",
    "infiniband/ib.h",
];

/// A file of assertions about the headers' declarations.
fn assertions(dir: &Path, kind: &str, headers: &[&str]) -> Result<(PathBuf, usize)> {
    let mut text = String::from("#include <assert.h>\n#include <stddef.h>\n");
    for header in headers {
        writeln!(text, "#include <{header}>")?;
    }
    let mut count = 0;
    // Providers see some public structures as their generation has them.
    if kind == "private" {
        count += layout_assertions("layout-generation-34.tsv", &mut text)?;
    }
    count += layout_assertions(&format!("layout-{kind}.tsv"), &mut text)?
        + value_assertions(&format!("values-{kind}.tsv"), &mut text)?;
    let file = dir.join(format!("{kind}.c"));
    fs::write(&file, text)?;
    Ok((file, count))
}

#[test]
fn layouts_and_values_are_those_of_the_interface() -> Result<()> {
    let dir = scratch("layout")?;
    let (public, members) = assertions(&dir, "public", &PUBLIC)?;
    let (private, private_members) = assertions(&dir, "private", &PRIVATE)?;
    assert!(
        members > 1000 && private_members > 500,
        "{members}, {private_members}"
    );
    let (rdmacm, rdmacm_members) = assertions(&dir, "rdmacm", &RDMACM)?;
    assert!(rdmacm_members > 400, "{rdmacm_members}");

    // offsetof in C++ is for plain structures; the private ones hold a std::atomic.
    let arguments = ["-fsyntax-only", "-Wno-invalid-offsetof"];
    for compiler in COMPILERS {
        let level = if compiler.language == "c" {
            "gnu11"
        } else {
            "gnu++17"
        };
        compiler.must(
            level,
            &arguments,
            &[public.clone(), private.clone(), rdmacm.clone()],
        )?;
    }
    Ok(())
}

#[test]
fn inline_verbs_find_their_slots_and_answer_without_them() -> Result<()> {
    let dir = scratch("inlines")?;
    let warnings = &WARNINGS[..2];
    for compiler in COMPILERS.into_iter().filter(|c| c.language == "c") {
        for (level, optimisation) in [("gnu99", "-O0"), ("gnu17", "-O2")] {
            let program = dir.join(format!("{}-{level}", compiler.program));
            let out = program.to_string_lossy();
            let arguments = [warnings, &["-Werror", optimisation, "-o", &out]].concat();
            compiler.must(level, &arguments, &[source("inlines.c")])?;

            let output = Command::new(&program).watched_output()?;
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{out}:\n{printed}");
            assert!(printed.contains(" checks, 0 failures"), "{out}:\n{printed}");
        }
    }
    Ok(())
}

#[test]
fn a_plugin_builds_in_c_and_cxx_and_asks_for_its_generation() -> Result<()> {
    let dir = scratch("plugin")?;
    for compiler in COMPILERS {
        let levels = compiler.levels();
        for level in levels.first().into_iter().chain(levels.last()) {
            let plugin = dir.join(format!("lib{}-{level}-rdmav34.so", compiler.program));
            let out = plugin.to_string_lossy();
            let built = [
                "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-o", &out,
            ];
            compiler.must(level, &built, &[source("plugin.c")])?;

            let image = elf::read(&plugin)?;
            let registers = image
                .undefined
                .iter()
                .any(|s| s.name == "verbs_register_driver_34");
            assert!(
                registers,
                "{out} does not register itself: {:?}",
                image.undefined
            );
            assert!(
                image
                    .defined
                    .iter()
                    .any(|s| s.name == "verbs_provider_nothing")
            );
        }
    }
    Ok(())
}

/// Compiles bindgen's output for headers to a library.
fn bind_and_compile(dir: &Path, name: &str, headers: &[&str]) -> Result<String> {
    let mut includes = String::new();
    for header in headers {
        writeln!(includes, "#include <{header}>")?;
    }
    let bindings = bindgen::Builder::default()
        .header_contents("headers.h", &includes)
        .clang_arg(format!("-I{}", include_dir().display()))
        .allowlist_file(format!("{}/.*", include_dir().display()))
        .generate()
        .map_err(|e| format!("{e}; bindgen needs the package libclang-dev"))?
        .to_string();

    let file = dir.join(format!("{name}.rs"));
    fs::write(&file, &bindings)?;
    let rustc = option_env!("RUSTC").unwrap_or("rustc");
    let output = Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
        ])
        .args(["--cap-lints", "allow", "--out-dir"])
        .arg(dir)
        .arg(&file)
        .output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}:\n{printed}");
    Ok(bindings)
}

#[test]
fn bindgen_reads_the_headers_and_its_layout_checks_hold() -> Result<()> {
    let dir = scratch("bindgen")?;
    let public = bind_and_compile(&dir, "verbs", &PUBLIC)?;
    assert!(public.contains("pub struct ibv_qp_init_attr_ex"));
    assert!(public.contains("pub fn ibv_get_device_list"));
    let private = bind_and_compile(&dir, "driver", &PRIVATE)?;
    assert!(private.contains("pub struct verbs_context_ops"));
    assert!(private.contains("pub fn verbs_register_driver_34"));
    Ok(())
}
