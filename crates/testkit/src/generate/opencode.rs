//! OpenCode's database, with its own schema, columns and texts, at rest: checkpointed and not open.

use std::io;
use std::path::Path;

use rusqlite::{Connection, Transaction, named_params};

use super::chance::Chance;
use super::sheet::{Filler, Sheet, Tokens, words};
use super::{Agent, Draft, Made, Outcome};

/// Where the database lies in a home.
pub(super) const PATH: &str = ".local/share/opencode/opencode.db";

const SCHEMA: &str = include_str!("opencode.sql");
const SESSION: &str = "insert into session (id, project_id, parent_id, slug, directory, path, title, version, \
     summary_additions, summary_deletions, summary_files, cost, tokens_input, tokens_output, tokens_cache_read, \
     tokens_cache_write, permission, agent, model, time_created, time_updated) values (:id, 'global', :parent, \
     'witty-lagoon', :cwd, '', :title, '1.18.33', 0, 0, 0, :cost, :input, :output, :read, :write, :permission, \
     'build', '{\"id\":\"claude-opus-5-5\",\"providerID\":\"anthropic\",\"variant\":\"default\"}', :start, :end)";
const PERMISSION: &str = r#"[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]"#;

const ASKED: &str = r#"{"role":"user","time":{"created":$A},"agent":"build","model":{"providerID":"anthropic","modelID":"claude-opus-5-5"},"summary":{"diffs":[]}}"#;
const ANSWER: &str = r#"{"parentID":"$P","role":"assistant","mode":"build","agent":"build","path":{"cwd":"$C","root":"$C"},"cost":$G,"tokens":$H,"modelID":"claude-opus-5-5","providerID":"anthropic","time":{"created":$A$E}$L}"#;
const TEXT: &str = r#"{"type":"text","text":"$F","time":{"start":$A,"end":$A}}"#;
const THOUGHT: &str = r#"{"type":"reasoning","text":"$F","time":{"start":$A,"end":$A}}"#;
const BEGUN: &str =
    r#"{"snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-start"}"#;
const ENDED: &str = r#"{"reason":"$R","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-finish","tokens":$H,"cost":$G}"#;
const CALLED: &str = r#"{"type":"tool","tool":"bash","callID":"call_$V","state":{"status":"completed","input":{"command":"$W"},"output":"$F","metadata":{"output":"$F","exit":0,"truncated":false},"title":"$W","time":{"start":$A,"end":$A}}}"#;
const CALLING: &str = r#"{"type":"tool","tool":"bash","callID":"call_$V","state":{"metadata":{"output":""},"status":"running","input":{"command":"$W"},"time":{"start":$A}}}"#;
const FAILED: &str = r#","error":{"name":"APIError","data":{"message":"Overloaded","statusCode":529,"isRetryable":false}}"#;
const ABORTED: &str = r#","error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}"#;
const NOTHING: &str = r#"{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}"#;

/// Kept free for the last answer.
const END: usize = 3 << 10;

/// Writes a database of these sessions, oldest first as the agent does; each comes back with its place.
pub(super) fn write(
    path: &Path,
    mut drafts: Vec<(usize, Draft)>,
    filler: &Filler,
) -> io::Result<Vec<(usize, Made)>> {
    std::fs::create_dir_all(path.parent().expect("a folder"))?;
    drafts.sort_by_key(|(number, draft)| (draft.start_ms, *number));
    fill(path, drafts, filler).map_err(io::Error::other)
}

fn fill(
    path: &Path,
    drafts: Vec<(usize, Draft)>,
    filler: &Filler,
) -> rusqlite::Result<Vec<(usize, Made)>> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -256 * 1024)?;
    let work = connection.transaction()?;
    work.execute_batch(SCHEMA)?;
    let mut made = Vec::with_capacity(drafts.len());
    for (number, draft) in drafts {
        made.push((number, session(&work, draft, filler)?));
    }
    work.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(made)
}

