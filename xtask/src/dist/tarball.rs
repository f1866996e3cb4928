//! The stage `tarball`: the archive is made, unpacked, installed by its script below a prefix,
//! used, installed again, and removed.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::programs::{PAIR, build, in_network, one, prints};
use crate::{dirs::Dirs, host::must, install, package::files::below, report::Tally};

pub const STAGE: &str = "tarball";

pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        build(dirs)?;
        let unpacked = Unpacked::new(dirs)?;
        tally.passed += 1;
        let mut one = |name, result| one(tally, STAGE, name, result);
        one("two archives are equal", unpacked.is_reproducible(dirs));
        one("install, use, remove", unpacked.comes_and_goes());
        one("files of others", unpacked.leaves_others());
        one("wrong words", unpacked.refuses());
        Ok(())
    })
}

/// Makes the archive and unpacks it; returns the folder.
///
/// # Errors
/// Of tar(1), and those of making it.
pub fn unpacked(dirs: &Dirs, dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let archive = install::make_tarball(dirs, dir)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&archive).arg("-C").arg(dir);
    must(&mut tar)?;
    Ok((archive, dir.join(install::tarball_name())))
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
        let again = install::make_tarball(dirs, &self.dir.join("two"))?;
        ensure!(fs::read(again)? == fs::read(&self.archive)?, "other bytes");
        Ok(())
    }

    fn install(&self, prefix: &Path) -> Result<String> {
        let mut script = Command::new(self.folder.join("install.sh"));
        must(script.arg("--prefix").arg(prefix))
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
        self.install(&prefix)?;
        fs::write(prefix.join("include/infiniband/other.h"), "")?;
        Self::uninstall(&prefix)?;
        let left = below(&prefix)?;
        ensure!(left == [prefix.join("include/infiniband/other.h")]);
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
