//! Claude Code, as it is started, watched and ended by people and scripts.
//!
//! `ways` holds how it is started and the facts that are waited for; the other files hold the
//! scenarios: `headless` (one `claude -p` from birth to end), `several` (resumed, forked, doubled,
//! subagents, background sessions), `traces` (what is left on disk, and what is read from it) and
//! `terminal` (with a person before it).

mod headless;
mod several;
mod terminal;
mod traces;
mod ways;

use super::{Needs, Scenario};
use crate::stage::{Stage, Trouble};

type Play = fn(&mut Stage) -> Result<(), Trouble>;

/// Every scenario of Claude Code.
pub static SCENARIOS: &[Scenario] = &[
    core("starting", "from its birth to its first model call", headless::starting),
    headless("first-start", "the same in a home that never saw it", headless::born),
    core("model-call", "a headless session while the model thinks", headless::model_call),
    core("tool", "a tool at work, and the turn's end after it", headless::tool),
    core("finished", "a headless session that did what it was asked", headless::finished),
    core("failed-401", "the key is refused", headless::failed::<401>),
    headless("failed-429", "the rate limit holds to the end", headless::failed::<429>),
    headless("failed-500", "the server fails to the end", headless::failed::<500>),
    headless("retrying", "the model is overloaded, Claude Code tries again", headless::retrying),
    headless("interrupted-in-tool", "SIGINT in a tool", headless::interrupted_in_tool),
    headless("interrupted-in-call", "SIGINT in a model call", headless::interrupted_in_call),
    headless("terminated", "SIGTERM in a tool", headless::terminated),
    core(
        "killed-in-call",
        "SIGKILL in a model call: the live record stays behind",
        headless::killed_in_call,
    ),
    core(
        "killed-in-tool",
        "SIGKILL in a tool: the live record and the tool stay behind",
        headless::killed_in_tool,
    ),
    headless("not-reaped", "killed, and nobody has waited for it", headless::not_reaped),
    headless("paused", "SIGSTOP, then SIGCONT", headless::paused),
    headless("launcher-killed", "its launcher dies, it works on", headless::launcher_killed),
    headless("resumed", "a finished session goes on under its id", several::resumed),
    headless(
        "forked",
        "a fork has an id of its own, and counts what it has copied once",
        several::forked,
    ),
    headless("same-directory", "two sessions in one directory", several::same_directory),
    headless("two-processes", "two processes on one session", several::two_processes),
    headless("subagent", "a subagent at work, the main turn over", several::subagent),
    headless(
        "background-session",
        "`claude --bg`: one row, none of its spare",
        several::background,
    ),
    core("recycled-pid", "a stranger has the pid of a stale live record", traces::recycled_pid),
    headless("moved-home", "CLAUDE_CONFIG_DIR in the agent's environment only", traces::moved_home),
    headless("no-traces", "a session that keeps no conversation", traces::no_traces),
    headless("long-ago", "a session that ended more than a month ago", traces::long_ago),
    core("tokens", "tokens as the model counted them, a subagent's too", traces::tokens),
    headless("refused-tool", "`-p` may not use a tool: a note says so", traces::refused_tool),
    core("logs", "what was said, in order", traces::logs),
    terminal("idle", "before the first prompt, and after a turn", terminal::idle),
    terminal("permission", "a person must allow a tool", terminal::permission),
    terminal("question", "a person is asked something", terminal::question),
    terminal("plan", "a person must approve a plan", terminal::plan),
    terminal("trust", "a person must trust the directory", terminal::trust),
    terminal("key-dialog", "a person must allow the API key", terminal::key_dialog),
    terminal("bypass-dialog", "a person must accept bypassed rules", terminal::bypass_dialog),
    terminal(
        "subagent-permission",
        "a person must allow a background subagent's tool",
        terminal::subagent_permission,
    ),
    terminal("retrying-terminal", "the model is overloaded", terminal::retrying),
    terminal("escape", "a person interrupts a model call, then quits", terminal::escape),
    terminal("clear", "/clear: a new id in the same process", terminal::clear),
    terminal("background-shell", "a shell goes on after the turn", terminal::background_shell),
];

const fn core(name: &'static str, shows: &'static str, play: Play) -> Scenario {
    scenario(name, shows, Needs::Core, play)
}

const fn headless(name: &'static str, shows: &'static str, play: Play) -> Scenario {
    scenario(name, shows, Needs::Headless, play)
}

const fn terminal(name: &'static str, shows: &'static str, play: Play) -> Scenario {
    scenario(name, shows, Needs::Terminal, play)
}

const fn scenario(name: &'static str, shows: &'static str, needs: Needs, play: Play) -> Scenario {
    Scenario { agent: "claude-code", name, shows, needs, unknown_because: None, play }
}
