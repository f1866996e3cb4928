#![forbid(unsafe_code)]
//! Made-up sysfs trees for tests.

use crate::core::devices::Places;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A sysfs and a folder of character devices, gone with the value.
pub struct Tree {
    folder: TempDir,
}

/// The attributes of a device in the tree.
pub struct Shown<'a> {
    pub uverbs: &'a str,
    pub name: &'a str,
    pub node_type: &'a str,
    pub guid: &'a str,
    pub modalias: &'a str,
    pub dev: &'a str,
    pub abi: &'a str,
    pub ports: u32,
}

impl Default for Shown<'_> {
    fn default() -> Self {
        Self {
            uverbs: "uverbs0",
            name: "dev0",
            node_type: "1: CA\n",
            guid: "0002:c903:0012:3456\n",
            modalias: "pci:v000015B3d00001017sv000015B3sd00000020bc02sc00i00\n",
            dev: "231:192\n",
            abi: "1\n",
            ports: 1,
        }
    }
}

impl Tree {
    /// A kernel that speaks version 6 of the interface and has no devices.
    pub fn new() -> Self {
        let tree = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        tree.write("sys/class/infiniband_verbs/abi_version", "6\n");
        fs::create_dir_all(tree.at("sys/class/infiniband")).unwrap();
        fs::create_dir_all(tree.at("dev")).unwrap();
        tree
    }

    /// A path in the tree; `sys` and `dev` are its two parts.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn write(&self, path: impl AsRef<Path>, contents: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub fn remove(&self, path: impl AsRef<Path>) {
        let path = self.at(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    pub fn add(&self, shown: &Shown<'_>) {
        let uverbs = format!("sys/class/infiniband_verbs/{}", shown.uverbs);
        let device = format!("sys/class/infiniband/{}", shown.name);
        self.write(format!("{uverbs}/ibdev"), &format!("{}\n", shown.name));
        self.write(format!("{uverbs}/dev"), shown.dev);
        self.write(format!("{uverbs}/abi_version"), shown.abi);
        self.write(format!("{device}/node_type"), shown.node_type);
        self.write(format!("{device}/node_guid"), shown.guid);
        self.write(format!("{device}/device/modalias"), shown.modalias);
        for port in 1..=shown.ports {
            self.write(format!("{device}/ports/{port}/state"), "4: ACTIVE\n");
        }
        self.write(format!("dev/{}", shown.uverbs), "");
    }

    pub fn places(&self) -> Places {
        let text = |path: &str| self.at(path).to_str().unwrap().to_owned();
        Places {
            sysfs: text("sys"),
            cdevs: text("dev"),
            netlink: false,
        }
    }
}
