//! The command line.
#![forbid(unsafe_code)]

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use lexopt::prelude::*;

use crate::{
    install,
    options::{Bench, BenchUroce, Dist, Part, Test, Vm},
    stage, uroce,
};

pub const USAGE: &str = "\
cargo xtask test [--only STAGE,...] [--stock [--bless]] [--list] [--within MINUTES]
    Runs every stage, or those named (a prefix such as `guest` names all that begin with it).
    --stock  runs the guest suites on the system's libibverbs instead of the one built here
    --bless  writes what the stock library gave as the expected lists; without --stock, of the
             suites of uroce, what they gave
    --list   names the stages and runs nothing
    --within kills what still runs after this time, reports it, and counts it as failed
cargo xtask vm [--stock] [--rdmacm] [--write] -- COMMAND [ARGUMENT...]
    Runs a command in a virtual machine with the RDMA device rxe0, over the library built here.
    --stock   over the system's libibverbs
    --rdmacm  over the librdmacm built here, too
    --write   with IBVERBS_FORCE_WRITE=1
cargo xtask demo [--kernel]
    Shows Debian's ibv_devinfo, ibv_rc_pingpong and ib_write_bw over the library on this machine,
    which needs no RDMA: the device is uroce's. No root needed.
    --kernel  over a kernel that has RDMA, in a virtual machine
cargo xtask install [--destdir DIR] [--prefix DIR] [--libdir DIR] [--includedir DIR] [--docdir DIR]
                    [--bindir DIR] [--mandir DIR] [--rdma-core RELEASE] [--target TRIPLE]
                    [--no-strip] [--static]
    Installs what `cargo build --release` built: the library, headers, libibverbs.pc, the programs
    and their manual pages.
    --destdir   a directory that stands for / (default: / itself)
    --prefix    /usr/local unless named; the library goes to its lib unless --libdir is named
    --rdma-core the release that the pkg-config files name, such as 56.1 (default: 44.0)
    --target    what `cargo build --release --target TRIPLE` built, such as
                aarch64-unknown-linux-gnu
    --no-strip  leaves debug information in the library and the programs
    --static    libibverbs.a, too, which is built apart:
                cargo rustc --release -p ferroverbs --crate-type staticlib
cargo xtask wheel [--into DIR] [--target TRIPLE]
cargo xtask tarball [--into DIR] [--target TRIPLE]
    Makes a wheel for Python's package index, or an archive with a script that installs it, of what
    `cargo build --release` built, in DIR (default: target/dist).
    --target  of what `cargo build --release --target TRIPLE` built
cargo xtask size
    Prints the sizes of the parts of the library that `cargo build --release` built, by crate.
cargo xtask bench [--write] [--only PART] [--before LIBRARY]
    Compares the library built here with the system's; fails if a row is above its bound.
    --write  writes docs/benchmarks.md; not with --only
    --only   guest (start and objects, in the virtual machine) or fork (fork protection)
    --before compares with that earlier build of the library instead; not with --write
cargo xtask bench uroce [--write] [--rounds N] [--only plots | --before LIBRARY]
    Compares uroce with UCX, TCP, raw system calls and the kernel's soft-RoCE; fails if a bound is
    not met.
    --write   writes docs/benchmarks-uroce.md and its plots
    --rounds  11 unless named
    --only plots  measures what the plots show and nothing else
    --before  compares with that earlier build of the library instead, and fails if a row is slower
              by more than chance explains; not with --write
cargo xtask bench observe
    What IBVERBS_EXPLAIN, IBVERBS_VALIDATE and IBVERBS_TRACE cost a call, beside none of them.
cargo xtask bench rxe [--write]
    Compares the library's own provider for the kernel's soft-RoCE with rdma-core's; fails if a row
    is above its bound.
    --write  writes docs/benchmarks-rxe.md
cargo xtask bench rdmacm [--write]
    Compares connections by librdmacm with those by rdma-core's, and measures them over uroce; fails
    if a row is above its bound.
    --write  writes docs/benchmarks-rdmacm.md";

#[derive(Debug, PartialEq)]
pub enum Command {
    Test(Test),
    Vm(Vm),
    Demo {
        /// Over a kernel with RDMA, in the virtual machine.
        kernel: bool,
    },
    Bench(Bench),
    BenchUroce(BenchUroce),
    BenchObserve,
    BenchRxe {
        write: bool,
    },
    BenchRdmacm {
        write: bool,
    },
    Install(install::Options),
    Wheel(Dist),
    Tarball(Dist),
    Size,
    /// The command that the virtual machine is started with; internal.
    InGuest {
        results: PathBuf,
    },
    /// The command that the stages `package` start in new namespaces; internal.
    InRoot {
        job: PathBuf,
        /// The root directory of another release, if not this machine's.
        lower: Option<PathBuf>,
    },
    /// The command that the stages of uroce start in a separate network namespace; internal.
    InNetwork {
        results: PathBuf,
        /// The surroundings of the suite exist already.
        surrounded: bool,
    },
    Help,
}

