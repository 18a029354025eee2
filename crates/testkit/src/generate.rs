//! Homes of any number of ended sessions, of the sizes and line kinds that real agents leave behind.
//!
//! The plan chooses the agents. Sizes are log-normal: half of the sessions are below 64 kB, one in a
//! hundred is above 3 MB, and 10,000 of them make about 2.5 GB. Everything is derived from the seed;
//! [`Manifest`] lists the sessions, so that answers can be checked against it.

mod chance;
mod claude;
mod codex;
mod index;
mod openclaw;
mod opencode;
mod pi;
mod sheet;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use chance::Chance;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sheet::{Filler, Tokens};

/// Changes whenever the same seed makes other files.
pub const VERSION: u32 = 4;

const DAY_MS: i64 = 86_400_000;
const MEDIAN_BYTES: f64 = 64.0 * 1024.0;
const SIGMA: f64 = 1.63;
const MOST_BYTES: u64 = 16 << 20;

/// An agent whose sessions can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Files by project.
    Claude,
    /// Files by day, and an index.
    Codex,
    /// One database.
    OpenCode,
    /// Files by project.
    Pi,
    /// Files in Pi's store.
    PiRust,
    /// Rows of a gateway: [`Manifest::gateway`].
    OpenClaw,
}

impl Agent {
    /// Returns the name of its adapter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Claude => "claude-code",
            Codex => "codex",
            OpenCode => "opencode",
            Pi => "pi",
            PiRust => "pi-rust",
            OpenClaw => "openclaw",
        }
    }
}

use Agent::{Claude, Codex, OpenClaw, OpenCode, Pi, PiRust};

/// Three in five sessions are Claude Code's, the rest Codex's.
pub const FILES: &[Agent] = &[Claude, Claude, Claude, Codex, Codex];

/// Every agent has its share.
#[rustfmt::skip]
pub const ALL: &[Agent] = &[
    Claude, Codex, OpenCode, Pi, PiRust, OpenClaw, Claude, OpenCode, Claude, Codex,
    Claude, OpenCode, Pi, Codex, Claude, OpenCode, Claude, Codex, Claude, OpenCode,
];

/// Which home is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The agents of the sessions, in turn.
    pub agents: &'static [Agent],
    /// How many sessions, subagents not counted.
    pub sessions: usize,
    /// The seed from which everything is derived.
    pub seed: u64,
    /// The day the home is seen on, in milliseconds; its sessions ended within 60 days before.
    pub now_ms: i64,
    /// The size of one extraordinary transcript of each agent; 0 for none.
    pub largest: u64,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Its last turn was completed.
    Finished,
    /// Its last turn ended in an error.
    Failed,
    /// A person interrupted it.
    Interrupted,
    /// Its process died in the middle of a turn.
    Killed,
}

/// One session that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The adapter that knows it.
    pub adapter: String,
    /// Its id.
    pub id: String,
    /// Its file, below the home; empty for a session of a gateway.
    pub path: PathBuf,
    /// The directory it worked in.
    pub cwd: String,
    /// The transcript's size.
    pub bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Output tokens, including its subagents'.
    pub output_tokens: u64,
    /// The bytes that hold all of its tokens: its transcript and its subagents'.
    pub total_bytes: u64,
}

/// The content of a home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The generator's version.
    pub version: u32,
    /// The seed.
    pub seed: u64,
    /// Every session, in the order it was made.
    pub sessions: Vec<Made>,
    /// The bytes of all transcripts.
    pub bytes: u64,
    /// The list of a gateway.
    pub gateway: Vec<Value>,
}

impl Manifest {
    /// Returns one adapter's largest session.
    #[must_use]
    pub fn largest(&self, adapter: &str) -> Option<&Made> {
        self.sessions.iter().filter(|s| s.adapter == adapter).max_by_key(|s| s.bytes)
    }

    /// Returns one adapter's session of middle size.
    #[must_use]
    pub fn median(&self, adapter: &str) -> Option<&Made> {
        let mut all: Vec<&Made> = self.sessions.iter().filter(|s| s.adapter == adapter).collect();
        all.sort_by_key(|s| s.bytes);
        all.get(all.len() / 2).copied()
    }
}

