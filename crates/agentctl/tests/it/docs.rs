//! The documents name files, tests and functions that exist.

use std::collections::BTreeSet;
use std::path::Path;

use agentctl_core::ask::COMPLETION_SHELLS;

use crate::source::{Token, sources, tokens, workspace};

/// The documents that are checked: a path in the workspace, and the text.
pub(crate) fn documents() -> Vec<(String, String)> {
    let mut names: Vec<String> =
        ["CONTRIBUTING.md", "README.md", "SECURITY.md"].map(str::to_owned).to_vec();
    for folder in ["docs", "docs/adr", "docs/agents"] {
        for entry in std::fs::read_dir(workspace().join(folder)).expect("listed").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|e| e == "md") {
                names.push(format!("{folder}/{name}"));
            }
        }
    }
    names.sort();
    let text = |name: &String| std::fs::read_to_string(workspace().join(name)).expect("readable");
    let read = names.iter().map(|name| (name.clone(), text(name)));
    // The page of a decision that was superseded as a whole describes an earlier state of the tree.
    read.filter(|(_, text)| !text.contains("\nStatus: superseded")).collect()
}

/// Every file and folder that belongs to the tree, as a path in the workspace.
fn tree() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut pending = vec![workspace()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("listed").flatten() {
            let path = entry.path();
            let name =
                path.strip_prefix(workspace()).expect("inside").to_string_lossy().into_owned();
            // The files inside recorded homes are agents' files: a document never means them.
            let recorded = name.starts_with("crates/testkit/fixtures/");
            if [".git", "target"].contains(&name.as_str()) || recorded {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(path);
            }
            found.insert(name);
        }
    }
    found
}

/// Returns the words in backticks, with their line; blocks of code are left out.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            found.extend(line.split('`').skip(1).step_by(2).map(|word| (number + 1, word)));
        }
    }
    found
}

/// Returns the path that a quoted word means, if it means a file or folder of this tree: a Rust file (`::test`
/// behind it is cut off), or a path from the top of the tree. Placeholders and patterns mean none.
fn repository_path(word: &str) -> Option<&str> {
    let path = match word.split_once(".rs::") {
        Some((file, _)) => &word[..file.len() + 3],
        None => word,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let tops = ["crates/", "docs/", "examples/", ".ci/", ".config/"];
    let named = is_rust_file(path) || tops.iter().any(|top| path.starts_with(top));
    (named && path.chars().all(plain)).then(|| path.trim_end_matches('/'))
}

/// Says whether a word names a Rust file.
fn is_rust_file(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|extension| extension == "rs")
}

/// Says whether a path is in the tree: whole, or as the end of a longer path.
fn exists(tree: &BTreeSet<String>, path: &str) -> bool {
    tree.contains(path) || tree.iter().any(|name| name.ends_with(&format!("/{path}")))
}

#[test]
fn every_path_that_a_document_names_exists() {
    let tree = tree();
    let (mut checked, mut missing) = (0, Vec::new());
    for (document, text) in documents() {
        for (line, word) in quoted(&text) {
            let Some(path) = repository_path(word) else { continue };
            checked += 1;
            if !exists(&tree, path) {
                missing.push(format!("{document}:{line} names {path}"));
            }
        }
    }
    assert!(checked > 200, "only {checked} paths were found");
    assert!(missing.is_empty(), "there is no such file or folder:\n{}", missing.join("\n"));
}

#[test]
fn every_room_that_the_page_of_rooms_describes_exists() {
    let tree = tree();
    let page = std::fs::read_to_string(workspace().join("docs/ROOMS.md")).expect("readable");
    let mut rows = 0;
    for section in page.split("\n## `").skip(1) {
        let (folder, section) = section.split_once('`').expect("a heading");
        for line in section.split("\n## ").next().unwrap_or_default().lines() {
            let cell = line.strip_prefix('|').and_then(|l| l.split('|').next()).unwrap_or_default();
            for (_, name) in quoted(cell) {
                let path = format!("{folder}/src/{}", name.trim_end_matches('/'));
                assert!(
                    tree.contains(&path),
                    "docs/ROOMS.md describes {path}, which does not exist"
                );
                rows += 1;
            }
        }
    }
    assert!(rows > 50, "only {rows} rooms were found");
}

