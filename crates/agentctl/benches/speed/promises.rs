//! The promises, one function each: the command, its reference, and the promised limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use testkit::generate::{Agent, FILES, Made, Manifest, Plan, home, leave_live_records};

use crate::Options;
use crate::measure::{
    Beside, Times, command, compare, follow, median, names, ours, peak, percentile, processes,
    repeat,
};
use crate::table::Row;
use crate::telling::{Stream, noticed, rewrite, told};
use crate::waiting::{death, plain};
use crate::{launching, pose};

const SEED: u64 = 1;
const LARGEST: u64 = 25_000_000;
const SIZES: [usize; 3] = [10, 1_000, 10_000];
const AGENTS: [&str; 2] = ["claude-code", "codex"];

pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
}

pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    pub(crate) directory: &'a Path,
    homes: Vec<Home>,
    rows: Vec<Row>,
}

/// The question about all history.
pub(crate) const HISTORY: [&str; 4] = ["list", "-a", "--since", "all"];

/// Measures everything that was asked for.
pub(crate) fn all(options: &Options, directory: &Path) -> Vec<Row> {
    let homes = SIZES.map(|sessions| made(FILES, sessions, &directory.join(sessions.to_string())));
    let mut bench = Bench { options, directory, homes: homes.into(), rows: Vec::new() };
    bench.start_up();
    bench.live();
    bench.history();
    bench.mixed();
    bench.crowd();
    bench.one_session();
    bench.tokens();
    bench.following();
    bench.dying();
    bench.telling();
    bench.launching();
    bench.asking();
    bench.asker();
    bench.page();
    bench.mcp();
    bench.awake();
    bench.worktrees();
    bench.top();
    bench.rows
}

/// Creates a home, or reuses an earlier one.
pub(crate) fn made(agents: &'static [Agent], sessions: usize, place: &Path) -> Home {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now_ms = i64::try_from(now.as_millis()).expect("our time");
    eprintln!("a home of {sessions} sessions in {}", place.display());
    let plan = Plan { agents, sessions, seed: SEED, now_ms, largest: LARGEST };
    let manifest = home(&plan, place).expect("made");
    leave_live_records(&place.join("home"), &manifest).expect("left");
    eprintln!("  {} MB of transcripts", manifest.bytes / 1_000_000);
    Home { path: place.join("home"), manifest }
}

impl Home {
    /// Reads every transcript of the home, as one process.
    pub(crate) fn cat_all(&self) -> Command {
        let stores =
            [".claude/projects", ".codex/sessions", ".pi/agent/sessions", ".local/share/opencode"];
        let there: Vec<&str> =
            stores.into_iter().filter(|store| self.path.join(store).exists()).collect();
        let script = &format!("find {} -type f -exec cat {{}} +", there.join(" "));
        command(&self.path, "/bin/sh", &["-c", script])
    }
}

