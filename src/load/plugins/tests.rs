use super::*;

#[test]
fn where_a_name_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("librxe-rdmav34.so"), "").unwrap();
    let folders = [folder.path().to_owned(), other.path().to_owned()];
    let tried = candidates(OsStr::new("rxe"), &folders);
    let there = other.path().join("librxe-rdmav34.so");
    assert_eq!(tried, [there.into_os_string(), "librxe-rdmav34.so".into()]);
}

#[test]
fn a_path_is_looked_for_nowhere_else() {
    let tried = candidates(OsStr::new("/opt/libmine"), &[PathBuf::from("/usr/lib")]);
    assert_eq!(tried, ["/opt/libmine-rdmav34.so"]);
}

#[test]
fn the_first_reason_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libbroken-rdmav34.so");
    std::fs::write(&file, "no ELF").unwrap();
    let folders = [folder.path().to_owned()];
    let message = attempt(OsStr::new("broken"), &folders).unwrap_err();
    assert!(message.contains(file.to_str().unwrap()), "{message}");
    let message = attempt(OsStr::new("missing"), &folders).unwrap_err();
    assert!(message.contains("libmissing-rdmav34.so"), "{message}");
}

#[test]
fn folders_are_there_and_listed_once() {
    let folders = folders();
    assert!(folders.iter().all(|folder| folder.is_dir()));
    let mut once = folders.clone();
    once.dedup();
    assert_eq!(once, folders);
}
