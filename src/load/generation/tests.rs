use super::evidence::Statement;
use super::names::release_in;
use super::*;

fn statement(release: u16) -> Statement {
    Statement {
        release,
        from: format!("libx.so.1.0.{release}.0"),
    }
}

fn first_of(decided: Result<Decision, String>) -> u16 {
    decided.unwrap().layout.first
}

fn wish(release: u16) -> Option<Wish> {
    let from = VARIABLE;
    Some(Wish { release, from })
}

fn least(release: u16) -> Option<(u16, String)> {
    Some((release, "ibv_something".to_owned()))
}

#[test]
fn names_of_files() {
    assert_eq!(name_in(Path::new("/a/librxe-rdmav34.so")), Some("rxe"));
    assert_eq!(name_in(Path::new("libmlx5.so.1.24.44.0")), Some("mlx5"));
    assert_eq!(name_in(Path::new("/a/rxe.so")), None);
    let release = |name: &str| release_in(OsStr::new(name));
    assert_eq!(release("libmlx5.so.1.24.44.0"), Some(44));
    assert_eq!(release("libmlx5.so.1"), None);
    assert_eq!(release("libmlx5.so.1.24.44.0.gz"), None);
    assert_eq!(release("libmlx5-rdmav34.so"), None);
}

#[test]
fn the_variable() {
    let statement = |value: &str, name| from_variable(OsStr::new(value), name);
    assert_eq!(statement("50", "mlx5"), Some(50));
    assert_eq!(statement("mlx5=50;rxe=44", "rxe"), Some(44));
    assert_eq!(statement("39:mlx5=50", "mlx5"), Some(50));
    assert_eq!(statement("39:mlx5=50", "efa"), Some(39));
    assert_eq!(statement("mlx5=50", "efa"), None);
    assert_eq!(statement("mlx5=new", "mlx5"), None);
}

#[test]
fn a_node_of_one_layout_needs_no_evidence() {
    for (node, first) in [(57, 57), (64, 64), (65, 65)] {
        assert_eq!(first_of(of(node, None, wish(44))), first);
    }
}

#[test]
fn without_evidence_it_is_the_usual_release() {
    assert_eq!(first_of(of(34, None, None)), 44);
    assert!(of(59, None, None).is_err());
}

#[test]
fn the_stronger_evidence_is_taken() {
    let mut evidence = Evidence {
        neighbours: vec![statement(40), statement(43)],
        ..Evidence::default()
    };
    assert_eq!(first_of(decide(34, None, &evidence)), 36);
    evidence.packaged = Some(statement(46));
    assert_eq!(first_of(decide(34, None, &evidence)), 45);
    evidence.named = vec![statement(50)];
    assert_eq!(first_of(decide(34, None, &evidence)), 49);
    assert_eq!(first_of(decide(34, wish(55), &evidence)), 54);
}

#[test]
fn neighbours_of_another_node_are_no_evidence() {
    let evidence = Evidence {
        neighbours: vec![statement(44)],
        at_least: least(62),
        ..Evidence::default()
    };
    assert_eq!(first_of(decide(59, None, &evidence)), 62);
    let without = Evidence {
        at_least: None,
        ..evidence
    };
    assert!(decide(59, None, &without).is_err());
}

#[test]
fn contradictions_are_reported() {
    let refused = |wish, evidence: &Evidence| decide(34, wish, evidence).unwrap_err();
    let named = Evidence {
        named: vec![statement(44), statement(50)],
        ..Evidence::default()
    };
    let message = refused(None, &named);
    assert!(
        message.contains("44") && message.contains("50"),
        "{message}"
    );

    let imports = Evidence {
        named: vec![statement(44)],
        at_least: least(53),
        ..Evidence::default()
    };
    assert!(refused(None, &imports).contains("ibv_something"));
    assert!(refused(wish(48), &imports).contains(VARIABLE));
    assert_eq!(first_of(decide(34, wish(53), &imports)), 49);

    assert!(refused(wish(60), &named).contains("IBVERBS_PRIVATE_34"));
    let usual = Evidence {
        at_least: least(49),
        ..Evidence::default()
    };
    assert!(refused(None, &usual).contains("49"));
}
