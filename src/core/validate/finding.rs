#![forbid(unsafe_code)]
//! A mistake that was found, and where.

use kit::sys::{forks, lock::Lock};
use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;

/// Frames that are shown of a place.
const FRAMES: usize = 12;

/// Held around the calls of std that make and read backtraces: they take a lock of std's, for which
/// fork(2) does not wait, but it waits for this one.
static BACKTRACES: Lock<()> = Lock::new(());

fn of_backtraces<T>(work: impl FnOnce() -> T) -> T {
    // Without memory for that, a child may find std's lock taken for ever.
    let _ = forks::wait_for(&BACKTRACES);
    let _guard = BACKTRACES.lock();
    work()
}

/// A place in the program: the calls that led there. Names are looked up when it is shown.
#[derive(Clone)]
pub struct CallSite(Arc<Backtrace>);

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallSite")
    }
}

impl CallSite {
    /// Where the program is.
    pub fn here() -> Self {
        Self(Arc::new(of_backtraces(Backtrace::force_capture)))
    }

    /// A line a frame of the program, without those of this library.
    fn lines(&self, title: &str) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let own: fn() -> Self = Self::here;
        let text = of_backtraces(|| format!("{:#}", self.0));
        frames(&text, &maps, own as usize)
            .iter()
            .map(|frame| format!("    {title}: {frame}\n"))
            .collect()
    }
}

/// A frame of a backtrace's text.
#[derive(Debug, Default)]
struct Frame {
    address: usize,
    name: String,
    line: String,
}

/// Where something is mapped: the file, and the place in it.
#[derive(Debug, PartialEq, Eq)]
struct Module<'a> {
    path: &'a str,
    offset: usize,
}

/// The file that is mapped at an address; `maps` has the form of /proc/self/maps.
fn module(maps: &str, address: usize) -> Option<Module<'_>> {
    maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        let begin = usize::from_str_radix(begin, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        if !(begin..end).contains(&address) {
            return None;
        }
        let offset = usize::from_str_radix(words.nth(1)?, 16).ok()?;
        let path = words.nth(2)?;
        let offset = offset.checked_add(address - begin)?;
        Some(Module { path, offset })
    })
}

/// The frames of a backtrace's text behind the last one of the file in which `own` lies, up to
/// main.
fn frames(text: &str, maps: &str, own: usize) -> Vec<String> {
    let all = parse(text);
    let own = module(maps, own).map(|module| module.path);
    let ours = |frame: &Frame| {
        let of = module(maps, frame.address).map(|module| module.path);
        of.is_some() && of == own
    };
    let first = all.iter().rposition(ours).map_or(0, |last| last + 1);
    all.get(first..)
        .unwrap_or_default()
        .iter()
        .take_while(|frame| !frame.name.starts_with("__libc_start"))
        .take(FRAMES)
        .map(|frame| describe(frame, maps))
        .collect()
}

fn describe(frame: &Frame, maps: &str) -> String {
    if frame.name != "<unknown>" {
        return format!("{}{}", frame.name, frame.line);
    }
    // As addr2line(1) takes it.
    module(maps, frame.address).map_or_else(
        || format!("{:#x}", frame.address),
        |module| format!("{}+{:#x}", module.path, module.offset),
    )
}

/// The text of std's backtraces with addresses: a line a frame, and one of its place in the
/// sources if that is known. An inlined function has the address of the one around it.
fn parse(text: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(at) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                frame.line = format!(" ({at})");
            }
            continue;
        }
        let Some((before, name)) = line.split_once(" - ") else {
            continue;
        };
        let hex = before.rsplit_once("0x").map(|(_, hex)| hex.trim());
        let reported = hex.and_then(|hex| usize::from_str_radix(hex, 16).ok());
        // Where the calls begin there may be nothing.
        if reported == Some(0) {
            continue;
        }
        let address = reported.or_else(|| frames.last().map(|frame| frame.address));
        frames.push(Frame {
            address: address.unwrap_or(0),
            name: name.to_owned(),
            line: String::new(),
        });
    }
    frames
}

/// A mistake.
#[derive(Debug)]
pub struct Finding {
    check: &'static str,
    text: String,
    here: CallSite,
    made: Option<CallSite>,
    gone: Option<CallSite>,
}

impl Finding {
    /// One that the program makes right now, about an object made and destroyed there.
    pub fn new(
        check: &'static str,
        text: String,
        made: Option<CallSite>,
        gone: Option<CallSite>,
    ) -> Self {
        let here = CallSite::here();
        Self {
            check,
            text,
            here,
            made,
            gone,
        }
    }

    /// The identifier of the report.
    pub fn check(&self) -> &'static str {
        self.check
    }

    /// The report.
    pub fn text(&self) -> String {
        let mut text = format!("libibverbs: invalid ({}): {}\n", self.check, self.text);
        text += &self.here.lines("called by");
        if let Some(made) = &self.made {
            text += &made.lines("made by");
        }
        if let Some(gone) = &self.gone {
            text += &gone.lines("destroyed by");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "1000-2000 r-xp 00000000 00:00 1 /lib/libibverbs.so.1\n\
                        5000-6000 r-xp 00003000 00:00 2 /bin/prog\n";

    #[test]
    fn frames_of_the_library_are_left_out() {
        let text = "   0:             0x1100 - std::backtrace::x\n             at /rustc/x.rs:1:2\n   \
                    1:             0x1200 - around\n                            - inlined\n   \
                    2:             0x5100 - post\n             at ./prog.c:10\n   \
                    3:             0x5200 - <unknown>\n   4:      0x9000 - __libc_start_main\n   \
                    5:             0x5300 - _start\n";
        assert_eq!(
            frames(text, MAPS, 0x1010),
            ["post (./prog.c:10)", "/bin/prog+0x3200"]
        );
        assert_eq!(frames("", MAPS, 0), Vec::<String>::new());
    }

    #[test]
    fn a_backtrace_of_now_is_read() {
        let text = format!("{:#}", CallSite::here().0);
        let frames = parse(&text);
        assert!(
            frames
                .iter()
                .any(|frame| frame.name.contains("a_backtrace_of_now_is_read"))
        );
        assert!(frames.iter().all(|frame| frame.address != 0));
    }
}
