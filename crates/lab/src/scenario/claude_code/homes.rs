//! Claude Code in homes and under names that are not the usual ones: moved, relative, full, read-only, mounted
//! elsewhere; behind a link or a wrapper; subcommands that are no sessions; and the events of all that.

use std::path::Path;

use rustix::process::Signal;

use super::any_version::{asked, idle, quiet, terminal};
use super::headless::{running, stopped};
use super::ways::{Tui, end, env, id, settle, told};
use crate::judge::Claim;
use crate::scenario::unusual::{
    Events, mount, native_wrapper, no_namesake, none_alive, one_alive, only,
};
use crate::stage::{Stage, Trouble};

pub(super) fn relative(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut env = env(stage);
    env.push(("CLAUDE_CONFIG_DIR".into(), "cfg".into()));
    let argv = ["claude", "-p", "think [[hang]]", "--session-id", &id];
    let agent = stage.start(&cwd, &env, &argv)?;
    asked(stage, "think")?;
    quiet(stage, &cwd.join("cfg"))?;
    stage.expect("while the model thinks", &running(&id, &[agent.pid()]))
}

/// An idle terminal in a home that it cannot write to.
pub(super) fn full(stage: &mut Stage) -> Result<(), Trouble> {
    let claude = stage.home.join(".claude");
    mount(&["-t", "tmpfs", "-o", "size=64k", "none"], &claude)?;
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    // Fills the file system: the last write fails.
    let _full = std::fs::write(claude.join("ballast"), vec![0_u8; 128 << 10]);
    unwritable(stage, &cwd, "with a full home")
}

pub(super) fn read_only(stage: &mut Stage) -> Result<(), Trouble> {
    let claude = stage.home.join(".claude");
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    let source = claude.to_string_lossy().into_owned();
    mount(&["--bind", &source], &claude)?;
    mount(&["-o", "remount,bind,ro", &source], &claude)?;
    unwritable(stage, &cwd, "with a read-only home")
}

fn unwritable(stage: &mut Stage, cwd: &Path, moment: &str) -> Result<(), Trouble> {
    let tui = Tui::start(stage, cwd, &[])?;
    shows_prompt(stage, &tui)?;
    let idle = Claim::of_process(tui.pid(), "idle").because(None).served_by(&[tui.pid()]);
    stage.expect(moment, &idle)
}

fn shows_prompt(stage: &Stage, tui: &Tui) -> Result<(), Trouble> {
    let shown = stage.until("it shows its prompt", || {
        let screen = tui.terminal.screen().ok()?;
        screen.lines().any(|l| l.starts_with('❯') || l.starts_with("> ")).then_some(())
    });
    shown.map_err(|e| tui.with_screen(&e))?;
    stage.until_quiet(&stage.home.join(".claude"))
}

/// A terminal in a sandbox that has mounted another `~/.claude`.
pub(super) fn own_mounts(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    let script = "cp -r \"$HOME/.claude\" /tmp/lab-own && mount -t tmpfs none \"$HOME/.claude\" && \
                  cp /tmp/lab-own/* \"$HOME/.claude/\"; rm -rf /tmp/lab-own; exec claude";
    let argv = ["unshare", "--mount", "/bin/bash", "-c", script];
    let env = env(stage);
    let terminal = stage.terminal(&cwd, &env, &argv)?;
    let process = stage.until("claude runs in the terminal", || {
        let process = terminal.process().ok()?;
        crate::process::comm(process.pid).starts_with("claude").then_some(process)
    })?;
    let tui = Tui { terminal, process };
    shows_prompt(stage, &tui)?;
    let idle = Claim::of_process(tui.pid(), "idle").because(None).served_by(&[tui.pid()]);
    stage.expect("at rest", &idle)?;
    tui.prompt("hello [[say:hello back]]")?;
    asked(stage, "hello")?;
    tui.until_shown(stage, "hello back")?;
    stage.expect("after a turn", &idle)
}

/// Links the program under another name.
fn other_name(stage: &Stage) -> Result<String, Trouble> {
    let link = stage.home.join("shims/cc");
    std::fs::create_dir_all(stage.home.join("shims")).map_err(told)?;
    std::os::unix::fs::symlink(stage.agent.bin.join("claude"), &link).map_err(told)?;
    Ok(link.to_string_lossy().into_owned())
}