/// Writes one session, and the subagent that some have.
fn session(work: &Transaction<'_>, mut draft: Draft, filler: &Filler) -> rusqlite::Result<Made> {
    let with_child = draft.chance.percent(5);
    let mut part = Chance::new(draft.chance.next(), 0);
    let (cwd, outcome, start_ms) = (draft.cwd.clone(), draft.outcome, draft.start_ms);
    let (id, bytes, mut tokens) = Chat::write(work, draft, None, filler)?;
    let mut total_bytes = bytes;
    if with_child {
        let child = Draft {
            cwd: cwd.clone(),
            start_ms: start_ms + 5000,
            bytes: usize::try_from(part.between(20 << 10, 60 << 10)).expect("small"),
            outcome: Outcome::Finished,
            chance: Chance::new(part.next(), 1),
        };
        let (_, bytes, spent) = Chat::write(work, child, Some(&id), filler)?;
        tokens.add(spent);
        total_bytes += bytes;
    }
    Ok(Made {
        adapter: Agent::OpenCode.name().into(),
        id,
        path: PATH.into(),
        cwd,
        bytes,
        outcome,
        output_tokens: tokens.output,
        total_bytes,
    })
}

/// One session in the making.
struct Chat<'a> {
    work: &'a Transaction<'a>,
    sheet: Sheet<'a>,
    id: String,
    message: String,
    tokens: Tokens,
    count: u64,
}

impl<'a> Chat<'a> {
    fn write(
        work: &'a Transaction<'a>,
        mut draft: Draft,
        parent: Option<&str>,
        filler: &'a Filler,
    ) -> rusqlite::Result<(String, u64, Tokens)> {
        let start_ms = draft.start_ms;
        // The newest session has the smallest id.
        let id = format!("ses_{:012x}{}", !stamp(start_ms, 0) & LOW, draft.chance.hex(14));
        let headless = draft.chance.percent(60);
        let title = words(&mut draft.chance, 4);
        let mut sheet = Sheet::new(filler, draft.chance, start_ms, draft.bytes);
        sheet.set(b'C', &draft.cwd);
        let mut chat =
            Self { work, sheet, id, message: String::new(), tokens: Tokens::default(), count: 0 };
        chat.turns(draft.outcome)?;
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        work.prepare_cached(SESSION)?.execute(named_params! {
            ":id": chat.id,
            ":parent": parent,
            ":cwd": draft.cwd,
            ":title": title,
            ":cost": 0.01,
            ":input": number(chat.tokens.input),
            ":output": number(chat.tokens.output),
            ":read": number(chat.tokens.cache_read),
            ":write": number(chat.tokens.cache_write),
            ":permission": headless.then_some(PERMISSION),
            ":start": start_ms,
            ":end": chat.sheet.clock_ms(),
        })?;
        Ok((chat.id, chat.sheet.bytes.len() as u64, chat.tokens))
    }

    /// Returns the next id of this kind: later ones are greater.
    fn next_id(&mut self, kind: &str) -> String {
        self.count += 1;
        let place = stamp(self.sheet.clock_ms(), self.count % 4096) & LOW;
        format!("{kind}_{place:012x}{}", self.sheet.chance.hex(14))
    }

    fn tick(&mut self, most_ms: u64) {
        self.sheet.tick(most_ms);
        let now = self.sheet.clock_ms().to_string();
        self.sheet.set(b'A', now);
    }

    /// Returns a template with its slots filled.
    fn text(&mut self, template: &str) -> String {
        let from = self.sheet.bytes.len();
        self.sheet.write(template);
        String::from_utf8(self.sheet.bytes[from..].to_vec()).expect("UTF-8")
    }

    fn begin(&mut self) {
        self.tick(800);
        self.message = self.next_id("msg");
    }

    /// Writes the message that was begun.
    fn message(&mut self, created: i64, template: &str) -> rusqlite::Result<()> {
        let data = self.text(template);
        let mut insert = self.work.prepare_cached("insert into message values (?, ?, ?, ?, ?)")?;
        insert.execute((&self.message, &self.id, created, self.sheet.clock_ms(), data))?;
        Ok(())
    }

    fn part(&mut self, template: &str) -> rusqlite::Result<()> {
        self.tick(300);
        let (id, data, now) = (self.next_id("prt"), self.text(template), self.sheet.clock_ms());
        let mut insert = self.work.prepare_cached("insert into part values (?, ?, ?, ?, ?, ?)")?;
        insert.execute((id, &self.message, &self.id, now, now, data))?;
        Ok(())
    }

