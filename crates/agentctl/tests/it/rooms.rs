//! The rooms of both crates use each other exactly as docs/ARCHITECTURE.md says, and in no cycle.

use std::collections::{BTreeMap, BTreeSet};

use agentctl_core::marks;

use crate::source::{Kind, Token, production, tokens, workspace};

/// Room to the rooms that it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Both crates: their name, and the names by which their own rooms are reached.
const CRATES: [(&str, &[&str]); 2] =
    [("agentctl-core", &["crate"]), ("agentctl", &["crate", "agentctl"])];

/// Computes which rooms use which from the paths in the source. The crate's root declares the rooms and is
/// none itself.
fn graph(name: &str, roots: &[&str]) -> Graph {
    let mut graph = Graph::new();
    for (file, tokens) in production(&format!("crates/{name}/src")) {
        let room = file.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        if room == "lib" {
            continue;
        }
        let named = rooms_named(&tokens, roots, depth(&file));
        graph.entry(room.clone()).or_default().extend(named.into_iter().filter(|n| *n != room));
    }
    graph
}

/// Returns how many modules lie between the crate's root and the inside of a file.
fn depth(file: &str) -> usize {
    file.trim_end_matches("/mod.rs").split('/').count()
}

/// Returns the rooms that paths from the crate's root name: `crate::room`, `crate::{room, …}`, and enough
/// `super::` to reach the root.
fn rooms_named(tokens: &[Token], roots: &[&str], depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // The braces that are open, and whether each one is a module.
    let mut open: Vec<bool> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let module = |i: usize| tokens.get(i.wrapping_sub(2)).and_then(Token::word) == Some("mod");
        match &tokens[i].kind {
            Kind::Mark('{') => open.push(module(i)),
            Kind::Mark('}') => drop(open.pop()),
            Kind::Word(word) if !is_path(tokens, i.wrapping_sub(2)) => {
                let mut next = i;
                let mut supers = 0;
                while tokens[next].word() == Some("super") && is_path(tokens, next + 1) {
                    (supers, next) = (supers + 1, next + 3);
                }
                let inside = depth + open.iter().filter(|module| **module).count();
                if supers == inside {
                    found.extend(first_names(&tokens[next..]));
                } else if roots.contains(&word.as_str()) && is_path(tokens, i + 1) {
                    found.extend(first_names(&tokens[i + 3..]));
                }
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// Says whether there is a `::` here.
fn is_path(tokens: &[Token], at: usize) -> bool {
    let colon = |i: usize| tokens.get(i).is_some_and(|t| t.is(':'));
    colon(at) && colon(at.wrapping_add(1))
}

/// Returns the name that follows, or the first names in the group that follows.
fn first_names(tokens: &[Token]) -> Vec<String> {
    let name = |token: &Token| match &token.kind {
        Kind::Word(word) | Kind::Text(word) => word.clone(),
        Kind::Mark(mark) => mark.to_string(),
    };
    let Some(first) = tokens.first().filter(|t| t.is('{')) else {
        return tokens.first().map(name).into_iter().collect();
    };
    let (mut depth, mut begins, mut found) = (0, false, Vec::new());
    for token in std::iter::once(first).chain(&tokens[1..]) {
        match token.kind {
            Kind::Mark('{') => (depth, begins) = (depth + 1, depth == 0),
            Kind::Mark('}') if depth == 1 => break,
            Kind::Mark('}') => depth -= 1,
            Kind::Mark(',') => begins = depth == 1,
            _ if begins => {
                found.push(name(token));
                begins = false;
            }
            _ => {}
        }
    }
    found
}

/// Reads the table of a crate: the rows `| room | uses | …` below the heading that names it.
fn table(page: &str, name: &str) -> Graph {
    let heading = format!("### What uses what in `{name}`");
    let section = page.split(&heading).nth(1).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let section = section.split("\n#").next().unwrap_or_default();
    let names = |cell: &str| -> BTreeSet<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let rows = section.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|');
        let room = names(cells.next()?).into_iter().next()?;
        Some((room, names(cells.next()?)))
    });
    rows.collect()
}

/// Returns every difference between the source and the table, and every cycle.
fn complaints(source: &Graph, table: &Graph) -> Vec<String> {
    let none = BTreeSet::new();
    let mut found = Vec::new();
    for room in source.keys().filter(|room| !table.contains_key(*room)) {
        found.push(format!("{room} is missing from the table"));
    }
    for room in table.keys().filter(|room| !source.contains_key(*room)) {
        found.push(format!("{room} is in the table and is no room"));
    }
    for (room, uses) in source {
        let written = table.get(room).unwrap_or(&none);
        let extra =
            uses.difference(written).map(|to| format!("{room} uses {to}: not in the table"));
        let stale = written.difference(uses);
        let stale = stale.map(|to| format!("{room} does not use {to}: remove it from the table"));
        found.extend(extra.chain(stale));
    }
    let circle = in_cycles(source);
    if !circle.is_empty() {
        found.push(format!("these rooms use each other in a cycle: {}", circle.join(", ")));
    }
    found
}

/// Returns the rooms that are left when rooms that use no room that is left, or that no room that is left
/// uses, are taken away again and again.
fn in_cycles(graph: &Graph) -> Vec<&str> {
    let mut left: BTreeSet<&str> = graph.keys().map(String::as_str).collect();
    loop {
        let uses = |from: &str, to: &str| graph[from].contains(to);
        let stays = |room: &&str| {
            left.iter().any(|to| uses(room, to)) && left.iter().any(|from| uses(from, room))
        };
        let next: BTreeSet<&str> = left.iter().copied().filter(stays).collect();
        if next.len() == left.len() {
            return left.into_iter().collect();
        }
        left = next;
    }
}

#[test]
fn rooms_use_each_other_as_the_table_says_and_in_no_cycle() {
    let page = std::fs::read_to_string(workspace().join("docs/ARCHITECTURE.md")).expect("there");
    let mut all = Vec::new();
    for (name, roots) in CRATES {
        let found = complaints(&graph(name, roots), &table(&page, name));
        all.extend(found.into_iter().map(|complaint| format!("{name}: {complaint}")));
    }
    assert!(all.is_empty(), "docs/ARCHITECTURE.md and the source differ:\n{}", all.join("\n"));
}

#[test]
fn every_room_is_in_the_diagram_above_the_rooms_that_it_uses() {
    let page = std::fs::read_to_string(workspace().join("docs/ARCHITECTURE.md")).expect("there");
    let section = page.split("\n## Directions").nth(1).expect("the section");
    let diagram = section.split("```").nth(1).expect("the diagram");
    for (name, roots) in CRATES {
        // From the line that names the crate to the border, or to the end.
        let part = diagram.split(&format!("crate {name}:")).nth(1).expect("the crate's part");
        let part = part.split('═').next().unwrap_or_default();
        let line = |room: &str| {
            let at =
                part.lines().skip(1).position(|l| l.split_whitespace().any(|word| word == room));
            at.unwrap_or_else(|| panic!("{room} of {name} is not in the diagram"))
        };
        for (room, uses) in graph(name, roots) {
            for used in uses {
                assert!(line(&room) < line(&used), "{name}: {room} is not drawn above {used}");
            }
        }
    }
}

#[test]
fn a_planted_edge_entry_or_cycle_is_reported() {
    let page = "### What uses what in `x`\n\n| room | uses |\n|---|---|\n| `a` | `b`, `c` |\n\
                | `b` | nothing |\n| `d` | nothing |\n\n## Next\n| `e` | `f` |\n";
    let table = table(page, "x");
    let graph = |files: &[(&str, &str)]| -> Graph {
        let rooms = files.iter().map(|(room, source)| {
            ((*room).to_owned(), rooms_named(&tokens(source), &["crate"], 1))
        });
        rooms.collect()
    };
    let source = graph(&[
        ("a", "use crate::{b::{x, y}, c::z};"),
        ("b", "fn f() { super::a::g(); }"),
        ("c", ""),
    ]);
    assert_eq!(
        complaints(&source, &table),
        [
            "c is missing from the table",
            "d is in the table and is no room",
            "b uses a: not in the table",
            "these rooms use each other in a cycle: a, b",
        ]
    );
    let source =
        graph(&[("a", "pub use crate::b;"), ("b", "mod m { use super::super::a; }"), ("d", "")]);
    assert!(
        complaints(&source, &table)
            .contains(&"a does not use c: remove it from the table".to_owned())
    );
    assert_eq!(
        source["b"],
        BTreeSet::from(["a".to_owned()]),
        "an inline module is one step deeper"
    );
}

#[test]
fn adapters_start_and_signal_no_process_and_commands_open_no_agents_file() {
    for (file, tokens) in production("crates/agentctl-core/src/adapters") {
        for (i, token) in tokens.iter().enumerate() {
            let place = format!("adapters/{file}:{}", token.line);
            assert_ne!(token.word(), Some("Spawn"), "{place}");
            let called = tokens[i..].first().is_some_and(|t| t.is('.'))
                && tokens.get(i + 1).and_then(Token::word) == Some("signal")
                && tokens.get(i + 2).is_some_and(|t| t.is('('));
            assert!(!called, "{place} sends a signal");
        }
    }
    for (file, tokens) in production("crates/agentctl/src/cli") {
        for (i, token) in tokens.iter().enumerate() {
            let place = format!("cli/{file}:{}", token.line);
            if token.word() == Some("native") && is_path(&tokens, i + 1) {
                let named = first_names(&tokens[i + 3..]);
                let readers = ["file", "json5", "jsonl", "sqlite"];
                assert!(!named.iter().any(|n| readers.contains(&n.as_str())), "{place}: {named:?}");
            }
            let names_proc = matches!(&token.kind, Kind::Text(text) if text.contains("/proc"));
            assert!(!names_proc, "{place} names /proc");
        }
    }
}

/// A document that only a command knows is out of reach of the socket and of every further interface.
#[test]
fn commands_define_no_document_of_their_own() {
    for (file, tokens) in production("crates/agentctl/src/cli") {
        for token in tokens {
            let place = format!("cli/{file}:{}", token.line);
            assert_ne!(token.word(), Some("JsonSchema"), "{place}: put the document into `ask`");
        }
    }
}

#[test]
fn marks_on_processes_are_written_once_and_in_their_room() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for (name, _) in CRATES {
        for (file, tokens) in production(&format!("crates/{name}/src")) {
            for token in tokens {
                let Kind::Text(text) = token.kind else { continue };
                let names = [marks::SHIM, marks::STARTER, marks::ASKER];
                // The same word names a channel of an ask in JSON, which is no mark.
                let channel = text == marks::ASKER && file == "model/ask.rs";
                let subcommand = names.contains(&text.as_str()) && !channel;
                let variable = text
                    .strip_prefix("AGENTCTL_")
                    .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
                if subcommand || variable {
                    places.entry(text).or_default().push(format!("{name}/{file}:{}", token.line));
                }
            }
        }
    }
    assert!(places.len() > 30, "{places:?}");
    for (mark, places) in places {
        let room = places.iter().all(|place| place.starts_with("agentctl-core/marks.rs:"));
        assert!(room && places.len() == 1, "{mark} is written in {}", places.join(", "));
    }
}
