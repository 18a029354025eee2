//! The examples of every command: help pages and manual pages show the same ones.
//!
//! `{agent}` stands for the name of an agent. A test parses every line, and fails for a command without examples.

use agentctl_core::adapters::example_name;

use super::super::demo;

/// The examples of one command.
pub(in crate::cli) struct Examples {
    /// The command without the program's name: `fuse set`; empty for the program itself.
    pub(in crate::cli) command: &'static str,
    /// A line that can be typed, and what it does.
    lines: &'static [(&'static str, &'static str)],
}

impl Examples {
    /// Returns the lines with the name of an agent filled in.
    pub(in crate::cli) fn lines(&self) -> impl Iterator<Item = (String, &'static str)> {
        let agent = example_name();
        self.lines.iter().map(move |(line, what)| (line.replace("{agent}", agent), *what))
    }
}

/// Returns the examples of a command, by its words behind the program's name.
pub(in crate::cli) fn examples_of(command: &str) -> Option<&'static Examples> {
    ALL.iter().find(|examples| examples.command == command)
}

const fn of(command: &'static str, lines: &'static [(&'static str, &'static str)]) -> Examples {
    Examples { command, lines }
}

/// The examples of all commands, in the order of the help page.
pub(in crate::cli) static ALL: &[Examples] = &[
    of(
        "",
        &[
            ("agentctl demo", "Start demo agents to try this with"),
            ("agentctl list", "Show live sessions"),
            ("agentctl launch {agent} \"fix the tests\"", "Start an agent"),
            ("agentctl logs -f @last", "Follow the newest launch"),
            ("agentctl stop .", "Stop the session in this directory"),
        ],
    ),
    of(
        "list",
        &[
            ("agentctl list", "Live sessions"),
            ("agentctl list -a --since 30d", "Also those of the last 30 days"),
            ("agentctl list --watch", "Redraw when something changes"),
            ("agentctl list --status waiting -q", "Ids of sessions that need you"),
        ],
    ),
    of(
        "top",
        &[
            ("agentctl top", "All sessions on one screen; ? shows the keys"),
            ("agentctl top --bell", "Also ring when a session starts to wait"),
        ],
    ),
    of(
        "diff",
        &[
            ("agentctl diff @last", "Files that the newest launch changed"),
            ("agentctl diff fix --patch | git apply", "Take its changes over"),
            ("agentctl diff g-4f1a2c", "Every session of a group"),
        ],
    ),
    of(
        "worktree",
        &[
            ("agentctl worktree list", "Worktrees of this repository"),
            ("agentctl worktree take g-4f1a2c/demo", "Merge its work"),
            ("agentctl worktree clean --merged", "Remove what is merged"),
        ],
    ),
    of(
        "worktree take",
        &[
            ("agentctl worktree take fix", "Merge it into its base branch"),
            ("agentctl worktree take fix --squash", "As one commit"),
            ("agentctl worktree take @last --into dev", "Into another branch"),
        ],
    ),
    of(
        "worktree clean",
        &[
            ("agentctl worktree clean --dry-run", "What would be removed, and why"),
            ("agentctl worktree clean fix", "One worktree, by its name"),
            ("agentctl worktree clean --merged -y", "All that are merged"),
            ("agentctl worktree clean fix --force", "With its work, which is saved"),
            ("agentctl worktree clean --rescued", "Delete what was saved, after 90 days"),
        ],
    ),
    of(
        "compare",
        &[
            ("agentctl compare g-4f1a2c", "The work of a group"),
            ("agentctl compare g-4f1a2c --verify 'cargo test'", "Run the tests in each"),
            ("agentctl compare g-4f1a2c --sort cost", "The cheapest first"),
        ],
    ),
    of(
        "worktree list",
        &[
            ("agentctl worktree list", "Worktrees of this repository"),
            ("agentctl worktree list -o wide", "With sizes, bases and locks"),
            ("agentctl worktree list --all-repos-of-sessions", "Of all repositories"),
        ],
    ),
    of(
        "asks",
        &[
            ("agentctl asks", "Everything that waits for you"),
            ("agentctl asks a7f319c2", "One in full, and how to answer it"),
            ("agentctl asks --group morning -q", "Ids of the asks of a group"),
        ],
    ),
    of(
        "answer",
        &[
            ("agentctl answer a7f319c2 --allow", "Allow it once"),
            ("agentctl answer a7f319c2 --deny --message 'no'", "Deny it, with a reason"),
            ("agentctl answer 0c41d27e --option 2", "Choose an option of a question"),
            ("agentctl answer", "Walk through all of them"),
        ],
    ),
    of(
        "approve",
        &[
            ("agentctl approve a7f319c2", "Allow it once"),
            ("agentctl approve a7f319c2 91f0aa02", "Allow two asks once"),
        ],
    ),
    of(
        "deny",
        &[
            ("agentctl deny a7f319c2", "Deny it"),
            ("agentctl deny a7f319c2 --message 'use staging'", "Deny it, with a reason"),
        ],
    ),
    of(
        "status",
        &[
            ("agentctl status 2a658488", "By id or prefix"),
            ("agentctl status .", "The newest session in this directory"),
            ("agentctl status @last --json", "The newest launch, as JSON"),
        ],
    ),
    of(
        "why",
        &[
            ("agentctl why painter", "By name"),
            ("agentctl why {agent}:2a65", "By agent and prefix of the id"),
        ],
    ),
    of(
        "logs",
        &[
            ("agentctl logs painter", "The last turn"),
            ("agentctl logs painter --turns 3 --full", "Three turns, nothing folded"),
            ("agentctl logs -f --group morning", "Follow several sessions"),
            ("agentctl logs . -n all --json", "Every message as JSON"),
        ],
    ),
    of(
        "changes",
        &[
            ("agentctl changes painter", "Files it changed, as recorded"),
            ("agentctl changes . --patch | git apply -R", "Take its edits back"),
            ("agentctl changes @last -q", "Only the paths"),
            ("agentctl changes painter --json", "With the count of commands"),
        ],
    ),
    of(
        "events",
        &[
            ("agentctl events", "All changes, until Ctrl-C"),
            ("agentctl events --type waiting --bell", "Ring when a session needs you"),
            ("agentctl events --since 2h --json", "Replay launches of 2 hours"),
        ],
    ),
    of(
        "launch",
        &[
            ("agentctl launch demo \"say hi\"", "The built-in agent"),
            ("agentctl launch {agent} \"fix it\" --permissions edits", "It may edit files"),
            ("git diff | agentctl launch {agent} -p \"review\"", "Piped text is context"),
            ("agentctl launch {agent} --times 3 -p \"fix it\"", "Three worktrees"),
            ("agentctl launch --matrix fix.toml --dry-run", "Show, start nothing"),
        ],
    ),
    of(
        "resume",
        &[
            ("agentctl resume painter \"use blue\"", "By name"),
            ("agentctl resume -p \"go on\" --wait", "The only session here"),
            ("agentctl resume 2a658488 \"try again\" --fork", "In a copy"),
        ],
    ),
    of(
        "attach",
        &[
            ("agentctl attach painter", "Open it, or select its tmux pane"),
            ("agentctl attach .", "The session in this directory"),
        ],
    ),
    of(
        "wait",
        &[
            ("agentctl wait @last", "Until the turn is over"),
            ("agentctl wait web api --any", "Until one of them is done"),
            ("agentctl wait web --for stopped --timeout 10m", "At most ten minutes"),
        ],
    ),
    of(
        "stop",
        &[
            ("agentctl stop painter", "By name"),
            ("agentctl stop 2a658488 .", "Several sessions"),
            ("agentctl stop --group morning", "Every session of a group"),
            ("agentctl stop --all --status idle -y", "Without confirmation"),
        ],
    ),
    of(
        "name",
        &[
            ("agentctl name 2a658488 painter", "Name a session"),
            ("agentctl name . painter", "The session in this directory"),
            ("agentctl name painter --clear", "Remove the name"),
        ],
    ),
    of(
        "group",
        &[
            ("agentctl group painter morning", "Put it into a group"),
            ("agentctl group painter --clear", "Remove it from its group"),
        ],
    ),
    of(
        "lock",
        &[
            ("agentctl lock", "The current directory"),
            ("agentctl lock ~/src/web --ttl 2h", "For two hours"),
            ("agentctl lock --reason \"release day\" --json", "With a reason"),
        ],
    ),
    of(
        "unlock",
        &[
            ("agentctl unlock", "The current directory"),
            ("agentctl unlock ~/src/web", "Another directory"),
        ],
    ),
    of(
        "locks",
        &[
            ("agentctl locks", "Occupied and locked directories"),
            ("agentctl locks --watch", "Redraw when something changes"),
            ("agentctl locks --json", "As JSON"),
        ],
    ),
    of(
        "fuse",
        &[
            ("agentctl fuse set --idle 30m --on-expire stop", "Stop what is idle here"),
            ("agentctl fuse extend", "Restart the timer"),
            ("agentctl fuse cancel --session painter", "The fuse of a session"),
        ],
    ),
    of(
        "fuse set",
        &[
            ("agentctl fuse set --ttl 2h --on-expire stop", "Stop agents here in 2 hours"),
            ("agentctl fuse set --session web --max-cost 5", "An event at 5 dollars"),
            ("agentctl fuse set --idle 10m --on-expire run:make", "Run a command"),
        ],
    ),
    of(
        "fuse extend",
        &[
            ("agentctl fuse extend", "Restart the timer"),
            ("agentctl fuse extend ~/src/web --ttl 4h", "Four hours from now"),
            ("agentctl fuse extend --session web --max-cost 10", "A larger budget"),
        ],
    ),
    of(
        "fuse cancel",
        &[
            ("agentctl fuse cancel", "The fuse of this directory"),
            ("agentctl fuse cancel --session web", "The fuse of a session"),
            ("agentctl fuse cancel 5f0c9a", "By its id"),
        ],
    ),
    of(
        "fuses",
        &[("agentctl fuses", "The next to expire first"), ("agentctl fuses --json", "As JSON")],
    ),
    of(
        "runs",
        &[
            ("agentctl runs", "Earlier launches"),
            ("agentctl runs -o wide -n 5", "Five, with their folders"),
            ("agentctl runs @last --stderr", "What the newest one wrote to stderr"),
        ],
    ),
    of(
        "prune",
        &[
            ("agentctl prune --dry-run", "What would be removed"),
            ("agentctl prune --older-than 1d -y", "Without confirmation"),
            ("agentctl prune painter", "The runs of one session"),
        ],
    ),
    of(
        "rm",
        &[
            ("agentctl rm painter", "The runs of one session"),
            ("agentctl rm 2a658488 @last", "Of several"),
        ],
    ),
    of(
        "mcp",
        &[
            ("agentctl mcp", "Serve the client that started it"),
            ("agentctl mcp --scope ~/shop", "Only sessions below ~/shop"),
            ("agentctl mcp --allow-control", "Agents may launch and stop agents"),
        ],
    ),
    of(
        "daemon",
        &[
            ("agentctl daemon status", "Does it run, what does it see"),
            ("agentctl daemon install", "Start it at login"),
            ("agentctl daemon logs -f", "Follow its log"),
        ],
    ),
    of(
        "daemon run",
        &[
            ("agentctl daemon run", "In the foreground, until Ctrl-C"),
            ("agentctl daemon run --color never", "For a service manager"),
        ],
    ),
    of(
        "daemon start",
        &[
            ("agentctl daemon start", "In the background"),
            ("agentctl daemon start --json", "Print its pid as JSON"),
        ],
    ),
    of(
        "daemon stop",
        &[
            ("agentctl daemon stop", "Agents keep running"),
            ("agentctl daemon stop --force", "Kill it if it does not answer"),
        ],
    ),
    of(
        "daemon status",
        &[
            ("agentctl daemon status", "Exit code 1 if it does not run"),
            ("agentctl daemon status --json", "As JSON"),
        ],
    ),
    of(
        "daemon restart",
        &[
            ("agentctl daemon restart", "After a change of the configuration"),
            ("agentctl daemon restart --force", "Kill it if it does not answer"),
        ],
    ),
    of(
        "daemon logs",
        &[
            ("agentctl daemon logs -n 20", "The last 20 lines"),
            ("agentctl daemon logs -f", "Follow"),
        ],
    ),
    of(
        "daemon install",
        &[
            ("agentctl daemon install", "Start it now and at login"),
            ("agentctl daemon install --print", "Only print the service file"),
        ],
    ),
    of(
        "daemon uninstall",
        &[
            ("agentctl daemon uninstall", "Stop it and remove the service"),
            ("agentctl daemon status", "See whether it still runs"),
        ],
    ),
    of(
        "web",
        &[
            ("agentctl web", "Print a link for the browser; Ctrl-C ends it"),
            ("agentctl web --allow-control", "Also answer, send, stop and launch"),
            ("agentctl web --link --qr", "One more device, while it runs"),
        ],
    ),
    of(
        "web install",
        &[
            ("agentctl web install", "Serve it now and at login, only to look"),
            ("agentctl web --allow-control install", "With orders"),
            ("agentctl web install --print", "Only print the service file"),
        ],
    ),
    of(
        "web uninstall",
        &[
            ("agentctl web uninstall", "Stop it and remove the service"),
            ("agentctl web --link", "See whether it still runs"),
        ],
    ),
    of(
        "notify",
        &[
            ("agentctl notify test", "Try every configured channel"),
            ("agentctl list --watch --bell", "Notifications of one terminal"),
        ],
    ),
    of(
        "notify test",
        &[
            ("agentctl notify test", "Try every configured channel"),
            ("agentctl config show", "Show which channels are configured"),
        ],
    ),
    of("doctor", &[("agentctl doctor", "Check everything"), ("agentctl doctor --json", "As JSON")]),
    of(
        "config",
        &[
            ("agentctl config check", "Find mistakes in the file"),
            ("$EDITOR \"$(agentctl config path)\"", "Edit the file"),
            ("agentctl config show", "Settings, and where they come from"),
        ],
    ),
    of(
        "config check",
        &[
            ("agentctl config check", "Exit code 1 for a mistake"),
            ("AGENTCTL_CONFIG=new.toml agentctl config check", "Another file"),
        ],
    ),
    of(
        "config path",
        &[
            ("agentctl config path", "Where the file is, or would be"),
            ("$EDITOR \"$(agentctl config path)\"", "Edit the file"),
        ],
    ),
    of(
        "config show",
        &[
            ("agentctl config show", "Settings, and where they come from"),
            ("agentctl config show --json", "As JSON"),
        ],
    ),
    of(
        "adapters",
        &[
            ("agentctl adapters", "All agents and what works with each"),
            ("agentctl adapters -q", "Only their names"),
        ],
    ),
    of(
        demo::COMMAND,
        &[
            ("agentctl demo", "Start six demo agents"),
            ("agentctl demo --clean", "Stop them and remove their files"),
        ],
    ),
    of(
        "completions",
        &[
            ("source <(agentctl completions bash)", "For this bash"),
            ("agentctl completions fish | source", "For this fish"),
        ],
    ),
    of(
        "man",
        &[
            ("agentctl man fuse set | man -l -", "Read one page"),
            ("agentctl man --install ~/.local/share/man/man1", "Install all pages"),
        ],
    ),
    of(
        "schema",
        &[
            ("agentctl schema", "All schemas, by name"),
            ("agentctl schema list", "Of `list --json`"),
        ],
    ),
    of("version", &[("agentctl version", "Print the version"), ("agentctl --version", "The same")]),
];
