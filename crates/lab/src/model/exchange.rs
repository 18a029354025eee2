//! One request from its bytes to the end of its answer: the common part of all APIs.
//!
//! The position in a script follows from the request itself, so nothing is stored between requests
//! except how often a scripted error was already sent.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Connection, Incoming, Json};
use super::script::{Script, Step};
use super::tools::{Tool, shell_call};
use super::{Api, End, Request, Room, Usage, anthropic, chat, responses};

const MODELS: [&str; 2] = ["claude-fake-1", "fake-codex-1"];

/// Model names with this prefix are refused like unknown models of the vendors.
const UNKNOWN: &str = "nosuch";

/// The content of a request, independent of its API.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) prompt: String,
    /// How many tool results follow the prompt.
    pub(super) steps_done: usize,
    pub(super) tools: Vec<Tool>,
    /// The agent's name of its conversation.
    pub(super) key: Option<String>,
    /// Whether the answer must be JSON.
    pub(super) wants_json: bool,
}

/// One response of the model.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) model: Value,
    pub(super) think: Option<String>,
    pub(super) said: Said,
    request_bytes: usize,
    fixed: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(super) enum Said {
    Text(String),
    Call { note: String, name: String, arguments: Value },
}

impl Turn {
    /// Returns the tokens in and out: the server's fixed ones, or a guess from the sizes.
    pub(super) fn tokens(&self, content: &Value) -> (u64, u64) {
        let guess = |bytes: usize| u64::try_from(bytes / 4).unwrap_or(u64::MAX).max(1);
        self.fixed.unwrap_or_else(|| (guess(self.request_bytes), guess(content.to_string().len())))
    }
}

/// A response in both of its shapes.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Value,
    pub(super) usage: Usage,
    pub(super) events: Vec<Event>,
}

/// One server-sent event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    name: Option<String>,
    data: String,
    /// A piece of the text: pieces are sent slowly with `drip`, and a cut comes after the first.
    piece: bool,
    /// The end of a block: with `pace` the rest of the answer comes later.
    ends_block: bool,
    usage: Option<Usage>,
}

impl Event {
    pub(super) fn new(name: Option<&str>, data: &Value) -> Self {
        let name = name.map(str::to_owned);
        Self { name, data: data.to_string(), piece: false, ends_block: false, usage: None }
    }

    /// The mark that ends a stream of chunks; it is not JSON.
    pub(super) fn done() -> Self {
        Self { data: "[DONE]".to_owned(), ..Self::new(None, &Value::Null) }
    }

    /// Says that a block of the answer ends with this event.
    pub(super) fn ending_a_block(self) -> Self {
        Self { ends_block: true, ..self }
    }

    pub(super) fn a_piece(self) -> Self {
        Self { piece: true, ..self }
    }

    /// Sets the usage that the event reports to the client.
    pub(super) fn reporting(self, usage: Usage) -> Self {
        Self { usage: Some(usage), ..self }
    }
}

/// Splits a text behind each run of blanks; joined, the pieces are the text again.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let blank = text.find(char::is_whitespace).unwrap_or(text.len());
        let next = text[blank..].find(|c: char| !c.is_whitespace()).map(|at| blank + at);
        let (piece, left) = text.split_at(next.unwrap_or(text.len()));
        rest = Some(left).filter(|left| !left.is_empty());
        Some(piece)
    })
}

/// Returns the text of a message's content: a string, or the texts among its parts.
pub(super) fn text_of(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.trim().to_owned();
    }
    let parts = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n").trim().to_owned()
}

pub(super) fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The state of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    KeepAlive,
    Close,
}

/// How the text of an answer is sent.
struct Pace {
    /// The time it takes.
    drip: Duration,
    /// The time behind the end of each block.
    block_pause: Duration,
    /// Whether it ends behind its first piece.
    cut: bool,
}

/// An exchange under way.
struct Exchange<'a> {
    room: &'a Room,
    connection: &'a mut Connection,
    incoming: &'a Incoming,
    /// Which of the room's records is about this request.
    number: usize,
}

