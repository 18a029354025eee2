//! docs/HOOKS.md lists the variables that each kind of program really receives.

use std::collections::BTreeSet;

use crate::source::workspace;

/// Variables that this program or a test reads itself; everything that is started may inherit them.
const SETTINGS: [&str; 5] = [
    "AGENTCTL_CONFIG",
    "AGENTCTL_NO_DAEMON",
    "AGENTCTL_TEST_INSIDE",
    "AGENTCTL_SEED",
    "AGENTCTL_RECYCLE_ROUNDS",
];

/// Returns the variables in the table of one section of the page.
fn documented(section: &str) -> BTreeSet<String> {
    let page = std::fs::read_to_string(workspace().join("docs/HOOKS.md")).expect("readable");
    let start = page.find(&format!("\n## {section}\n")).expect("the section exists") + 1;
    let rest = &page[start + 3..];
    let text = &rest[..rest.find("\n## ").unwrap_or(rest.len())];
    text.lines()
        .filter_map(|line| line.strip_prefix("| `AGENTCTL_")?.split('`').next())
        .map(|name| format!("AGENTCTL_{name}"))
        .collect()
}

/// Compares the environment of a program, as `env` printed it, with a section of the page.
#[track_caller]
pub(crate) fn assert_documented(section: &str, environment: &str) {
    let names = environment.lines().filter_map(|line| line.split_once('='));
    let received: BTreeSet<String> = names
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.starts_with("AGENTCTL_") && !SETTINGS.contains(&name.as_str()))
        .collect();
    assert_eq!(received, documented(section), "docs/HOOKS.md, {section}");
}

#[test]
fn the_page_names_every_variable_of_the_source() {
    let source = workspace().join("crates/agentctl-core/src/marks.rs");
    let source = std::fs::read_to_string(source).expect("readable");
    let module = source.split("pub mod hook {").nth(1).expect("the module exists");
    let module = &module[..module.find("\n}").expect("it ends")];
    let constants: BTreeSet<String> =
        module.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(constants.len() > 20, "{constants:?}");
    let sections = ["Launch hooks", "Fuse commands", "Notification commands"];
    let page: BTreeSet<String> = sections.into_iter().flat_map(documented).collect();
    assert_eq!(page, constants);
}