/// Generates the home `directory/home`, or reuses an existing one that is complete and equal.
pub fn home(plan: &Plan, directory: &Path) -> io::Result<Manifest> {
    let marker = directory.join("complete.json");
    if let Some(manifest) = complete(plan, &marker) {
        return Ok(manifest);
    }
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    let manifest = Maker::new(plan, directory.join("home")).make()?;
    // Written last: a home without it was left unfinished.
    fs::write(marker, serde_json::to_vec(&manifest)?)?;
    Ok(manifest)
}

fn complete(plan: &Plan, marker: &Path) -> Option<Manifest> {
    let manifest: Manifest = serde_json::from_slice(&fs::read(marker).ok()?).ok()?;
    let same = manifest.version == VERSION
        && manifest.seed == plan.seed
        && manifest.sessions.len() == plan.sessions
        && manifest
            .sessions
            .iter()
            .zip(plan.agents.iter().cycle())
            .all(|(m, a)| m.adapter == a.name());
    same.then_some(manifest)
}

/// A file's content, the time of its last line, and its tokens.
struct Written {
    bytes: Vec<u8>,
    end_ms: i64,
    tokens: Tokens,
}

/// One thread for Codex's index.
struct Thread {
    id: String,
    path: PathBuf,
    cwd: String,
    prompt: String,
    parent: Option<String>,
    start_ms: i64,
    end_ms: i64,
    tokens: u64,
}

struct Maker<'a> {
    plan: &'a Plan,
    home: PathBuf,
    filler: Filler,
    threads: Vec<Thread>,
    projects: u64,
    bytes: u64,
}

/// The random properties of a session before its agent writes it.
struct Draft {
    chance: Chance,
    cwd: String,
    start_ms: i64,
    bytes: usize,
    outcome: Outcome,
}

impl<'a> Maker<'a> {
    fn new(plan: &'a Plan, home: PathBuf) -> Self {
        // Each project has seen some fifty sessions.
        let projects = (plan.sessions as u64 / 50).clamp(3, 200);
        let filler = Filler::new(plan.seed);
        Self { plan, home, filler, threads: Vec::new(), projects, bytes: 0 }
    }

    fn make(mut self) -> io::Result<Manifest> {
        fs::create_dir_all(&self.home)?;
        let mut sessions = Vec::with_capacity(self.plan.sessions);
        let (mut gateway, mut stored) = (Vec::new(), Vec::new());
        for number in 0..self.plan.sessions {
            let draft = self.draft(number);
            let made = match self.agent(number) {
                Claude => self.claude(draft)?,
                Codex => self.codex(draft)?,
                // A database is written in the order of time.
                OpenCode => {
                    stored.push((number, draft));
                    continue;
                }
                agent @ (Pi | PiRust) => self.pi(draft, agent)?,
                OpenClaw => openclaw::session(draft, &mut gateway),
            };
            sessions.push((number, made));
        }
        if !self.threads.is_empty() {
            index::write(&self.home.join(".codex/state_5.sqlite"), &self.threads)?;
        }
        if !stored.is_empty() {
            let path = self.home.join(opencode::PATH);
            sessions.extend(opencode::write(&path, stored, &self.filler)?);
            self.bytes += fs::metadata(path)?.len();
        }
        sessions.sort_by_key(|(number, _)| *number);
        let sessions: Vec<Made> = sessions.into_iter().map(|(_, made)| made).collect();
        self.locks(&sessions)?;
        let Self { plan, bytes, .. } = self;
        Ok(Manifest { version: VERSION, seed: plan.seed, sessions, bytes, gateway })
    }

    fn agent(&self, number: usize) -> Agent {
        self.plan.agents[number % self.plan.agents.len()]
    }

    fn draft(&self, number: usize) -> Draft {
        let mut chance = Chance::new(self.plan.seed, number as u64);
        let outcome = match chance.below(10) {
            0 => Outcome::Failed,
            1 => Outcome::Interrupted,
            2 => Outcome::Killed,
            _ => Outcome::Finished,
        };
        let bytes = chance.log_normal(MEDIAN_BYTES, SIGMA).min(MOST_BYTES);
        // The first of each agent is the extraordinary one.
        let first = !(0..number).any(|before| self.agent(before) == self.agent(number));
        let large = self.plan.largest > 0 && first;
        let bytes = if large { self.plan.largest } else { bytes };
        // Two days are kept free for the session itself, so that all of them lie in the past.
        let before = 2 * DAY_MS + i64::try_from(chance.below(58 * 86_400_000)).expect("60 days");
        Draft {
            cwd: format!("/home/ada/projects/project-{:03}", chance.below(self.projects)),
            start_ms: self.plan.now_ms - before,
            bytes: usize::try_from(bytes).expect("below 4 GB"),
            outcome,
            chance,
        }
    }