#[test]
fn every_link_of_a_document_leads_to_a_file() {
    for (document, text) in documents() {
        let folder = workspace().join(&document);
        let folder = folder.parent().expect("a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let elsewhere = path.contains("://") || path.is_empty();
            assert!(elsewhere || folder.join(path).exists(), "{document} links to {link}");
        }
    }
}

#[test]
fn the_page_of_documents_names_every_page() {
    let page = std::fs::read_to_string(workspace().join("docs/README.md")).expect("readable");
    for (document, _) in documents() {
        let Some(name) = document.strip_prefix("docs/").filter(|name| !name.contains('/')) else {
            continue;
        };
        let is_named = name == "README.md" || page.contains(&format!("({name})"));
        assert!(is_named, "docs/README.md does not name {name}");
    }
}

#[test]
fn the_page_of_completions_has_the_lines_and_files_of_doctor() {
    let page = std::fs::read_to_string(workspace().join("docs/COMPLETIONS.md")).expect("readable");
    for shell in &COMPLETION_SHELLS {
        let row = page.lines().find(|line| line.starts_with(&format!("| {} |", shell.name)));
        let row = row.expect("a row").replace("\\|", "|");
        let gap = if shell.place.is_empty() { "" } else { ", " };
        let sourced = format!("in `~/{}`{gap}{}: `{}`", shell.start_up, shell.place, shell.line);
        let file = format!("`agentctl completions {} > ~/{}`", shell.name, shell.own[0]);
        assert!(row.contains(&sourced) && row.contains(&file), "{sourced} or {file}: {row}");
    }
    let readme = std::fs::read_to_string(workspace().join("README.md")).expect("readable");
    let bash = &COMPLETION_SHELLS[0];
    let line = format!("echo '{}' >> ~/{}", bash.line, bash.start_up);
    assert!(readme.contains(&line), "the README has another line than {line}");
}

#[test]
fn every_recipe_is_in_the_table_of_recipes() {
    let page = std::fs::read_to_string(workspace().join("CONTRIBUTING.md")).expect("readable");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `just ")).collect();
    let recipes = std::fs::read_to_string(workspace().join("justfile")).expect("readable");
    let recipes = recipes.lines().filter(|line| line.starts_with(char::is_alphabetic));
    let names = recipes.filter_map(|line| line.split([' ', ':']).next());
    for name in names.filter(|name| *name != "default") {
        let words = [format!("`just {name}`"), format!("`just {name} ")];
        let is_named = rows.iter().any(|row| words.iter().any(|word| row.contains(word)));
        assert!(is_named, "CONTRIBUTING.md does not name the recipe {name}");
    }
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// A row of docs/MUTANTS.md: its line, the cell that says where the bug was planted, and the tests.
fn planted_bugs(page: &str) -> Vec<(usize, Option<&str>, &str)> {
    let mut rows = Vec::new();
    let mut head: Vec<&str> = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if !line.starts_with('|') {
            head.clear();
        } else if head.is_empty() {
            head = cells(line);
        } else if !line.starts_with("|---") {
            let cells = cells(line);
            let place = head.iter().position(|title| *title == "where").map(|at| cells[at]);
            rows.push((number + 1, place, *cells.last().expect("a cell")));
        }
    }
    rows
}

/// Says whether a source file of this path, or of a path that ends so, has this word.
fn has_word(sources: &[(String, String)], file: &str, word: &str) -> bool {
    let inside = format!("/{file}");
    let is_word = |text: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
    };
    sources.iter().any(|(name, text)| name.ends_with(&inside) && is_word(text))
}

