//! One visit to an app-server to answer a request: subscribe to the thread, take the request that is sent
//! again, compare it with what was shown, answer it, and hear what became of it.
//!
//! The server tells both of two clients that the request is settled and neither whose answer counted, and a
//! client that came later does not hear of a declined item at all. So the result of the call in the rollout
//! decides.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::asks::{Asked, without_dots};
use crate::adapters::answering::{Delivered, NotDelivered};
use crate::model::{Ask, FieldAnswer, Reply};
use crate::talk::{RpcSocket, TalkError};

/// Time for the server to send the open request again; it takes 10 to 40 ms.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the server to say that the request is settled.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Time for a sign that another answer counted, after an answer that lets a tool run: it may run for long.
const CONTRADICTION_TIMEOUT: Duration = Duration::from_millis(300);

/// Pause between two looks at the rollout.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The result of a call whose request is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It ran, or the answer to its question was taken.
    Ran,
    /// It was declined.
    Declined,
    /// The turn was ended.
    Interrupted,
}

/// An answer, and the way to see what became of it.
pub(super) struct Answered<'a> {
    /// The ask.
    pub(super) ask: &'a Ask,
    /// The answer.
    pub(super) reply: &'a Reply,
    /// Reads from the rollout what became of the call; `None` while it has no result.
    pub(super) outcome: &'a dyn Fn() -> Option<Outcome>,
}

/// Answers the open request of an ask. The connection is subscribed to its thread.
pub(super) fn answer(
    socket: &mut RpcSocket,
    thread: &str,
    asked: &Answered<'_>,
) -> Result<Delivered, NotDelivered> {
    let (ask, reply) = (asked.ask, asked.reply);
    let request = replayed(socket, &ask.native)?;
    let (method, params) = (request["method"].as_str().unwrap_or_default(), &request["params"]);
    is_as_shown(ask, method, params).map_err(|why| {
        NotDelivered::Refused(format!("the request is not the one that was shown: {why}"))
    })?;
    let is_question = method == "item/tool/requestUserInput";
    if is_question && *reply == Reply::Stop {
        let turn = json!({ "threadId": thread, "turnId": params["turnId"] });
        let ended = socket.ask("turn/interrupt", &turn);
        return ended.map(|_| Delivered::Taken).map_err(|error| unclear(&error));
    }
    let result = match reply {
        Reply::Fields(given) if is_question => json!({ "answers": answers(given) }),
        Reply::Allow if !is_question => json!({ "decision": "accept" }),
        Reply::Deny { .. } if !is_question => json!({ "decision": "decline" }),
        Reply::Stop => json!({ "decision": "cancel" }),
        _ => return Err(NotDelivered::NotOffered("it does not take this answer".into())),
    };
    socket.respond(&request["id"], &result).map_err(|error| unclear(&error))?;
    settled(socket, &request["id"])?;
    if is_question {
        return Ok(Delivered::Taken);
    }
    judge(asked)
}

fn unclear(error: &TalkError) -> NotDelivered {
    NotDelivered::Unclear(error.to_string())
}

/// Waits for the request of an item, which the server sends again to a new subscriber.
fn replayed(socket: &mut RpcSocket, item: &str) -> Result<Value, NotDelivered> {
    let until = Instant::now() + REPLAY_TIMEOUT;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let message = socket
            .next_message(left)
            .map_err(|error| NotDelivered::Refused(format!("nothing was sent: {error}")))?;
        let Some(message) = message else {
            let why = "its server does not ask for it any more, or not for this call";
            return Err(NotDelivered::Refused(why.into()));
        };
        if message.get("id").is_some() && message["params"]["itemId"] == item {
            return Ok(message);
        }
    }
}

/// Waits until the server says that the request is settled.
fn settled(socket: &mut RpcSocket, request: &Value) -> Result<(), NotDelivered> {
    let until = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let message = socket.next_message(left).map_err(|error| unclear(&error))?;
        let Some(message) = message else {
            return Err(NotDelivered::Unclear("its server did not confirm the answer".into()));
        };
        if message["method"] == "serverRequest/resolved"
            && message["params"]["requestId"] == *request
        {
            return Ok(());
        }
    }
}

