//! Session files of Pi and of `pi_agent_rust`: the same lines in the same store, under other names.

use std::path::{Path, PathBuf};

use super::chance::Chance;
use super::sheet::{self, Filler, Sheet, Tokens, words};
use super::{Outcome, Written};

/// Which session to write.
pub(super) struct Order<'a> {
    pub(super) id: &'a str,
    pub(super) cwd: &'a str,
    pub(super) start_ms: i64,
    pub(super) bytes: usize,
    pub(super) outcome: Outcome,
    /// By `pi_agent_rust`.
    pub(super) rust: bool,
}

impl Order<'_> {
    /// Returns where the file lies below the home.
    pub(super) fn path(&self) -> PathBuf {
        let folder = format!("--{}--", self.cwd.trim_start_matches('/').replace('/', "-"));
        let time = sheet::moment(self.start_ms).replace(':', "-");
        let name = if self.rust {
            format!("{time}_{}.jsonl", &self.id[..8])
        } else {
            format!("{}_{}.jsonl", time.replace('.', "-"), self.id)
        };
        Path::new(".pi/agent/sessions").join(folder).join(name)
    }
}

const HEADER: &str = r#"{"type":"session","version":3,"id":"$S","timestamp":"$T","cwd":"$C"}"#;
const RUST_HEADER: &str = r#"{"type":"session","version":3,"id":"$S","timestamp":"$T","cwd":"$C","provider":"anthropic","modelId":"claude-sonnet-4-5","thinkingLevel":"off"}"#;
const ENTRY: &str = r#"{"type":"$K","id":"$I","parentId":$P,"timestamp":"$T","#;
const MODEL: &str = r#""provider":"anthropic","modelId":"claude-sonnet-4-5"}"#;
const THINKING: &str = r#""thinkingLevel":"off"}"#;
const SYSTEM: &str = r#""message":{"role":"system","content":"","sections":{"preamble":"$F","tools":"$F","rules":"$F","cwd":"<cwd>\n$C\n</cwd>"},"timestamp":$Y}}"#;
const ASKED: &str =
    r#""message":{"role":"user","content":[{"type":"text","text":"$X"}],"timestamp":$Y}}"#;
const ANSWER: &str = r#""message":{"role":"assistant","content":[$B],"api":"anthropic-messages","provider":"anthropic","model":"claude-sonnet-4-5","usage":$U,"stopReason":"$L","timestamp":$Y$E}}"#;
const TEXT: &str = r#"{"type":"text","text":"$F"}"#;
const CALL: &str = r#"{"type":"text","text":"$F"},{"type":"toolCall","id":"call_$V","name":"bash","arguments":{"command":"$W"}}"#;
const RESULT: &str = r#""message":{"role":"toolResult","toolCallId":"call_$V","toolName":"bash","content":[{"type":"text","text":"$F"}],"isError":false,"timestamp":$Y}}"#;
const NAME: &str = r#""name":"$F"}"#;
/// Kept free for the last answer.
const END: usize = 3 << 10;

struct Session<'a> {
    sheet: Sheet<'a>,
    tokens: Tokens,
}

/// Writes one session file.
pub(super) fn session(order: &Order, mut chance: Chance, filler: &Filler) -> Written {
    // Newer versions write down their own prompt.
    let prompted = !order.rust && chance.percent(70);
    let name = chance.percent(15).then(|| words(&mut chance, 3));
    let mut sheet = Sheet::new(filler, chance, order.start_ms, order.bytes);
    sheet.set(b'S', order.id);
    sheet.set(b'C', order.cwd);
    sheet.set(b'P', "null");
    sheet.set(b'T', sheet::moment(order.start_ms));
    sheet.line(if order.rust { RUST_HEADER } else { HEADER });
    let mut session = Session { sheet, tokens: Tokens::default() };
    if !order.rust {
        session.entry("model_change", MODEL);
        session.entry("thinking_level_change", THINKING);
    }
    if prompted {
        session.sheet.fill(b'F', 2 << 10);
        session.entry("message", SYSTEM);
    }
    session.prompt();
    if let Some(name) = name {
        session.sheet.set(b'F', name);
        session.entry("session_info", NAME);
    }
    session.turns(order.outcome);
    let Session { sheet, tokens } = session;
    Written { end_ms: sheet.clock_ms() + 1, bytes: sheet.bytes, tokens }
}

impl Session<'_> {
    /// Writes an entry, hung below the one before.
    fn entry(&mut self, kind: &str, rest: &str) {
        self.sheet.tick(800);
        let now = self.sheet.clock_ms().to_string();
        self.sheet.set(b'Y', now);
        let id = self.sheet.chance.hex(8);
        self.sheet.set(b'I', id);
        self.sheet.set(b'K', kind);
        self.sheet.write(ENTRY);
        self.sheet.line(rest);
        self.sheet.quote(b'I', b'P');
    }

    fn prompt(&mut self) {
        let count = self.sheet.chance.between(3, 30);
        let prompt = words(&mut self.sheet.chance, count);
        self.sheet.set(b'X', prompt);
        self.entry("message", ASKED);
    }

    fn turns(&mut self, outcome: Outcome) {
        loop {
            for _ in 0..self.sheet.chance.between(1, 10) {
                if self.sheet.room(END) > 2 << 10 {
                    self.step();
                }
            }
            if self.sheet.room(END) <= 2 << 10 {
                return self.last(outcome);
            }
            self.answered();
            self.sheet.tick(60_000);
            self.prompt();
        }
    }

    fn answer(&mut self, reason: &str, content: &str, error: &str) {
        let chance = &mut self.sheet.chance;
        let used = Tokens {
            input: chance.between(2, 400),
            output: chance.between(8, 1500),
            cache_read: chance.between(7, 150_000),
            cache_write: chance.between(11, 4000),
        };
        self.tokens.add(used);
        let usage = format!(
            r#"{{"input":{},"output":{},"cacheRead":{},"cacheWrite":{},"totalTokens":{},"cost":{{"input":0.0001,"output":0.0001,"cacheRead":0,"cacheWrite":0,"total":0.0002}}}}"#,
            used.input,
            used.output,
            used.cache_read,
            used.cache_write,
            used.input + used.output + used.cache_read + used.cache_write
        );
        self.sheet.set(b'U', usage);
        self.sheet.set(b'L', reason);
        self.sheet.set(b'E', error);
        self.entry("message", &ANSWER.replace("$B", content));
    }

    fn call(&mut self) {
        let call = self.sheet.chance.hex(20);
        self.sheet.set(b'V', call);
        let command = words(&mut self.sheet.chance, 5);
        self.sheet.set(b'W', command);
        self.sheet.fill(b'F', 150);
        self.answer("toolUse", CALL, "");
    }

    fn step(&mut self) {
        self.call();
        let most = u64::try_from(self.sheet.room(END) / 3).expect("small").min(200 << 10);
        let bytes = self.sheet.chance.log_normal(900.0, 1.6).min(most);
        self.sheet.fill(b'F', usize::try_from(bytes).expect("small"));
        self.entry("message", RESULT);
    }

    fn answered(&mut self) {
        self.sheet.fill(b'F', 600);
        self.answer("stop", TEXT, "");
    }

    fn last(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Finished => self.answered(),
            Outcome::Failed => {
                self.answer("error", "", r#","errorMessage":"529 Overloaded""#);
            }
            Outcome::Interrupted => {
                self.sheet.fill(b'F', 200);
                self.answer("aborted", TEXT, r#","errorMessage":"Request was aborted.""#);
            }
            Outcome::Killed => self.call(),
        }
    }
}
