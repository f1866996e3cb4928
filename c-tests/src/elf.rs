//! Reads the dynamic symbols, their version nodes and the SONAME of an ELF file.

use std::{fs, path::Path};

use object::{
    Endianness,
    elf::{DT_NULL, DT_SONAME, FileHeader64, SHN_UNDEF, STB_LOCAL, VER_FLG_BASE},
    read::{
        StringTable,
        elf::{Dyn, ElfFile64, FileHeader, SectionTable, Sym},
    },
};

use crate::Result;

type Header = FileHeader64<Endianness>;

/// A dynamic symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its version node; empty when it has none.
    pub node: String,
    /// For a definition: `@@`, the one a new program links against.
    pub default: bool,
}

/// The parts of a file that this module reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Symbols it offers, sorted.
    pub defined: Vec<Symbol>,
    /// Symbols it asks others for, sorted; `default` is false in all.
    pub undefined: Vec<Symbol>,
    /// The version nodes it defines, in the order of the file. Parents are left
    /// out: the dynamic linker does not read them and lld does not write them.
    pub nodes: Vec<String>,
    /// DT_SONAME.
    pub soname: Option<String>,
}

/// Reads a little- or big-endian 64-bit ELF file.
///
/// # Errors
/// When the file cannot be read or its tables do not make sense.
pub fn read(path: &Path) -> Result<Image> {
    let data = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let file = ElfFile64::<Endianness>::parse(&*data)?;
    let header = file.elf_header();
    let endian = header.endian()?;
    let sections = header.sections(endian, &*data)?;
    let mut image = Image {
        soname: soname(&sections, endian, &data)?,
        nodes: nodes(&sections, endian, &data)?,
        ..Image::default()
    };
    read_symbols(&mut image, &sections, endian, &data)?;
    image.defined.sort();
    image.undefined.sort();
    Ok(image)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read_symbols(
    image: &mut Image,
    sections: &SectionTable<'_, Header>,
    endian: Endianness,
    data: &[u8],
) -> Result<()> {
    let table = sections.symbols(endian, data, object::elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, data)?;
    for (index, symbol) in table.enumerate() {
        let name = symbol.name(endian, table.strings())?;
        if name.is_empty() || symbol.st_bind() == STB_LOCAL {
            continue;
        }
        let mut found = Symbol {
            name: text(name),
            node: String::new(),
            default: false,
        };
        let defined = symbol.st_shndx(endian) != SHN_UNDEF;
        if let Some(versions) = &versions {
            let at = versions.version_index(endian, index);
            if let Some(version) = versions.version(at.index())? {
                found.node = text(version.name());
            }
            found.default = defined && !at.is_hidden();
        }
        // A node's own name is an absolute symbol of that name; GNU ld writes
        // one per node, lld does not.
        if found.name == found.node {
            continue;
        }
        if defined {
            image.defined.push(found);
        } else {
            image.undefined.push(found);
        }
    }
    Ok(())
}

fn nodes(
    sections: &SectionTable<'_, Header>,
    endian: Endianness,
    data: &[u8],
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let Some((mut definitions, link)) = sections.gnu_verdef(endian, data)? else {
        return Ok(found);
    };
    let strings = sections.strings(endian, data, link)?;
    while let Some((definition, mut names)) = definitions.next()? {
        // The first definition names the file itself.
        let is_file = definition.vd_flags.get(endian).0 & VER_FLG_BASE.0 != 0;
        let Some(own) = names.next()? else { continue };
        let own = text(own.name(endian, strings)?);
        if !is_file {
            found.push(own);
        }
    }
    Ok(found)
}

fn soname(
    sections: &SectionTable<'_, Header>,
    endian: Endianness,
    data: &[u8],
) -> Result<Option<String>> {
    let Some((entries, link)) = sections.dynamic(endian, data)? else {
        return Ok(None);
    };
    let strings: StringTable<'_> = sections.strings(endian, data, link)?;
    for entry in entries {
        let tag = entry.tag(endian);
        if tag == DT_NULL {
            break;
        }
        if tag == DT_SONAME {
            return Ok(Some(text(entry.string(endian, strings)?)));
        }
    }
    Ok(None)
}
