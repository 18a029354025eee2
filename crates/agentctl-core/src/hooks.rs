//! Hooks: programs that run when a session begins or ends.
//!
//! A hook is an argv, never a shell line. It receives the known facts in `AGENTCTL_*` variables and as JSON
//! on stdin, runs in the session's directory, and has a timeout and a limit on its output; the output and
//! the exit status stay in the run's folder. A failed hook changes nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::host::Host;
use crate::kernel::{Attended, Cancellation, ParentDeath, Spawn, Stdio};
use crate::marks::{AGENT_ENV, MARKER, hook};
use crate::model::{Callback, Exit, Outcome, SCHEMA_VERSION, Session, Time, Tokens};
use crate::native::{git_head, private};
use crate::runs::{HookMoment, HookReport, Run, Spec};
use crate::text::{SafeJson, bounded};
use crate::trust::{self, Strict};

/// Timeout of a hook.
pub const HOOK_TIMEOUT: Duration = Duration::from_mins(5);
/// Limit of a hook's output that is kept.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
/// Longest value of a variable: the system refuses to start a program with too large an environment.
const MAX_VARIABLE_BYTES: usize = 4 << 10;
/// The variables whose values an agent cannot choose. A program that cannot be started with all variables
/// is started with these.
const TRUSTED_VARIABLES: [&str; 10] = [
    hook::HOOK,
    hook::RUN_ID,
    hook::ADAPTER,
    hook::STATUS,
    hook::OUTCOME,
    hook::EXIT_CODE,
    hook::SIGNAL,
    hook::EVENT,
    hook::FUSE_ID,
    hook::FUSE_CAUSE,
];

/// The document on a hook's stdin.
#[derive(Debug, Serialize)]
pub struct Facts<'a> {
    schema_version: u32,
    hook: &'static str,
    run: &'a str,
    adapter: &'a str,
    session_id: Option<&'a str>,
    cwd: &'a Path,
    branch: Option<String>,
    group: Option<&'a str>,
    model: Option<&'a str>,
    callback: Option<&'a Callback>,
    exit: Option<Exit>,
    duration_seconds: Option<f64>,
    session: Option<&'a Session>,
}

impl<'a> Facts<'a> {
    /// Collects the facts of a run and its session.
    #[must_use]
    pub fn of(
        moment: HookMoment,
        spec: &'a Spec,
        session_id: Option<&'a str>,
        session: Option<&'a Session>,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            hook: moment.word(),
            run: &spec.run,
            adapter: &spec.adapter,
            session_id,
            cwd: &spec.cwd,
            branch: git_head::branch(&spec.cwd, rustix::process::geteuid().as_raw()),
            group: spec.group.as_deref(),
            model: session.and_then(|s| s.model.as_deref()).or(spec.model.as_deref()),
            callback: spec.callback.as_ref(),
            exit: None,
            duration_seconds: None,
            session,
        }
    }

    /// Adds the agent's exit and duration.
    #[must_use]
    pub fn ended(mut self, exit: Exit, from: Time, to: Time) -> Self {
        self.exit = Some(exit);
        let ms = u32::try_from((to.millis() - from.millis()).max(0)).unwrap_or(u32::MAX);
        self.duration_seconds = Some(f64::from(ms) / 1000.0);
        self
    }

    /// Returns the facts as variables; unknown ones are empty.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let text = |t: Option<&str>| t.unwrap_or_default().to_owned();
        let code = self.exit.and_then(|e| e.code.or(e.signal.map(|s| 128 + s)));
        let tokens: Option<Tokens> = self.session.and_then(|s| s.tokens);
        let count = |of: fn(Tokens) -> u64| tokens.map(of).map(|n| n.to_string());
        let number = |n: Option<String>| n.unwrap_or_default();
        vec![
            (hook::HOOK, self.hook.to_owned()),
            (hook::RUN_ID, self.run.to_owned()),
            (hook::SESSION_ID, text(self.session_id)),
            (hook::CWD, self.cwd.to_string_lossy().into_owned()),
            (hook::ADAPTER, self.adapter.to_owned()),
            (hook::BRANCH, text(self.branch.as_deref())),
            (hook::GROUP, text(self.group)),
            (hook::MODEL, text(self.model)),
            (hook::CALLBACK_SESSION, text(self.callback.and_then(|c| c.session.as_deref()))),
            (hook::CALLBACK_AGENT, text(self.callback.and_then(|c| c.agent.as_deref()))),
            (hook::STATUS, text(self.session.map(|s| s.status.word()))),
            (hook::OUTCOME, text(self.session.and_then(|s| s.outcome).map(Outcome::word))),
            (hook::EXIT_CODE, number(code.map(|c| c.to_string()))),
            (hook::SIGNAL, number(self.exit.and_then(|e| e.signal).map(|s| s.to_string()))),
            (hook::DURATION_SECONDS, number(self.duration_seconds.map(|d| d.to_string()))),
            (hook::TOKENS_INPUT, number(count(|t| t.input))),
            (hook::TOKENS_OUTPUT, number(count(|t| t.output))),
            (hook::TOKENS_CACHE_READ, number(count(|t| t.cache_read))),
            (hook::TOKENS_CACHE_WRITE, number(count(|t| t.cache_write))),
        ]
    }
}

