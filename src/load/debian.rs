#![forbid(unsafe_code)]
//! The names of architectures in Debian, by those in Rust (`std::env::consts::ARCH`). The library
//! is for machines with little-endian numbers only, so `powerpc64` is one architecture.

/// The name that packages have.
pub fn architecture(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64el",
        other => other,
    }
}

/// The name of the folder of libraries.
pub fn triplet(arch: &str) -> String {
    let machine = match arch {
        "powerpc64" => "powerpc64le",
        other => other,
    };
    format!("{machine}-linux-gnu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_has_the_names_that_debian_gives_it() {
        for (arch, name, folder) in [
            ("x86_64", "amd64", "x86_64-linux-gnu"),
            ("aarch64", "arm64", "aarch64-linux-gnu"),
            ("riscv64", "riscv64", "riscv64-linux-gnu"),
            ("powerpc64", "ppc64el", "powerpc64le-linux-gnu"),
        ] {
            assert_eq!(architecture(arch), name);
            assert_eq!(triplet(arch), folder);
        }
    }
}
