//! Comments in plain language: a sentence names its object instead of beginning with a pronoun.

use crate::source::sources;

/// First words of sentences that leave out the object which the sentence is about.
const PRONOUNS: [&str; 18] = [
    "anybody",
    "nobody",
    "one that",
    "one who",
    "somebody",
    "so long",
    "so many",
    "so much",
    "so often",
    "that which",
    "what",
    "whatever",
    "where",
    "which",
    "who",
    "whoever",
    "whom",
    "whose",
];

/// Derives that turn doc comments into help texts and JSON schemas, which are not covered here.
const SHOWN_TO_USERS: [&str; 5] = ["Args", "JsonSchema", "Parser", "Subcommand", "ValueEnum"];

#[test]
fn no_comment_sentence_begins_with_a_pronoun() {
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| is_production(name)) {
        let sentences = sentences_with_pronoun(text);
        found.extend(sentences.iter().map(|(line, words)| format!("{name}:{line}: {words} …")));
    }
    assert!(found.is_empty(), "name the object, not a pronoun:\n{}", found.join("\n"));
}

/// The documents whose sentences are checked like comments.
const DOCUMENTS: [&str; 16] = [
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/ARCHITECTURE.md",
    "docs/CONFIGURATION.md",
    "docs/EVENTS.md",
    "docs/FORMAT.md",
    "docs/FUSES.md",
    "docs/HOOKS.md",
    "docs/INVARIANTS.md",
    "docs/METRICS.md",
    "docs/PROTOCOL.md",
    "docs/ROOMS.md",
    "docs/SCRIPTING.md",
    "docs/STOPPING.md",
    "docs/WEBHOOKS.md",
];

#[test]
fn no_sentence_of_a_document_begins_with_a_pronoun() {
    let mut found = Vec::new();
    for name in DOCUMENTS {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        let text = std::fs::read_to_string(path).expect("the document");
        let sentences = document_sentences_with_pronoun(&text);
        found.extend(sentences.iter().map(|(line, words)| format!("{name}:{line}: {words} …")));
    }
    assert!(found.is_empty(), "name the object, not a pronoun:\n{}", found.join("\n"));
    let planted = "# Where it is\n\nTrue. What is\nleft. Who?\n\n| what it is | Nobody knows. |\n";
    let planted: Vec<usize> =
        document_sentences_with_pronoun(planted).iter().map(|(line, _)| *line).collect();
    assert_eq!(planted, [3, 6], "headings, questions and fragments are left out");
}

/// Returns the line and the first word of each sentence of a Markdown text that begins with a pronoun. Headings,
/// questions, code blocks and fragments in small letters are left out.
fn document_sentences_with_pronoun(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut begins, mut code) = (Vec::new(), true, false);
    let mut pending: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        code ^= line.starts_with("```");
        if code || line.starts_with(['#', '`']) || line.is_empty() {
            found.extend(pending.take());
            begins = true;
            continue;
        }
        begins |= line.starts_with(['|', '-', '*']);
        for cell in line.split('|') {
            begins |= line.starts_with('|');
            for word in cell.split_whitespace().filter(|word| *word != "-" && *word != "*") {
                let word = word.trim_start_matches(['*', '(', '"']);
                if begins && word.starts_with(char::is_uppercase) {
                    pending = pronoun(word).map(|word| (at + 1, word));
                }
                begins = word.ends_with(['.', '?', '!']);
                if begins {
                    found.extend(pending.take().filter(|_| !word.ends_with('?')));
                }
            }
        }
    }
    found.extend(pending);
    found
}

fn is_production(name: &str) -> bool {
    let crates = ["crates/agentctl/src/", "crates/agentctl-core/src/"];
    crates.iter().any(|path| name.starts_with(path)) && !name.ends_with("tests.rs")
}

/// Returns the line and the first words of each comment sentence that begins with a pronoun. Test modules at
/// the end of a file and doc comments that users see are left out.
fn sentences_with_pronoun(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().take_while(|line| *line != "#[cfg(test)]").collect();
    let shown = shown_to_users(&lines);
    let mut found = Vec::new();
    let mut begins = true;
    let mut pending: Option<(usize, String)> = None;
    for (at, line) in lines.iter().enumerate() {
        let Some(comment) = comment(line).filter(|_| !shown[at]) else {
            (begins, pending) = (true, None);
            continue;
        };
        for word in comment.split_whitespace() {
            if let Some((line, first)) = pending.take() {
                found.extend(pronoun(&format!("{first} {word}")).map(|words| (line, words)));
            }
            if begins {
                found.extend(pronoun(word).map(|words| (at + 1, words)));
                pending = Some((at + 1, word.to_owned()));
            }
            begins = word.ends_with(['.', '?', '!']);
        }
    }
    found
}

/// Returns the text of a line that is a comment. An empty one ends a paragraph.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    let text = text.strip_prefix(['/', '!']).unwrap_or(text).trim();
    Some(text).filter(|text| !text.is_empty())
}

fn pronoun(words: &str) -> Option<String> {
    let lower = words.to_lowercase();
    let lower = lower.trim_end_matches([',', ':', ';']);
    PRONOUNS.contains(&lower).then(|| words.to_owned())
}

/// Says for each line whether it belongs to a type whose doc comments are help texts or part of a schema.
fn shown_to_users(lines: &[&str]) -> Vec<bool> {
    let mut shown = vec![false; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        let derives = |word: &str| SHOWN_TO_USERS.contains(&word);
        let words = line.split(|c: char| !c.is_alphanumeric());
        if !line.starts_with("#[derive(") || !words.clone().any(derives) {
            continue;
        }
        let above = lines[..at].iter().rev();
        let above = above.take_while(|l| l.starts_with("///") || l.starts_with("#[")).count();
        let below = lines[at..].iter().position(|l| *l == "}" || l.ends_with(['}', ';']));
        shown[at - above..=at + below.unwrap_or(0)].fill(true);
    }
    shown
}

#[test]
fn sentences_are_found_across_lines_and_help_texts_are_left_out() {
    let source = "//! Who lives.\n//! Fine: what is inside a sentence counts\n//! not. So\n//! many rows.\n\n\
        /// Help. What to do\n#[derive(Args)]\nstruct A {\n    /// Who locks it\n    by: String,\n}\n\n\
        // The one that was asked. One that\n// fits.\nfn f() {}\n#[cfg(test)]\n// What a test says.\n";
    let found = sentences_with_pronoun(source);
    let found: Vec<(usize, &str)> =
        found.iter().map(|(line, words)| (*line, words.as_str())).collect();
    assert_eq!(found, [(1, "Who"), (3, "So many"), (13, "One that")]);
}
