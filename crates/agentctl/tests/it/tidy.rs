//! House rules as tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::fixtures_dir;
use crate::source::{Token, production, sources, workspace};

#[test]
fn no_file_outgrows_its_room() {
    for (name, text) in sources() {
        assert!(text.lines().count() <= 600, "{name} has more than 600 lines: split it by meaning");
    }
}

#[test]
fn every_file_has_a_module_doc() {
    for (name, text) in sources() {
        assert!(text.starts_with("//! "), "{name} has no module doc");
    }
}

#[test]
fn unsafe_lives_in_the_kernel_room_only() {
    for (name, text) in sources() {
        // The fake agent takes away the memory of its own arguments, as a hostile process does; the benches read the
        // CPU clock of other processes.
        let of_tests = ["bin/fake-agent.rs", "cpu_clock.rs"];
        let room = name.starts_with("crates/agentctl-core/src/kernel/")
            || name.strip_prefix("crates/testkit/src/").is_some_and(|at| of_tests.contains(&at));
        let forms = ["{", "fn", "impl"].map(|what| format!("{} {what}", "unsafe"));
        let uses = forms.iter().any(|form| text.contains(form));
        assert!(!uses || room, "{name} holds unsafe code");
    }
}

#[test]
fn the_core_neither_prints_nor_reads_its_surroundings() {
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
        // The registry itself, the types of control, of answers and of changes, the declarations, the launchers,
        // the proof of a join, the counter of prompts, the cache of records, the homes, and the
        // runtimes.
        let others = [
            "mod",
            "answering",
            "asker",
            "describe_ask",
            "changes",
            "claims",
            "control",
            "declared",
            "launchers",
            "prompts",
            "proof",
            "cached",
            "root",
            "runtime",
        ];
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

/// Returns the names of the types that a file declares with a plain `pub`, in the order of the file.
fn public_types(tokens: &[Token]) -> impl Iterator<Item = &str> {
    tokens.windows(3).filter_map(|three| {
        let kinds = ["struct", "enum", "trait", "type", "union"];
        let is_public = three[0].word() == Some("pub");
        let is_type = three[1].word().is_some_and(|word| kinds.contains(&word));
        if is_public && is_type { three[2].word() } else { None }
    })
}

#[test]
fn no_two_public_types_of_the_core_share_a_name() {
    let mut files = BTreeMap::<String, Vec<String>>::new();
    for (file, tokens) in production("crates/agentctl-core/src") {
        // Each platform offers the same types to the rest of the core.
        if file.starts_with("kernel/linux") || file.starts_with("kernel/macos") {
            continue;
        }
        for name in public_types(&tokens) {
            files.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(files.len() > 100, "only {} public types were found", files.len());
    for (name, files) in &files {
        assert!(files.len() == 1, "{name} is declared in {}: rename one", files.join(" and "));
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

/// Says whether a file has a test of this name.
pub(crate) fn is_test(text: &str, test: &str) -> bool {
    let Some((before, _)) = text.split_once(&format!("fn {test}(")) else { return false };
    let lines = before.trim_end().lines().rev().map(str::trim);
    lines.take_while(|line| line.starts_with("#[")).any(|line| line == "#[test]")
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let text = std::fs::read_to_string(workspace().join("docs/INVARIANTS.md")).expect("there");
    let sources = sources();
    let named = text.split('`').filter(|w| w.contains(".rs::")).collect::<Vec<_>>();
    assert!(named.len() >= 8, "the invariants name their tests as `file.rs::test`");
    for name in named {
        let (file, test) = name.split_once(".rs::").expect("split");
        let test = test.rsplit("::").next().expect("a name");
        let path = format!("/{file}.rs");
        let holds = |(name, text): &(String, String)| {
            format!("/{name}").ends_with(&path) && is_test(text, test)
        };
        assert!(
            sources.iter().any(holds),
            "docs/INVARIANTS.md names {name}, which is no test of that file"
        );
    }
}

/// See docs/adr/0034-tests-that-need-root.md.
#[test]
fn only_tests_that_need_root_are_ignored_and_all_of_them() {
    let mark = format!("#[{}", "ignore");
    for (name, text) in sources() {
        for line in text.lines().map(str::trim).filter(|line| line.starts_with(&mark)) {
            let reason = format!("{mark} = \"needs root: ");
            assert!(line.starts_with(&reason), "{name}: {line}: only tests that need root");
        }
        for test in text.split("#[test]\n").skip(1) {
            let plays = test.contains("another_user(") && !test.contains("fn another_user(");
            assert!(
                !plays || test.starts_with(&mark),
                "{name}: a test plays another user unmarked"
            );
        }
    }
}

#[test]
fn the_dependency_budget_holds() {
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock")).expect("there");
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= 320, "{packages} packages are locked");
}
