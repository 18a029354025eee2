//! Reads an argument list of Claude Code: it starts a session, or a subcommand that serves something
//! else.
//!
//! Read as Claude Code 2.1.325 reads it: the subcommand is the first word that is neither an option nor an
//! option's value. `-p` anywhere makes every word part of a prompt. The lists hold all promised versions.

/// Subcommands that never serve a session themselves.
#[rustfmt::skip]
const SUBCOMMANDS: [&str; 26] = [
    "agents", "attach", "auth", "auto-mode", "config", "daemon", "doctor", "gateway", "import", "install", "kill",
    "logs", "mcp", "migrate-installer", "plugin", "plugins", "project", "purge", "remote-control", "respawn", "rm",
    "setup-token", "stop", "ultrareview", "update", "upgrade",
];

/// Words that count only as the first argument: they start something other than a session.
#[rustfmt::skip]
const FIRST_WORDS: [&str; 20] = [
    "--version", "-v", "-V", "--help", "-h", "--update", "--upgrade", "--daemon-worker", "--chrome-native-host",
    "--claude-in-chrome-mcp", "--computer-use-mcp", "--eval-mock-server", "--ripgrep", "daemon", "remote-control",
    "rc", "remote", "sync", "bridge", "self-hosted-runner",
];

/// Options that stand alone.
#[rustfmt::skip]
const FLAGS: [&str; 36] = [
    "--allow-dangerously-skip-permissions", "--ax-screen-reader", "--bare", "--bg", "--background", "--brief",
    "--chrome", "--no-chrome", "--continue", "-c", "--dangerously-skip-permissions", "--desktop",
    "--disable-slash-commands", "--enable-auth-status", "--enable-auto-mode", "--exclude-dynamic-system-prompt-sections",
    "--fork-session", "--forward-subagent-text", "--ide", "--include-hook-events", "--include-partial-messages",
    "--init", "--init-only", "--maintenance", "--mcp-debug", "--no-session-persistence", "--print", "-p",
    "--replay-user-messages", "--restricted", "--safe-mode", "--strict-mcp-config", "--tmux", "--verbose",
    "--debug-to-stderr", "-d2e",
];

/// Options that take all words up to the next option.
#[rustfmt::skip]
const VARIADIC: [&str; 14] = [
    "--add-dir", "--allowedTools", "--allowed-tools", "--allow-tools", "--betas", "--channels",
    "--dangerously-load-development-channels", "--disallowedTools", "--disallowed-tools",
    "--disallow-tools", "--file", "--mcp-config", "--tools", "--tag",
];

/// Options whose value may be left out.
#[rustfmt::skip]
const OPTIONAL: [&str; 12] = [
    "--cloud", "--debug", "-d", "--from-pr", "--prompt-suggestions", "--rc", "--remote", "--remote-control",
    "--resume", "-r", "--teleport", "--worktree",
];

/// Says whether a process with these arguments can serve a session. A spare process and the terminal
/// host of a background session run the same program file and cannot.
pub(super) fn may_serve_session(argv: &[String]) -> bool {
    let background = argv.iter().any(|a| a == "--bg-spare" || a == "--bg-pty-host");
    !background && subcommand(argv).is_none()
}

/// Says whether it was started for one prompt or a stream of them, without a terminal of its own.
pub(super) fn is_headless(argv: &[String]) -> bool {
    argv.iter().any(|a| a == "-p" || a == "--print")
}

/// Says whether prompts come to it one after the other, from a program that keeps it open.
pub(super) fn takes_a_stream(argv: &[String]) -> bool {
    argv.iter().any(|a| a.starts_with("--input-format"))
        && argv.iter().any(|a| a.contains("stream-json") && !a.contains("output"))
}

/// Says whether it asks for permissions in its output and reads the answers from its input.
pub(super) fn asks_on_stdio(argv: &[String]) -> bool {
    let is_option = |arg: &String| {
        arg == "--permission-prompt-tool" || arg.starts_with("--permission-prompt-tool=")
    };
    takes_a_stream(argv) && argv.iter().any(is_option)
}

/// Says whether its session is written nowhere.
pub(super) fn keeps_no_transcript(argv: &[String]) -> bool {
    argv.iter().any(|a| a == "--no-session-persistence")
}