#[test]
fn every_planted_bug_names_a_function_that_exists() {
    let page = std::fs::read_to_string(workspace().join("docs/MUTANTS.md")).expect("readable");
    let sources = sources();
    let (mut file, mut wrong) = ("", Vec::new());
    for (line, place, _) in planted_bugs(&page) {
        // A row without a file means the file of the row above.
        for (_, word) in quoted(place.unwrap_or_default()) {
            if is_rust_file(word) {
                file = word;
                continue;
            }
            let name = word.rsplit("::").next().unwrap_or(word);
            if !file.is_empty() && !has_word(&sources, file, name) {
                wrong.push(format!("docs/MUTANTS.md:{line}: {file} has no {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_planted_bug_names_a_test_that_exists() {
    let page = std::fs::read_to_string(workspace().join("docs/MUTANTS.md")).expect("readable");
    let sources = sources();
    let is_file = |word: &str| {
        let file = format!("/{word}.rs");
        sources.iter().any(|(name, _)| name.ends_with(&file))
    };
    let is_test = |word: &str| sources.iter().any(|(_, text)| crate::tidy::is_test(text, word));
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let (mut checked, mut wrong) = (0, Vec::new());
    for (line, _, tests) in planted_bugs(&page) {
        // `file`: `test`. A word that begins with … is the end of a test's name.
        for (_, word) in quoted(tests) {
            let is_name = word.matches('_').count() >= 2 && word.chars().all(letters);
            if !is_name || is_file(word) {
                continue;
            }
            checked += 1;
            if !is_test(word) {
                wrong.push(format!("docs/MUTANTS.md:{line}: there is no test {word}"));
            }
        }
    }
    assert!(checked > 200, "only {checked} tests were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the methods of a trait in a source file, and whether each one has a default.
fn methods(source: &[Token], name: &str) -> Vec<(String, bool)> {
    let is = |i: usize, word: &str| source.get(i).and_then(Token::word) == Some(word);
    let begin = (0..source.len()).find(|i| is(*i, "trait") && is(i + 1, name)).expect("the trait");
    let (mut depth, mut found) = (0, Vec::<(String, bool)>::new());
    for i in begin..source.len() {
        if source[i].is('{') {
            depth += 1;
            // The body of a method.
            if let (2, Some(method)) = (depth, found.last_mut()) {
                method.1 = true;
            }
        } else if source[i].is('}') {
            depth -= 1;
            if depth == 0 {
                return found;
            }
        } else if depth == 1 && is(i, "fn") {
            found.push((source[i + 1].word().expect("a name").to_owned(), false));
        }
    }
    found
}

#[test]
fn every_method_of_an_adapter_is_in_the_walk_through() {
    let page = std::fs::read_to_string(workspace().join("CONTRIBUTING.md")).expect("readable");
    let section = page.split("\n## Add an adapter\n").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let folder = workspace().join("crates/agentctl-core/src/adapters");
    for (file, name) in [
        ("mod.rs", "Adapter"),
        ("mod.rs", "Store"),
        ("control.rs", "Control"),
        ("control.rs", "Remote"),
        ("control.rs", "PrivateServer"),
        ("answering.rs", "Answering"),
        ("asker.rs", "AskHook"),
    ] {
        let rows = rows_of(section, name);
        let text = std::fs::read_to_string(folder.join(file)).expect("readable");
        let methods = methods(&tokens(&text), name);
        assert!(!methods.is_empty(), "no method of {name} was found");
        for (method, has_default) in methods {
            let required = rows.contains(&format!("**`{method}`**"));
            let described = rows.contains(&format!("`{method}`"));
            assert!(described, "CONTRIBUTING.md does not describe {name}::{method}");
            assert_eq!(required, !has_default, "{name}::{method}: bold means required");
        }
    }
}

/// Returns the first cells of the table behind the line that begins with `impl NAME` in backticks.
fn rows_of(section: &str, name: &str) -> String {
    let begin = format!("`impl {name}`");
    let behind = section.lines().skip_while(|line| !line.starts_with(&begin)).skip(1);
    let table = behind.skip_while(|line| !line.starts_with('|'));
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| cells(line)[0]);
    rows.collect::<Vec<_>>().join("\n")
}