impl Bench<'_> {
    pub(crate) fn largest_home(&self) -> &Home {
        self.homes.last().expect("three homes")
    }

    pub(crate) fn wanted(&self, what: &str) -> bool {
        let wanted = self.options.only.as_ref().is_none_or(|word| what.contains(word.as_str()));
        if wanted {
            eprintln!("{what}");
        }
        wanted
    }

    pub(crate) fn at_most_ratio(
        &mut self,
        what: String,
        reference: &str,
        times: Times,
        most: Option<f64>,
    ) {
        let result = format!("{:.2} times", times.ratio);
        let target = most.map_or_else(String::new, |most| format!("at most {most:.2} times"));
        self.add(what, reference, times, result, target, most.map(|most| times.ratio <= most));
    }

    pub(crate) fn at_most_above(
        &mut self,
        what: String,
        reference: &str,
        times: Times,
        most_ms: f64,
    ) {
        let result = format!("{:+.1} ms", times.difference);
        let target = format!("at most +{most_ms:.0} ms");
        self.add(what, reference, times, result, target, Some(times.difference <= most_ms));
    }

    fn add(
        &mut self,
        what: String,
        reference: &str,
        times: Times,
        result: String,
        target: String,
        kept: Option<bool>,
    ) {
        self.rows.push(Row {
            what,
            reference: reference.to_owned(),
            theirs: format!("{:.1}", times.theirs),
            ours: format!("{:.1}", times.ours),
            result,
            target,
            kept,
        });
    }

    /// Adds a time that is compared with nothing.
    pub(crate) fn alone(&mut self, what: String, ours_ms: f64) {
        let none = || "-".to_owned();
        self.rows.push(Row {
            what,
            reference: none(),
            theirs: none(),
            ours: format!("{ours_ms:.1}"),
            result: String::new(),
            target: String::new(),
            kept: None,
        });
    }

    /// Adds a line that is no comparison of times.
    pub(crate) fn state(&mut self, what: String, result: String, target: String, kept: bool) {
        let none = "-".to_owned();
        let (reference, theirs, ours) = (none.clone(), none.clone(), none);
        self.rows.push(Row { what, reference, theirs, ours, result, target, kept: Some(kept) });
    }

    fn start_up(&mut self) {
        let what = "start-up: `--version`".to_owned();
        if self.wanted(&what) {
            let home = &self.homes[0].path;
            let times = compare(
                self.options.runs * 3,
                &mut command(home, "/bin/true", &[]),
                &mut ours(home, &["--version"]),
            );
            self.at_most_above(what, "`/bin/true`", times, 5.0);
        }
    }

    /// Live sessions: history must cost nothing. Only one home's agents live at a time, since every
    /// live agent of the user is listed, wherever its home is.
    fn live(&mut self) {
        const ROUNDS: usize = 11;
        if !self.wanted("`list`") {
            return;
        }
        let programs = self.directory.join("programs");
        let runs = self.options.runs.div_ceil(3);
        let mut times = SIZES.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (home, times) in self.homes.iter().zip(&mut times) {
                let agents = live_agents(home, &programs);
                times.push(median(repeat(runs, &mut ours(&home.path, &["list"]))));
                drop(agents);
                // The demo agent's own files are not part of the generated home.
                let _clean = std::fs::remove_dir_all(home.path.join(".local"));
            }
        }
        let [few, many @ ..] = times;
        for (index, most) in [(0, None), (1, Some(1.3))] {
            let times = Times::of(few.clone(), many[index].clone());
            let what = format!("`list`, 3 live, {} old sessions", grouped(SIZES[index + 1]));
            self.at_most_ratio(what, "`list`, 3 live, 10 old", times, most);
        }
    }

    /// All history: read in part, at the speed of reading.
    fn history(&mut self) {
        for (index, sessions) in SIZES.into_iter().enumerate() {
            let what = format!("`list -a --since all`, {} sessions", grouped(sessions));
            if self.wanted(&what) {
                let home = &self.homes[index];
                let megabytes = home.manifest.bytes / 1_000_000;
                let times = compare(
                    self.options.runs.div_ceil(2),
                    &mut home.cat_all(),
                    &mut ours(&home.path, &HISTORY),
                );
                let most = (sessions == 10_000).then_some(0.25);
                self.at_most_ratio(what, &format!("`cat` of {megabytes} MB"), times, most);
            }
        }
        let what = "peak memory of it".to_owned();
        if self.wanted(&what) {
            let peak = peak_of_history(&self.largest_home().path);
            self.at_most_64_mb(what, peak);
        }
        let what = "answers of it".to_owned();
        if self.wanted(&what) {
            let (result, kept) = answers(self.largest_home());
            self.state(what, result, "all right, no daemon, no cache file".to_owned(), kept);
        }
    }

    pub(crate) fn at_most_64_mb(&mut self, what: String, peak: u64) {
        self.at_most_bytes(what, peak, 64 << 20);
    }

    pub(crate) fn at_most_bytes(&mut self, what: String, peak: u64, most: u64) {
        let shown = format!("{:.1} MB", bytes_as_megabytes(peak));
        let target = format!("at most {} MB", most >> 20);
        self.state(what, shown, target, peak > 0 && peak <= most);
    }

    fn one_session(&mut self) {
        for agent in AGENTS {
            let manifest = &self.largest_home().manifest;
            let (median, largest) = (manifest.median(agent), manifest.largest(agent));
            let lines = [(median, "status"), (median, "logs -n 20"), (largest, "logs -n 20")];
            for (made, verb) in lines.map(|(made, verb)| (made.expect("some").clone(), verb)) {
                let what = format!("`{verb}`, {agent}, {} among 10,000", size(made.bytes));
                if self.wanted(&what) {
                    let home = &self.largest_home().path;
                    let mut args: Vec<&str> = verb.split(' ').collect();
                    args.push(&made.id);
                    let times = compare(
                        self.options.runs,
                        &mut ours(home, &["--version"]),
                        &mut ours(home, &args),
                    );
                    self.at_most_above(what, "`--version`", times, 30.0);
                }
            }
        }
    }

    fn tokens(&mut self) {
        for agent in AGENTS {
            let what = format!("tokens of the largest: `status --json`, {agent}");
            if self.wanted(&what) {
                let home = self.largest_home();
                let made = home.manifest.largest(agent).expect("some").clone();
                let path = home.path.join(&made.path).to_string_lossy().into_owned();
                let args = ["status", &made.id, "--json"];
                assert_tokens(&home.path, &args, &made);
                let times = compare(
                    self.options.runs,
                    &mut command(&home.path, "/bin/cat", &[&path]),
                    &mut ours(&home.path, &args),
                );
                self.at_most_ratio(
                    what,
                    &format!("`cat` of {}", size(made.bytes)),
                    times,
                    Some(5.0),
                );
            }
        }
    }

    fn following(&mut self) {
        const MESSAGES: usize = 40;
        for agent in AGENTS {
            let what = format!("`logs -f --json`, {agent}: written to shown");
            if self.wanted(&what) {
                let home = &self.homes[1];
                let made = pose::served(&home.manifest, agent);
                let place = self.directory.join("follow");
                let path = place.join(&made.path);
                let folder = path.parent().expect("a folder").to_owned();
                let folders =
                    [".claude/sessions", ".codex/thread-writer-locks"].map(|f| place.join(f));
                for folder in folders.iter().chain([&folder]) {
                    std::fs::create_dir_all(folder).expect("made");
                }
                std::fs::copy(home.path.join(&made.path), &path).expect("copied");
                // Following ends with the session, so a process serves it.
                let programs = self.directory.join("programs");
                let live = pose::start(&place, &home.manifest, agent, &programs);
                let lines: Vec<String> = (0..MESSAGES).map(|n| said(agent, &made.id, n)).collect();
                let args = ["logs", &made.id, "-n", "1", "-f", "--json"];
                let took = follow(&mut ours(&place, &args), &path, &lines);
                drop(live);
                let worst = took.iter().max().map_or(0.0, Duration::as_secs_f64) * 1000.0;
                std::fs::remove_dir_all(place).expect("removed");
                self.rows.push(Row {
                    what,
                    reference: format!("{MESSAGES} messages"),
                    theirs: "-".to_owned(),
                    ours: format!("{:.1}", median(took)),
                    result: format!("worst {worst:.1} ms"),
                    target: "at most 50 ms".to_owned(),
                    kept: Some(worst <= 50.0),
                });
            }
        }
    }

    /// An agent is killed while a `wait` runs, among 10,000 old sessions.
    fn dying(&mut self) {
        const MOST_MS: f64 = 20.0;
        let rounds = self.options.runs * 10;
        for agent in ["demo", AGENTS[0], AGENTS[1]] {
            let what = format!("`wait`, {agent}: death of the agent to its end");
            if !self.wanted(&what) {
                continue;
            }
            let home = self.largest_home();
            let programs = self.directory.join("programs");
            let theirs = self.bare_deaths(agent, rounds);
            let mut took = Vec::new();
            for _ in 0..rounds {
                let (agent, id) = one_live_agent(home, agent, &programs);
                took.push(death(agent, &mut ours(&home.path, &["wait", &id, "--for", "stopped"])));
            }
            let _clean = std::fs::remove_dir_all(home.path.join(".local"));
            self.add_deaths(what, &theirs, &took, MOST_MS);
        }
    }

    /// How long a bare poll takes to notice that an agent was killed.
    fn bare_deaths(&self, agent: &str, rounds: usize) -> Vec<Duration> {
        let programs = self.directory.join("programs");
        let killed = |_| {
            let (agent, _) = one_live_agent(self.largest_home(), agent, &programs);
            let pid = agent.child.id();
            death(agent, &mut plain(pid))
        };
        (0..rounds).map(killed).collect()
    }

    fn add_deaths(&mut self, what: String, theirs: &[Duration], took: &[Duration], most_ms: f64) {
        let reference = format!("a bare pidfd poll, {} deaths", took.len());
        self.add_tails(what, reference, theirs, took, Some(most_ms));
    }

    pub(crate) fn add_tails(
        &mut self,
        what: String,
        reference: String,
        theirs: &[Duration],
        took: &[Duration],
        most_ms: Option<f64>,
    ) {
        let tails = |of: &[Duration]| [0.5, 0.99, 1.0].map(|share| percentile(of, share));
        let shown = |[p50, p99, most]: [f64; 3]| format!("{p50:.1}, p99 {p99:.1}, max {most:.1}");
        let (p99, bare) = (tails(took)[1], tails(theirs)[1]);
        self.rows.push(Row {
            what,
            reference,
            theirs: shown(tails(theirs)),
            ours: shown(tails(took)),
            result: format!("p99 {p99:.1} ms, {:.1} times", p99 / bare),
            target: most_ms.map_or(String::new(), |most| format!("p99 at most {most:.0} ms")),
            kept: most_ms.map(|most| p99 <= most),
        });
    }

    /// An agent is killed, or writes, while `events` runs, among 10,000 old sessions.
    fn telling(&mut self) {
        let rounds = self.rounds_of_telling();
        for agent in ["demo", AGENTS[0], AGENTS[1]] {
            let what = format!("`events`, {agent}: death of the agent to its line");
            if !self.wanted(&what) {
                continue;
            }
            let home = self.largest_home();
            let programs = self.directory.join("programs");
            let theirs = self.bare_deaths(agent, rounds);
            let mut took = Vec::new();
            let mut stream = Stream::start(&home.path);
            for _ in 0..rounds {
                let (mut agent, id) = one_live_agent(home, agent, &programs);
                stream.until(&id, "session.started");
                let killed = || agent.child.kill().expect("killed");
                took.push(told(&mut stream, &id, "session.stopped", killed));
            }
            let _clean = std::fs::remove_dir_all(home.path.join(".local"));
            self.add_deaths(what, &theirs, &took, 50.0);
        }
        let idle = "`events`, claude-code: a live record is rewritten to its line".to_owned();
        self.rewritten(idle, ("idle", "session.idle"), Some(250.0));
        // A `waiting` is held back for its detail, which never comes here.
        let bare = "`events`, claude-code: a prompt without its detail to its line".to_owned();
        self.rewritten(bare, ("waiting", "session.waiting"), None);
    }

    pub(crate) fn rounds_of_telling(&self) -> usize {
        (self.options.runs * 10).max(200)
    }

    /// A live record says that its agent rests, or asks, and that it works again.
    fn rewritten(&mut self, what: String, rests: (&str, &str), most: Option<f64>) {
        if !self.wanted(&what) {
            return;
        }
        let rounds = self.rounds_of_telling();
        let home = self.largest_home();
        let (agent, id) = one_live_agent(home, AGENTS[0], &self.directory.join("programs"));
        let record = agent.files.first().expect("its live record").clone();
        let (statuses, mut took) = ([rests.0, "busy"], Vec::new());
        let theirs = noticed(&record, rounds, |round| rewrite(&record, statuses[round % 2]));
        let mut stream = Stream::start(&home.path);
        for _ in 0..rounds / 2 {
            for (status, kind) in [rests, ("busy", "session.running")] {
                took.push(told(&mut stream, &id, kind, || rewrite(&record, status)));
            }
        }
        let reference = format!("a bare inotify poll, {} changes", took.len());
        self.add_tails(what, reference, &theirs, &took, most);
    }

    /// The demo agent is launched among 10,000 old sessions, beside its own start.
    fn launching(&mut self) {
        const MOST_MS: f64 = 30.0;
        const MOST_KEPT_MS: f64 = 60.0;
        const MOST_KB: u64 = 1024;
        let ways: [(&str, &[&str], f64); 2] = [
            ("`launch`: above the agent's own start", &[], MOST_MS),
            ("`launch --keep`: above the agent's own start", &["--keep"], MOST_KEPT_MS),
        ];
        for (what, options, most_ms) in ways {
            if self.wanted(what) {
                let times =
                    launching::compare(&self.largest_home().path, options, self.options.runs);
                let reference = "`demo-agent` to its first word";
                self.at_most_above(what.to_owned(), reference, times, most_ms);
            }
        }
        let what = "`launch`: memory of the parent it leaves behind";
        if self.wanted(what) {
            let kilobytes = launching::shim_kilobytes(&self.largest_home().path);
            self.rows.push(Row {
                what: what.to_owned(),
                reference: "-".to_owned(),
                theirs: "-".to_owned(),
                ours: "-".to_owned(),
                result: format!("{kilobytes} kB of its own"),
                target: format!("at most {MOST_KB} kB"),
                kept: Some(kilobytes <= MOST_KB),
            });
        }
        let _clean = std::fs::remove_dir_all(self.largest_home().path.join(".local"));
    }
}

