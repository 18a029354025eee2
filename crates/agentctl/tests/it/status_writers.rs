//! The status of a session is set in one file of the core and nowhere else.

use crate::source::{Kind, Token, production, tokens};

/// The only file that may set the status of a session, below the source folder of the core.
const VERDICT: &str = "fleet/verdict.rs";

/// Returns the lines that set a status: an assignment to a field `status`, alone or in a tuple, a mutable
/// borrow of such a field, and a `Session` that is built with a `status` of its own.
fn status_writes(tokens: &[Token]) -> Vec<usize> {
    let writes = (0..tokens.len()).filter(|&i| {
        let field = tokens[i].word() == Some("status") && i > 0 && tokens[i - 1].is('.');
        (field && (is_assigned(tokens, i + 1) || is_mutably_borrowed(tokens, i)))
            || (tokens[i].word() == Some("Session") && builds_status(tokens, i))
    });
    writes.map(|i| tokens[i].line).collect()
}

/// Says whether the field before this token is assigned to: `=` stands here, or behind the tuple that the
/// field is a part of.
fn is_assigned(tokens: &[Token], at: usize) -> bool {
    let is = |at: usize, mark| tokens.get(at).is_some_and(|token: &Token| token.is(mark));
    let assigns = |at: usize| is(at, '=') && !is(at + 1, '=') && !is(at + 1, '>');
    assigns(at) || end_of_tuple(tokens, at).is_some_and(assigns)
}

/// Returns the position behind the tuple that encloses this position; `None` in the arguments of a call.
fn end_of_tuple(tokens: &[Token], at: usize) -> Option<usize> {
    let step = |depth: i32, token: &Token, opening: [char; 3], closing: [char; 3]| match token.kind
    {
        Kind::Mark(mark) if opening.contains(&mark) => depth + 1,
        Kind::Mark(mark) if closing.contains(&mark) => depth - 1,
        _ => depth,
    };
    let (open, close) = (['(', '{', '['], [')', '}', ']']);
    let (mut depth, mut begin) = (0, at);
    while depth >= 0 {
        begin = begin.checked_sub(1)?;
        depth = step(depth, &tokens[begin], close, open);
    }
    let called = begin.checked_sub(1).is_some_and(|i| tokens[i].word().is_some());
    if !tokens[begin].is('(') || called {
        return None;
    }
    let (mut depth, mut end) = (0, at);
    while depth >= 0 {
        depth = step(depth, tokens.get(end)?, open, close);
        end += 1;
    }
    Some(end)
}

/// Says whether the path that ends in this field is borrowed mutably: `&mut a.b.status`.
fn is_mutably_borrowed(tokens: &[Token], mut at: usize) -> bool {
    if tokens.get(at + 1).is_some_and(|token| token.is('.')) {
        return false;
    }
    while at >= 2 && tokens[at - 1].is('.') && tokens[at - 2].word().is_some() {
        at -= 2;
    }
    at >= 2 && tokens[at - 1].word() == Some("mut") && tokens[at - 2].is('&')
}

/// Says whether a `Session` is built here with a field `status`. Patterns and declarations build nothing.
fn builds_status(tokens: &[Token], at: usize) -> bool {
    let before = at.checked_sub(1).map(|i| &tokens[i]);
    let declares = ["struct", "impl", "for", "let"];
    if before.is_some_and(|t| t.is('>') || t.word().is_some_and(|w| declares.contains(&w)))
        || !tokens.get(at + 1).is_some_and(|token| token.is('{'))
    {
        return false;
    }
    let (mut depth, mut found, mut open_end) = (0, false, false);
    for i in at + 1..tokens.len() {
        match &tokens[i].kind {
            Kind::Mark('{' | '(' | '[') => depth += 1,
            Kind::Mark('}' | ')' | ']') => depth -= 1,
            Kind::Word(word) if depth == 1 && word == "status" => {
                found |= tokens[i - 1].is('{') || tokens[i - 1].is(',');
            }
            _ => {}
        }
        if depth == 0 {
            // A pattern may end in `..` without a value behind it.
            open_end |= tokens[i - 1].is('.');
            break;
        }
    }
    found && !open_end
}

#[test]
fn only_the_verdict_file_sets_the_status_of_a_session() {
    let mut found = 0;
    for name in ["agentctl-core", "agentctl"] {
        for (file, tokens) in production(&format!("crates/{name}/src")) {
            // The demo agent writes its own live record, as every agent does; it uses no `Session`.
            if file.starts_with("demo/") {
                continue;
            }
            let lines = status_writes(&tokens);
            if name == "agentctl-core" && file == VERDICT {
                found = lines.len();
                continue;
            }
            assert!(
                lines.is_empty(),
                "{name}/src/{file} sets a status in {lines:?}: see {VERDICT}"
            );
        }
    }
    assert!(found > 10, "only {found} places were found in {VERDICT}");
}

#[test]
fn a_planted_status_is_reported() {
    let planted = [
        "session.status = Status::Idle;",
        "(session.status, session.reason) = (status, None);",
        "(session.reason, row.session.status) = f(a, b);",
        "std::mem::swap(&mut row.session.status, &mut other);",
        "let s = Session { id, status: Status::Idle, ..blank };",
        "let s = Session { id: f(|x| { x }), status };",
    ];
    let harmless = [
        "if session.status == Status::Idle { a = b; }",
        "if session.status != a { b = c }",
        "match session.status { A => b = c, }",
        "let a = (session.status, b); c = d;",
        "let s = Session { reason: status_of(a), ..b.status };",
        "let Session { status, .. } = session;",
        "let f = |Session { status, .. }: Session| status;",
        "let s = State { status, reason };",
        "*lock(&self.status) = a;",
        "change(&mut self.status.lock());",
        "fn f() -> Session { g(status) }",
        "f(session.status); a = b;",
    ];
    for source in planted {
        assert_eq!(status_writes(&tokens(source)), [1], "{source}");
    }
    for source in harmless {
        assert_eq!(status_writes(&tokens(source)), Vec::<usize>::new(), "{source}");
    }
}
