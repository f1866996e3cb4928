//! The speed of an interface, as its driver reports it in sysfs.

use super::interface::Interface;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the interfaces of a network namespace are shown: that in which sysfs was mounted.
const CLASS: &str = "/sys/class/net";

/// Megabits a second; none where the driver does not report it, and where sysfs belongs to another
/// namespace and shows another interface of that name.
pub fn of(interface: &Interface) -> Option<u32> {
    read(Path::new(CLASS), interface)
}

fn read(class: &Path, interface: &Interface) -> Option<u32> {
    let folder = class.join(&interface.name);
    if number(folder.join("ifindex"))? != i64::from(interface.index) {
        return None;
    }
    // -1 is "unknown".
    let speed = number(folder.join("speed"))?;
    u32::try_from(speed).ok().filter(|speed| *speed > 0)
}

fn number(file: PathBuf) -> Option<i64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_as_sysfs_reports_them() {
        let class = tempfile::tempdir().expect("a folder");
        let eth0 = class.path().join("eth0");
        fs::create_dir(&eth0).expect("a folder");
        let interface = Interface {
            name: "eth0".to_owned(),
            index: 7,
            ..Interface::default()
        };
        let reported = |index: &str, speed: &str| {
            fs::write(eth0.join("ifindex"), index).expect("written");
            fs::write(eth0.join("speed"), speed).expect("written");
            read(class.path(), &interface)
        };
        assert_eq!(reported("7\n", "100000\n"), Some(100_000));
        assert_eq!(reported("7\n", "-1\n"), None);
        assert_eq!(reported("7\n", "0\n"), None);
        assert_eq!(reported("7\n", "fast\n"), None);
        assert_eq!(reported("8\n", "100000\n"), None, "another namespace's");
        fs::remove_dir_all(&eth0).expect("removed");
        assert_eq!(read(class.path(), &interface), None);
    }
}
