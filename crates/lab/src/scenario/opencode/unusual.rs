//! OpenCode where its files are incomplete: a clock that is set, a terminal that goes back to an older
//! session, other mounts, relative homes, a wrapper; and the events of a home that only the process
//! names.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use super::terminal::{Tui, open, session, shows};
use super::{
    WORK, database, ended, env, native, query, recorded, run_in, settings, turn_ended, with,
};
use crate::judge::Claim;
use crate::scenario::unusual::{Events, native_wrapper, no_namesake, one_alive, only};
use crate::stage::{PATIENCE, Stage, Trouble};

/// A library that puts the clock of a program an hour back: the kernel's was set forward since.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <sys/time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int r = real(id, t);
    if (r == 0 && id == CLOCK_REALTIME) t->tv_sec -= 3600;
    return r;
}
int gettimeofday(struct timeval *t, void *z) {
    struct timespec s; int r = clock_gettime(CLOCK_REALTIME, &s);
    t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000; return r;
}
time_t time(time_t *t) {
    struct timespec s; clock_gettime(CLOCK_REALTIME, &s);
    if (t) *t = s.tv_sec; return s.tv_sec;
}
/* A deadline that was reckoned with this clock is given to the kernel's; one of the monotonic clock is not. */
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec s = *t;
    if (s.tv_sec > 1000000000) s.tv_sec += 3600;
    return real(c, m, &s);
}
"#;

