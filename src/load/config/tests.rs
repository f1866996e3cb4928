use super::*;
use proptest::prelude::*;
use std::os::unix::fs::symlink;

fn names(text: &str) -> Vec<String> {
    let (names, _) = parse(text.as_bytes());
    names
        .into_iter()
        .map(|wanted| wanted.name.into_string().unwrap())
        .collect()
}

#[test]
fn a_line_may_give_the_release() {
    let releases = |text: &str| {
        let (wanted, bad) = parse(text.as_bytes());
        assert!(bad.is_empty());
        wanted.iter().map(|one| one.release).collect::<Vec<_>>()
    };
    let text = "driver a release=50\ndriver b\ndriver c # old release=39\ndriver d release=x";
    assert_eq!(releases(text), [Some(50), None, None, None]);
}

fn bad(text: &str) -> Vec<String> {
    let (_, bad) = parse(text.as_bytes());
    bad.into_iter().map(|n| n.into_string().unwrap()).collect()
}

#[test]
fn lines() {
    assert_eq!(names("driver rxe\n"), ["rxe"]);
    assert_eq!(
        names("\t driver \t /opt/lib/libmine  # ours\n"),
        ["/opt/lib/libmine"]
    );
    assert_eq!(names("# driver no\n\n   \ndriver a\ndriver b"), ["a", "b"]);
    assert!(names("drivers rxe\n").is_empty());
}

#[test]
fn unknown_lines_are_reported() {
    assert_eq!(bad("drivers rxe\nload mlx5\n#x\n"), ["drivers", "load"]);
    assert_eq!(bad("driver\ndriver  \n"), ["driver", "driver"]);
    assert!(bad("driver rxe\n").is_empty());
}

#[test]
fn variables() {
    let names = |text: &str| from_variable(OsStr::new(text));
    assert_eq!(names("rxe"), ["rxe"]);
    assert_eq!(names("rxe:mlx5;/a/b"), ["rxe", "mlx5", "/a/b"]);
    assert_eq!(names("::rxe;"), ["rxe"]);
    assert!(names("").is_empty());
}

#[test]
fn a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("b.driver"), "driver b1\ndriver b2\n").unwrap();
    fs::write(at("a.conf"), "driver a\n").unwrap();
    fs::create_dir(at("c.driver")).unwrap();
    fs::write(at("uroce.conf"), "device lo\ndriver no\n").unwrap();
    symlink("/nowhere", at("d.driver")).unwrap();
    let found = from_folder(folder.path());
    let names: Vec<_> = found.iter().map(|wanted| &wanted.name).collect();
    assert_eq!(names, ["a", "b2", "b1"]);
    assert!(from_folder(&at("none")).is_empty());
}

proptest! {
    #[test]
    fn a_name_comes_back(name in "[^ \t\n\0]{1,40}", before in "[ \t]{0,3}", after in "[ \t]{1,3}") {
        let text = format!("{before}driver{after}{name}{after}\n");
        prop_assert_eq!(names(&text), [name]);
    }

    #[test]
    fn any_bytes(text in any::<Vec<u8>>()) {
        let (names, bad) = parse(&text);
        let lines = text.split(|&b| b == b'\n').count();
        prop_assert!(names.len() + bad.len() <= lines);
        let words = names.iter().map(|wanted| &wanted.name).chain(&bad);
        prop_assert!(words.into_iter().all(|word| !word.is_empty()));
    }
}