pub fn parse(mut words: lexopt::Parser) -> Result<Command> {
    let Some(first) = words.next()? else {
        return Ok(Command::Help);
    };
    match first {
        Value(name) if name == "test" => test(words),
        Value(name) if name == "vm" => vm(words),
        Value(name) if name == "demo" => demo(words),
        Value(name) if name == "bench" => bench(words),
        Value(name) if name == "install" => install(words),
        Value(name) if name == "wheel" => dist(words).map(Command::Wheel),
        Value(name) if name == "tarball" => dist(words).map(Command::Tarball),
        Value(name) if name == "size" => nothing_more(words, Command::Size),
        Value(name) if name == "in-guest" => {
            let results = words.value()?.into();
            nothing_more(words, Command::InGuest { results })
        }
        Value(name) if name == "in-root" => {
            let job = words.value()?.into();
            let lower = match words.next()? {
                Some(Value(lower)) => Some(lower.into()),
                Some(other) => return Err(other.unexpected().into()),
                None => None,
            };
            nothing_more(words, Command::InRoot { job, lower })
        }
        Value(name) if name == "in-network" => {
            let results = words.value()?.into();
            let surrounded = matches!(words.next()?, Some(Long("surrounded")));
            nothing_more(
                words,
                Command::InNetwork {
                    results,
                    surrounded,
                },
            )
        }
        Value(name) if name == "help" => nothing_more(words, Command::Help),
        Long("help") | Short('h') => Ok(Command::Help),
        other => Err(other.unexpected().into()),
    }
}

