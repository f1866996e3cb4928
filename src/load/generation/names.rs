#![forbid(unsafe_code)]
//! The information in the names of provider files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The provider's name in its file's: `rxe` in `librxe-rdmav34.so` and in `librxe.so.1`.
pub fn name_in(file: &Path) -> Option<&str> {
    let file = file.file_name()?.to_str()?.strip_prefix("lib")?;
    let end = file.find("-rdmav").or_else(|| file.find(".so"))?;
    file.get(..end)
}

/// The release in a file name such as `libmlx5.so.1.24.44.0`, where it stands before the last
/// number.
pub fn release_in(name: &OsStr) -> Option<u16> {
    // From the end: the last letter excludes most files in a folder of libraries.
    let mut parts = name.as_bytes().rsplit(|byte| *byte == b'.');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u16>().ok();
    let (_, release, _, _) = (number()?, number()?, number()?, number()?);
    (parts.next() == Some(b"so")).then_some(release)
}