/// Starts one agent of this kind, and returns it with the session it serves.
fn one_live_agent(home: &Home, agent: &str, programs: &Path) -> (Beside, String) {
    let started = if agent == "demo" {
        Beside::start(&mut ours(&home.path, &["demo-agent", "-p", "work on [[hang]]"]))
    } else {
        pose::start(&home.path, &home.manifest, agent, programs)
    };
    let id = testkit::eventually("the live agent is listed", || {
        let listed = ours(&home.path, &["list", "--json"]).stdout(Stdio::piped()).output().ok()?;
        let listed: Value = serde_json::from_slice(&listed.stdout).ok()?;
        let served = |s: &&Value| s["pid"] == started.child.id();
        listed["sessions"].as_array()?.iter().find(served)?["id"].as_str().map(str::to_owned)
    });
    (started, id)
}

/// Starts an agent of each kind that works until it is killed, and waits until they are seen.
fn live_agents(home: &Home, programs: &Path) -> [Beside; 3] {
    let demo = Beside::start(&mut ours(&home.path, &["demo-agent", "-p", "work on [[hang]]"]));
    let [claude, codex] =
        AGENTS.map(|agent| pose::start(&home.path, &home.manifest, agent, programs));
    let pids = [demo.child.id(), claude.child.id(), codex.child.id()];
    testkit::eventually("the live agents are listed", || {
        let listed = ours(&home.path, &["list", "--json"]).stdout(Stdio::piped()).output().ok()?;
        let listed: Value = serde_json::from_slice(&listed.stdout).ok()?;
        let rows = listed["sessions"].as_array()?;
        let seen = |pid: &u32| rows.iter().any(|s| s["pid"] == *pid && s["id"].is_string());
        pids.iter().all(seen).then_some(())
    });
    [demo, claude, codex]
}