fn late_clock(stage: &Stage) -> Result<PathBuf, Trouble> {
    stage.write("clock.c", CLOCK)?;
    let library = stage.home.join("clock.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(stage.home.join("clock.c")).arg("-ldl");
    let output = cc.output().map_err(|e| format!("cc: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(library) } else { Err(format!("cc: {said}")) }
}

pub(super) fn clock(stage: &mut Stage) -> Result<(), Trouble> {
    let library = late_clock(stage)?.to_string_lossy().into_owned();
    let tui = open(stage, "a", &[("LD_PRELOAD", &library)], &[])?;
    tui.enter(stage, &format!("working [[tool:{WORK}]]"))?;
    let id = session(stage, "a")?;
    tui.in_tool(stage, &id)?;
    stage.expect("a terminal in a tool", &tui.is(&id, "running").because(Some("tool")))
}

/// Starts a new session in a terminal and says something in it.
fn second(stage: &Stage, tui: &Tui, word: &str) -> Result<String, Trouble> {
    tui.terminal.type_line("/new").map_err(|e| e.to_string())?;
    stage.until("the screen is new", || {
        tui.terminal.screen().ok().filter(|s| !s.contains("[[say:")).map(drop)
    })?;
    tui.enter(stage, &format!("{word} [[say:{word} said]]"))?;
    shows(stage, &tui.terminal, &format!("{word} said"))?;
    let sql = "select id from session where ?1 <> '' order by time_created desc limit 1";
    query(&database(stage), sql, "any").ok_or_else(|| "no session".into())
}

pub(super) fn picker(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = open(stage, "a", &[], &[])?;
    tui.enter(stage, "older [[say:older said]]")?;
    let older = session(stage, "a")?;
    shows(stage, &tui.terminal, "older said")?;
    turn_ended(stage, &older)?;
    let newer = second(stage, &tui, "newer")?;
    if newer == older {
        return Err("there is no second session".into());
    }
    turn_ended(stage, &newer)?;
    tui.terminal.type_line("/sessions").map_err(|e| e.to_string())?;
    shows(stage, &tui.terminal, "Sessions")?;
    let mut presses = 0;
    stage.until("the older session is shown", || {
        let screen = tui.terminal.screen().ok()?;
        if screen.contains("older said") {
            return Some(());
        }
        presses += 1;
        if presses % 40 == 1 {
            tui.terminal.press("Down").ok()?;
            std::thread::park_timeout(std::time::Duration::from_millis(300));
            tui.terminal.press("Enter").ok()?;
        }
        None
    })?;
    stage.expect("the session that it shows", &tui.is(&older, "idle"))?;
    // No file shows that it was left: idle in the terminal is not wrong, an end would be.
    let left = Claim::of(&newer, "stopped").ended("finished").served_by(&[]);
    stage.expect_any("the session that it left", &[left, tui.is(&newer, "idle")])
}

pub(super) fn own_mounts(stage: &mut Stage) -> Result<(), Trouble> {
    settings(stage)?;
    let cwd = stage.directory("a")?;
    let script = "mkdir -p \"$HOME/.local/share/opencode\" && \
                  mount -t tmpfs none \"$HOME/.local/share/opencode\" && exec opencode";
    let argv = ["unshare", "--mount", "/bin/bash", "-c", script];
    let terminal = stage.terminal(&cwd, &with(&[]), &argv)?;
    shows(stage, &terminal, "fake-1")?;
    let pane = terminal.process().map_err(|e| e.to_string())?;
    let native = native(stage, pane.pid)?;
    let tui = Tui { terminal, native };
    let idle = Claim::of_process(tui.native.pid, "idle").because(None);
    stage.expect("at rest", &idle)?;
    tui.enter(stage, "hello [[say:hello back]]")?;
    shows(stage, &tui.terminal, "hello back")?;
    stage.expect("after a turn", &idle)
}

pub(super) fn relative(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let env = with(&[("XDG_DATA_HOME", "data")]);
    let database = cwd.join("data/opencode/opencode.db");
    let agent = run_in(stage, &cwd, &env, &database, &["--title", "t", "thinking [[hang]]"])?;
    agent.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &agent.running().because(None))
}

pub(super) fn wrapped(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage)?;
    let wrapper = native_wrapper(stage, "opencode")?;
    let wrapper = wrapper.to_string_lossy();
    let script = "opencode run --title t 'thinking [[delay:5]] [[say:done]]'; true";
    let mut outside = stage.start(&cwd, &env(), &[&wrapper, "-c", script])?;
    let id = stage.until("its session is in the database", || {
        query(&database(stage), "select id from session where title = ?1", "t")
    })?;
    stage.until_asked("thinking", |r| !r.side && r.prompt.contains("thinking"))?;
    recorded(stage, &database(stage), &id, "\"assistant\"")?;
    one_alive(stage, &id)?;
    outside.wait(PATIENCE).map_err(|e| e.to_string())?;
    stage.expect("after its end", &ended(&id, "finished"))?;
    let mut alone = stage.start(&cwd, &env(), &[&wrapper, "-c", "/bin/sleep 60; true"])?;
    drop(stage.until_below(alone.pid(), "/bin/sleep 60")?);
    no_namesake(stage, alone.pid())?;
    alone.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    alone.wait(PATIENCE).map_err(|e| e.to_string())?;
    only(stage, &[&id])
}

pub(super) fn moved_events(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let events = Events::begin(stage)?;
    let data = stage.home.join("moved");
    let env = with(&[("XDG_DATA_HOME", &data.to_string_lossy())]);
    let database = data.join("opencode/opencode.db");
    let prompt = "thinking [[delay:6]] [[say:done]]";
    let mut agent = run_in(stage, &cwd, &env, &database, &["--title", "t", prompt])?;
    agent.ended()?;
    events.expect(stage, &agent.id, "session.started");
    events.expect(stage, &agent.id, "session.stopped");
    Ok(())
}

/// A terminal in a tool, then killed.
pub(super) fn in_terminal(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = open(stage, "a", &[], &[])?;
    tui.enter(stage, "hello [[say:hello back]]")?;
    let id = session(stage, "a")?;
    turn_ended(stage, &id)?;
    shows(stage, &tui.terminal, "hello back")?;
    stage.expect("after a turn", &tui.is(&id, "idle").because(None))?;
    tui.enter(stage, &format!("working [[tool:{WORK}]]"))?;
    tui.in_tool(stage, &id)?;
    stage.expect("in a tool", &tui.is(&id, "running").because(Some("tool")))?;
    tui.native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    if !tui.native.ended_within(PATIENCE) {
        return Err("SIGKILL did not end it".into());
    }
    stage.expect("after SIGKILL", &ended(&id, "killed"))
}
