//! Production source as tokens, for tests of the house rules: comments and test code are left out.

use std::path::PathBuf;

/// Returns the root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file of the workspace with its text.
pub(crate) fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut pending = vec![workspace().join("crates")];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("listed").flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|n| n != "fixtures" && n != "target") {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name =
                    path.strip_prefix(workspace()).expect("inside").to_string_lossy().into_owned();
                found.push((name, std::fs::read_to_string(&path).expect("readable")));
            }
        }
    }
    found.sort();
    found
}

/// The production files below a folder of the workspace: the path below it, and the tokens.
pub(crate) fn production(folder: &str) -> Vec<(String, Vec<Token>)> {
    let files = sources().into_iter().filter_map(|(name, text)| {
        let below = name.strip_prefix(folder)?.strip_prefix('/')?.to_owned();
        let is_test = below.ends_with("tests.rs") || below.contains("/tests/");
        (!is_test).then(|| (below, without_tests(&tokens(&text))))
    });
    files.collect()
}

/// One token of Rust, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier, a keyword or a number.
    Word(String),
    /// The content of a string literal.
    Text(String),
    /// Any other character.
    Mark(char),
}

impl Token {
    pub(crate) fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// Splits Rust source into tokens. Comments, character literals and lifetimes are left out.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let text: Vec<char> = source.chars().collect();
    let at = |i: usize| text.get(i).copied().unwrap_or('\0');
    let (mut found, mut i, mut line) = (Vec::new(), 0, 1);
    while i < text.len() {
        let begin = i;
        let kind = match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < text.len() && at(i) != '\n' {
                    i += 1;
                }
                None
            }
            '/' if at(i + 1) == '*' => {
                while i < text.len() && (at(i), at(i + 1)) != ('*', '/') {
                    i += 1;
                }
                i += 2;
                None
            }
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += if at(i + 1) == '\\' { 3 } else { 2 };
                while i < text.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
                None
            }
            '\'' => {
                i += 1;
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                None
            }
            '"' => Some(quoted(&text, &mut i, None)),
            c if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                let word: String = text[begin..i].iter().collect();
                let hashes = text[i..].iter().take_while(|c| **c == '#').count();
                let raw = matches!(word.as_str(), "r" | "br" | "cr");
                if raw && at(i + hashes) == '"' {
                    i += hashes;
                    Some(quoted(&text, &mut i, Some(hashes)))
                } else if matches!(word.as_str(), "b" | "c") && matches!(at(i), '"' | '\'') {
                    // The prefix of the literal that follows.
                    None
                } else {
                    Some(Kind::Word(word))
                }
            }
            c => {
                i += 1;
                (!c.is_whitespace()).then_some(Kind::Mark(c))
            }
        };
        found.extend(kind.map(|kind| Token { kind, line }));
        line += text[begin..i.min(text.len())].iter().filter(|c| **c == '\n').count();
    }
    found
}

/// Reads a string from its opening quote; `hashes` for a raw one.
fn quoted(text: &[char], i: &mut usize, hashes: Option<usize>) -> Kind {
    *i += 1;
    let begin = *i;
    let ends = |i: usize| {
        let close = text[i + 1..].iter().take(hashes.unwrap_or(0));
        text[i] == '"' && close.filter(|c| **c == '#').count() == hashes.unwrap_or(0)
    };
    while *i < text.len() && !ends(*i) {
        *i += if text[*i] == '\\' && hashes.is_none() { 2 } else { 1 };
    }
    let inside = text[begin..(*i).min(text.len())].iter().collect();
    *i += 1 + hashes.unwrap_or(0);
    Kind::Text(inside)
}

/// Leaves out every item behind `#[cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let (mut kept, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        if is_test_attribute(&tokens[i..]) {
            i = end_of_item(tokens, i);
        } else {
            kept.push(tokens[i].clone());
            i += 1;
        }
    }
    kept
}

fn is_test_attribute(tokens: &[Token]) -> bool {
    let words = ["cfg", "test"].map(Some);
    matches!(tokens, [hash, open, cfg, bracket, test, ..]
        if hash.is('#') && open.is('[') && bracket.is('(') && [cfg.word(), test.word()] == words)
}

/// Returns where the item that begins here ends: behind its block, or behind its semicolon.
fn end_of_item(tokens: &[Token], mut i: usize) -> usize {
    let mut depth = 0;
    while i < tokens.len() {
        match tokens[i].kind {
            Kind::Mark('{' | '(' | '[') => depth += 1,
            Kind::Mark('}') if depth == 1 => return i + 1,
            Kind::Mark('}' | ')' | ']') => depth -= 1,
            Kind::Mark(';') if depth == 0 => return i + 1,
            _ => {}
        }
        i += 1;
    }
    i
}

#[test]
fn source_is_read_without_comments_and_tests() {
    let source = "use a::b; // crate::x\n/* crate::y */ let c = '\"'; fn f<'a>() { g(r#\"q\"z\"#, b\"w\\\"\") }\n\
        #[cfg(test)]\n#[allow(x)]\nmod tests { use crate::z; }\nlet d = \"crate\";";
    let kept = without_tests(&tokens(source));
    let words: Vec<&str> = kept.iter().filter_map(Token::word).collect();
    assert_eq!(words, ["use", "a", "b", "let", "c", "fn", "f", "g", "let", "d"]);
    let texts: Vec<_> = kept.iter().filter(|t| matches!(t.kind, Kind::Text(_))).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(kept.last().map(|t| t.line), Some(6));
}