/// Decides from what became of the call whether this answer counted.
fn judge(asked: &Answered<'_>) -> Result<Delivered, NotDelivered> {
    let wanted = match asked.reply {
        Reply::Deny { .. } => Outcome::Declined,
        Reply::Stop => Outcome::Interrupted,
        _ => Outcome::Ran,
    };
    let limit = match wanted {
        Outcome::Ran => CONTRADICTION_TIMEOUT,
        Outcome::Declined | Outcome::Interrupted => SETTLE_TIMEOUT,
    };
    let until = Instant::now() + limit;
    let mut outcome = (asked.outcome)();
    while outcome.is_none() && Instant::now() < until {
        std::thread::park_timeout(LOOK_INTERVAL);
        outcome = (asked.outcome)();
    }
    let refused = |why: &str| Err(NotDelivered::Refused(why.to_owned()));
    match (outcome, wanted) {
        (Some(outcome), wanted) if outcome == wanted => Ok(taken(asked.reply)),
        (None, Outcome::Ran) => Ok(taken(asked.reply)),
        (Some(Outcome::Ran), _) => refused("another answer came first and allowed it"),
        (Some(Outcome::Declined), _) => refused("another answer came first and denied it"),
        (Some(Outcome::Interrupted), _) => refused("another answer came first and ended the turn"),
        (None, _) => {
            let why =
                "the request is settled, but its call has no result: it may have been allowed";
            Err(NotDelivered::Unclear(why.into()))
        }
    }
}

fn taken(reply: &Reply) -> Delivered {
    match reply {
        Reply::Deny { message: Some(_) } => Delivered::TakenWithoutWords,
        _ => Delivered::Taken,
    }
}

fn answers(given: &[FieldAnswer]) -> Value {
    let given = given.iter().map(|one| (one.field.clone(), json!({ "answers": one.values })));
    Value::Object(given.collect())
}

