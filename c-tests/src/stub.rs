//! A library for linking: it has the names and nodes of the interface, but no code. Programs that
//! use symbols that the installed library lacks are linked with it, and run on ours.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use crate::{Result, tree::package_dir};

/// Makes `libibverbs.so` in the folder.
///
/// # Errors
/// When the table of symbols cannot be read or gcc fails.
pub fn build(dir: &Path) -> Result<()> {
    let table = fs::read_to_string(package_dir().join("data/symbols.tsv"))?;
    let (code, map) = sources(&table)?;
    fs::create_dir_all(dir)?;
    let (source, versions) = (dir.join("stub.c"), dir.join("stub.map"));
    fs::write(&source, code)?;
    fs::write(&versions, map)?;
    let output = Command::new("gcc")
        .args([
            "-shared",
            "-fPIC",
            "-w",
            "-Wl,-soname,libibverbs.so.1",
            "-o",
        ])
        .arg(dir.join("libibverbs.so"))
        .arg(format!("-Wl,--version-script={}", versions.display()))
        .arg(&source)
        .output()
        .map_err(|e| format!("gcc: {e}; install the package gcc"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(())
}

/// An empty function for each public symbol, and the nodes they belong to.
fn sources(table: &str) -> Result<(String, String)> {
    let (mut code, mut map) = (String::new(), String::new());
    let mut last = "";
    for line in table.lines().skip(1) {
        let mut fields = line.split('\t');
        let (Some(name), Some(node)) = (fields.next(), fields.next()) else {
            return Err(format!("not a line of the table: {line}").into());
        };
        // Old versions: no program of later headers names one.
        if node.starts_with("IBVERBS_PRIVATE") || fields.next() == Some("no") {
            continue;
        }
        if node != last {
            if !last.is_empty() {
                map.push_str("};\n");
            }
            writeln!(map, "{node} {{ global:")?;
            last = node;
        }
        writeln!(code, "void {name}(void) {{}}")?;
        writeln!(map, "{name};")?;
    }
    map.push_str("};\n");
    Ok((code, map))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_follow_the_table() {
        let table = "name\tnode\tdefault\na\tIBVERBS_1.0\tyes\nb\tIBVERBS_1.0\tyes\n\
                     c\tIBVERBS_1.0\tno\nc\tIBVERBS_1.1\tyes\nd\tIBVERBS_PRIVATE_34\tyes\n";
        let (code, map) = sources(table).expect("a table");
        assert_eq!(code.lines().count(), 3);
        assert_eq!(
            map,
            "IBVERBS_1.0 { global:\na;\nb;\n};\nIBVERBS_1.1 { global:\nc;\n};\n"
        );
    }
}