/// Returns the most memory that a list of everything takes, as a table or as JSON.
pub(crate) fn peak_of_history(home: &Path) -> u64 {
    let json = [&HISTORY[..], &["--json"]].concat();
    let peaks = [&HISTORY[..], &json].map(|args| peak(&mut ours(home, args)).1);
    peaks.into_iter().max().unwrap_or(0)
}

/// Compares all outcomes with the manifest, and the home and the processes with their state before.
pub(crate) fn answers(home: &Home) -> (String, bool) {
    let (files, others) = (names(&home.path), processes());
    let json = peak(&mut ours(&home.path, &[&HISTORY[..], &["--json"]].concat())).0;
    let (right, shown) = check(&home.manifest, &json);
    let total = home.manifest.sessions.len();
    let clean = names(&home.path) == files && processes() == others;
    let left = if clean { "nothing left behind" } else { "something left behind" };
    let result = format!("{right} of {total} right, {shown} rows, {left}");
    (result, right == total && shown == total && clean)
}

/// Counts the sessions that are listed as they were made, and all rows.
fn check(manifest: &Manifest, json: &[u8]) -> (usize, usize) {
    let listed: Value = serde_json::from_slice(json).expect("a document");
    let rows = listed["sessions"].as_array().expect("rows");
    let outcomes: std::collections::HashMap<&str, &Value> =
        rows.iter().filter_map(|row| Some((row["id"].as_str()?, &row["outcome"]))).collect();
    let right = |made: &&Made| {
        let wanted = serde_json::to_value(made.outcome).expect("a word");
        outcomes.get(made.id.as_str()).is_some_and(|outcome| **outcome == wanted)
    };
    (manifest.sessions.iter().filter(right).count(), rows.len())
}

