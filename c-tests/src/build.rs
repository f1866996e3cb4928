//! Compiles every program with each compiler against each set of headers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::SystemTime,
};

use crate::{
    Result, man, stub,
    tree::{Program, Set, programs, programs_dir, workspace_dir},
};

/// Owner of the `<infiniband/verbs.h>` that a program is compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Headers {
    /// The installed ones (libibverbs-dev).
    Stock,
    /// This repository's `include/`.
    Ours,
}

/// One way to compile: headers and compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combo {
    /// The headers.
    pub headers: Headers,
    /// The compiler's command.
    pub compiler: &'static str,
}

/// Every way to compile. The first is the reference of all comparisons.
pub const COMBOS: [Combo; 4] = [
    combo(Headers::Stock, "gcc"),
    combo(Headers::Ours, "gcc"),
    combo(Headers::Stock, "clang"),
    combo(Headers::Ours, "clang"),
];

const fn combo(headers: Headers, compiler: &'static str) -> Combo {
    Combo { headers, compiler }
}

impl Combo {
    /// `stock-gcc` and the like: the folder of its programs.
    #[must_use]
    pub fn name(self) -> String {
        let headers = match self.headers {
            Headers::Stock => "stock",
            Headers::Ours => "ours",
        };
        format!("{headers}-{}", self.compiler)
    }

    /// Whether the program can be compiled in this way.
    #[must_use]
    pub fn fits(self, program: &Program) -> bool {
        self.headers == Headers::Ours || !program.set.is_post_44()
    }

    /// The combo of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Combo> {
        COMBOS.into_iter().find(|c| c.name() == name)
    }
}

/// Where [`build`] puts the library that later programs are linked with.
const STUB: &str = "stub";

/// The folder of our headers.
#[must_use]
pub fn our_headers() -> PathBuf {
    workspace_dir().join("include")
}

/// The folder of those of librdmacm.
fn our_rdmacm_headers() -> PathBuf {
    workspace_dir().join("rdmacm/include")
}

/// Where [`build`] puts a program.
#[must_use]
pub fn binary(out: &Path, combo: Combo, program: &Program) -> PathBuf {
    out.join(combo.name())
        .join(program.set.name())
        .join(&program.name)
}

/// Compiles all programs into `out/<combo>/<set>/<name>`; a program newer than
/// its sources and headers is left alone. Returns how many there are.
///
/// # Errors
/// When a compiler is missing, a program does not compile without a warning,
/// or a manual page lacks its example. The message names the package to
/// install, or carries the compiler's words.
pub fn build(out: &Path, combos: &[Combo]) -> Result<usize> {
    let examples = out.join("examples");
    man::extract_all(&examples)?;
    stub::build(&out.join(STUB))?;
    let programs = programs()?;
    let newest = newest_shared(combos, &examples)?;
    let mut jobs = Vec::new();
    for &combo in combos {
        check_compiler(combo)?;
        compile_support(out, combo, newest)?;
        for program in &programs {
            if combo.fits(program) {
                jobs.push((combo, program.clone()));
            }
        }
    }
    let count = jobs.len();
    let queue = Mutex::new(jobs);
    let errors = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((combo, program)) = pop(&queue) {
                    if let Err(e) = compile(out, combo, &program, &examples, newest) {
                        push(&errors, e.to_string());
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(|e| e.into_inner());
    if errors.is_empty() {
        write_list(out, &programs)?;
        return Ok(count);
    }
    Err(errors.join("\n").into())
}

fn list_path(out: &Path) -> PathBuf {
    out.join("programs.txt")
}

/// A run uses this list of compiled programs, not the sources, which may change before the programs
/// are run.
fn write_list(out: &Path, programs: &[Program]) -> Result<()> {
    let keys: Vec<String> = programs.iter().map(Program::key).collect();
    Ok(fs::write(list_path(out), keys.join("\n"))?)
}

/// The programs that the last [`build`] into `out` compiled.
///
/// # Errors
/// When there was no such build.
pub fn compiled(out: &Path) -> Result<Vec<Program>> {
    let path = list_path(out);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let found = text.lines().map(|key| {
        Program::from_key(key).ok_or_else(|| format!("{}: {key}", path.display()).into())
    });
    found.collect()
}

fn pop<T>(queue: &Mutex<Vec<T>>) -> Option<T> {
    queue.lock().unwrap_or_else(|e| e.into_inner()).pop()
}

fn push<T>(list: &Mutex<Vec<T>>, item: T) {
    list.lock().unwrap_or_else(|e| e.into_inner()).push(item);
}

fn check_compiler(combo: Combo) -> Result<()> {
    let found = Command::new(combo.compiler).arg("--version").output();
    match found {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(format!("{0} does not run: install the package {0}", combo.compiler).into()),
    }
}

/// The latest change of the files that every program includes.
fn newest_shared(combos: &[Combo], examples: &Path) -> Result<SystemTime> {
    let mut newest = newest_under(&programs_dir().join("support"))?;
    newest = newest.max(newest_under(examples)?);
    if combos.iter().any(|c| c.headers == Headers::Ours) {
        newest = newest.max(newest_under(&our_headers())?);
        newest = newest.max(newest_under(&our_rdmacm_headers())?);
    }
    Ok(newest)
}

fn newest_under(dir: &Path) -> Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let time = if entry.file_type()?.is_dir() {
            newest_under(&entry.path())?
        } else {
            entry.metadata()?.modified()?
        };
        newest = newest.max(time);
    }
    Ok(newest)
}

