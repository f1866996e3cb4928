//! Finds functions that no test calls, among those that providers of all generations call and
//! export.

use std::{collections::BTreeSet, fs, path::Path};

use c_tests::{Result, elf, tree::package_dir};

/// Verbs that the program of the generations does not call, and their callers: these need objects
/// that only a provider which carries data has.
const ELSEWHERE: [(&str, &str); 9] = [
    ("async_event", "programs/man/get_async_event.c"),
    ("bind_mw", "programs/rxe/mw.c"),
    ("cq_event", "programs/man/get_cq_event.c"),
    ("create_cq_ex", "programs/rxe/cq.c"),
    ("create_qp_ex", "programs/rxe/qp_ex.c"),
    ("create_srq_ex", "programs/rxe/srq.c"),
    ("free_buf", "programs/post_44_rxe/kernel.c"),
    ("free_context", "generations/plugin.c"),
    ("open_qp", "programs/post_44/xrc.c"),
];

/// The call names that differ from `ibv_<verb>`.
const CALLED: [(&str, &str); 3] = [
    ("async_event", "ibv_get_async_event"),
    ("cq_event", "ibv_get_cq_event"),
    ("free_context", "free_context"),
];

/// The kernel commands that the C provider of rxe gives, which the suites in the virtual machine
/// run over.
const OF_RXE: [&str; 28] = [
    "alloc_mw",
    "alloc_pd",
    "attach_mcast",
    "create_ah",
    "create_cq",
    "create_cq_ex",
    "create_qp",
    "create_qp_ex2",
    "create_srq",
    "create_srq_ex",
    "dealloc_mw",
    "dealloc_pd",
    "dereg_mr",
    "destroy_ah",
    "destroy_cq",
    "destroy_qp",
    "destroy_srq",
    "detach_mcast",
    "get_context",
    "modify_qp",
    "modify_srq",
    "query_device_any",
    "query_port",
    "query_qp",
    "query_srq",
    "reg_mr",
    "req_notify_cq",
    "resize_cq",
];

fn text(path: impl AsRef<Path>) -> Result<String> {
    let path = package_dir().join(path);
    Ok(fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?)
}

fn first_column(file: &str) -> Result<Vec<String>> {
    let text = text(file)?;
    let first = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    Ok(text.lines().skip(1).map(first).collect())
}

#[test]
fn every_verb_of_every_generation_is_called() -> Result<()> {
    let program = text("generations/program.c")?;
    for verb in first_column("data/generation-verbs.tsv")? {
        if program.contains(&format!("EXPECT({verb}, ")) {
            continue;
        }
        let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == verb);
        let (_, file) = elsewhere.ok_or_else(|| format!("no program calls {verb}"))?;
        let called = CALLED.iter().find(|(name, _)| *name == verb);
        let called = called.map_or(format!("ibv_{verb}("), |(_, call)| format!("{call}("));
        assert!(
            text(file)?.contains(&called),
            "{file} does not call {called}"
        );
    }
    Ok(())
}

#[test]
fn every_kernel_command_of_every_node_is_given() -> Result<()> {
    let callers = [
        text("generations/plugin.c")?,
        text("generations/commands.h")?,
        text("generations/post_44.h")?,
        text("programs/rxe/commands.c")?,
    ];
    let mut commands: BTreeSet<String> = BTreeSet::new();
    for file in ["data/symbols-private.tsv", "data/symbols.tsv"] {
        let names = first_column(file)?.into_iter();
        commands.extend(names.filter(|name| name.starts_with("ibv_cmd_")));
    }
    assert!(commands.len() > 70, "{} commands", commands.len());
    for command in &commands {
        let short = command.trim_start_matches("ibv_cmd_");
        // Once where it is declared, and once at least where it is called.
        let call = format!("{command}(");
        let is_called = callers.iter().any(|text| text.matches(&call).count() > 1);
        assert!(
            is_called || OF_RXE.contains(&short),
            "no test gives {command}"
        );
    }
    Ok(())
}

/// That they are those that the plugin in C imports, where it is installed.
#[test]
fn functions_for_rxe_are_the_imports_of_its_plugin() -> Result<()> {
    let name = "libibverbs/librxe-rdmav34.so";
    let mut plugins = Vec::new();
    for folder in fs::read_dir("/usr/lib")? {
        plugins.push(folder?.path().join(name));
    }
    let Some(plugin) = plugins.into_iter().find(|plugin| plugin.exists()) else {
        println!("skipped: there is no {name} below /usr/lib");
        return Ok(());
    };
    let imports = elf::read(&plugin)?.undefined;
    let commands = imports
        .iter()
        .filter_map(|s| s.name.strip_prefix("ibv_cmd_"));
    assert_eq!(commands.collect::<BTreeSet<_>>(), OF_RXE.into());
    Ok(())
}
