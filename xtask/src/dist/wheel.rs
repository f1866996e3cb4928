//! The stage `wheel`: the wheel is made, installed into a new environment of Python, and used by
//! Debian's programs and by a package that contains a libibverbs, and removed.
//!
//! The environment's path has a space, which LD_PRELOAD cannot name. A second installation has a
//! path that it can.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::programs::{PAIR, build, in_network, one, prints};
use crate::{
    dirs::Dirs,
    host::must,
    install::{self, Built},
    package::files::below,
    report::Tally,
    suites::inference,
};

pub const STAGE: &str = "wheel";

/// The environment, in the directory of the stage.
const SPACED: &str = "an environment";
/// The second installation.
const PLAIN: &str = "plain";

/// Prints which libraries a program gets, by the dynamic linker.
const SHOWN: &str = "LD_DEBUG=files exec \"$@\" 2>&1";

pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        let wheel = Wheel::installed(dirs)?;
        tally.passed += 1;
        match nixl(dirs) {
            Ok(home) => {
                let result = wheel.beside_another(dirs, &home);
                one(tally, STAGE, "a package with a libibverbs", result);
            }
            Err(error) => tally.skip(&format!("no NIXL: {error:#}")),
        }
        let mut one = |name, result| one(tally, STAGE, name, result);
        one("two wheels are equal", wheel.is_reproducible(dirs));
        one("the tag is true", wheel.tag_is_true());
        one("path", wheel.says_where());
        one("status and signals", wheel.keeps_status());
        one("words and environment", wheel.keeps_words());
        one("first of all libraries", wheel.is_first());
        one("its programs", wheel.programs());
        one("ibv_rc_pingpong", wheel.pingpong());
        one("rping", wheel.rping());
        one("uninstall", wheel.uninstalled());
        Ok(())
    })
}

struct Wheel {
    /// The directory of the stage.
    dir: PathBuf,
    /// The wheel.
    file: PathBuf,
    /// The environment that it is installed in.
    environment: PathBuf,
    /// The files of the environment before.
    before: BTreeSet<PathBuf>,
}

impl Wheel {
    fn installed(dirs: &Dirs) -> Result<Self> {
        build(dirs)?;
        let dir = dirs.fresh(STAGE)?;
        println!("-- {STAGE}: made and installed");
        let file = install::make_wheel(&Built::here(dirs), &dir.join("one"))?;
        let environment = dir.join(SPACED);
        // Another Python may come first in PATH, without the programs for this.
        let python = Path::new("/usr/bin/python3");
        must(Command::new(python).args(["-m", "venv"]).arg(&environment))?;
        let wheel = Self {
            before: below(&environment)?.into_iter().collect(),
            dir,
            file,
            environment,
        };
        wheel.pip("install", |pip| pip.arg(&wheel.file))?;
        let plain = wheel.dir.join(PLAIN);
        wheel.pip("install", |pip| {
            pip.arg("--target").arg(&plain).arg(&wheel.file)
        })?;
        Ok(wheel)
    }

