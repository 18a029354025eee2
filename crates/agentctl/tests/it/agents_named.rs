//! Facts about an agent are known by its adapter only: no other room names an agent, and no
//! variable decides an answer that the adapter does not declare.

use std::collections::BTreeSet;

use agentctl::client::fingerprint;
use agentctl_core::adapters::{ALL, Adapter};
use agentctl_core::host::{BASE_DIRECTORIES, Host};

use crate::fuses_firing::host;
use crate::source::{Kind, Token, production};

const CORE: &str = "crates/agentctl-core/src";
const BINARY: &str = "crates/agentctl/src";

/// The spellings of an agent's name, as words run together: `claudecode`, and `claude` alone.
fn spellings(adapter: &dyn Adapter) -> BTreeSet<String> {
    let name = adapter.name();
    let first = name.split('-').next().unwrap_or(name);
    [name.replace('-', ""), first.to_owned()].into()
}

/// Splits an identifier, or a word of a text, into its parts: `ClaudeCode`, `claude_code`, `CLAUDE-CODE`.
fn parts(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for c in word.chars() {
        let begins = c.is_uppercase() && before.is_lowercase();
        if c == '_' || c == '-' || begins {
            parts.push(String::new());
        }
        if c != '_' && c != '-' {
            parts.last_mut().expect("one").extend(c.to_lowercase());
        }
        before = c;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Says whether a word spells one of these names: as one of its parts, or as some of them run together.
fn spells(word: &str, names: &BTreeSet<String>) -> bool {
    let parts = parts(word);
    let runs = (0..parts.len()).flat_map(|from| (from..parts.len()).map(move |to| (from, to)));
    runs.into_iter().any(|(from, to)| names.contains(&parts[from..=to].concat()))
}

/// Returns the words in which a token names one of these agents. An agent that is a part of this program
/// has a command and a room of its own: only a text that is nothing but its name decides something.
fn named(token: &Token, adapters: &[&dyn Adapter]) -> Vec<String> {
    let words: Vec<&str> = match &token.kind {
        Kind::Word(word) => vec![word],
        Kind::Text(text) => {
            text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect()
        }
        Kind::Mark(_) => Vec::new(),
    };
    let decides = |adapter: &dyn Adapter| token.kind == Kind::Text(adapter.name().to_owned());
    let names = |word: &str| {
        let mut named = adapters.iter();
        named.any(|a| if a.is_built_in() { decides(*a) } else { spells(word, &spellings(*a)) })
    };
    words.into_iter().filter(|word| names(word)).map(str::to_owned).collect()
}

#[test]
fn no_agent_is_named_outside_its_adapter() {
    let mut leaks = Vec::new();
    for crate_source in [CORE, BINARY] {
        for (file, tokens) in production(crate_source) {
            // The command of the built-in agent starts it and tidies up behind it.
            let own =
                crate_source == BINARY && (file == "cli/demo.rs" || file.starts_with("demo/"));
            if own || (crate_source == CORE && file.starts_with("adapters/")) {
                continue;
            }
            for token in &tokens {
                for word in named(token, ALL) {
                    leaks.push(format!("{crate_source}/{file}:{} names `{word}`", token.line));
                }
            }
        }
    }
    assert!(leaks.is_empty(), "only an adapter knows its agent:\n{}", leaks.join("\n"));
}

#[test]
fn an_agent_is_recognised_in_every_spelling() {
    let found = |source: &str| -> Vec<String> {
        crate::source::tokens(source).iter().flat_map(|token| named(token, ALL)).collect()
    };
    for spelled in [
        "claude_code",
        "ClaudeCode",
        "CLAUDE_CONFIG_DIR",
        "OpenCodeStore",
        "CODEX_HOME",
        "PiRust",
        "openclaw_key",
        "is_pi",
        "\"PI_\"",
        "\"open Claude's file\"",
        "\"[[openclaw.gateways]]\"",
        "\"claude-code\"",
        "\"Codex sessions\"",
        "\"demo\"",
    ] {
        assert_eq!(found(spelled).len(), 1, "{spelled}");
    }
    for harmless in
        ["pid", "pipe", "spine", "\"an open code\"", "open_it", "demo", "\"agentctl demo\""]
    {
        assert_eq!(found(harmless), [] as [String; 0], "{harmless}");
    }
}

#[test]
fn adapters_read_variables_through_their_declaration_only() {
    for (file, tokens) in production(&format!("{CORE}/adapters")) {
        if file == "declared.rs" {
            continue;
        }
        for (i, token) in tokens.iter().enumerate() {
            let member = i > 0 && tokens[i - 1].is('.');
            let reads = matches!(token.word(), Some("var" | "env")) && member;
            assert!(!reads, "adapters/{file}:{} reads an undeclared variable", token.line);
        }
    }
}

#[test]
fn a_daemon_with_another_value_of_a_deciding_variable_is_not_believed() {
    let home = crate::home();
    let host = host(home.path(), agentctl::config::clock);
    let with = |name: &str| {
        let mut other = Host::clone(&host);
        other.env.insert(name.to_owned(), "/somewhere/else".to_owned());
        fingerprint(&other)
    };
    let deciding = ALL.iter().flat_map(|adapter| adapter.variables().answers);
    for name in deciding.chain(&BASE_DIRECTORIES) {
        assert_ne!(with(name), fingerprint(&host), "{name} decides what is seen");
    }
    for name in ALL.iter().flat_map(|adapter| adapter.variables().launch) {
        assert_eq!(with(name), fingerprint(&host), "{name} decides nothing that is seen");
    }
}