/// Answers one request and keeps its record.
pub(super) fn serve(room: &Room, connection: &mut Connection, incoming: &Incoming) -> After {
    let api = api(&incoming.method, &incoming.path);
    let mut record = Request::begun(api, &incoming.method, &incoming.path);
    let parsed = match incoming.body.as_slice() {
        [] => Ok(json!({})),
        bytes => serde_json::from_slice::<Value>(bytes),
    };
    let asked = parsed.as_ref().ok().and_then(|body| match api {
        Api::Anthropic => Some(anthropic::asked(body)),
        Api::Responses => Some(responses::asked(body)),
        Api::Chat => Some(chat::asked(body)),
        Api::CountTokens | Api::Models | Api::Other => None,
    });
    if let (Some(asked), Ok(body)) = (&asked, &parsed) {
        record.model = body["model"].as_str().map(str::to_owned);
        record.prompt.clone_from(&asked.prompt);
        record.steps_done = asked.steps_done;
        if asked.steps_done > 0 {
            let said = [&body["messages"], &body["input"]].into_iter().find(|said| said.is_array());
            record.conversation = said.cloned().unwrap_or_default();
        }
        record.tools = asked.tools.len();
        // Titles, topics and summaries are asked for without tools; they must not run the script.
        record.side = asked.tools.is_empty();
        record.stream = body["stream"] == true;
        record.key.clone_from(&asked.key);
    }
    let number = room.begin(record);
    let mut exchange = Exchange { room, connection, incoming, number };
    let done = match (parsed, asked) {
        (Err(e), _) => exchange.refuse(api, &format!("the body is not JSON: {e}")),
        (Ok(body), Some(asked)) => exchange.play(api, &body, &asked),
        (Ok(_), None) => exchange.inform(api),
    };
    let end = if done.is_ok() { End::Answered } else { End::Gone };
    room.finish(number, end);
    match done {
        Ok(after) if incoming.keep_alive => after,
        _ => After::Close,
    }
}

fn api(method: &str, path: &str) -> Api {
    let post = method == "POST";
    match path {
        _ if post && path.ends_with("/messages/count_tokens") => Api::CountTokens,
        _ if post && path.ends_with("/messages") => Api::Anthropic,
        _ if post && path.ends_with("/responses") => Api::Responses,
        _ if post && path.ends_with("/chat/completions") => Api::Chat,
        _ if method == "GET" && path.ends_with("/models") => Api::Models,
        _ => Api::Other,
    }
}

