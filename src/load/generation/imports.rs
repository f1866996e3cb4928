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

/// The latest of the releases that introduced the file's imports, and that import. None without
/// such imports, or if the file cannot be read.
pub fn least(node: u16, file: &Path) -> Option<(u16, String)> {
    let data = fs::read(file).ok()?;
    let mut latest = None;
    for_each_name(&data, |import| {
        let known = NAMES
            .iter()
            .find(|(of, name, _)| *of == node && name.as_bytes() == import);
        latest = latest.max(known.map(|(_, name, release)| (*release, *name)));
    })?;
    latest.map(|(release, name)| (release, name.to_owned()))
}

/// The names of the symbols that a file imports. None if it is not an ELF file for this machine.
fn for_each_name(data: &[u8], mut f: impl FnMut(&[u8])) -> Option<()> {
    let file = ElfFile64::<Endianness>::parse(data).ok()?;
    let endian = file.endian();
    let header: &Header = file.elf_header();
    let sections = header.sections(endian, data).ok()?;
    let symbols = sections
        .symbols(endian, data, object::elf::SHT_DYNSYM)
        .ok()?;
    let strings = symbols.strings();
    symbols
        .iter()
        .filter(|symbol| symbol.st_shndx(endian) == SHN_UNDEF)
        .filter_map(|symbol| symbol.name(endian, strings).ok())
        .for_each(&mut f);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_test_program_needs_the_c_library() {
        let own = std::env::current_exe().unwrap();
        // Every program needs it, and no sanitizer brings its own.
        let mut needed = false;
        for_each_name(&fs::read(own).unwrap(), |name| {
            needed |= name == b"__libc_start_main"
        })
        .unwrap();
        assert!(needed);
    }

    #[test]
    fn other_files_than_objects_import_nothing() {
        let nothing = |name: &[u8]| panic!("{name:?}");
        assert_eq!(for_each_name(b"no ELF", nothing), None);
        assert_eq!(for_each_name(&[], nothing), None);
        assert_eq!(least(34, &PathBuf::from("/nowhere/libx.so")), None);
    }
}
