//! Claude Code, started, watched and ended by people and scripts.
//!
//! `ways` holds how it is started and the facts that are waited for; the other files hold the
//! scenarios: `headless` (one `claude -p` from birth to end), `several` (resumed, forked, doubled,
//! subagents, background sessions), `any_version` (what every promised version shows), `orderly` (ends without a last answer), `homes` (unusual homes and names), `control` (what it is ordered to do), `traces` (what is left on disk, and what is read from it) and
//! `terminal` (with a person before it).

mod any_version;
mod asking;
mod asks;
mod changes;
mod control;
mod headless;
mod homes;
mod orderly;
mod several;
mod terminal;
mod traces;
mod ways;

use super::{Agent, PlayedAgent, Scenario, below, control as shared, inbox_bars};
use crate::install::{Beside, Package};

const CLAUDE: Agent = Agent("claude-code");

/// Claude Code in the lab.
pub static AGENT: PlayedAgent = PlayedAgent {
    package: Package {
        agent: CLAUDE.0,
        name: "@anthropic-ai/claude-code",
        beside: Beside::Nothing,
    },
    scenarios: &[SCENARIOS, &CONTROL, &MCP, &BARS, &BELOW, &KEPT_BARS],
};

/// Every scenario of Claude Code.
pub static SCENARIOS: &[Scenario] = &[
    CLAUDE.core("starting", "from its birth to its first model call", headless::starting),
    CLAUDE.headless("first-start", "the same in a home that never saw it", headless::born),
    CLAUDE.core("model-call", "a headless session while the model thinks", headless::model_call),
    CLAUDE.core("tool", "a tool at work, and the turn's end after it", headless::tool),
    CLAUDE.core("finished", "a headless session that did what it was asked", headless::finished),
    CLAUDE.core(
        "changes",
        "`changes --patch` of tools and shell commands, applied to the start",
        changes::all,
    ),
    CLAUDE
        .headless(
            "version-changes",
            "`changes --patch` of file tools, applied to the start",
            changes::by_file_tools,
        )
        .every(),
    CLAUDE.core("failed-401", "the key is refused", headless::failed::<401>),
    CLAUDE.headless("failed-429", "the rate limit holds to the end", headless::failed::<429>),
    CLAUDE.headless("failed-500", "the server fails to the end", headless::failed::<500>),
    CLAUDE.headless(
        "retrying",
        "the model is overloaded, Claude Code tries again",
        headless::retrying,
    ),
    CLAUDE.headless("interrupted-in-tool", "SIGINT in a tool", headless::interrupted_in_tool),
    CLAUDE.headless("interrupted-in-call", "SIGINT in a model call", headless::interrupted_in_call),
    CLAUDE.headless("terminated", "SIGTERM in a tool", headless::terminated),
    CLAUDE.core(
        "killed-in-call",
        "SIGKILL in a model call: the live record stays behind",
        headless::killed_in_call,
    ),
    CLAUDE.core(
        "killed-in-tool",
        "SIGKILL in a tool: the live record and the tool stay behind",
        headless::killed_in_tool,
    ),
    CLAUDE.headless("not-reaped", "killed, and nobody has waited for it", headless::not_reaped),
    CLAUDE.headless("paused", "SIGSTOP, then SIGCONT", headless::paused),
    CLAUDE.headless("launcher-killed", "its launcher dies, it works on", headless::launcher_killed),
    CLAUDE.headless("resumed", "a finished session goes on under its id", several::resumed),
    CLAUDE.headless(
        "forked",
        "a fork has an id of its own, and counts what it has copied once",
        several::forked,
    ),
    CLAUDE.headless("same-directory", "two sessions in one directory", several::same_directory),
    CLAUDE.headless("two-processes", "two processes on one session", several::two_processes),
    CLAUDE.headless("subagent", "a subagent at work, the main turn over", several::subagent),
    CLAUDE.headless(
        "background-session",
        "`claude --bg`: one row, none of its spare",
        several::background,
    ),
    CLAUDE.core(
        "recycled-pid",
        "a stranger has the pid of a stale live record",
        traces::recycled_pid,
    ),
    CLAUDE.headless(
        "moved-home",
        "CLAUDE_CONFIG_DIR in the agent's environment only",
        traces::moved_home,
    ),
    CLAUDE.headless("no-traces", "a session that keeps no conversation", traces::no_traces),
    CLAUDE.headless("long-ago", "a session that ended more than a month ago", traces::long_ago),
    CLAUDE.core("tokens", "tokens as the model counted them, a subagent's too", traces::tokens),
    CLAUDE.headless(
        "refused-tool",
        "`-p` may not use a tool: a note says so",
        traces::refused_tool,
    ),
    CLAUDE.core("logs", "what was said, in order", traces::logs),
    CLAUDE.terminal("idle", "before the first prompt, and after a turn", terminal::idle),
    CLAUDE.terminal("permission", "a person must allow a tool", terminal::permission),
    CLAUDE.terminal("question", "a person is asked something", terminal::question),
    CLAUDE.terminal("plan", "a person must approve a plan", terminal::plan),
    CLAUDE.terminal("trust", "a person must trust the directory", terminal::trust),
    CLAUDE.terminal("key-dialog", "a person must allow the API key", terminal::key_dialog),
    CLAUDE.terminal(
        "bypass-dialog",
        "a person must accept bypassed rules",
        terminal::bypass_dialog,
    ),
    CLAUDE.terminal(
        "subagent-permission",
        "a person must allow a background subagent's tool",
        terminal::subagent_permission,
    ),
    CLAUDE.terminal("retrying-terminal", "the model is overloaded", terminal::retrying),
    CLAUDE.terminal("escape", "a person interrupts a model call, then quits", terminal::escape),
    CLAUDE.terminal("clear", "/clear: a new id in the same process", terminal::clear),
    CLAUDE.terminal(
        "background-shell",
        "a shell goes on after the turn",
        terminal::background_shell,
    ),
    CLAUDE.headless(
        "stopped-background",
        "`stop` of a `claude --bg` session, by its own service",
        control::background,
    ),
    CLAUDE.terminal(
        "waited-terminal",
        "`wait` and `stop` with a person before it",
        control::terminal,
    ),
    CLAUDE.core("asked-allowed", "`launch --ask`: listed, allowed, done", asking::allowed),
    CLAUDE.headless("asked-denied", "the same, denied with words", asking::denied),
    CLAUDE.headless(
        "asked-at-once",
        "eight answers at once: one is taken, and the agent does that",
        asking::answered_at_once,
    ),
    CLAUDE.headless("asked-forgotten", "all of agentctl's files are wiped", asking::forgotten),
    CLAUDE.headless(
        "asked-killed",
        "SIGKILL while it asks: no asker is left",
        asking::agent_killed,
    ),
    CLAUDE.headless("kept", "`launch --keep`: messages, an ask, `stop --turn`", asking::kept),
    CLAUDE.headless(
        "kept-question",
        "`resume --keep`: a question, and its option",
        asking::kept_question,
    ),
    CLAUDE.headless("kept-steered", "a message while a tool is at work", asking::kept_steered),
    CLAUDE.headless("kept-forgotten", "the same with wiped files", asking::kept_forgotten),
    CLAUDE.terminal("asked-in-terminal", "shown, and answered there only", asking::own_terminal),
    CLAUDE.terminal(
        "asked-hooked-terminal",
        "a terminal with our hook: answered from here, and there",
        asking::hooked_terminal,
    ),
    CLAUDE.core("version-call", "a model call, and SIGKILL in it", any_version::call).every(),
    CLAUDE.core("version-tool", "a tool, and SIGKILL in it", any_version::tool).every(),
    CLAUDE.core("version-ends", "finished, failed, SIGINT, SIGTERM", any_version::ends).every(),
    CLAUDE
        .headless(
            "version-stop",
            "`stop` in a tool: its answer is what happened",
            any_version::stop,
        )
        .every(),
    CLAUDE.headless("version-resumed", "a second turn under its id", any_version::resumed).every(),
    CLAUDE
        .terminal("version-terminal", "at rest, in a tool, ended", any_version::in_terminal)
        .every(),
    CLAUDE
        .terminal("version-permission", "a person must allow a tool", any_version::permission)
        .every(),
    CLAUDE
        .headless("kept-open", "an SDK keeps it open: at rest, in a tool", any_version::kept_open)
        .every(),
    CLAUDE
        .headless("container", "in a container that shares the home", any_version::container)
        .every(),
    CLAUDE.headless("max-turns", "its limit of turns ends it", orderly::max_turns).every(),
    CLAUDE.headless("max-budget", "its budget ends it", orderly::max_budget).every(),
    CLAUDE.headless("json-schema", "structured output ends it", orderly::json_schema).every(),
    CLAUDE.headless("hook-stops", "a hook ends it", orderly::hook_stops).every(),
    CLAUDE
        .headless("command-only", "`launch -p /context --wait`: no turn, success", orderly::context)
        .since("2.1.150"),
    CLAUDE
        .headless("fast-looks", "looked at without pause while it works", orderly::fast_looks)
        .every(),
    CLAUDE.headless("relative-home", "CLAUDE_CONFIG_DIR is relative", homes::relative).every(),
    CLAUDE.terminal("full-home", "its home is full", homes::full).since("2.1.100"),
    CLAUDE.terminal("read-only-home", "its home is read-only", homes::read_only).since("2.1.100"),
    CLAUDE.terminal("own-mounts", "it has mounted another `~/.claude`", homes::own_mounts).every(),
    CLAUDE
        .headless("other-name", "started by a link of another name", homes::named_otherwise)
        .every(),
    CLAUDE
        .terminal(
            "other-name-trust",
            "the same at the trust question",
            homes::named_otherwise_trust,
        )
        .since("2.1.150"),
    CLAUDE.headless("native-wrapper", "a program of its name waits for it", homes::wrapped).every(),
    CLAUDE
        .headless("subcommand", "`claude --debug mcp serve` is no session", homes::subcommand)
        .every(),
    CLAUDE
        .headless("moved-home-events", "events from a home only it names", homes::moved_events)
        .every(),
    CLAUDE
        .terminal("waiting-once", "one question, one `session.waiting`", homes::waiting_once)
        .since("2.1.150"),
];

/// The scenarios of control that all agents share.
pub static CONTROL: [Scenario; 24] = shared::scenarios::<control::Claude>(&CLAUDE);

/// The scenarios of the MCP server that all its clients share.
pub static MCP: [Scenario; 2] = shared::mcp::scenarios::<control::Claude>(&CLAUDE);

/// The bars of the inbox that all agents share.
pub static BARS: [Scenario; 1] = inbox_bars::scenarios::<asks::Claude>(&CLAUDE);
/// Answers from below it and from beside it.
pub static BELOW: [Scenario; 2] = below::scenarios::<asks::Claude>(&CLAUDE);
/// Messages to sessions that stay.
pub static KEPT_BARS: [Scenario; 2] = inbox_bars::kept_scenarios::<asks::Claude>(&CLAUDE);