    /// Runs pip without the index.
    fn pip(&self, what: &str, words: impl FnOnce(&mut Command) -> &mut Command) -> Result<()> {
        let mut pip = self.program("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", what]);
        if what == "install" {
            pip.args(["--no-index", "--no-deps"]);
        }
        must(words(&mut pip)).map(drop)
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.environment.join("bin").join(name)
    }

    /// A program of the environment. Settings of this machine for Python do not count.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin(name));
        for variable in ["PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "LD_LIBRARY_PATH"] {
            command.env_remove(variable);
        }
        command
    }

    /// A program over the library.
    fn over(&self, words: &[&str]) -> Command {
        let mut command = self.program("ferroverbs");
        command.arg("run").args(words);
        command
    }

    /// The same by the second installation.
    fn over_plain(&self, words: &[&str]) -> Command {
        let mut command = self.program("python3");
        command.args(["-m", "ferroverbs", "run"]).args(words);
        command.env("PYTHONPATH", self.dir.join(PLAIN));
        command
    }

    /// The folder of the library, by the package.
    fn libraries(&self) -> Result<PathBuf> {
        let mut python = self.program("python3");
        python.args(["-c", "import ferroverbs; print(ferroverbs.path())"]);
        Ok(must(&mut python)?.trim_end().into())
    }

    fn is_reproducible(&self, dirs: &Dirs) -> Result<()> {
        let again = install::make_wheel(&Built::here(dirs), &self.dir.join("two"))?;
        ensure!(again.file_name() == self.file.file_name(), "another name");
        ensure!(fs::read(again)? == fs::read(&self.file)?, "other bytes");
        Ok(())
    }

    /// No file needs a later C library than the tag says, and none is for another machine.
    fn tag_is_true(&self) -> Result<()> {
        let name = self.file.file_stem().and_then(OsStr::to_str);
        let tag = name.and_then(|name| name.split_once("-py3-none-manylinux_"));
        let (_, tag) = tag.with_context(|| format!("the name is {name:?}"))?;
        let named: Vec<u32> = tag.split('_').map_while(|part| part.parse().ok()).collect();
        let mut seen = Vec::new();
        let package = self.libraries()?;
        let package = package.parent().context("the libraries are in a package")?;
        for file in below(package)? {
            if !fs::read(&file)?.starts_with(b"\x7fELF") {
                continue;
            }
            let printed = must(Command::new("objdump").arg("-T").arg(&file))?;
            let needed = printed.split("GLIBC_").skip(1).filter_map(release).max();
            let needed = needed.with_context(|| format!("{} needs none", file.display()))?;
            ensure!(needed <= named, "{} needs {needed:?}", file.display());
            seen.push(needed);
        }
        ensure!(seen.len() > 10, "{} files were found", seen.len());
        ensure!(seen.iter().max() == Some(&named), "none needs {named:?}");
        Ok(())
    }

    fn says_where(&self) -> Result<()> {
        let libraries = self.libraries()?;
        ensure!(libraries.starts_with(&self.environment), "{libraries:?}");
        for name in [
            "libibverbs.so.1",
            "librdmacm.so.1",
            "rsocket/librspreload.so",
        ] {
            ensure!(libraries.join(name).is_file(), "{name} is not there");
        }
        let printed = must(self.program("ferroverbs").arg("path"))?;
        ensure!(Path::new(printed.trim_end()) == libraries, "{printed}");
        Ok(())
    }

    fn keeps_status(&self) -> Result<()> {
        let status = |words: &[&str]| -> Result<_> {
            let output = self.over(words).output()?;
            Ok((output.status.code(), output.status.signal()))
        };
        let sh = |script| ["sh", "-c", script];
        ensure!(status(&sh("exit 7"))? == (Some(7), None));
        ensure!(status(&sh("kill -TERM $$"))? == (None, Some(15)));
        // Python ignores this one.
        ensure!(status(&sh("kill -PIPE $$"))? == (None, Some(13)));
        ensure!(status(&["--", "true"])? == (Some(0), None));
        ensure!(status(&["there-is-none"])? == (Some(127), None));
        ensure!(status(&["/"])? == (Some(126), None));
        ensure!(status(&[])? == (Some(2), None));
        ensure!(status(&["--unknown", "true"])? == (Some(2), None));
        ensure!(self.program("ferroverbs").output()?.status.code() == Some(2));
        // LD_PRELOAD can name only a library that lies in a folder of LD_LIBRARY_PATH.
        ensure!(status(&["--sockets", "true"])? == (Some(126), None));
        let apart = self.dir.join("a;b");
        must(
            Command::new("cp")
                .arg("-r")
                .arg(self.dir.join(PLAIN))
                .arg(&apart),
        )?;
        let mut refused = self.over_plain(&["true"]);
        let refused = refused.env("PYTHONPATH", &apart).output()?;
        ensure!(refused.status.code().is_some_and(|code| code != 0));
        Ok(())
    }

    /// The program gets the words as they are, and no other change of its environment.
    fn keeps_words(&self) -> Result<()> {
        let words = ["a b", "", "*", "--sockets", "$HOME", "two\nlines"];
        let wanted: String = words.iter().map(|word| format!("<{word}>")).collect();
        let line = [&["printf", "<%s>"][..], &words].concat();
        for mut command in [self.over(&line), self.over_plain(&line)] {
            let printed = must(&mut command)?;
            ensure!(printed == wanted, "{printed}");
        }
        // The command of a path with spaces begins as a shell script, which adds a variable.
        let mut bare = self.over_plain(&["env"]);
        let plain = self.dir.join(PLAIN);
        bare.env_clear().env("PYTHONPATH", &plain);
        let printed = must(bare.env("PATH", "/usr/bin:/bin").env("ONE", "a b"))?;
        let mut names: Vec<_> = printed.lines().map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        let wanted = ["LD_LIBRARY_PATH", "LD_PRELOAD", "ONE", "PATH", "PYTHONPATH"].map(Some);
        ensure!(names == wanted, "{printed}");
        Ok(())
    }

    /// The dynamic linker takes the wheel's libraries, in both installations, before those of the
    /// caller's variables.
    fn is_first(&self) -> Result<()> {
        let words = ["sh", "-c", SHOWN, "sh", "/usr/bin/rping", "-h"];
        let plain = self.dir.join(PLAIN).join("ferroverbs/lib");
        for (mut command, folder) in [
            (self.over(&words), self.libraries()?),
            (self.over_plain(&words), plain),
        ] {
            command.env("LD_LIBRARY_PATH", "/usr/lib/x86_64-linux-gnu:/nowhere");
            let output = command.output()?;
            let printed = String::from_utf8_lossy(&output.stdout);
            for name in ["libibverbs.so.1", "librdmacm.so.1"] {
                let wanted = format!("calling init: {}\n", folder.join(name).display());
                ensure!(printed.contains(&wanted), "not {wanted}: {printed}");
            }
        }
        let mut sockets = self.over_plain(&["--sockets", "sh", "-c", "echo $LD_PRELOAD"]);
        let printed = must(sockets.env("LD_PRELOAD", "libm.so.6"))?;
        let names: Vec<_> = printed.split_whitespace().map(Path::new).collect();
        let folder = self.dir.join(PLAIN).join("ferroverbs/lib");
        let (verbs, preload) = (
            folder.join("libibverbs.so.1"),
            folder.join("rsocket/librspreload.so"),
        );
        ensure!(names == [&verbs, &preload, Path::new("libm.so.6")]);
        Ok(())
    }

    fn programs(&self) -> Result<()> {
        let script = r#"
"$1/ibv_devices" && "$1/ibv_devinfo" -d uroce_lo && "$1/uroce-stat"
IBVERBS_TRACE="$2" "$1/ferroverbs" run /usr/bin/ibv_devinfo >/dev/null
"$1/ibv_trace" "$2"
"$1/ibv_doctor" || [ $? = 1 ]"#;
        let (bin, trace) = (self.bin(""), self.dir.join("trace"));
        let words = [bin.to_str(), trace.to_str()].map(Option::unwrap_or_default);
        let mut command = in_network(script, &words);
        command.env("UROCE_DEVICES", "lo");
        let wanted = ["uroce_lo", "PORT_ACTIVE", "ibv_close_device", "next: "];
        prints(&mut command, &self.dir.join("programs.log"), &wanted)?;
        for program in install::PROGRAMS {
            ensure!(self.bin(program).exists(), "{program} is not there");
        }
        Ok(())
    }

    /// Debian's program, over the device that only this library has.
    fn pingpong(&self) -> Result<()> {
        let pingpong = [
            "/usr/bin/ibv_rc_pingpong",
            "-d",
            "uroce_lo",
            "-g",
            "0",
            "-n",
            "50",
        ];
        self.pair("18515", &[&pingpong[..], &["-c"]].concat(), "bytes in")
    }

    /// It connects by librdmacm.
    fn rping(&self) -> Result<()> {
        let script = r#"
"$1" run /usr/bin/rping -s -a 127.0.0.1 -C 3 -v & server=$!
until "$1" run /usr/bin/rping -c -a 127.0.0.1 -C 3 -v; do
    case $(cat /proc/$server/stat) in *") Z "*) exit 1 ;; esac
    sleep 0.05