    fn prompt(&mut self) -> rusqlite::Result<()> {
        self.begin();
        let created = self.sheet.clock_ms();
        self.message(created, ASKED)?;
        let asked = self.message.clone();
        self.sheet.set(b'P', asked);
        let count = self.sheet.chance.between(3, 30);
        let prompt = words(&mut self.sheet.chance, count);
        self.sheet.set(b'F', prompt);
        self.part(r#"{"type":"text","text":"$F"}"#)
    }

    fn turns(&mut self, outcome: Outcome) -> rusqlite::Result<()> {
        self.prompt()?;
        loop {
            for _ in 0..self.sheet.chance.between(1, 10) {
                if self.sheet.room(END) > 4 << 10 {
                    self.step()?;
                }
            }
            if self.sheet.room(END) <= 4 << 10 {
                return self.last(outcome);
            }
            self.answered()?;
            self.tick(60_000);
            self.prompt()?;
        }
    }

    /// One call of the model that asks for a tool, and the tool's output, which is stored twice.
    fn step(&mut self) -> rusqlite::Result<()> {
        self.begin();
        let created = self.sheet.clock_ms();
        self.part(BEGUN)?;
        if self.sheet.chance.percent(40) {
            self.sheet.fill(b'F', 400);
            self.part(THOUGHT)?;
        }
        self.called();
        let most = u64::try_from(self.sheet.room(END) / 5).expect("small").min(100 << 10);
        let bytes = self.sheet.chance.log_normal(900.0, 1.6).min(most);
        self.sheet.fill(b'F', usize::try_from(bytes).expect("small"));
        self.part(CALLED)?;
        self.spend();
        self.sheet.set(b'R', "tool-calls");
        self.part(ENDED)?;
        self.complete(created, r#","finish":"tool-calls""#)
    }

    fn called(&mut self) {
        let call = self.sheet.chance.hex(20);
        self.sheet.set(b'V', call);
        let command = words(&mut self.sheet.chance, 5);
        self.sheet.set(b'W', command);
    }

    fn spend(&mut self) {
        let chance = &mut self.sheet.chance;
        let used = Tokens {
            input: chance.between(2, 400),
            output: chance.between(8, 1500),
            cache_read: chance.between(7, 150_000),
            cache_write: chance.between(11, 4000),
        };
        self.tokens.add(used);
        let total = used.input + used.output + used.cache_read + used.cache_write;
        let text = format!(
            r#"{{"total":{total},"input":{},"output":{},"reasoning":0,"cache":{{"write":{},"read":{}}}}}"#,
            used.input, used.output, used.cache_write, used.cache_read
        );
        self.sheet.set(b'H', text);
        self.sheet.set(b'G', "0.0013");
    }

    fn complete(&mut self, created: i64, how: &str) -> rusqlite::Result<()> {
        self.tick(100);
        let completed = format!(r#","completed":{}"#, self.sheet.clock_ms());
        self.sheet.set(b'E', completed);
        self.answer(created, how)
    }

    fn answer(&mut self, created: i64, how: &str) -> rusqlite::Result<()> {
        self.sheet.set(b'L', how);
        self.sheet.set(b'A', created.to_string());
        self.message(created, ANSWER)
    }

    fn answered(&mut self) -> rusqlite::Result<()> {
        self.begin();
        let created = self.sheet.clock_ms();
        self.part(BEGUN)?;
        self.sheet.fill(b'F', 600);
        self.part(TEXT)?;
        self.spend();
        self.sheet.set(b'R', "stop");
        self.part(ENDED)?;
        self.complete(created, r#","finish":"stop""#)
    }

    fn last(&mut self, outcome: Outcome) -> rusqlite::Result<()> {
        if outcome == Outcome::Finished {
            return self.answered();
        }
        self.begin();
        let created = self.sheet.clock_ms();
        self.sheet.set(b'H', NOTHING);
        self.sheet.set(b'G', "0");
        if outcome == Outcome::Failed {
            return self.complete(created, FAILED);
        }
        self.part(BEGUN)?;
        self.called();
        if outcome == Outcome::Interrupted {
            self.sheet.set(b'F', "User aborted the command");
            self.part(CALLED)?;
            return self.complete(created, ABORTED);
        }
        self.part(CALLING)?;
        self.sheet.set(b'E', "");
        self.answer(created, "")
    }
}

const LOW: u64 = 0xffff_ffff_ffff;

fn stamp(at_ms: i64, count: u64) -> u64 {
    at_ms.unsigned_abs() * 4096 + count
}
