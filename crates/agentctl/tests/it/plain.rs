//! Comments and documents in plain language: a sentence names its object instead of beginning with a pronoun.

use crate::docs::documents;
use crate::source::{sources, workspace};

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

#[test]
fn no_comment_sentence_begins_with_a_pronoun() {
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| is_production(name)) {
        let sentences = sentences_with_pronoun(text);
        found.extend(sentences.iter().map(|(line, words)| format!("{name}:{line}: {words} …")));
    }
    assert!(found.is_empty(), "name the object, not a pronoun:\n{}", found.join("\n"));
}

#[test]
fn no_sentence_of_a_document_begins_with_a_pronoun() {
    let mut found = Vec::new();
    let changes = std::fs::read_to_string(workspace().join("CHANGELOG.md")).expect("readable");
    for (name, text) in documents().into_iter().chain([("CHANGELOG.md".to_owned(), changes)]) {
        let sentences = document_sentences_with_pronoun(&text);
        found.extend(sentences.iter().map(|(line, words)| format!("{name}:{line}: {words} …")));
    }
    assert!(found.is_empty(), "name the object, not a pronoun:\n{}", found.join("\n"));
    let planted =
        "# Where it is\n\n`True`. What is\nleft. Who?\n\n| what it is | Nobody knows. |\n";
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
        if code || line.starts_with('#') || line.starts_with("```") || line.is_empty() {
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
/// the end of a file are left out.
fn sentences_with_pronoun(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut begins = true;
    let mut pending: Option<(usize, String)> = None;
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    for (at, line) in lines.enumerate() {
        let Some(comment) = comment(line) else {
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

#[test]
fn sentences_are_found_across_lines_and_in_help_texts() {
    let source = "//! Who lives.\n//! Fine: what is inside a sentence counts\n//! not. So\n//! many rows.\n\n\
        /// Help. What to do\n#[derive(Args)]\nstruct A {\n    /// Who locks it\n    by: String,\n}\n\n\
        // The one that was asked. One that\n// fits.\nfn f() {}\n#[cfg(test)]\n// What a test says.\n";
    let found = sentences_with_pronoun(source);
    let found: Vec<(usize, &str)> =
        found.iter().map(|(line, words)| (*line, words.as_str())).collect();
    assert_eq!(found, [(1, "Who"), (3, "So many"), (6, "What"), (9, "Who"), (13, "One that")]);
}
