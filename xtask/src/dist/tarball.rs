//! The stage `tarball`: the archive is made, unpacked, installed by its script below a prefix,
//! used, installed again, interrupted, and removed.
#![forbid(unsafe_code)]

use std::{
    env::consts::ARCH,
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::programs::{PAIR, build, in_network, one, prints};
use crate::{
    dirs::Dirs,
    host::must,
    install::{self, Built},
    package::files::below,
    pip::first_in_path,
    report::Tally,
};

pub const STAGE: &str = "tarball";

/// The list of folders of an installation, below its prefix.
const FOLDERS: &str = "share/ferroverbs/folders";

/// Replaces cp(1) and mv(1): kills the script before its step number `$AT`.
const KILLS: &str = r#"#!/bin/sh
echo >>"$STEPS"
[ "$(wc -l <"$STEPS")" -lt "$AT" ] || { kill -KILL $PPID; exit; }
PATH=${PATH#*:}
exec "${0##*/}" "$@"
"#;
/// The steps before which the script is killed: those that write its lists, the first file, and
/// one in the middle.
const STEPS: [usize; 5] = [1, 2, 3, 4, 20];

/// Replaces ldconfig(8): searches the folder `$KNOWN`, and notes that it was to write.
const LDCONFIG: &str = r#"#!/bin/sh
case $* in
"-v -N -X") echo "$KNOWN: (from a file)" ;;
"") echo >>"$WRITTEN" ;;
esac
"#;
/// Replaces id(1): the user is root.
const ID: &str = "#!/bin/sh\necho 0\n";

pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        build(dirs)?;
        let unpacked = Unpacked::new(dirs)?;
        tally.passed += 1;
        let mut one = |name, result| one(tally, STAGE, name, result);
        one("two archives are equal", unpacked.is_reproducible(dirs));
        one("install, use, remove", unpacked.comes_and_goes());
        one("interrupted and repeated", unpacked.can_be_repeated());
        one("a narrow umask", unpacked.is_for_all_users());
        one("files of others", unpacked.leaves_others());
        one("ldconfig", unpacked.asks_the_linker());
        one("wrong words", unpacked.refuses());
        Ok(())
    })
}

/// Makes the archive and unpacks it; returns the folder.
///
/// # Errors
/// Of tar(1), and those of making it.
pub fn unpacked(dirs: &Dirs, dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let archive = install::make_tarball(&Built::here(dirs), dir)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&archive).arg("-C").arg(dir);
    must(&mut tar)?;
    Ok((archive, dir.join(install::tarball_name(ARCH))))
}

struct Unpacked {
    /// The directory of the stage.
    dir: PathBuf,
    archive: PathBuf,
    /// The folder that was in the archive.
    folder: PathBuf,
}

impl Unpacked {
    fn new(dirs: &Dirs) -> Result<Self> {
        let dir = dirs.fresh(STAGE)?;
        let (archive, folder) = unpacked(dirs, &dir)?;
        Ok(Self {
            dir,
            archive,
            folder,
        })
    }

    fn is_reproducible(&self, dirs: &Dirs) -> Result<()> {
        let again = install::make_tarball(&Built::here(dirs), &self.dir.join("two"))?;
        ensure!(fs::read(again)? == fs::read(&self.archive)?, "other bytes");
        Ok(())
    }

    fn script(&self, prefix: &Path) -> Command {
        let mut script = Command::new(self.folder.join("install.sh"));
        script.arg("--prefix").arg(prefix);
        script
    }

    fn install(&self, prefix: &Path) -> Result<String> {
        must(&mut self.script(prefix))
    }

    fn uninstall(prefix: &Path) -> Result<()> {
        must(&mut Command::new(
            prefix.join("share/ferroverbs/uninstall.sh"),
        ))
        .map(drop)
    }

    fn comes_and_goes(&self) -> Result<()> {
        let room = self.dir.join("room");
        let prefix = room.join("opt/verbs");
        fs::create_dir_all(&room)?;
        let printed = self.install(&prefix)?;
        ensure!(printed.contains("UROCE_DEVICES=lo"), "{printed}");
        // An installation over an earlier one takes the place of its files.
        let stale = prefix.join("lib/libibverbs.so.1.0");
        fs::write(&stale, "")?;
        let list = prefix.join("share/ferroverbs/files");
        let files = fs::read_to_string(&list)?;
        fs::write(&list, files.clone() + "lib/libibverbs.so.1.0\n")?;
        self.install(&prefix)?;
        ensure!(!stale.exists(), "a file of the earlier installation stays");
        for file in files.lines() {
            ensure!(prefix.join(file).exists(), "{file} is not there");
        }
        self.has_prefix(&prefix)?;
        self.serves(&prefix)?;
        // The folder of the archive is not needed for this.
        Self::uninstall(&prefix)?;
        let left = below(&room)?;
        ensure!(left.is_empty(), "left: {left:?}");
        ensure!(!room.join("opt").exists(), "folders are left");
        Ok(())
    }

    /// pkg-config answers with folders of the prefix.
    fn has_prefix(&self, prefix: &Path) -> Result<()> {
        let mut asked = Command::new("pkg-config");
        asked.args(["--variable=libdir", "librdmacm"]);
        asked.env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig"));
        let printed = must(&mut asked)?;
        let wanted = prefix.join("lib");
        ensure!(Path::new(printed.trim_end()) == wanted, "{printed}");
        Ok(())
    }