/// Checks that a request asks for the call that was shown, and for nothing else.
fn is_as_shown(ask: &Ask, method: &str, params: &Value) -> Result<(), String> {
    let Some(call) = &ask.tool else { return Err("it was not shown".into()) };
    let unexpected = ["networkApprovalContext", "additionalPermissions", "grantRoot"];
    if let Some(field) = unexpected.iter().find(|field| !params[**field].is_null()) {
        return Err(format!("it also asks for {field}"));
    }
    match (method, Asked::of(call)) {
        ("item/commandExecution/requestApproval", Asked::Command(shown)) => {
            if params["kind"].as_str().is_some_and(|kind| kind != "command") {
                return Err(format!("it asks for {}", params["kind"]));
            }
            let asked = params["command"].as_str().unwrap_or_default();
            if !is_same_command(&shown, asked) {
                return Err(format!("it asks to run {asked}"));
            }
            is_same_directory(ask.cwd.as_deref(), &params["cwd"])
        }
        // A command that calls `apply_patch` is carried out as a change of files.
        ("item/fileChange/requestApproval", Asked::Patch(_)) => Ok(()),
        ("item/fileChange/requestApproval", Asked::Command(shown))
            if shown.iter().any(|word| word.contains("apply_patch")) =>
        {
            Ok(())
        }
        ("item/tool/requestUserInput", Asked::Questions(_)) => {
            let asked = params["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_same = asked.len() == ask.fields.len()
                && asked.iter().zip(&ask.fields).all(|(asked, shown)| {
                    asked["id"] == shown.id.as_str() && asked["question"] == shown.text.as_str()
                });
            if is_same { Ok(()) } else { Err("its questions differ".into()) }
        }
        _ => Err(format!("its kind is {method}")),
    }
}

/// Checks that a command is to run in the directory that was shown. A request of an older server names none.
fn is_same_directory(shown: Option<&str>, asked: &Value) -> Result<(), String> {
    let Some(asked) = asked.as_str() else { return Ok(()) };
    let is_same =
        shown.is_some_and(|shown| without_dots(Path::new(shown)) == without_dots(Path::new(asked)));
    if is_same { Ok(()) } else { Err(format!("it asks to run in {asked}")) }
}

/// Says whether the command line of a request runs the command of a call: by itself, or as the script of a
/// shell.
fn is_same_command(shown: &[&str], asked: &str) -> bool {
    let Some(words) = split_words(asked) else { return false };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (shown, words.as_slice()) {
        ([script], _) if *script == asked => true,
        ([script], [_, "-lc" | "-c", asked]) => script == asked,
        (shown, words) => shown == words,
    }
}

/// Splits a command line into words, as a shell does; `None` if a quote is not closed.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            c @ ('$' | '`' | '"' | '\\') => word.push(c),
                            '\n' => {}
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_compared_word_by_word_with_the_command_that_was_shown() {
        let same = |shown: &[&str], asked: &str| is_same_command(shown, asked);
        assert!(same(&["touch x"], "/bin/bash -lc 'touch x'"));
        assert!(same(&["echo 'a b'"], "/bin/bash -lc \"echo 'a b'\""));
        assert!(same(&["echo \"$HOME\" \\"], r#"/bin/bash -c 'echo "$HOME" \'"#));
        assert!(same(&["bash", "-lc", "touch x"], "bash -lc 'touch x'"));
        assert!(same(&["touch x"], "touch x"));
        assert!(!same(&["touch x"], "/bin/bash -lc 'touch x; rm y'"));
        assert!(!same(&["touch x"], "/bin/bash -lc 'touch x' extra"));
        assert!(!same(&["touch x"], "/bin/bash -lc 'touch x"));
        assert!(!same(&["x"], ""));
    }

    #[test]
    fn a_request_for_more_than_was_shown_is_refused() {
        let mut session = crate::fleet::blank_session("codex", "/home/ada/.codex".into());
        session.id = Some("01a1".into());
        let input = json!({ "cmd": "touch x" });
        let call =
            crate::model::ToolCall { id: Some("c".into()), name: "exec_command".into(), input };
        let ask = super::super::asks::describe(&session, &call);
        let command = "item/commandExecution/requestApproval";
        let is_shown = |method: &str, more: Value| {
            let mut params = json!({ "kind": "command", "command": "/bin/bash -lc 'touch x'" });
            for (key, value) in more.as_object().into_iter().flatten() {
                params[key] = value.clone();
            }
            is_as_shown(&ask, method, &params).is_ok()
        };
        assert!(is_shown(command, json!({})));
        assert!(!is_shown(command, json!({ "command": "/bin/bash -lc 'touch y'" })));
        assert!(!is_shown(command, json!({ "kind": "writeStdin" })));
        assert!(!is_shown(command, json!({ "networkApprovalContext": {} })));
        assert!(!is_shown(command, json!({ "additionalPermissions": {} })));
        assert!(!is_shown("item/fileChange/requestApproval", json!({})));
        assert!(!is_shown("item/permissions/requestApproval", json!({})));
    }

    #[test]
    fn a_request_for_another_directory_than_was_shown_is_refused() {
        let mut session = crate::fleet::blank_session("codex", "/home/ada/.codex".into());
        session.id = Some("01a1".into());
        let is_shown = |session: &crate::model::Session, input: Value, cwd: &str| {
            let call =
                crate::model::ToolCall { id: Some("c".into()), name: "exec_command".into(), input };
            let ask = super::super::asks::describe(session, &call);
            let params = json!({ "kind": "command", "command": "rm -rf build", "cwd": cwd });
            is_as_shown(&ask, "item/commandExecution/requestApproval", &params)
        };
        let input = || json!({ "cmd": "rm -rf build" });
        assert!(is_shown(&session, input(), "/home/ada/shop").is_err(), "no directory was shown");
        session.cwd = Some("/home/ada/shop".into());
        assert_eq!(is_shown(&session, input(), "/home/ada/shop/"), Ok(()));
        let refused = is_shown(&session, input(), "/home/production");
        assert_eq!(refused, Err("it asks to run in /home/production".into()));
        let below = json!({ "cmd": "rm -rf build", "workdir": "../../production" });
        assert_eq!(is_shown(&session, below.clone(), "/home/production"), Ok(()));
        assert!(is_shown(&session, below, "/home/ada/shop").is_err());
    }
}