    fn claude(&mut self, mut draft: Draft) -> io::Result<Made> {
        let id = draft.chance.uuid4();
        let folder = Path::new(".claude/projects").join(draft.cwd.replace('/', "-"));
        let path = folder.join(format!("{id}.jsonl"));
        let with_subagents = draft.chance.percent(10);
        let mut part = Chance::new(draft.chance.next(), 0);
        let order = claude::Order {
            id: &id,
            cwd: &draft.cwd,
            start_ms: draft.start_ms,
            bytes: draft.bytes,
            outcome: draft.outcome,
            agent: None,
        };
        let main = claude::transcript(&order, draft.chance, &self.filler);
        let (bytes, mut output) = (main.bytes.len() as u64, main.tokens.output);
        let mut total_bytes = bytes;
        self.put(&path, &main)?;
        for _ in 0..if with_subagents { part.between(1, 4) } else { 0 } {
            let agent = format!("a{}", part.hex(16));
            let order = claude::Order {
                start_ms: main.end_ms - 60_000,
                bytes: usize::try_from(part.between(20 << 10, 80 << 10)).expect("small"),
                outcome: Outcome::Finished,
                agent: Some(&agent),
                ..order
            };
            let written = claude::transcript(&order, Chance::new(part.next(), 1), &self.filler);
            output += written.tokens.output;
            total_bytes += written.bytes.len() as u64;
            let beside = folder.join(&id).join("subagents").join(format!("agent-{agent}"));
            self.put(&beside.with_extension("jsonl"), &written)?;
            let meta = r#"{"agentType":"general-purpose","isBuiltIn":true,"description":"look around","spawnDepth":1,"finished":true}"#;
            fs::write(self.home.join(beside.with_extension("meta.json")), meta)?;
        }
        Ok(Made {
            adapter: Claude.name().into(),
            id,
            path,
            cwd: draft.cwd,
            bytes,
            outcome: draft.outcome,
            output_tokens: output,
            total_bytes,
        })
    }

    fn codex(&mut self, mut draft: Draft) -> io::Result<Made> {
        let id = draft.chance.uuid7(draft.start_ms);
        let mut part = Chance::new(draft.chance.next(), 0);
        let thread = |maker: &mut Self, order: &codex::Order, chance| {
            let (written, prompt) = codex::rollout(order, chance, &maker.filler);
            let path = rollout_path(order.id, order.start_ms);
            maker.put(&path, &written)?;
            maker.threads.push(Thread {
                id: order.id.to_owned(),
                path: maker.home.join(&path),
                cwd: order.cwd.to_owned(),
                prompt,
                parent: order.parent.map(str::to_owned),
                start_ms: order.start_ms,
                end_ms: written.end_ms,
                tokens: written.tokens.input + written.tokens.cache_read + written.tokens.output,
            });
            Ok::<_, io::Error>((path, written))
        };
        let order = codex::Order {
            id: &id,
            cwd: &draft.cwd,
            start_ms: draft.start_ms,
            bytes: draft.bytes,
            outcome: draft.outcome,
            parent: None,
        };
        let (path, written) = thread(self, &order, draft.chance)?;
        let (bytes, mut output) = (written.bytes.len() as u64, written.tokens.output);
        let mut total_bytes = bytes;
        if part.percent(5) {
            let start_ms = draft.start_ms + 5000;
            let child = part.uuid7(start_ms);
            let bytes = usize::try_from(part.between(35 << 10, 80 << 10)).expect("small");
            let outcome = Outcome::Finished;
            let order =
                codex::Order { id: &child, start_ms, bytes, outcome, parent: Some(&id), ..order };
            let (_, written) = thread(self, &order, Chance::new(part.next(), 1))?;
            output += written.tokens.output;
            total_bytes += written.bytes.len() as u64;
        }
        Ok(Made {
            adapter: Codex.name().into(),
            id,
            path,
            cwd: draft.cwd,
            bytes,
            outcome: draft.outcome,
            output_tokens: output,
            total_bytes,
        })
    }

