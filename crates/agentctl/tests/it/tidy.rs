//! House rules as tests: a rule nobody runs is a wish.

use std::path::{Path, PathBuf};

use testkit::sandboxed;

use crate::source::{sources, workspace};
use crate::{fixtures_dir, home};

#[test]
fn no_file_outgrows_its_room() {
    for (name, text) in sources() {
        assert!(text.lines().count() <= 600, "{name} has more than 600 lines: split it by meaning");
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for (name, text) in sources() {
        assert!(text.starts_with("//! "), "{name} has no module doc");
    }
}

#[test]
fn unsafe_lives_in_the_kernel_room_only() {
    for (name, text) in sources() {
        // The fake agent takes away the memory of its own arguments, as a hostile process does.
        let room = name.starts_with("crates/agentctl-core/src/kernel/")
            || name == "crates/testkit/src/bin/fake-agent.rs";
        let forms = ["{", "fn", "impl"].map(|what| format!("{} {what}", "unsafe"));
        let uses = forms.iter().any(|form| text.contains(form));
        assert!(!uses || room, "{name} holds unsafe code");
    }
}

#[test]
fn the_core_neither_prints_nor_looks_around() {
    for (name, text) in sources().iter().filter(|(n, _)| n.starts_with("crates/agentctl-core/src/"))
    {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for word in ["println!", "eprintln!", "std::env::", "tokio", "UnixListener", "TcpListener"]
        {
            assert!(!code.contains(word), "{name} uses {word}");
        }
    }
}

#[test]
fn every_adapter_is_registered_and_has_a_recorded_home() {
    let registry =
        std::fs::read_to_string(workspace().join("crates/agentctl-core/src/adapters/mod.rs"))
            .expect("there");
    let line = registry.lines().find(|l| l.contains("pub static ALL")).expect("the registry");
    let rest =
        registry.split("pub static ALL").nth(1).and_then(|r| r.split(';').next()).expect("a list");
    for entry in std::fs::read_dir(workspace().join("crates/agentctl-core/src/adapters"))
        .expect("listed")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().trim_end_matches(".rs").to_owned();
        // The registry itself, the vocabulary of control, the declarations, the launchers, the proof of a
        // join, what a look remembers, and the homes.
        let others = ["mod", "control", "declared", "launchers", "proof", "recall", "root"];
        if others.contains(&name.as_str()) {
            continue;
        }
        assert!(
            rest.contains(&format!("&{name}::")),
            "adapter {name} is not in the registry: {line}"
        );
        let fixtures = fixtures_dir().join(name.replace('_', "-"));
        let cases: Vec<PathBuf> = std::fs::read_dir(&fixtures)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        assert!(!cases.is_empty(), "adapter {name} has no recorded home");
        assert!(
            cases.iter().all(|case| case.join("SOURCE").exists()),
            "a recorded home of {name} does not say where it is from"
        );
    }
}

#[test]
fn every_test_file_is_part_of_the_one_binary() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(here.join("main.rs")).expect("there");
    for entry in std::fs::read_dir(&here)
        .expect("listed")
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "rs"))
    {
        let name = entry.file_name().to_string_lossy().trim_end_matches(".rs").to_owned();
        assert!(
            name == "main" || main.contains(&format!("mod {name};")),
            "{name}.rs was forgotten"
        );
    }
}

#[test]
fn every_decision_is_in_the_index() {
    let folder = workspace().join("docs/adr");
    let index = std::fs::read_to_string(folder.join("README.md")).expect("the index");
    for entry in std::fs::read_dir(&folder).expect("listed").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(name == "README.md" || index.contains(&name), "{name} is not in the index");
    }
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let text = std::fs::read_to_string(workspace().join("docs/ARCHITECTURE.md")).expect("there");
    let all: String = sources().into_iter().map(|(_, text)| text).collect();
    let named = text.split('`').filter(|w| w.contains(".rs::")).collect::<Vec<_>>();
    assert!(named.len() >= 8, "the invariants name their tests as `file.rs::test`");
    for name in named {
        let (_, test) = name.split_once(".rs::").expect("split");
        assert!(
            all.contains(&format!("fn {test}(")),
            "docs/ARCHITECTURE.md names {name}, which does not exist"
        );
    }
}

#[test]
fn the_dependency_budget_holds() {
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock")).expect("there");
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= 320, "{packages} packages are locked");
}

#[test]
fn the_schemas_are_current_and_answers_keep_to_them() {
    sandboxed(|| {
        let home = home();
        let printed = home.run(&["schema"]).json();
        for (name, schema) in printed.as_object().expect("schemas") {
            let path = workspace().join(format!("docs/schema/{name}.json"));
            let kept: serde_json::Value = serde_json::from_str(
                &std::fs::read_to_string(&path)
                    .unwrap_or_else(|e| panic!("{}: {e}", path.display())),
            )
            .expect("JSON");
            assert_eq!(&kept, schema, "docs/schema/{name}.json is stale: run `just schema`");
        }
        home.plant(&fixtures_dir().join("demo/0.1.0"), ".");
        let row =
            home.run(&["list", "-a", "--since", "all", "--json"]).sessions().pop().expect("a row");
        let described = printed["status"]["properties"].as_object().expect("properties");
        let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
        assert!(
            keys.iter().all(|k| described.contains_key(*k)) && keys.len() == described.len(),
            "{keys:?}"
        );
    });
}
