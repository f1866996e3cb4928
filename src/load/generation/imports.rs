#![forbid(unsafe_code)]
//! The symbols that a provider imports, and the releases that brought them.

use object::{
    Endianness,
    elf::{FileHeader64, SHN_UNDEF},
    read::elf::{ElfFile64, FileHeader, Sym},
};
use std::fs;
use std::path::Path;

type Header = FileHeader64<Endianness>;

/// Names that came to a private node after its first release.
const NAMES: [(u16, &str, u16); 4] = [
    (34, "ibv_wr_opcode_str", 49),
    (34, "ibv_cmd_create_cq_ex2", 53),
    (59, "ibv_cmd_export_dmabuf_fd", 62),
    (59, "ibv_cmd_query_port_speed", 62),
];

/// The latest of the releases that brought what the file imports, and that import. None when it
/// imports nothing of the kind, or cannot be read.
pub fn least(node: u16, file: &Path) -> Option<(u16, String)> {
    let data = fs::read(file).ok()?;
    names(&data)?
        .iter()
        .filter_map(|name| {
            let known = NAMES
                .iter()
                .find(|(of, known, _)| *of == node && known == name);
            known.map(|(_, name, release)| (*release, (*name).to_owned()))
        })
        .max()
}

/// The names of the symbols that a file needs from others. None for what is no ELF file of this
/// machine's kind.
fn names(data: &[u8]) -> Option<Vec<String>> {
    let file = ElfFile64::<Endianness>::parse(data).ok()?;
    let endian = file.endian();
    let header: &Header = file.elf_header();
    let sections = header.sections(endian, data).ok()?;
    let symbols = sections
        .symbols(endian, data, object::elf::SHT_DYNSYM)
        .ok()?;
    let strings = symbols.strings();
    let needed = symbols
        .iter()
        .filter(|symbol| symbol.st_shndx(endian) == SHN_UNDEF);
    let text = needed.filter_map(|symbol| symbol.name(endian, strings).ok());
    Some(
        text.map(|name| String::from_utf8_lossy(name).into_owned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_test_program_needs_the_c_library() {
        let own = std::env::current_exe().unwrap();
        let needed = names(&fs::read(own).unwrap()).unwrap();
        assert!(needed.iter().any(|name| name == "malloc"), "{needed:?}");
    }

    #[test]
    fn what_is_no_object_imports_nothing() {
        assert_eq!(names(b"no ELF"), None);
        assert_eq!(names(&[]), None);
        assert_eq!(least(34, &PathBuf::from("/nowhere/libx.so")), None);
    }
}