fn assert_tokens(home: &Path, args: &[&str], made: &Made) {
    let output = ours(home, args).stdout(Stdio::piped()).output().expect("runs");
    let status: Value = serde_json::from_slice(&output.stdout).expect("a session");
    let counted = &status["tokens"]["output"];
    assert_eq!(*counted, made.output_tokens, "output tokens of {}", made.id);
}

/// One more message of an agent, as it writes it.
fn said(agent: &str, id: &str, number: usize) -> String {
    let line = if agent == "codex" {
        serde_json::json!({"timestamp": "2026-11-15T09:00:00.000Z", "ordinal": 1_000_000 + number, "type": "response_item",
            "payload": {"type": "message", "status": "completed", "id": format!("msg_{number}"), "role": "assistant",
                "content": [{"type": "output_text", "text": format!("message {number}"), "annotations": []}]}})
    } else {
        serde_json::json!({"parentUuid": null, "isSidechain": false, "message": {"id": format!("msg_{number}"), "type": "message",
                "role": "assistant", "model": "claude-opus-5-5", "content": [{"type": "text", "text": format!("message {number}")}],
                "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}},
            "type": "assistant", "uuid": format!("00000000-0000-4000-8000-{number:012}"), "timestamp": "2026-11-15T09:00:00.000Z",
            "cwd": "/home/ada", "sessionId": id, "version": "2.1.325"})
    };
    format!("{line}\n")
}

fn size(bytes: u64) -> String {
    if bytes >= 1_000_000 {
        format!("{} MB", bytes / 1_000_000)
    } else {
        format!("{} kB", bytes / 1000)
    }
}

pub(crate) fn grouped(number: usize) -> String {
    if number < 1000 { number.to_string() } else { format!("{},000", number / 1000) }
}

#[allow(clippy::cast_precision_loss)] // shown with one digit
fn bytes_as_megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