fn is_fresh(binary: &Path, source: &Path, newest: SystemTime) -> Result<bool> {
    let Ok(built) = fs::metadata(binary).and_then(|m| m.modified()) else {
        return Ok(false);
    };
    Ok(built > newest.max(fs::metadata(source)?.modified()?))
}

/// The common compiler options. Of debug information, only lines are useful.
fn compiler(combo: Combo) -> Command {
    let mut command = Command::new(combo.compiler);
    command
        .args(["-std=gnu11", "-O1", "-g1", "-D_GNU_SOURCE"])
        .args(["-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(programs_dir().join("support"));
    if combo.headers == Headers::Ours {
        command.arg("-I").arg(our_headers());
        command.arg("-I").arg(our_rdmacm_headers());
    }
    command
}

/// Where [`compile_support`] puts its object.
fn support(out: &Path, combo: Combo) -> PathBuf {
    out.join(combo.name()).join("check.o")
}

/// Compiles the common parts of the programs, once for all of them.
fn compile_support(out: &Path, combo: Combo, newest: SystemTime) -> Result<()> {
    let source = programs_dir().join("support/check.c");
    let target = support(out, combo);
    if is_fresh(&target, &source, newest)? {
        return Ok(());
    }
    fs::create_dir_all(out.join(combo.name()))?;
    let mut command = compiler(combo);
    command.arg("-c").arg(&source).arg("-o").arg(&target);
    run(&mut command, combo, "support/check")
}

/// Runs a compiler; `what` names the input in errors.
fn run(command: &mut Command, combo: Combo, what: &str) -> Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} of {what}:\n{words}", combo.name()).into())
}

fn compile(
    out: &Path,
    combo: Combo,
    program: &Program,
    examples: &Path,
    newest: SystemTime,
) -> Result<()> {
    let source = program.source();
    let target = binary(out, combo, program);
    if is_fresh(&target, &source, newest)? {
        return Ok(());
    }
    if let Some(dir) = target.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut command = compiler(combo);
    command.arg("-I").arg(examples);
    if program.set.is_post_44() {
        command.arg("-L").arg(out.join(STUB));
    }
    command
        .arg(&source)
        .arg(support(out, combo))
        .arg("-o")
        .arg(&target)
        // -rdynamic: a program may stand in front of a library's symbol;
        // --as-needed: one that names no symbol can load the library itself.
        .args(["-rdynamic", "-Wl,--as-needed"])
        .args((program.set == Set::Rdmacm).then_some("-lrdmacm"))
        .args(["-libverbs", "-lpthread", "-ldl"]);
    run(&mut command, combo, &program.key())
}
