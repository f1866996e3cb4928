use super::*;
use proptest::prelude::*;
use std::fs;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn read_into(contents: &[u8], size: usize) -> ReadResult {
    let dir = folder();
    fs::write(dir.path().join("f"), contents).unwrap();
    let path = CString::new(dir.path().as_os_str().as_bytes()).unwrap();
    read_file(&path, c"f", &mut vec![MaybeUninit::new(b'#'); size])
}

#[test]
fn roots() {
    assert_eq!(&*shortened(b"/tmp/sys///"), c"/tmp/sys");
    assert_eq!(&*shortened(b"/"), c"");
    assert_eq!(&*shortened(b""), c"");
    assert_eq!(shortened(&[b'a'; 300]).as_bytes().len(), 256);
}

#[test]
fn lengths() {
    assert_eq!(read_into(b"6\n", 8), Ok(1));
    assert_eq!(read_into(b"6", 8), Ok(1));
    assert_eq!(read_into(b"", 8), Ok(0));
    assert_eq!(read_into(b"\n", 8), Ok(0));
    // The newline's place is enough for the NUL.
    assert_eq!(read_into(b"1234567\n", 8), Ok(7));
    assert_eq!(read_into(b"12345678\n", 8), Err(ReadError::NoRoom));
    assert_eq!(read_into(b"12345678", 8), Err(ReadError::NoRoom));
    assert_eq!(read_into(b"1", 0), Ok(0));
}

#[test]
fn a_missing_file_and_a_folder() {
    let mut buf = [MaybeUninit::uninit(); 8];
    let missing = read_file(c"/nowhere", c"file", &mut buf);
    assert_eq!(missing, Err(ReadError::Os(Errno::NOENT)));
    let folder = read_file(c"/", c"", &mut buf);
    assert_eq!(folder, Err(ReadError::Os(Errno(libc::EISDIR))));
}

#[test]
fn texts() {
    let dir = folder();
    fs::write(dir.path().join("good"), "mlx5_0\n").unwrap();
    fs::write(dir.path().join("bytes"), [0xff, b'\n']).unwrap();
    fs::write(dir.path().join("empty"), "\n").unwrap();
    let fd = fs::File::open(dir.path()).unwrap();
    assert_eq!(text_at::<32>(&fd, "good").as_deref(), Some("mlx5_0"));
    assert_eq!(text_at::<7>(&fd, "good").as_deref(), Some("mlx5_0"));
    assert_eq!(text_at::<6>(&fd, "good"), None);
    for name in ["bytes", "empty", "missing"] {
        assert_eq!(text_at::<32>(&fd, name), None, "{name}");
    }
}

#[test]
fn numbers_and_guids() {
    assert_eq!(leading_number("1: CA"), 1);
    assert_eq!(leading_number("CA"), 0);
    assert_eq!(leading_number(" 6"), 6);
    assert_eq!(guid("5054:00ff:fe12:3456"), Some(0x5054_00ff_fe12_3456));
    assert_eq!(guid("0:0:0:1\n"), Some(1));
    assert_eq!(guid("1:2:3:4:5"), Some(0x1_0002_0003_0004));
    for bad in ["", "1:2:3", "1:2:3:", "1:2:3:x", "10000:0:0:0", "1:+2:3:4 "] {
        assert_eq!(guid(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn a_guid_is_read_as_it_is_written(value in any::<u64>()) {
        let text = format!(
            "{:04x}:{:04x}:{:04x}:{:04x}",
            value >> 48, value >> 32 & 0xffff, value >> 16 & 0xffff, value & 0xffff
        );
        prop_assert_eq!(guid(&text), Some(value));
    }

    #[test]
    fn any_text_is_a_guid_or_not(text in ".{0,24}") {
        let _ = (guid(&text), leading_number(&text));
    }
}
