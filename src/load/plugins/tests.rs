use super::*;

#[test]
fn where_a_name_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let at = |node: u16| other.path().join(format!("librxe-rdmav{node}.so"));
    std::fs::write(at(34), "").unwrap();
    std::fs::write(at(64), "").unwrap();
    let folders = [folder.path().to_owned(), other.path().to_owned()];
    let tried = candidates(OsStr::new("rxe"), &folders);
    assert_eq!(tried.there, [at(64), at(34)]);
    let anywhere = NODES.map(|node| OsString::from(format!("librxe-rdmav{node}.so")));
    assert_eq!(tried.anywhere, anywhere);
}

fn wanted(name: &str) -> Wanted {
    Wanted {
        name: name.into(),
        release: None,
    }
}

#[test]
fn a_path_is_looked_for_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("libmine");
    let file = folder.path().join("libmine-rdmav59.so");
    std::fs::write(&file, "").unwrap();
    let tried = candidates(stem.as_os_str(), &[PathBuf::from("/usr/lib")]);
    assert_eq!((tried.there, tried.anywhere), (vec![file], vec![]));
    let message = attempt(&wanted("/nowhere/libmine"), &[]).unwrap_err();
    assert!(message.contains("-rdmav34.so"), "{message}");
}

#[test]
fn the_first_reason_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libbroken-rdmav34.so");
    std::fs::write(&file, "no ELF").unwrap();
    let folders = [folder.path().to_owned()];
    let message = attempt(&wanted("broken"), &folders).unwrap_err();
    assert!(message.contains(file.to_str().unwrap()), "{message}");
    let message = attempt(&wanted("missing"), &folders).unwrap_err();
    assert!(message.contains("libmissing-rdmav34.so"), "{message}");
}

#[test]
fn a_generation_that_is_not_known_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libnew-rdmav70.so");
    std::fs::write(&file, "").unwrap();
    let folders = [folder.path().to_owned()];
    let stem = folder.path().join("libnew");
    for name in ["new", stem.to_str().unwrap()] {
        let message = attempt(&wanted(name), &folders).unwrap_err();
        assert!(message.contains("libnew-rdmav70.so"), "{message}");
        assert!(message.contains("65, 64, 59, 57, 34"), "{message}");
    }
}

#[test]
fn folders_are_there_and_listed_once() {
    let folders = folders();
    assert!(folders.iter().all(|folder| folder.is_dir()));
    let mut once = folders.clone();
    once.dedup();
    assert_eq!(once, folders);
}