/// Runs a hook to its end and writes its output and report to the run's folder.
#[must_use]
pub fn run(
    host: &Host,
    moment: HookMoment,
    hook: &[String],
    facts: &Facts<'_>,
    run: &Run,
) -> HookReport {
    let report = HookReport::of(attend(host, moment, hook, facts, run), HOOK_TIMEOUT, host.now());
    // The folder may be gone; the result of the hook is the same.
    let _unkept = run.write_report(moment, &report);
    report
}

fn attend(
    host: &Host,
    moment: HookMoment,
    hook: &[String],
    facts: &Facts<'_>,
    run: &Run,
) -> Result<Option<Exit>, String> {
    // A full disk must not prevent the hook; it gets no stdin then.
    let stdin = write_facts(facts, &run.directory.join(format!("{}.in.json", moment.word()))).ok();
    let (variables, cwd) = (facts.variables(), facts.cwd);
    let attended = Call { argv: hook, variables, cwd, stdin, limit: HOOK_TIMEOUT }.run(host)?;
    let log = run.directory.join(format!("{}.log", moment.word()));
    let _unkept = private::file(&log).and_then(|mut f| f.write_all(&attended.said));
    Ok(attended.exit)
}

/// Writes the document for a hook into a file, and opens the file for reading.
fn write_facts(facts: &Facts<'_>, path: &Path) -> std::io::Result<File> {
    let mut text = Vec::new();
    let formatter = SafeJson(serde_json::ser::PrettyFormatter::new());
    facts.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    private::file(path)?.write_all(&text)?;
    File::open(path)
}

/// A program to run, with its input.
#[derive(Debug)]
pub struct Call<'a> {
    /// The program and its arguments.
    pub argv: &'a [String],
    /// Variables of its environment. Each value is cleaned and cut before the start.
    pub variables: Vec<(&'static str, String)>,
    /// Its working directory; the home directory if this one cannot be entered.
    pub cwd: &'a Path,
    /// Its stdin.
    pub stdin: Option<File>,
    /// Its timeout.
    pub limit: Duration,
}

impl Call<'_> {
    /// Runs it to its end, or ends it at the timeout.
    ///
    /// An agent chooses the name of its branch, its model and its directory; none of these may prevent the
    /// start. If the system refuses to start the program with all variables, it gets the trusted ones only.
    pub fn run(self, host: &Host) -> Result<Attended, String> {
        self.run_with(host, (&Cancellation::default(), ParentDeath::Outlive), &[])
    }

    /// Does the same with the program below a parent: our own program with its first arguments.
    pub fn run_below(self, host: &Host, parent: &[OsString]) -> Result<Attended, String> {
        self.run_with(host, (&Cancellation::default(), ParentDeath::Outlive), parent)
    }

    /// Does the same for an order that can be called off: the program is ended then, and it does not outlive this
    /// process, which alone keeps its timeout.
    pub fn run_in_order(
        self,
        host: &Host,
        cancellation: &Cancellation,
    ) -> Result<Attended, String> {
        self.run_with(host, (cancellation, ParentDeath::Kill), &[])
    }

    fn run_with(
        self,
        host: &Host,
        order: (&Cancellation, ParentDeath),
        parent: &[OsString],
    ) -> Result<Attended, String> {
        let (name, args) = self.argv.split_first().ok_or("it is empty")?;
        let mut words = parent.to_vec();
        words.push(program(host, name)?.into());
        words.extend(args.iter().map(Into::into));
        let program = PathBuf::from(words.remove(0));
        let cwd = [self.cwd, &host.home].into_iter().find(|d| d.join(".").is_dir());
        let cwd = cwd.unwrap_or(Path::new("/"));
        let start = |variables: &[(&'static str, String)]| {
            let stdin = self.stdin.as_ref().and_then(|file| file.try_clone().ok());
            let spawn = Spawn {
                program: program.clone(),
                args: words.clone(),
                set: variables.iter().map(|(k, v)| (k.into(), v.into())).collect(),
                unset: [MARKER, AGENT_ENV].map(str::to_owned).to_vec(),
                cwd: cwd.to_owned(),
                stdin: stdin.map_or(Stdio::Null, Stdio::File),
                stdout: Stdio::Null,
                stderr: Stdio::Null,
                keep: Vec::new(),
            };
            spawn.attended_in_order(self.limit, MAX_OUTPUT_BYTES, order)
        };
        let cut = |value: &str| bounded(value, MAX_VARIABLE_BYTES).into_owned();
        let all: Vec<_> = self.variables.iter().map(|(name, value)| (*name, cut(value))).collect();
        let started = start(&all).or_else(|_| {
            let fixed: Vec<_> =
                all.into_iter().filter(|(name, _)| TRUSTED_VARIABLES.contains(name)).collect();
            start(&fixed)
        });
        started.map_err(|e| format!("{name}: {e}"))
    }
}

/// Says why a hook cannot be run: its program is not there.
pub fn check(host: &Host, hook: &[String]) -> Result<(), String> {
    let name = hook.first().ok_or("it is empty")?;
    found(host, name).map(drop)
}

/// Finds a hook's program. Refuses a program that another user could change or replace.
pub fn program(host: &Host, name: &str) -> Result<PathBuf, String> {
    let path = found(host, name)?;
    trust::file(&path, host.kernel.uid(), Strict::Yes).map_err(|why| why.to_string())?;
    Ok(path)
}

fn found(host: &Host, name: &str) -> Result<PathBuf, String> {
    let found = if name.contains('/') {
        Some(host.cwd.join(name)).filter(|p| p.is_file())
    } else {
        host.which(name)
    };
    found.ok_or_else(|| format!("`{name}` is not a program"))
}
