//! Posing as a live agent: a copy of this very program under the agent's name, with the agent's own signs of
//! life - Claude Code's live record, Codex's lock - for a session that exists.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::generate::{Made, Manifest, Outcome, live_record};

use crate::measure::Beside;

const POSE: &str = "--pose";

/// Says whether this process is to pose.
pub(crate) fn is_asked() -> bool {
    std::env::args().nth(1).is_some_and(|arg| arg == POSE)
}

/// Holds the files named on the command line, the first of them locked, until killed.
pub(crate) fn hold() -> ! {
    let files: Vec<File> = std::env::args()
        .skip(2)
        .map(|path| File::options().read(true).write(true).open(path).expect("opened"))
        .collect();
    if let Some(lock) = files.first() {
        lock.lock().expect("locked");
    }
    println!("ready");
    std::io::stdout().flush().expect("said");
    // Each line is the command of a hook that the agent runs.
    for hook in std::io::stdin().lines().map_while(Result::ok) {
        let shell = Command::new("/bin/sh").arg("-c").arg(hook).stdin(Stdio::null()).spawn();
        drop(shell.expect("started"));
    }
    loop {
        std::thread::park();
    }
}

/// Returns the session of this agent that is served. It is alike in every home, a finished one of about
/// 64 kB, so that only the number of the others differs.
pub(crate) fn served<'a>(manifest: &'a Manifest, agent: &str) -> &'a Made {
    let finished = |s: &&Made| s.adapter == agent && s.outcome == Outcome::Finished;
    let alike = manifest.sessions.iter().filter(finished);
    alike.min_by_key(|s| s.bytes.abs_diff(64 << 10)).expect("some")
}

/// Starts a process that serves a session of this agent.
pub(crate) fn start(home: &Path, manifest: &Manifest, agent: &str, programs: &Path) -> Beside {
    let made = served(manifest, agent);
    let program = programs.join(if agent == "codex" { "codex" } else { "claude" });
    std::fs::create_dir_all(programs).expect("made");
    if !program.exists() {
        std::fs::copy(std::env::current_exe().expect("ourselves"), &program).expect("copied");
    }
    let mut command = Command::new(&program);
    command.arg(POSE).env_clear().env("HOME", home).current_dir(home);
    let lock = home.join(".codex/thread-writer-locks").join(format!("{}.lock", made.id));
    if agent == "codex" {
        std::fs::write(&lock, "").expect("written");
        command.arg(&lock).arg(home.join(&made.path));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut posing = Beside::start(&mut command);
    let stdout = posing.child.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut String::new()).expect("ready");
    if agent == "codex" {
        posing.files.push(lock);
    } else {
        let pid = posing.child.id();
        let record = home.join(".claude/sessions").join(format!("{pid}.json"));
        std::fs::write(&record, live_record(made, pid as usize, start_ticks(pid)))
            .expect("written");
        posing.files.push(record);
    }
    posing
}

/// When a process began: the twentieth field behind its name.
fn start_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, behind) = stat.rsplit_once(')').expect("a name");
    behind.split_whitespace().nth(19).and_then(|t| t.parse().ok()).expect("a number")
}