    /// Debian's program and an installed one run over the installed library.
    fn serves(&self, prefix: &Path) -> Result<()> {
        let own = prefix.join("bin/ibv_rc_pingpong");
        let own = own.to_str().context("the path is not UTF-8")?;
        for program in ["/usr/bin/ibv_rc_pingpong", own] {
            let words = [
                "18515", program, "-d", "uroce_lo", "-g", "0", "-n", "50", "-c",
            ];
            let mut command = in_network(PAIR, &words);
            command.env("UROCE_DEVICES", "lo");
            command.env("LD_LIBRARY_PATH", prefix.join("lib"));
            prints(&mut command, &self.dir.join("pair.log"), &["bytes in"])?;
        }
        Ok(())
    }

    /// An installation that was killed can be repeated and removed, and so can one without the list
    /// of folders.
    fn can_be_repeated(&self) -> Result<()> {
        let room = self.dir.join("repeated");
        let prefix = room.join("opt/verbs");
        fs::create_dir_all(&room)?;
        let steps = self.dir.join("steps");
        let path = self.programs("kills", &[("cp", KILLS), ("mv", KILLS)])?;
        for at in STEPS {
            fs::write(&steps, "")?;
            let mut script = self.script(&prefix);
            script.env("PATH", &path).env("STEPS", &steps);
            let status = script.env("AT", at.to_string()).status()?;
            ensure!(status.code().is_none(), "step {at}: {status}");
            if at % 2 == 0 {
                self.install(&prefix)?;
                ensure!(prefix.join("lib/libibverbs.so.1").exists(), "step {at}");
            }
            // The script itself is not there before the first step.
            if at > 1 {
                Self::uninstall(&prefix)?;
                ensure!(!room.join("opt").exists(), "step {at}: something is left");
            }
        }
        self.install(&prefix)?;
        fs::remove_file(prefix.join(FOLDERS))?;
        self.install(&prefix)?;
        fs::remove_file(prefix.join(FOLDERS))?;
        Self::uninstall(&prefix)?;
        let left = below(&room)?;
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    }

    /// A folder of programs, and PATH with it before all others.
    fn programs(&self, name: &str, programs: &[(&str, &str)]) -> Result<OsString> {
        let folder = self.dir.join(name);
        fs::create_dir(&folder)?;
        for (program, text) in programs {
            let program = folder.join(program);
            fs::write(&program, text)?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        }
        first_in_path([folder])
    }

    /// All users can read the installed files, whatever the umask is.
    fn is_for_all_users(&self) -> Result<()> {
        let prefix = self.dir.join("umask");
        let mut script = Command::new("sh");
        script.args(["-c", "umask 077 && exec \"$@\"", "sh"]);
        script.arg(self.folder.join("install.sh"));
        must(script.arg("--prefix").arg(&prefix))?;
        for file in below(&prefix)? {
            let mode = |path: &Path| anyhow::Ok(fs::metadata(path)?.permissions().mode());
            ensure!(mode(&file)? & 0o044 == 0o044, "{}", file.display());
            let folder = file.parent().context("a file is in a folder")?;
            ensure!(mode(folder)? & 0o055 == 0o055, "{}", folder.display());
        }
        Self::uninstall(&prefix)
    }

    /// The cache of the dynamic linker is written only for a folder that it has.
    fn asks_the_linker(&self) -> Result<()> {
        let prefix = self.dir.join("linked");
        let written = self.dir.join("written");
        let path = self.programs("linker", &[("ldconfig", LDCONFIG), ("id", ID)])?;
        for (known, wanted) in [(prefix.join("lib"), 2), (prefix.join("lib64"), 0)] {
            fs::write(&written, "")?;
            let uninstall = Command::new(prefix.join("share/ferroverbs/uninstall.sh"));
            for mut script in [self.script(&prefix), uninstall] {
                script.env("PATH", &path).env("KNOWN", &known);
                must(script.env("WRITTEN", &written))?;
            }
            let times = fs::read_to_string(&written)?.lines().count();
            ensure!(times == wanted, "{times} times for {}", known.display());
        }
        Ok(())
    }

    /// Nothing is written where a file of others is in the way, and folders of others stay.
    fn leaves_others(&self) -> Result<()> {
        let prefix = self.dir.join("others");
        let file = prefix.join("lib/libibverbs.so.1");
        fs::create_dir_all(prefix.join("lib"))?;
        fs::create_dir_all(prefix.join("bin"))?;
        fs::write(&file, "of others")?;
        ensure!(self.install(&prefix).is_err(), "it was installed");
        ensure!(below(&prefix)? == [file.clone()], "something was written");
        fs::remove_file(&file)?;
        let new = prefix.join("lib/libibverbs.so.1.new");
        fs::write(&new, "of others")?;
        symlink(&new, prefix.join("lib/.libibverbs.so.1.ferroverbs-new"))?;
        self.install(&prefix)?;
        fs::write(prefix.join("include/infiniband/other.h"), "")?;
        Self::uninstall(&prefix)?;
        let mut left = below(&prefix)?;
        left.sort();
        ensure!(left == [prefix.join("include/infiniband/other.h"), new.clone()]);
        ensure!(fs::read_to_string(&new)? == "of others", "it was changed");
        for folder in ["bin", "lib"] {
            ensure!(prefix.join(folder).is_dir(), "{folder} is gone");
        }
        ensure!(!prefix.join("share").exists(), "share is left");
        Ok(())
    }

    fn refuses(&self) -> Result<()> {
        for prefix in ["relative", "/with space", "/$HOME"] {
            let refused = self.install(Path::new(prefix)).is_err();
            ensure!(refused, "{prefix} was taken");
        }
        let mut unknown = Command::new(self.folder.join("install.sh"));
        ensure!(must(unknown.arg("--perfix=/nowhere")).is_err());
        Ok(())
    }
}