    fn pi(&mut self, mut draft: Draft, agent: Agent) -> io::Result<Made> {
        let rust = agent == PiRust;
        let chance = &mut draft.chance;
        let id = if rust { chance.uuid4() } else { chance.uuid7(draft.start_ms) };
        let Draft { cwd, start_ms, bytes, outcome, chance } = draft;
        let order = pi::Order { id: &id, cwd: &cwd, start_ms, bytes, outcome, rust };
        let path = order.path();
        let written = pi::session(&order, chance, &self.filler);
        self.put(&path, &written)?;
        let (bytes, output_tokens) = (written.bytes.len() as u64, written.tokens.output);
        let adapter = agent.name().to_owned();
        Ok(Made { adapter, id, path, cwd, bytes, outcome, output_tokens, total_bytes: bytes })
    }

    /// Writes a file below the home, dated by its last line.
    fn put(&mut self, relative: &Path, written: &Written) -> io::Result<()> {
        let path = self.home.join(relative);
        fs::create_dir_all(path.parent().expect("a folder"))?;
        fs::write(&path, &written.bytes)?;
        let at = UNIX_EPOCH + Duration::from_millis(written.end_ms.unsigned_abs());
        let times = fs::FileTimes::new().set_accessed(at).set_modified(at);
        File::options().write(true).open(&path)?.set_times(times)?;
        self.bytes += written.bytes.len() as u64;
        Ok(())
    }

    /// Leaves the files of killed agents: lock files without a holder. The next Codex removes them, so
    /// there are few.
    fn locks(&self, sessions: &[Made]) -> io::Result<()> {
        if self.threads.is_empty() {
            return Ok(());
        }
        let locks = self.home.join(".codex/thread-writer-locks");
        fs::create_dir_all(&locks)?;
        fs::write(locks.join(".coordination.lock"), "")?;
        for made in killed(sessions, "codex").take(3) {
            fs::write(locks.join(format!("{}.lock", made.id)), "")?;
        }
        Ok(())
    }
}

fn killed<'a>(sessions: &'a [Made], adapter: &'a str) -> impl Iterator<Item = &'a Made> {
    let killed = sessions.iter().filter(|s| s.outcome == Outcome::Killed);
    killed.filter(move |s| s.adapter == adapter)
}

/// Leaves the live records that Claude Code never sweeps after a SIGKILL, written in our pid domain.
///
/// Not a part of [`home`], since a pid domain is gone with its namespace.
pub fn leave_live_records(home: &Path, manifest: &Manifest) -> io::Result<()> {
    let records = home.join(".claude/sessions");
    if records.exists() {
        fs::remove_dir_all(&records)?;
    }
    fs::create_dir_all(&records)?;
    for (number, made) in killed(&manifest.sessions, "claude-code").step_by(40).enumerate() {
        // Beyond every pid that a small namespace hands out.
        let pid = 1_000_000 + number;
        fs::write(records.join(format!("{pid}.json")), live_record(made, pid, 69_585))?;
    }
    Ok(())
}

/// Returns the live record of a Claude Code process that works, in our pid domain.
#[must_use]
pub fn live_record(made: &Made, pid: usize, start_ticks: u64) -> String {
    let (session, cwd) = (&made.id, &made.cwd);
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let machine = machine.trim();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let space = space.display();
    format!(
        r#"{{"pid":{pid},"sessionId":"{session}","cwd":"{cwd}","startedAt":1794728785156,"procStart":"{start_ticks}","version":"2.1.325","peerProtocol":1,"kind":"interactive","entrypoint":"sdk-cli","pidDomain":"linux:{machine}:{space}","name":"alpha-ac","nameSource":"derived","status":"busy","updatedAt":1794728785129,"statusUpdatedAt":1794728785129}}"#
    )
}

fn rollout_path(id: &str, start_ms: i64) -> PathBuf {
    let start = sheet::moment(start_ms);
    let day = start[..10].replace('-', "/");
    let time = start[..19].replace(':', "-");
    Path::new(".codex/sessions").join(day).join(format!("rollout-{time}-{id}.jsonl"))
}

#[cfg(test)]
mod tests;
