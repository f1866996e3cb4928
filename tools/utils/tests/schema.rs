//! `ibv_devinfo --json` is as `docs/devinfo.schema.json` describes it, over `uroce_lo`.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot continue ends

use std::{fs, path::Path, process::Command};

use serde_json::{Map, Value, json};
use watchdog::Watched;

fn schema() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/devinfo.schema.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// The faults of a value, by a schema in the root schema: a line each. Only the words that our
/// schema uses are known.
fn faults(value: &Value, schema: &Value, root: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |is_right: bool, what: &str| {
        if !is_right {
            found.push(format!("{path}: {what}, but is {value}"));
        }
    };
    let mut inner = Vec::new();
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                let referred = root.pointer(pointer).unwrap();
                inner.extend(faults(value, referred, root, path));
            }
            "type" => expect(types(rule).any(|name| is(value, name)), "has another type"),
            "enum" => expect(rule.as_array().unwrap().contains(value), "is unknown"),
            "minimum" => expect(at_least(value, rule), "is too small"),
            "exclusiveMinimum" => expect(
                value.is_null() || at_least(value, rule) && value.as_f64() != rule.as_f64(),
                "is too small",
            ),
            "pattern" => {
                assert_eq!(rule, "^([0-9a-f]{4}:){3}[0-9a-f]{4}$");
                expect(is_guid(value.as_str().unwrap_or("")), "is no GUID");
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    inner.extend(faults(item, rule, root, &format!("{path}[{at}]")));
                }
            }
            "properties" => {
                for (name, member) in members(value) {
                    if let Some(rule) = rule.get(name) {
                        inner.extend(faults(member, rule, root, &format!("{path}.{name}")));
                    }
                }
            }
            "required" => {
                let names = rule.as_array().unwrap().iter().filter_map(Value::as_str);
                for name in names {
                    expect(value.get(name).is_some(), &format!("needs {name}"));
                }
            }
            "additionalProperties" => {
                assert_eq!(rule, false);
                let known = schema["properties"].as_object().unwrap();
                let strange = members(value).find(|(name, _)| !known.contains_key(*name));
                expect(strange.is_none(), &format!("has a member {strange:?}"));
            }
            other => panic!("the test does not know {other}"),
        }
    }
    found.extend(inner);
    found
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    let many = rule.as_array().into_iter().flatten();
    many.filter_map(Value::as_str).chain(rule.as_str())
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "array" => value.is_array(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the test does not know the type {other}"),
    }
}

fn at_least(value: &Value, least: &Value) -> bool {
    value.as_f64() >= least.as_f64()
}

fn is_guid(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let is_part = |part: &&str| {
        let digits = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        part.len() == 4 && part.chars().all(digits)
    };
    parts.len() == 4 && parts.iter().all(is_part)
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// The output of a line of options, if a namespace can be made here.
fn devinfo(options: &str) -> Option<Value> {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let unshare = |line: &str| {
        let mut command = Command::new("unshare");
        command.arg("--net");
        if !root {
            command.arg("--map-root-user");
        }
        command.args(["sh", "-c", line]);
        command
    };
    if !unshare("true").status().unwrap().success() {
        println!("skipped: no network namespace can be made here");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_ibv_devinfo");
    let line = format!("ip link set lo up && exec {program} {options}");
    let output = unshare(&line)
        .env(
            "LD_LIBRARY_PATH",
            c_tests::library::built_library().unwrap(),
        )
        .env("UROCE_DEVICES", "lo")
        .watched_output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn check(value: &Value) -> Vec<String> {
    let schema = schema();
    faults(value, &schema, &schema, "")
}

#[test]
fn the_output_is_as_the_schema_describes_it() {
    let Some(brief) = devinfo("--json") else {
        return;
    };
    assert_eq!(check(&brief), [""; 0]);
    let whole = devinfo("-v --json").unwrap();
    assert_eq!(check(&whole), [""; 0]);

    // RoCE is InfiniBand's transport over Ethernet.
    assert_eq!(whole[0]["transport"], "InfiniBand");
    let port = &whole[0]["ports"][0];
    assert_eq!(port["link_layer"], "Ethernet");
    assert_eq!(port["active_speed"], 2.5);
    assert_eq!(
        (&port["active_width"], &port["max_vl_num"]),
        (&json!(1), &json!(1))
    );

    // With -v there are all members that the schema has.
    let schema = schema();
    for (name, value) in [("device", &whole[0]), ("port", port)] {
        let known = &schema["$defs"][name]["properties"];
        let missing: Vec<_> = members(known)
            .filter(|(name, _)| value.get(name.as_str()).is_none())
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    // The check finds faults.
    let mut wrong = whole.clone();
    wrong[0]["max_qp"] = json!(-1);
    wrong[0]["max_cq"] = json!(1.5);
    wrong[0]["ports"][0]["link_layer"] = json!("Token Ring");
    wrong[0]["more"] = json!(1);
    wrong[0].as_object_mut().unwrap().remove("hca_id");
    assert_eq!(check(&wrong).len(), 5, "{:?}", check(&wrong));
}
