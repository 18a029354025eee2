//! Every public method of `Fleet` in the room `ask` answers with one type that can be sent and described.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Token, production, tokens};

/// The derives that let a document be written, read and described.
const DERIVES: [&str; 3] = ["Serialize", "Deserialize", "JsonSchema"];

/// The methods that answer with no document, and why.
const EXCEPTIONS: [(&str, &str); 10] = [
    ("rows", "packed rows: the feed of `list` keeps 100 000 sessions in little memory"),
    ("with_limit", "another fleet, no answer"),
    ("configuration_checks", "part of the document of `doctor`, for `config check`"),
    ("transcript", "an open file that is read further"),
    ("run_output", "an open file that is read further"),
    ("watcher", "a stream of events, each a document"),
    (
        "waiting",
        "the document is that of `asks`; this adds the sessions, whose names a table shows",
    ),
    ("is_settled", "compares two answers of `asks`, for the walk of `answer`"),
    ("known_groups", "names for the hint of an error, no answer"),
    ("inspect", "part of other answers: the session of a target that was resolved before"),
];

/// Returns the derives of every public type of a file.
fn derives(tokens: &[Token]) -> BTreeMap<String, BTreeSet<String>> {
    let (mut found, mut pending) = (BTreeMap::new(), BTreeSet::new());
    for (at, token) in tokens.iter().enumerate() {
        if token.word() == Some("derive") {
            let list = tokens[at..].iter().take_while(|token| !token.is(')'));
            pending.extend(list.filter_map(Token::word).map(str::to_owned));
        }
        if let [public, kind, name, ..] = &tokens[at..]
            && public.word() == Some("pub")
            && matches!(kind.word(), Some("struct" | "enum"))
        {
            let name = name.word().unwrap_or_default().to_owned();
            found.insert(name, std::mem::take(&mut pending));
        }
        if token.is(';') || token.is('}') {
            pending.clear();
        }
    }
    found
}

/// A public method of `Fleet` and the tokens of the type that it returns.
struct Method<'a> {
    name: &'a str,
    answer: &'a [Token],
}

/// Returns the public methods in every `impl Fleet` of a file.
fn methods(tokens: &[Token]) -> Vec<Method<'_>> {
    let (mut found, mut depth, mut inside) = (Vec::new(), 0, false);
    for (at, token) in tokens.iter().enumerate() {
        let words: Vec<_> = tokens[at..].iter().take(3).map(Token::word).collect();
        match words.as_slice() {
            [Some("impl"), Some("Fleet"), None] if depth == 0 => inside = true,
            [Some("pub"), Some("fn"), Some(name)] if inside && depth == 1 => {
                let rest = &tokens[at..];
                let end = rest.iter().position(|t| t.is('{')).unwrap_or(rest.len());
                let arrow =
                    rest[..end].windows(2).rposition(|two| two[0].is('-') && two[1].is('>'));
                let answer = arrow.map_or(&rest[..0], |arrow| &rest[arrow + 2..end]);
                found.push(Method { name, answer });
            }
            _ => {}
        }
        if token.is('{') {
            depth += 1;
        } else if token.is('}') {
            depth -= 1;
            inside = inside && depth > 0;
        }
    }
    found
}

/// Says what is wrong with the answer of a method.
fn complaint(method: &Method<'_>, types: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    // `Result<Document, …>` and `io::Result<Document>` answer with the document.
    let words = method.answer.iter().position(|token| token.word() == Some("Result"));
    let success = &method.answer[words.map_or(0, |at| at + 2)..];
    if success.first().is_some_and(|token| token.is('(')) {
        return Some(format!("{} answers with a tuple: make it one document", method.name));
    }
    let Some(name) = success.first().and_then(Token::word) else {
        return Some(format!("{} answers with nothing", method.name));
    };
    let Some(derives) = types.get(name) else {
        return Some(format!("{} answers with {name}, which is no type of the core", method.name));
    };
    let missing: Vec<&str> =
        DERIVES.into_iter().filter(|derive| !derives.contains(*derive)).collect();
    let missing = (!missing.is_empty()).then(|| missing.join(", "));
    missing.map(|missing| format!("{} answers with {name}, which lacks {missing}", method.name))
}

#[test]
fn every_answer_of_the_fleet_is_one_document() {
    let core = production("crates/agentctl-core/src");
    let types: BTreeMap<_, _> = core.iter().flat_map(|(_, tokens)| derives(tokens)).collect();
    let asked = core.iter().filter(|(file, _)| file == "ask.rs" || file.starts_with("ask/"));
    let mut wrong = Vec::new();
    let mut unused: BTreeSet<&str> = EXCEPTIONS.iter().map(|(name, _)| *name).collect();
    let mut count = 0;
    for (file, tokens) in asked {
        for method in methods(tokens) {
            count += 1;
            if let Some(complaint) = complaint(&method, &types)
                && !EXCEPTIONS.iter().any(|(name, _)| *name == method.name)
            {
                wrong.push(format!("{file}: {complaint}"));
            } else if complaint(&method, &types).is_some() {
                unused.remove(method.name);
            }
        }
        let sent = |name: &str| name.ends_with("Document") || name.ends_with("Request");
        for (name, derives) in derives(tokens).iter().filter(|(name, _)| sent(name)) {
            let lacks = DERIVES.into_iter().find(|derive| !derives.contains(*derive));
            wrong.extend(lacks.map(|derive| format!("{file}: {name} lacks {derive}")));
        }
    }
    wrong.extend(unused.iter().map(|name| format!("no exception is needed for {name}: remove it")));
    assert!(count > 20, "only {count} methods were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_tuple_a_missing_derive_and_an_unknown_type_are_reported() {
    let source = tokens(
        "#[derive(Serialize, Deserialize, JsonSchema)] pub struct Good { a: u8 }
        #[derive(Serialize)] pub struct Bad(u8);
        pub struct Bare;
        impl Fleet {
            pub fn good(&self) -> io::Result<Good> { loop {} }
            pub fn tell(&self, tell: &dyn Fn(u8) -> bool) -> Good { loop {} }
            pub fn pair(&self) -> Result<(Good, u8), Bad> { loop {} }
            pub fn bad(&self) -> Bad { loop {} }
            pub fn bare(&self) -> Bare { loop {} }
            pub fn other(&self) -> Option<Good> { loop {} }
            fn private(&self) -> (u8, u8) { loop {} }
        }
        impl Other { pub fn pair(&self) -> (u8, u8) { loop {} } }",
    );
    let types = derives(&source);
    let said: Vec<_> = methods(&source).iter().filter_map(|m| complaint(m, &types)).collect();
    let expected = [
        "pair answers with a tuple: make it one document",
        "bad answers with Bad, which lacks Deserialize, JsonSchema",
        "bare answers with Bare, which lacks Serialize, Deserialize, JsonSchema",
        "other answers with Option, which is no type of the core",
    ];
    assert_eq!(said, expected);
}
