//! Shared objects.

use core::ffi::CStr;
use core::ptr::without_provenance;
use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Loads a plugin for the rest of the process's life. Its constructors run before this returns
/// and call back into the library; hold no lock that they need.
///
/// A name without a slash is looked for where the dynamic linker looks, see dlopen(3).
///
/// # Errors
/// The message of the dynamic linker.
pub fn load(file: &OsStr) -> Result<(), String> {
    // SAFETY: a plugin is code that the administrator (or, when the program has no more rights than
    // its user, that user) chose to run in this process; its constructors may do the same as any
    // library's.
    let library = unsafe { Library::open(Some(file), RTLD_NOW) }.map_err(|e| text(&e))?;
    // Tables of the plugin stay registered, so it is never unloaded.
    let _ = library.into_raw();
    Ok(())
}

/// libloading puts the linker's message into the source of its error.
fn text(error: &libloading::Error) -> String {
    use std::error::Error;
    error
        .source()
        .map_or_else(|| error.to_string(), |e| e.to_string())
}

/// A loaded object: its file, and where it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    file: PathBuf,
    base: usize,
    inside: usize,
}

impl Object {
    /// The object that this address lies in; none when the linker knows of none.
    pub fn at(address: usize) -> Option<Self> {
        let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr only compares the address with its map of objects, and fills `info`.
        if unsafe { libc::dladdr(without_provenance(address), info.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: Dl_info is plain data, zeroed before the call.
        let info = unsafe { info.assume_init() };
        if info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the linker keeps the name while the object is loaded; the caller holds it.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        Some(Self {
            file: PathBuf::from(OsStr::from_bytes(name.to_bytes())),
            base: info.dli_fbase.addr(),
            inside: address,
        })
    }

    /// The file it was loaded from.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// Keeps an object loaded for the rest of the process's life, as if it had been opened with
/// RTLD_NODELETE. False when it is no longer there, or not where it was.
pub fn pin(object: &Object) -> bool {
    // SAFETY: RTLD_NOLOAD: nothing is loaded, no constructor runs.
    let held = unsafe {
        Library::open(
            Some(object.file.as_os_str()),
            RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
        )
    };
    let Ok(held) = held else { return false };
    let _ = held.into_raw();
    // The same file may have been unloaded and loaded elsewhere meanwhile.
    Object::at(object.inside).as_ref() == Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let message = load(OsStr::new("/nowhere/libx-rdmav34.so")).unwrap_err();
        assert!(message.contains("/nowhere/libx-rdmav34.so"), "{message}");
    }

    #[test]
    fn code_knows_its_file() {
        let object = Object::at(load as *const () as usize).unwrap();
        assert_eq!(
            std::fs::canonicalize(object.file()).unwrap(),
            std::env::current_exe().unwrap().canonicalize().unwrap()
        );
        assert_eq!(Object::at(0), None);
    }

    #[test]
    fn a_loaded_object_is_pinned() {
        let libc = Object::at(libc::getpid as *const () as usize).unwrap();
        assert!(pin(&libc));
        let elsewhere = Object { base: 0, ..libc };
        assert!(!pin(&elsewhere));
    }
}
