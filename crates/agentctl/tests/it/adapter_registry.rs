//! What a further agent needs beside its adapter: each test walks the registry and names what is missing.

use agentctl_core::adapters::{ALL, Adapter};

use crate::source::workspace;

/// Every adapter but these, each with the reason for which it needs no entry.
fn adapters_except(exempt: &[(&str, &str)]) -> Vec<&'static dyn Adapter> {
    for (name, reason) in exempt {
        assert!(ALL.iter().any(|adapter| adapter.name() == *name), "{name} is no agent: {reason}");
    }
    let needed = |adapter: &&dyn Adapter| exempt.iter().all(|(name, _)| adapter.name() != *name);
    ALL.iter().copied().filter(needed).collect()
}

#[test]
fn every_agent_has_a_page_and_the_readme_links_to_it() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).expect("readable");
    for adapter in ALL {
        let page = format!("docs/agents/{}.md", adapter.name());
        assert!(workspace().join(&page).exists(), "{page} is missing: what is known of the agent");
        assert!(readme.contains(&format!("]({page})")), "README.md does not link to {page}");
    }
}

#[test]
fn every_page_of_an_agent_is_of_an_agent() {
    for entry in std::fs::read_dir(workspace().join("docs/agents")).expect("listed").flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let known = ALL.iter().any(|adapter| file == format!("{}.md", adapter.name()));
        assert!(known, "docs/agents/{file} is of no agent in the registry");
    }
}

#[test]
fn every_agent_is_in_the_table_of_wakeups() {
    let page = std::fs::read_to_string(workspace().join("docs/ROOMS.md")).expect("readable");
    let table = page.split("\n## Where the start of each agent shows").nth(1).expect("the table");
    for adapter in ALL {
        let name = format!("`{}`", adapter.name());
        let is_row = |line: &str| line.split('|').nth(1).is_some_and(|cell| cell.contains(&name));
        assert!(table.lines().any(is_row), "docs/ROOMS.md does not say what wakes us for {name}");
    }
}

#[test]
fn every_agent_is_attacked_with_rubbish_in_its_session_files() {
    for adapter in adapters_except(&[
        ("opencode", "a database: opencode_hostile.rs"),
        ("pi-rust", "the store of Pi"),
        ("openclaw", "a server: openclaw_hostile.rs"),
    ]) {
        let name = adapter.name();
        let attacked = crate::hostile::PLACES.iter().any(|(agent, _)| *agent == name);
        assert!(attacked, "the session files of {name} are missing from PLACES in hostile.rs");
    }
}

#[test]
fn every_agent_has_a_test_file_of_its_own() {
    for adapter in adapters_except(&[("pi-rust", "it shares the store of Pi: pi.rs")]) {
        let file = format!("crates/agentctl/tests/it/{}.rs", adapter.name().replace('-', "_"));
        assert!(workspace().join(&file).exists(), "{file} is missing: see the agent live");
    }
}

#[test]
fn every_agent_has_a_share_of_the_generated_homes() {
    for adapter in adapters_except(&[("demo", "its homes are never large")]) {
        let name = adapter.name();
        let made = testkit::generate::ALL.iter().any(|agent| agent.name() == name);
        assert!(made, "testkit::generate makes no session of {name}");
    }
}

/// The lab shares no code with the program, so it has lists of its own, which its tests compare.
#[test]
fn every_agent_is_played_in_the_lab() {
    let versions = workspace().join("crates/lab/versions.toml");
    let versions = std::fs::read_to_string(versions).expect("readable");
    for adapter in adapters_except(&[
        ("demo", "a part of this program: every test may start it"),
        ("pi-rust", "no program of it is available"),
    ]) {
        let name = adapter.name();
        let entry = format!("[[agent]]\nname = \"{name}\"");
        assert!(
            versions.contains(&entry),
            "the lab does not play {name}: crates/lab/versions.toml"
        );
    }
}