pub(super) fn named_otherwise(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let link = other_name(stage)?;
    let moved = stage.home.join("elsewhere");
    let mut env = env(stage);
    env.push(("CLAUDE_CONFIG_DIR".into(), moved.to_string_lossy().into_owned()));
    let argv = [&link, "-p", "think [[hang]]", "--session-id", &id];
    let mut agent = stage.start(&cwd, &env, &argv)?;
    asked(stage, "think")?;
    quiet(stage, &moved)?;
    stage.expect("in a moved home", &running(&id, &[agent.pid()]))?;
    agent.held.signal(Signal::KILL).map_err(told)?;
    end(&mut agent)
}

pub(super) fn named_otherwise_trust(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[])?;
    let link = other_name(stage)?;
    let env = super::ways::env(stage);
    let terminal = stage.terminal(&cwd, &env, &[&link])?;
    let process = terminal.process().map_err(told)?;
    let tui = Tui { terminal, process };
    tui.until_shown(stage, "Esc to cancel")?;
    let waiting = Claim::of_process(tui.pid(), "waiting").because(Some("trust"));
    stage.expect("at the trust question", &waiting.served_by(&[tui.pid()]))
}

pub(super) fn wrapped(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let wrapper = native_wrapper(stage, "claude")?;
    let wrapper = wrapper.to_string_lossy();
    let script = "claude -p 'think [[delay:3]] [[say:done]]' --session-id \"$0\"; true";
    let mut outside = stage.start(&cwd, &env(stage), &[&wrapper, "-c", script, &id])?;
    asked(stage, "think")?;
    one_alive(stage, &id)?;
    end(&mut outside)?;
    stage.expect("after its end", &stopped(&id, "finished"))?;
    let waits = "/bin/sleep 60; true";
    let mut alone = stage.start(&cwd, &env(stage), &[&wrapper, "-c", waits])?;
    drop(stage.until_below(alone.pid(), "/bin/sleep 60")?);
    no_namesake(stage, alone.pid())?;
    alone.held.signal(Signal::KILL).map_err(told)?;
    end(&mut alone)?;
    only(stage, &[&id])
}

/// Subcommands that serve something else, behind an option.
pub(super) fn subcommand(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settle(stage, &[&cwd])?;
    let script = "sleep 100 | exec claude --debug mcp serve";
    let server = stage.start(&cwd, &env(stage), &["/bin/bash", "-c", script])?;
    stage.until("the server runs", || {
        let below = crate::process::descendants(server.pid());
        below.into_iter().find(|p| crate::process::comm(*p).starts_with("claude"))
    })?;
    stage.until_quiet(&stage.home.join(".claude"))?;
    none_alive(stage, "a tool server is no session")
}

/// The events of a session in a home that only its own environment names.
pub(super) fn moved_events(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let events = Events::begin(stage)?;
    let moved = stage.home.join("elsewhere");
    let mut env = env(stage);
    env.push(("CLAUDE_CONFIG_DIR".into(), moved.to_string_lossy().into_owned()));
    let argv = ["claude", "-p", "think [[delay:6]] [[say:done]]", "--session-id", &id];
    end(&mut stage.start(&cwd, &env, &argv)?)?;
    events.expect(stage, &id, "session.started");
    events.expect(stage, &id, "session.stopped");
    Ok(())
}

/// One question is reported once, and no event is older than the one before it.
pub(super) fn waiting_once(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let events = Events::begin(stage)?;
    let tui = terminal(stage, &cwd, &id, &["--permission-mode", "default"])?;
    for name in ["first", "second"] {
        tui.prompt(&format!("make-{name} [[tool:touch {name}]] [[say:made {name}]]"))?;
        tui.until_shown(stage, "❯ 1. Yes")?;
        quiet(stage, &stage.home.join(".claude"))?;
        let made = cwd.join(name);
        tui.press_until(stage, "Enter", "the tool runs", || made.exists())?;
        tui.until_shown(stage, &format!("made {name}"))?;
        quiet(stage, &stage.home.join(".claude"))?;
    }
    stage.expect("after both", &idle(&id, tui.pid()))?;
    stage.until("the last rest is told", || {
        (events.types(&id).iter().filter(|t| *t == "session.idle").count() >= 2).then_some(())
    })?;
    let told: Vec<_> = events.of(&id);
    let waiting = told.iter().filter(|e| e["type"] == "session.waiting").count();
    let evidence =
        told.iter().map(|e| format!("{} {} {}", e["at"], e["type"], e["session"]["reason"]));
    let evidence = evidence.collect::<Vec<_>>().join("\n");
    stage.expect_that("two prompts, two `session.waiting`", waiting == 2, &*evidence);
    let times: Vec<&str> = told.iter().filter_map(|e| e["at"].as_str()).collect();
    stage.expect_that("`at` never runs backwards", times.is_sorted(), evidence);
    Ok(())
}