done
wait $server"#;
        let ferroverbs = self.bin("ferroverbs");
        let mut command = in_network(script, &[ferroverbs.to_str().unwrap_or_default()]);
        command.env("UROCE_DEVICES", "lo");
        prints(
            &mut command,
            &self.dir.join("rping.log"),
            &["ping data: rdma-ping-2"],
        )
    }

    fn pair(&self, port: &str, program: &[&str], wanted: &str) -> Result<()> {
        let ferroverbs = self.bin("ferroverbs");
        let front = [port, ferroverbs.to_str().unwrap_or_default(), "run"];
        let mut command = in_network(PAIR, &[&front[..], program].concat());
        command.env("UROCE_DEVICES", "lo");
        prints(&mut command, &self.dir.join("pair.log"), &[wanted])
    }

    /// NIXL contains a UCX that is linked with a libibverbs of another name.
    fn beside_another(&self, dirs: &Dirs, home: &Path) -> Result<()> {
        let (ferroverbs, python) = (self.bin("ferroverbs"), home.join("bin/python3"));
        let (files, agents) = (
            dirs.root.join("tools/uroce-sysfs"),
            dirs.root.join("xtask/guest/kv-agents"),
        );
        let words = [&ferroverbs, Path::new("run"), &files, &python, &agents];
        let words = words.map(|word| word.to_str().unwrap_or_default());
        let mut command = in_network("exec \"$@\"", &[&words[..], &["initiator"]].concat());
        command.envs([
            ("UROCE_DEVICES", "lo"),
            ("UCX_NET_DEVICES", "uroce_lo:1"),
            ("UCX_IB_GID_INDEX", "0"),
            ("UCX_TLS", "rc_verbs,ud_verbs:aux,self"),
            // A busy machine is not a dead peer.
            ("UCX_UD_VERBS_TIMEOUT", "3600s"),
            ("UCX_RC_VERBS_TIMEOUT", "10s"),
        ]);
        prints(
            &mut command,
            &self.dir.join("agents.log"),
            &["agents: the same bytes"],
        )
    }

    fn uninstalled(&self) -> Result<()> {
        self.pip("uninstall", |pip| pip.args(["--yes", "ferroverbs"]))?;
        let after: BTreeSet<_> = below(&self.environment)?.into_iter().collect();
        // Python compiles modules that it uses.
        let compiled = |file: &&PathBuf| file.extension() == Some(OsStr::new("pyc"));
        let ours = |file: &&PathBuf| file.to_string_lossy().contains("ferroverbs");
        let mut left = after
            .difference(&self.before)
            .filter(|file| !compiled(file) || ours(file));
        if let Some(file) = left.next() {
            bail!("{} is left", file.display());
        }
        let folder = self.environment.join("lib");
        let kept = must(
            Command::new("find")
                .arg(&folder)
                .args(["-name", "ferroverbs*"]),
        )?;
        ensure!(kept.is_empty(), "{kept} is left");
        Ok(())
    }
}

/// The environment of NIXL, from Python's index.
fn nixl(dirs: &Dirs) -> Result<PathBuf> {
    let package = inference::package(inference::NIXL).context("it is no package")?;
    package.provide_finished(dirs, |_| Ok(()))
}

/// The release of the C library that a text begins with.
fn release(text: &str) -> Option<Vec<u32>> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit());
    let numbers = text.get(..end.unwrap_or(text.len()))?.split('.');
    numbers.map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(release("2.34) puts"), Some(vec![2, 34]));
        assert!(release("2.9)") < release("2.34"));
        assert_eq!(release("PRIVATE)"), None);
    }
}