fn nothing_more(mut words: lexopt::Parser, command: Command) -> Result<Command> {
    match words.next()? {
        None => Ok(command),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn demo(mut words: lexopt::Parser) -> Result<Command> {
    let mut kernel = false;
    while let Some(word) = words.next()? {
        match word {
            Long("kernel") => kernel = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Demo { kernel })
}

fn test(mut words: lexopt::Parser) -> Result<Command> {
    let mut options = Test::default();
    while let Some(word) = words.next()? {
        match word {
            Long("only") => {
                let names = words.value()?.string()?;
                options.only.extend(names.split(',').map(str::to_owned));
            }
            Long("stock") => options.stock = true,
            Long("bless") => options.bless = true,
            Long("list") => options.list = true,
            Long("within") => {
                let minutes: u32 = words.value()?.parse()?;
                options.within = Some(Duration::from_secs(u64::from(minutes) * 60));
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if options.bless && !options.stock && !only_uroce(&options.only) {
        bail!(
            "--bless records the stock library's results, so it needs --stock; \
             or --only with suites of uroce"
        );
    }
    Ok(Command::Test(options))
}

/// Whether stages were named, and all of them are of uroce, where no other library is the measure.
fn only_uroce(only: &[String]) -> bool {
    let of_uroce = |name: &String| {
        name == "uroce" || name.starts_with(uroce::STAGE) || stage::is_two_hosts(name)
    };
    !only.is_empty() && only.iter().all(of_uroce)
}

fn vm(mut words: lexopt::Parser) -> Result<Command> {
    let mut options = Vm::default();
    while let Some(word) = words.next()? {
        match word {
            Long("stock") => options.stock = true,
            Long("rdmacm") => options.rdmacm = true,
            Long("write") => options.write = true,
            Value(program) => {
                options.command.push(program);
                options.command.extend(words.raw_args()?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if options.command.is_empty() {
        bail!("vm needs a command: cargo xtask vm -- ibv_devinfo");
    }
    if options.stock && options.write {
        bail!("--write is a switch of the library built here; --stock does not know it");
    }
    if options.stock && options.rdmacm {
        bail!("--rdmacm is the librdmacm built here; --stock does without");
    }
    Ok(Command::Vm(options))
}

const BEFORE_IS_NOT_WRITTEN: &str =
    "the document compares with other makers' software, so --before cannot go with --write";

fn bench(mut words: lexopt::Parser) -> Result<Command> {
    let mut options = Bench::default();
    while let Some(word) = words.next()? {
        match word {
            Value(name) if name == "uroce" && options == Bench::default() => {
                return bench_uroce(words);
            }
            Value(name) if name == "observe" && options == Bench::default() => {
                return nothing_more(words, Command::BenchObserve);
            }
            Value(name) if name == "rxe" && options == Bench::default() => {
                return Ok(Command::BenchRxe {
                    write: only_write(words)?,
                });
            }
            Value(name) if name == "rdmacm" && options == Bench::default() => {
                return Ok(Command::BenchRdmacm {
                    write: only_write(words)?,
                });
            }
            Long("write") => options.write = true,
            Long("only") => options.part = Some(part(&words.value()?.string()?)?),
            Long("before") => options.before = Some(words.value()?.into()),
            other => return Err(other.unexpected().into()),
        }
    }
    if options.write && options.part.is_some() {
        bail!("--write writes all tables, so --only cannot go with it");
    }
    if options.write && options.before.is_some() {
        bail!("{BEFORE_IS_NOT_WRITTEN}");
    }
    Ok(Command::Bench(options))
}

/// Whether `--write` is there; nothing else may be.
fn only_write(mut words: lexopt::Parser) -> Result<bool> {
    let mut write = false;
    while let Some(word) = words.next()? {
        match word {
            Long("write") => write = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(write)
}

fn bench_uroce(mut words: lexopt::Parser) -> Result<Command> {
    let mut options = BenchUroce {
        write: false,
        plots_alone: false,
        rounds: 11,
        before: None,
    };
    while let Some(word) = words.next()? {
        match word {
            Long("write") => options.write = true,
            Long("rounds") => options.rounds = words.value()?.parse()?,
            Long("before") => options.before = Some(words.value()?.into()),
            Long("only") => match words.value()? {
                part if part == "plots" => options.plots_alone = true,
                part => bail!("there is no part {}", part.display()),
            },
            other => return Err(other.unexpected().into()),
        }
    }
    if options.rounds == 0 {
        bail!("a bench of no rounds measures nothing");
    }
    if options.before.is_some() && options.plots_alone {
        bail!("the plots have no second library, so --before cannot go with --only plots");
    }
    if options.before.is_some() && options.write {
        bail!("{BEFORE_IS_NOT_WRITTEN}");
    }
    Ok(Command::BenchUroce(options))
}

fn install(mut words: lexopt::Parser) -> Result<Command> {
    let mut options = install::Options::default();
    while let Some(word) = words.next()? {
        let directory = match word {
            Long("destdir") => &mut options.destdir,
            Long("prefix") => &mut options.prefix,
            Long("libdir") => &mut options.libdir,
            Long("includedir") => &mut options.includedir,
            Long("docdir") => &mut options.docdir,
            Long("bindir") => &mut options.bindir,
            Long("mandir") => &mut options.mandir,
            Long("static") => {
                options.with_static = true;
                continue;
            }
            Long("rdma-core") => {
                options.rdma_core = Some(words.value()?.string()?);
                continue;
            }
            Long("target") => {
                options.target = Some(words.value()?.string()?);
                continue;
            }
            Long("no-strip") => {
                options.strip = false;
                continue;
            }
            other => return Err(other.unexpected().into()),
        };
        *directory = Some(words.value()?.into());
    }
    Ok(Command::Install(options))
}

/// The directory of `--into`.
fn dist(mut words: lexopt::Parser) -> Result<Dist> {
    let mut options = Dist::default();
    while let Some(word) = words.next()? {
        match word {
            Long("into") => options.into = Some(words.value()?.into()),
            Long("target") => options.target = Some(words.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(options)
}

fn part(name: &str) -> Result<Part> {
    match name {
        "guest" => Ok(Part::Guest),
        "fork" => Ok(Part::Fork),
        _ => bail!("no part of the bench is called {name}; there are: guest fork"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn words(line: &str) -> Result<Command> {
        parse(lexopt::Parser::from_args(line.split(' ')))
    }

    #[test]
    fn stages_are_separated_by_commas() {
        let only = ["fmt", "unit", "guest"].map(str::to_owned).to_vec();
        let wanted = Test {
            only,
            ..Test::default()
        };
        let got = words("test --only fmt,unit --only guest");
        assert_eq!(got.ok(), Some(Command::Test(wanted)));
    }

    #[test]
    fn only_results_that_are_a_measure_can_be_blessed() {
        assert!(words("test --bless --only uroce:pyverbs").is_ok());
        assert!(words("test --bless --only guest:uroce-rxe").is_ok());
        assert!(words("test --bless --only guest:uroce-rxe-rdmacm.cm").is_ok());
        assert!(words("test --bless --only uroce,guest").is_err());
        assert!(words("test --bless").is_err());
        assert!(words("test --stock --bless").is_ok());
    }

    #[test]
    fn the_command_keeps_its_own_options() {
        let command = ["ls", "--stock", "-l"].map(OsString::from).to_vec();
        let wanted = Vm {
            stock: false,
            rdmacm: false,
            write: true,
            command,
        };
        let got = words("vm --write -- ls --stock -l");
        assert_eq!(got.ok(), Some(Command::Vm(wanted)));
    }

    #[test]
    fn unknown_words_are_refused() {
        assert!(words("test --onyl fmt").is_err());
        assert!(words("demo now").is_err());
        let wanted = Command::Demo { kernel: true };
        assert_eq!(words("demo --kernel").ok(), Some(wanted));
        assert!(words("vm --stock").is_err());
        assert!(words("vm --stock --rdmacm -- ls").is_err());
    }

    #[test]
    fn an_installation_has_a_root() {
        let wanted = install::Options {
            destdir: Some("d".into()),
            prefix: Some("/usr".into()),
            strip: false,
            ..install::Options::default()
        };
        let got = words("install --destdir d --prefix=/usr --no-strip");
        assert_eq!(got.ok(), Some(Command::Install(wanted)));
        let with_static = install::Options {
            with_static: true,
            rdma_core: Some("56.1".into()),
            ..install::Options::default()
        };
        assert_eq!(
            words("install --static --rdma-core 56.1").ok(),
            Some(Command::Install(with_static))
        );
        let for_arm = install::Options {
            target: Some("aarch64-unknown-linux-gnu".into()),
            ..install::Options::default()
        };
        assert_eq!(
            words("install --target aarch64-unknown-linux-gnu").ok(),
            Some(Command::Install(for_arm))
        );
        assert!(words("install /usr").is_err());
        assert!(words("install --prefix").is_err());
        assert!(words("install --sbindir /usr/sbin").is_err());
    }

    #[test]
    fn a_wheel_is_made_in_a_directory() {
        let wanted = Dist {
            into: Some("d".into()),
            target: None,
        };
        assert_eq!(words("wheel --into d").ok(), Some(Command::Wheel(wanted)));
        let here = Dist::default();
        assert_eq!(words("wheel").ok(), Some(Command::Wheel(here)));
        assert!(words("wheel d").is_err());
        let for_arm = Dist {
            into: None,
            target: Some("aarch64-unknown-linux-gnu".into()),
        };
        assert_eq!(
            words("tarball --target aarch64-unknown-linux-gnu").ok(),
            Some(Command::Tarball(for_arm))
        );
    }

    #[test]
    fn the_bench_of_uroce_has_rounds() {
        let wanted = BenchUroce {
            write: true,
            plots_alone: false,
            rounds: 9,
            before: None,
        };
        let got = words("bench uroce --write --rounds 9");
        assert_eq!(got.ok(), Some(Command::BenchUroce(wanted)));
        assert!(words("bench uroce --rounds 0").is_err());
        let wanted = BenchUroce {
            write: false,
            plots_alone: true,
            rounds: 11,
            before: None,
        };
        let got = words("bench uroce --only plots");
        assert_eq!(got.ok(), Some(Command::BenchUroce(wanted)));
        assert!(words("bench uroce --only tables").is_err());
        assert!(words("bench --write uroce").is_err());
        assert_eq!(words("bench observe").ok(), Some(Command::BenchObserve));
        assert!(words("bench observe --write").is_err());
    }

    #[test]
    fn an_earlier_build_is_compared_with_and_not_written() {
        let wanted = Bench {
            before: Some("old.so".into()),
            ..Bench::default()
        };
        let got = words("bench --before old.so");
        assert_eq!(got.ok(), Some(Command::Bench(wanted)));
        assert!(words("bench --write --before old.so").is_err());
        let wanted = BenchUroce {
            write: false,
            plots_alone: false,
            rounds: 11,
            before: Some("old.so".into()),
        };
        let got = words("bench uroce --before old.so");
        assert_eq!(got.ok(), Some(Command::BenchUroce(wanted)));
        assert!(words("bench uroce --write --before old.so").is_err());
        assert!(words("bench uroce --only plots --before old.so").is_err());
        assert!(words("bench uroce --before").is_err());
    }

    #[test]
    fn the_bench_of_rxe_can_be_written() {
        let got = words("bench rxe --write");
        assert_eq!(got.ok(), Some(Command::BenchRxe { write: true }));
        assert!(words("bench rxe --rounds 3").is_err());
        let got = words("bench rdmacm");
        assert_eq!(got.ok(), Some(Command::BenchRdmacm { write: false }));
    }

    #[test]
    fn a_part_of_the_bench_is_not_written_as_the_whole() {
        let wanted = Bench {
            write: false,
            part: Some(Part::Fork),
            before: None,
        };
        let got = words("bench --only fork");
        assert_eq!(got.ok(), Some(Command::Bench(wanted)));
        assert!(words("bench --write").is_ok());
        assert!(words("bench --write --only fork").is_err());
        assert!(words("bench --only spoon").is_err());
    }
}
