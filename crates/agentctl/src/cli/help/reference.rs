//! Exit codes of single commands, files and environment variables: help pages and manual pages show the same.

use agentctl_core::adapters::ALL as ADAPTERS;
use agentctl_core::marks;

/// The exit codes of commands that have more to say than the general table.
pub(in crate::cli) const EXIT_CODES_OF: &[(&str, &[(u8, &str)])] = &[
    (
        "launch",
        &[
            (0, "started; with --wait: finished"),
            (1, "not started; with --wait: failed or killed"),
            (2, "usage error"),
            (3, "of several agents some were not started; or the session cannot be seen"),
            (5, "refused: occupied, locked, name in use, limit, no --ask or --keep"),
            (10, "with --wait: the session waits for a human"),
            (124, "with --wait: --timeout is over"),
        ],
    ),
    (
        "resume",
        &[
            (0, "the record holds the message; with --wait: finished"),
            (1, "not recorded or not started; with --wait: failed or killed"),
            (3, "a source could not be read"),
            (4, "no such session, or several match"),
            (5, "refused: it takes no messages, or its directory is occupied or locked"),
            (10, "the session waits for a human: nothing was sent, or with --wait after it"),
            (124, "with --wait: --timeout is over"),
        ],
    ),
    ("list", &[(3, "a source could not be read: sessions may be missing")]),
    (
        "asks",
        &[
            (3, "a source could not be read: asks may be missing"),
            (4, "no such ask or session, or several match"),
        ],
    ),
    ("answer", ANSWERS),
    ("approve", ANSWERS),
    ("deny", ANSWERS),
    (
        "wait",
        &[
            (0, "every session is idle or finished; with --for: has that status"),
            (1, "a session failed or was killed; with --for: cannot get there any more"),
            (10, "a session waits for a human"),
            (124, "--timeout is over"),
        ],
    ),
    (
        "attach",
        &[
            (4, "no such session, or several match"),
            (5, "it runs in another terminal, without a terminal, or in a server"),
        ],
    ),
    (
        "stop",
        &[
            (0, "stopped, or was stopped already; with --turn: the turn was ended"),
            (1, "a process survived; with --turn: no turn is running"),
            (4, "no such session or group, or several match"),
            (5, "refused: not confirmed, or which process it is cannot be proved"),
        ],
    ),
    (
        "diff",
        &[
            (1, "git failed, or the directory is unknown"),
            (3, "a source could not be read"),
            (4, "no such session or group, several match, or the directory is gone"),
            (5, "refused: no git repository, or one of another user"),
        ],
    ),
    (
        "compare",
        &[
            (3, "a source could not be read"),
            (4, "no such group"),
            (5, "refused: no git repository, or one of another user"),
        ],
    ),
    ("worktree list", &[(3, "a source could not be read"), (5, "refused: no git repository")]),
    (
        "worktree clean",
        &[
            (0, "removed, or nothing to remove"),
            (4, "no such worktree"),
            (5, "refused: not confirmed, or a named worktree is kept"),
        ],
    ),
    (
        "worktree take",
        &[
            (1, "git failed"),
            (4, "no such session or worktree, or several match"),
            (5, "refused: conflicts, nothing is committed, or the branch is in use"),
        ],
    ),
    ("unlock", &[(4, "the directory is not locked")]),
    ("fuse cancel", &[(4, "there is no such fuse")]),
    ("rm", &[(4, "no run of the session is kept"), (5, "the session is live")]),
    ("daemon status", &[(0, "the daemon runs"), (1, "it does not run")]),
    ("daemon run", &[(5, "another daemon runs already")]),
    ("notify test", &[(0, "every channel worked"), (1, "a channel failed, or none is configured")]),
    ("config check", &[(1, "a setting cannot be used")]),
    ("config show", &[(3, "a setting cannot be used; its default is shown")]),
];

/// The exit codes of a command that answers asks.
const ANSWERS: &[(u8, &str)] = &[
    (0, "taken"),
    (1, "not delivered, or whether it was delivered is not known"),
    (2, "usage error: the ask does not offer this answer"),
    (3, "a source could not be read"),
    (4, "no such open ask, or several match"),
    (5, "refused: settled by another answer, not from here, or from below an agent"),
];

/// Returns the exit codes that a command explains itself.
pub(in crate::cli) fn exit_codes_of(command: &str) -> &'static [(u8, &'static str)] {
    EXIT_CODES_OF.iter().find(|(name, _)| *name == command).map_or(&[], |(_, codes)| codes)
}

/// The environment variables of agentctl that concern every command. Every manual page names them.
pub(in crate::cli) const COMMON_VARIABLES: &[(&str, &str)] = &[
    (marks::CONFIG, "configuration file instead of the default one"),
    (marks::NO_DAEMON, "if set: never use or start the daemon"),
    ("NO_COLOR", "if set: no colour"),
    ("CLICOLOR_FORCE", "if set and not 0: colour also when piped"),
];

/// The further environment variables that agentctl itself reads.
const FURTHER_VARIABLES: &[(&str, &str)] = &[
    ("COLUMNS", "width of the output, instead of that of the terminal"),
    ("LC_ALL, LC_CTYPE, LANG", "without UTF-8 in it, `top` draws in ASCII"),
    ("PAGER", "pager of `logs`; `cat` or empty for none [default: less]"),
    ("LESS", "options of less [default: FRX]"),
    ("TERM", "`dumb`: no colour, no screen of its own"),
    ("TERM_PROGRAM", "kind of terminal, for notifications"),
    ("VTE_VERSION", "the same"),
    ("TMUX", "set inside tmux: `attach` switches the pane there"),
    ("TZ", "time zone of printed times"),
    ("USER, LOGNAME", "owner of a lock, if --by is not given"),
    ("SHELL", "the shell whose completions `doctor` looks for"),
    ("PATH", "where agents and hooks are looked for"),
    ("HOME", "home directory: agents' files are looked for below it"),
    ("XDG_CONFIG_HOME", "folder of the configuration [default: ~/.config]"),
    ("XDG_STATE_HOME", "folder of runs, names, locks [default: ~/.local/state]"),
    ("XDG_RUNTIME_DIR", "folder of the daemon's socket"),
    ("XDG_DATA_HOME", "folder of agents' files, where they use it"),
    ("XDG_CACHE_HOME", "the same"),
    ("TZDIR", "folder of the time zone files"),
    ("TMPDIR", "folder of the temporary files of `diff` [default: /tmp]"),
];

/// Returns the environment variables that agentctl itself reads.
pub(in crate::cli) fn variables() -> Vec<(&'static str, &'static str)> {
    [COMMON_VARIABLES, FURTHER_VARIABLES].concat()
}

/// Returns the environment variables of agents that decide where their sessions are.
pub(in crate::cli) fn agent_variables() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        ADAPTERS.iter().flat_map(|adapter| adapter.variables().answers).copied().collect();
    names.retain(|name| variables().iter().all(|(own, _)| own != name));
    names.sort_unstable();
    names.dedup();
    names
}

/// The default place of the configuration file.
pub(in crate::cli) const CONFIGURATION_FILE: &str = "~/.config/agentctl/config.toml";

/// The files and folders of agentctl.
pub(in crate::cli) const FILES: &[(&str, &str)] = &[
    (CONFIGURATION_FILE, "configuration (`agentctl config path`)"),
    ("~/.local/state/agentctl/", "runs, names, groups, locks, fuses, logs"),
    ("$XDG_RUNTIME_DIR/agentctl/", "socket of the daemon"),
];
