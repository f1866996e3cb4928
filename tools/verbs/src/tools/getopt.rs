//! Options, as getopt_long(3) reads them: the stock programs' way, words in any order and
//! shortened names included.

use std::{
    ffi::{CStr, CString, OsStr, OsString, c_char, c_int},
    os::unix::ffi::{OsStrExt, OsStringExt},
    ptr,
};

unsafe extern "C" {
    static mut optarg: *mut c_char;
    static optind: c_int;
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Its long name.
    pub long: &'static str,
    /// The option's name here. A character with a short form is `-c`.
    pub name: char,
    /// Whether it has a short form.
    pub short: bool,
    /// Whether a value follows.
    pub value: bool,
}

impl Opt {
    /// With a short and a long form.
    #[must_use]
    pub const fn new(name: char, long: &'static str, value: bool) -> Self {
        Self {
            long,
            name,
            short: true,
            value,
        }
    }

    /// With a long form alone.
    #[must_use]
    pub const fn long(name: char, long: &'static str, value: bool) -> Self {
        Self {
            long,
            name,
            short: false,
            value,
        }
    }
}

/// A command line, read option by option.
///
/// There is one at a time, and on one thread: getopt_long(3) keeps its place in the process.
pub struct Options {
    /// The program's own name, as it was called.
    pub program: String,
    args: Vec<CString>,
    /// To `args`, in the order that getopt_long gives them, and NULL.
    pointers: Vec<*mut c_char>,
    short: CString,
    long: Vec<libc::option>,
    /// The strings that `long` points to.
    _names: Vec<CString>,
}

impl Options {
    /// The words of a command line, the program's name in front.
    #[must_use]
    pub fn new(args: impl Iterator<Item = OsString>, known: &[Opt]) -> Self {
        let args: Vec<CString> = args
            .filter_map(|word| CString::new(word.into_vec()).ok())
            .collect();
        let words = args.iter().map(|word| word.as_ptr().cast_mut());
        let mut short = String::new();
        for option in known.iter().filter(|option| option.short) {
            short.push(option.name);
            short.push_str(if option.value { ":" } else { "" });
        }
        let names: Vec<CString> = known
            .iter()
            .map(|option| CString::new(option.long).unwrap_or_default())
            .collect();
        let long = known.iter().zip(&names).map(|(option, name)| libc::option {
            name: name.as_ptr(),
            has_arg: c_int::from(option.value),
            flag: ptr::null_mut(),
            val: u32::from(option.name).cast_signed(),
        });
        let end = libc::option {
            name: ptr::null(),
            has_arg: 0,
            flag: ptr::null_mut(),
            val: 0,
        };
        let program = args.first().map(|word| word.to_string_lossy().into_owned());
        Self {
            program: program.unwrap_or_default(),
            pointers: words.chain([ptr::null_mut()]).collect(),
            short: CString::new(short).unwrap_or_default(),
            long: long.chain([end]).collect(),
            args,
            _names: names,
        }
    }

    /// The words that are no options, once all options have been read.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        // SAFETY: no other thread is there.
        let first = usize::try_from(unsafe { optind }).unwrap_or(0);
        let rest = self.pointers.iter().skip(first);
        // SAFETY: NULL or strings that live in `args`.
        rest.filter_map(|at| unsafe { word(*at) }).collect()
    }
}

impl Iterator for Options {
    /// The name of the option, and its value or an empty word. `?` is an option that is unknown or
    /// lacks its value: getopt_long has printed a message.
    type Item = (char, OsString);

    fn next(&mut self) -> Option<Self::Item> {
        let count = c_int::try_from(self.args.len()).unwrap_or(c_int::MAX);
        // SAFETY: all that is passed lives in this value. The words are only exchanged with
        // each other.
        let found = unsafe {
            libc::getopt_long(
                count,
                self.pointers.as_ptr(),
                self.short.as_ptr(),
                self.long.as_ptr(),
                ptr::null_mut(),
            )
        };
        let name = char::from_u32(u32::try_from(found).ok()?)?;
        // SAFETY: the value is NULL or a string among the words; no other thread is there.
        let value = unsafe { word(optarg) };
        Some((name, value.unwrap_or_default()))
    }
}

/// # Safety
/// NULL or a string.
unsafe fn word(at: *mut c_char) -> Option<OsString> {
    if at.is_null() {
        return None;
    }
    // SAFETY: by this function's own.
    let bytes = unsafe { CStr::from_ptr(at) }.to_bytes();
    Some(OsStr::from_bytes(bytes).to_owned())
}
