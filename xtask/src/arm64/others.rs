//! riscv64 and ppc64el: the layouts, and what rustc says about the library and the programs.
//!
//! Nothing runs there. rustc evaluates the assertions about layouts, the build scripts compile the
//! files in C, and only the linker and the machine code are left out.
#![forbid(unsafe_code)]

use anyhow::Result;

use super::{
    inside::{Inside, Machine},
    layouts,
    step::{STAGE, compile, one},
};
use crate::{dirs::Dirs, report::Tally};

const OTHERS: [Machine; 2] = [
    Machine {
        name: "riscv64",
        target: "riscv64gc-unknown-linux-gnu",
        compiler: "riscv64-linux-gnu-gcc",
    },
    Machine {
        name: "ppc64el",
        target: "powerpc64le-unknown-linux-gnu",
        compiler: "powerpc64le-linux-gnu-gcc",
    },
];

/// Checks all of them.
pub fn check(dirs: &Dirs, inside: &Inside, tally: &mut Tally) {
    for machine in &OTHERS {
        let compared = layouts::compare(dirs, inside, machine);
        one(tally, &format!("layouts of {}", machine.name), compared);
        if inside.has_rust_for(machine) {
            let name = format!("rustc for {}", machine.name);
            one(tally, &name, checked(dirs, inside, machine));
        } else {
            let name = machine.name;
            tally.skip(&format!("sid had no library of its rustc for {name}"));
        }
    }
}

/// The packages that are installed: the workspace's default ones.
fn checked(dirs: &Dirs, inside: &Inside, machine: &Machine) -> Result<()> {
    println!("-- {STAGE}: rustc for {}", machine.name);
    let mut check = inside.cargo(&["check"], &[*machine]);
    compile(dirs, &format!("check-{}", machine.name), &mut check)
}
