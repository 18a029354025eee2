//! Recognises the processes of Codex and their roles: a session, a server, a client, a helper.

use std::path::{Path, PathBuf};

use crate::adapters::Look;
use crate::kernel::Process;

/// The names under which Codex's program file runs as a helper.
const HELPERS: [&str; 4] =
    ["codex-linux-sandbox", "codex-execve-wrapper", "apply_patch", "applypatch"];

/// Subcommands that are neither `exec` nor a terminal, of 0.100.0 to 0.166.0, hidden ones too.
#[rustfmt::skip]
const OTHERS: [&str; 33] = [
    "a", "agents", "app", "app-server", "apply", "archive", "cloud", "cloud-tasks", "completion", "debug",
    "delete", "doctor", "exec-server", "execpolicy", "features", "help", "login", "logout", "mcp",
    "mcp-server", "migrate-nfs-db", "migrate-rollouts", "plugin", "proto", "queue", "remote-control",
    "responses-api-proxy", "sandbox", "stdio-to-uds", "unarchive", "update", "upgrade", "proxy",
];

/// Options whose value is the next word, of 0.100.0 to 0.166.0.
#[rustfmt::skip]
const WITH_VALUE: [&str; 28] = [
    "-c", "--config", "-m", "--model", "-p", "--profile", "-C", "--cd", "-s", "--sandbox", "-a",
    "--ask-for-approval", "--enable", "--disable", "--add-dir", "--color", "--oss-provider",
    "--local-provider", "--remote", "--remote-auth-token-env", "-o", "--output-last-message",
    "--output-schema", "--thread-source", "--cyber-access-program", "--config-profile",
    "--experimental-instructions-file", "--permission-profile",
];

/// The role of a Codex process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// `codex exec`, `codex review`: one prompt, one thread.
    Executes,
    /// The terminal program.
    Terminal,
    /// The terminal program as a client of a server whose address it was given.
    RemoteTerminal,
    /// A server of threads: `app-server`, `mcp-server`.
    Server,
    /// Updaters, proxies, one-shot helpers.
    Other,
}

/// Says whether a file name is that of Codex's program: `codex`, or as its releases call it.
pub(super) fn is_program_name(name: &str) -> bool {
    name == "codex" || name.starts_with("codex-x86_64-") || name.starts_with("codex-aarch64-")
}

/// Says whether a process runs Codex's program as the agent itself: its program file decides. Under the
/// name of a helper, or with a helper's argument, the same file does something else.
pub(super) fn is_codex(process: &Process) -> bool {
    let name = process.exe.as_deref().and_then(Path::file_name);
    let first = process.argv.first().map_or("", String::as_str);
    let called = Path::new(first).file_name().unwrap_or_default().to_string_lossy();
    name.is_some_and(|name| is_program_name(&name.to_string_lossy()))
        && !HELPERS.contains(&called.as_ref())
        && !process.argv.get(1).is_some_and(|word| word.starts_with("--codex-run-as-"))
}

/// Returns the home a live process uses, from its environment. A relative home is below its directory.
pub(super) fn home_of(look: &Look, process: &Process) -> Option<PathBuf> {
    let values = look.environ(process, &["CODEX_HOME", "HOME"]).ok()?;
    let home = match values.as_slice() {
        [Some(moved), _] if !moved.is_empty() => PathBuf::from(moved),
        [_, Some(home)] => Path::new(home).join(".codex"),
        _ => return None,
    };
    // Codex itself never changes its directory: `-C` is only recorded.
    look.home(&if home.is_absolute() { home } else { process.cwd.as_deref()?.join(home) })
}

/// Returns the role of a process, from its arguments.
pub(super) fn role(process: &Process) -> Role {
    let words = Words::read(&process.argv);
    match words.command {
        _ if words.asks_only => Role::Other,
        Some("exec" | "e" | "review") => Role::Executes,
        Some("app-server") => match words.next {
            Some("daemon" | "proxy" | "generate-ts" | "generate-json-schema" | "help") => {
                Role::Other
            }
            _ => Role::Server,
        },
        Some("mcp-server") => Role::Server,
        Some(word) if OTHERS.contains(&word) => Role::Other,
        _ if words.remote => Role::RemoteTerminal,
        _ => Role::Terminal,
    }
}

/// The arguments as Codex itself reads them.
#[derive(Default)]
struct Words<'a> {
    /// The subcommand.
    command: Option<&'a str>,
    /// The first word behind the subcommand that is neither an option nor an option's value.
    next: Option<&'a str>,
    /// It only prints its help or its version.
    asks_only: bool,
    /// `--remote`.
    remote: bool,
}

impl<'a> Words<'a> {
    /// Finds the subcommand: the first known one that is neither an option nor an option's value.
    /// `codex -C exec` works in a folder of that name, and `codex prompt exec` runs `exec`.
    fn read(argv: &'a [String]) -> Self {
        let mut read = Self::default();
        let mut words = argv.iter().skip(1).map(String::as_str).peekable();
        while let Some(word) = words.next() {
            match word {
                "--" => break,
                "-h" | "--help" | "-V" | "--version" => read.asks_only = true,
                // All words up to the next option are images.
                "-i" | "--image" => while words.next_if(|w| !w.starts_with('-')).is_some() {},
                word if word == "--remote" || word.starts_with("--remote=") => {
                    read.remote = true;
                    words.next_if(|_| word == "--remote");
                }
                word if WITH_VALUE.contains(&word) => drop(words.next()),
                word if word.starts_with('-') => {}
                word if read.command.is_some() => {
                    read.next = Some(word);
                    break;
                }
                word if is_command(word) => read.command = Some(word),
                _ => {}
            }
        }
        read
    }
}

fn is_command(word: &str) -> bool {
    OTHERS.contains(&word) || matches!(word, "exec" | "e" | "review" | "resume" | "fork")
}