impl Exchange<'_> {
    /// Answers requests that need no model.
    fn inform(&mut self, api: Api) -> io::Result<After> {
        match api {
            Api::CountTokens => {
                let tokens = (self.incoming.body.len() / 4).max(1);
                self.json(200, &json!({"input_tokens": tokens}))
            }
            Api::Models => self.json(200, &models()),
            // Clients check that the server is reachable.
            _ if self.incoming.method == "HEAD" => self.json(200, &json!({})),
            _ => self.json(404, &anthropic::error("not_found_error", "no such path")),
        }
    }

    fn refuse(&mut self, api: Api, why: &str) -> io::Result<After> {
        self.json(400, &error(api, "invalid_request_error", why))
    }

    fn json(&mut self, status: u16, body: &Value) -> io::Result<After> {
        self.room.update(self.number, |record| record.status = status);
        let Incoming { method, keep_alive, .. } = self.incoming;
        self.connection.send_json(&Json { method, status, body, keep_alive: *keep_alive })?;
        Ok(After::KeepAlive)
    }

    /// Runs the script.
    fn play(&mut self, api: Api, body: &Value, asked: &Asked) -> io::Result<After> {
        if let Some(model) = body["model"].as_str().filter(|m| m.starts_with(UNKNOWN)) {
            let (status, body) = match api {
                Api::Responses | Api::Chat => (400, responses::no_model(model)),
                _ => (404, anthropic::error("not_found_error", &format!("model: {model}"))),
            };
            return self.json(status, &body);
        }
        let script = match Script::of(&asked.prompt) {
            _ if asked.tools.is_empty() => title(asked),
            Ok(script) => script,
            // Said aloud: a script that quietly did something else would prove nothing.
            Err(why) => return self.refuse(api, &format!("bad script: {why}")),
        };
        if let Some(status) = self.room.fails(&asked.prompt, asked.steps_done, script.failure) {
            let kind = error_kind(status);
            return self.json(status, &error(api, kind, &format!("scripted {status}")));
        }
        if script.hang {
            self.room.log(self.number);
            self.connection.wait_for_close();
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.pause(script.delay)?;
        let turn = Turn {
            model: body["model"].clone(),
            think: script.think.clone(),
            said: said(&script, asked),
            request_bytes: self.incoming.body.len(),
            fixed: self.room.usage,
        };
        let answer = match api {
            Api::Responses => responses::answer(&turn),
            Api::Chat => chat::answer(&turn),
            _ => anthropic::answer(&turn),
        };
        let text = matches!(turn.said, Said::Text(_));
        let drip = if text { script.drip } else { Duration::ZERO };
        let pace = Pace { drip, block_pause: script.pace, cut: script.cut && text };
        if body["stream"] == true {
            self.stream(&answer.events, &pace)
        } else if pace.cut {
            self.half(&answer.body)
        } else {
            self.pause(pace.drip)?;
            self.room.update(self.number, |record| record.usage = Some(answer.usage));
            self.json(200, &answer.body)
        }
    }

    fn stream(&mut self, events: &[Event], pace: &Pace) -> io::Result<After> {
        let count = events.iter().filter(|event| event.piece).count();
        let each = pace.drip / u32::try_from(count).unwrap_or(u32::MAX).max(1);
        self.room.update(self.number, |record| record.status = 200);
        self.connection.begin_events()?;
        for event in events {
            if event.piece {
                self.pause(each)?;
            }
            if event.usage.is_some() {
                self.room.update(self.number, |record| record.usage = event.usage);
            }
            self.connection.send_event(event.name.as_deref(), &event.data)?;
            if event.piece && pace.cut {
                self.room.finish(self.number, End::Cut);
                break;
            }
            if event.ends_block {
                self.pause(pace.block_pause)?;
            }
        }
        Ok(After::Close)
    }

    fn half(&mut self, body: &Value) -> io::Result<After> {
        self.room.update(self.number, |record| record.status = 200);
        let method = &self.incoming.method;
        self.connection.send_half(&Json { method, status: 200, body, keep_alive: false })?;
        self.room.finish(self.number, End::Cut);
        Ok(After::Close)
    }

    /// Waits; an error when the server is stopped meanwhile.
    fn pause(&self, time: Duration) -> io::Result<()> {
        if self.room.pause(time) { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

/// Returns the answer to a request for a title.
fn title(asked: &Asked) -> Script {
    let title = "Scripted title";
    let json = || json!({"title": title}).to_string();
    let answer = if asked.wants_json { json() } else { title.to_owned() };
    Script { answer, ..Script::default() }
}

fn said(script: &Script, asked: &Asked) -> Said {
    let Some(step) = script.steps.get(asked.steps_done) else {
        return Said::Text(script.answer.clone());
    };
    let (name, arguments) = match step {
        Step::Call(name, arguments) => (name.clone(), arguments.clone()),
        Step::Shell(command) => shell_call(&asked.tools, command),
    };
    let note = format!("step {} of {}", asked.steps_done + 1, script.steps.len());
    Said::Call { note, name, arguments }
}

fn error(api: Api, kind: &str, message: &str) -> Value {
    match api {
        Api::Responses | Api::Chat => responses::error(kind, message),
        _ => anthropic::error(kind, message),
    }
}

fn error_kind(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// One list that both vendors' clients can read.
fn models() -> Value {
    let data = MODELS.map(|id| {
        json!({
            "id": id, "type": "model", "object": "model", "display_name": id, "created": 0,
            "created_at": "2026-01-01T00:00:00Z", "owned_by": "fake",
        })
    });
    json!({
        "object": "list", "has_more": false, "first_id": MODELS[0], "last_id": MODELS[1],
        "models": [], "data": data,
    })
}