/// Says whether it goes on with an earlier session under that session's own id.
pub(super) fn resumes(argv: &[String]) -> bool {
    let is_option = |arg: &str| {
        let long = ["--resume", "--continue"].iter().any(|option| {
            arg.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        long || matches!(arg, "-r" | "-c")
    };
    argv.iter().any(|arg| is_option(arg)) && !argv.iter().any(|arg| arg == "--fork-session")
}

fn subcommand(argv: &[String]) -> Option<&str> {
    let words = words(argv);
    let first = words.first()?;
    if FIRST_WORDS.contains(first) {
        return Some(first);
    }
    let mut rest = words.as_slice();
    let mut operand = None;
    let mut options = true;
    while let [word, tail @ ..] = rest {
        rest = tail;
        match *word {
            "-p" | "--print" if options => return None,
            "--" if options => options = false,
            option if options && option.starts_with('-') && option.len() > 1 => {
                rest = after_values(option, rest);
            }
            word => operand = operand.or(Some(word)),
        }
    }
    operand.filter(|word| SUBCOMMANDS.contains(word))
}

/// Returns the arguments behind the program, and behind the script that an interpreter runs.
fn words(argv: &[String]) -> Vec<&str> {
    let all = argv.iter().skip(1).map(String::as_str);
    let mut words: Vec<&str> = all.collect();
    if words.first().is_some_and(|first| first.ends_with("/cli.js")) {
        words.remove(0);
    }
    words
}

/// Skips the values of an option.
fn after_values<'r, 'a>(option: &str, rest: &'r [&'a str]) -> &'r [&'a str] {
    let is_value = |word: &&str| !word.starts_with('-');
    if option.contains('=') || FLAGS.contains(&option) {
        return rest;
    }
    if VARIADIC.contains(&option) {
        let values = rest.iter().take_while(|word| is_value(word)).count();
        return &rest[values..];
    }
    match rest {
        // `--debug mcp` names a filter. 2.1.325 reads `--debug mcp serve` as that filter and the prompt
        // `serve`, but the user means the subcommand. A session that begins all the same has a record.
        [value, next, ..]
            if matches!(option, "--debug" | "-d")
                && SUBCOMMANDS.contains(value)
                && is_value(next) =>
        {
            rest
        }
        [value, tail @ ..] if OPTIONAL.contains(&option) || option == "-w" => {
            if is_value(value) {
                tail
            } else {
                rest
            }
        }
        // Any other option, also an unknown one, takes one value, but never the name of a subcommand.
        [value, tail @ ..] if is_value(value) && !is_unknown_before_subcommand(option, value) => {
            tail
        }
        _ => rest,
    }
}

/// Options that take exactly one value.
#[rustfmt::skip]
const VALUED: [&str; 45] = [
    "--advisor", "--agent", "--agents", "--append-system-prompt", "--append-system-prompt-file", "--autocompact",
    "--cwd", "--debug-file", "--effort", "--environment", "--fallback-model", "--input-format", "--json-schema",
    "--managed-settings", "--max-budget-usd", "--max-thinking-tokens", "--max-turns", "--messaging-socket-path",
    "--model", "--name", "-n", "--output-format", "--parent-session-id", "--permission-mode",
    "--permission-prompt-tool", "--permission-prompts", "--plan-mode-instructions", "--plugin-dir", "--plugin-url",
    "--prefill", "--profile", "--remote-control-session-name-prefix", "--rewind-files", "--sdk-url",
    "--session-id", "--setting-sources", "--settings", "--system-prompt", "--system-prompt-file",
    "--system-prompt-snapshot", "--task-budget", "--team-name", "--teammate-mode", "--thinking", "--workload",
];

fn is_unknown_before_subcommand(option: &str, value: &str) -> bool {
    !VALUED.contains(&option) && SUBCOMMANDS.contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serves(line: &str) -> bool {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        may_serve_session(&argv)
    }

    #[test]
    fn subcommands_are_found_behind_options() {
        for line in [
            "claude mcp serve",
            "claude --debug mcp serve",
            "claude -d mcp serve",
            "claude --debug hooks mcp serve",
            "claude --debug=hooks mcp serve",
            "claude --model x --verbose mcp serve",
            "claude --max-turns 3 gateway",
            "claude --add-dir /a /b --verbose import",
            "claude --dangerously-skip-permissions auto-mode",
            "claude --settings {} ultrareview",
            "claude --future-option value purge",
            "claude --future-flag mcp serve",
            "claude -- mcp list",
            "claude kill 1234",
            "claude remote-control",
            "claude --chrome-native-host",
            "claude bg-spare --bg-spare x",
            "/usr/bin/node /x/@anthropic-ai/claude-code/cli.js mcp serve",
        ] {
            assert!(!serves(line), "{line}");
        }
    }

    #[test]
    fn prompts_and_values_are_no_subcommands() {
        for line in [
            "claude",
            "claude -p mcp list",
            "claude mcp -p list",
            "claude fix the mcp server",
            "claude --model mcp",
            "claude --name doctor",
            "claude --add-dir /a mcp",
            "claude --resume mcp",
            "claude --debug mcp",
            "claude --debug api",
            "claude --append-system-prompt update do",
            "claude -c",
        ] {
            assert!(serves(line), "{line}");
        }
    }
}
