//! Control of Claude Code. We choose the session id; the prompt comes on stdin; the first JSON line on
//! stdout names the session that really began.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::program::PACKAGE;
use super::{ClaudeCode, NAME, VARIABLES, frames};
use crate::adapters::asker::AskHook;
use crate::adapters::control::{
    Abilities, Begin, Control, FirstWords, Handshake, Mark, Order, Permissions, Refusal, Start,
    StartStdin, Stop,
};
use crate::adapters::{Look, Root, version_beside};
use crate::host::Host;
use crate::model::Session;
use crate::native::file;

/// The first version that is known to call the hook without a terminal.
const HOOKS_SINCE: [u32; 3] = [2, 1, 280];
/// Largest settings file that is read.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;
/// Variables that decide which account pays; the setting `billing` keeps or removes them.
const BILLING: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"];
/// Time to wait for a login error after the first line; it follows within 70 ms.
const LOGIN_GRACE: Duration = Duration::from_millis(500);
/// Time to wait for the warning about an unknown model after the first line; it follows within 25 ms,
/// on a busy machine within some hundred.
const MODEL_GRACE: Duration = Duration::from_millis(500);
/// Time to wait for the model server after that warning: only the server's answer decides.
const SERVER_GRACE: Duration = Duration::from_secs(5);

impl Control for ClaudeCode {
    fn abilities(&self) -> Abilities {
        Abilities {
            fork: true,
            edits: "--permission-mode acceptEdits",
            bypass: "--dangerously-skip-permissions",
            stop: "SIGTERM, then SIGKILL; background sessions by `claude stop`",
        }
    }

    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal> {
        let program = host.which("claude").ok_or_else(|| {
            Refusal::new(
                "the program `claude` is not installed, or not on your PATH",
                "install Claude Code, or try `agentctl launch demo`",
            )
        })?;
        let mut args: Vec<OsString> =
            ["-p", "--output-format", "stream-json", "--verbose"].map(Into::into).to_vec();
        let ways = asking(host, order)?;
        let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
        let fresh = uuid::Uuid::new_v4().to_string();
        let id = match &order.begin {
            Begin::New => {
                say(&["--session-id", &fresh]);
                fresh
            }
            Begin::Resume(id) => {
                say(&["--resume", id]);
                id.clone()
            }
            Begin::Fork(from) => {
                say(&["--resume", from, "--fork-session", "--session-id", &fresh]);
                fresh
            }
        };
        if let Some(model) = &order.model {
            say(&["--model", model]);
        }
        if let Some(name) = &order.name {
            say(&["--name", name]);
        }
        say(&ways.iter().map(String::as_str).collect::<Vec<_>>());
        match order.permissions {
            Permissions::Default if order.ask.is_some() || order.keep => {
                say(&["--permission-mode", "default"]);
            }
            Permissions::Default => {}
            Permissions::Edits => say(&["--permission-mode", "acceptEdits"]),
            Permissions::Bypass => say(&["--dangerously-skip-permissions"]),
        }
        args.extend(order.extra.iter().cloned());
        let strip = host.setting(NAME, "billing") == Some("subscription");
        let unset = if strip { BILLING.map(str::to_owned).to_vec() } else { Vec::new() };
        // A session of another home is continued there.
        let moved = order.home().filter(|root| *root != file::resolve_root(&home(host)));
        let set = moved.map(|root| ("CLAUDE_CONFIG_DIR".into(), root.to_string_lossy().into()));
        let set = set.into_iter().collect();
        let stdin = if order.keep { StartStdin::Pipe } else { StartStdin::Prompt };
        Ok(Start { program, args, set, unset, id: Some(id), keeps_name: true, stdin })
    }

    fn interactive_resume(&self, host: &Host, order: &Order) -> Option<Result<Start, Refusal>> {
        let start = self.start(host, order);
        Some(start.map(|start| start.with_args(["--resume".into(), order.session().into()])))
    }

    fn first_line(&self, _order: &Order, prompt: &str) -> Vec<u8> {
        frames::message(uuid::Uuid::new_v4(), prompt)
    }

    fn longest_prompt(&self) -> Option<usize> {
        Some(10 << 20)
    }

    fn handshake(&self, host: &Host, order: &Order, words: &FirstWords<'_>) -> Handshake {
        let lines: Vec<Value> = words.json_lines().collect();
        let failed = lines.iter().find(|line| line["is_error"] == true);
        // Asked for a conversation that does not exist, it writes the error without an `init` line.
        if let Some(first) = failed.and_then(|line| line["errors"][0].as_str()) {
            return Handshake::Failed(first.to_owned());
        }
        let init = lines.iter().find(|line| line["type"] == "system" && line["subtype"] == "init");
        let Some(id) = init.and_then(|line| line["session_id"].as_str()) else {
            return Handshake::Wait;
        };
        let refused = lines.iter().find(|line| {
            let hopeless = ["authentication_failed", "model_not_found"];
            line["is_api_error_message"] == true
                && line["error"].as_str().is_some_and(|error| hopeless.contains(&error))
        });
        if let Some(line) = refused {
            let said = line["message"]["content"][0]["text"].as_str();
            return Handshake::Failed(said.unwrap_or("it was refused").to_owned());
        }
        let spoke = lines.iter().any(|line| line["type"] == "assistant");
        if spoke {
            return Handshake::Up(id.to_owned());
        }
        let doubted = memchr::memmem::find(words.stderr, b"unrecognized_model").is_some();
        if doubted {
            return Handshake::Nearly(id.to_owned(), SERVER_GRACE);
        }
        let keyless = init.is_some_and(|line| line["apiKeySource"] == "none") && !logged_in(host);
        match (keyless, &order.model) {
            (true, _) => Handshake::Nearly(id.to_owned(), LOGIN_GRACE),
            (false, Some(_)) => Handshake::Nearly(id.to_owned(), MODEL_GRACE),
            (false, None) => Handshake::Up(id.to_owned()),
        }
    }

    fn advice(&self, words: &str) -> Option<&'static str> {
        let said = |text: &str| words.contains(text);
        if said("Not logged in") || said("/login") {
            Some("run `claude` once and log in, or set ANTHROPIC_API_KEY")
        } else if said("issue with the selected model") {
            Some("name another with --model; `claude` alone shows those you may use")
        } else if said("root/sudo privileges") {
            Some("as root Claude Code skips permissions only with --env IS_SANDBOX=1")
        } else if said("exceeds 10MB") {
            Some("put long text in a file and name the file in the prompt")
        } else if said("No conversation found") {
            Some("`agentctl list --all --since all` shows the sessions there are")
        } else {
            None
        }
    }

    fn stop(&self, look: &Look, root: &Root, session: &Session) -> Stop {
        super::stop::plan(look, root, session)
    }

    fn ask_to_leave(&self, look: &Look, session: &Session) -> bool {
        let process = frames::kept(look, session);
        process.is_some_and(|process| frames::request(look, process, "end_session").is_ok())
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        super::stop::marks(session)
    }

    fn own_variables(&self) -> &'static [&'static str] {
        &[
            "CLAUDECODE",
            "CLAUDE_PID",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_CHILD_SESSION",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDE_CODE_MESSAGING_SOCKET",
            "CLAUDE_CODE_MESSAGING_TOKEN",
            "CLAUDE_CODE_EXECPATH",
            "CLAUDE_CODE_SESSION_ATTENDED",
            "CLAUDE_CODE_HOST_SHORT_TEMP_DIRS",
            "CLAUDE_EFFORT",
            "CLAUDE_JOB_DIR",
            "CLAUDE_ENV_FILE",
            "CLAUDE_PROJECT_DIR",
            "AI_AGENT",
        ]
    }
}

/// Returns the options with which it asks a human: a hook of ours, or, for a session that stays, the stream
/// protocol on its standard input and output. See docs/adr/0047.
fn asking(host: &Host, order: &Order) -> Result<Vec<String>, Refusal> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    if order.keep {
        return Ok(words(&[
            "--input-format",
            "stream-json",
            "--replay-user-messages",
            "--permission-prompt-tool",
            "stdio",
        ]));
    }
    let Some(span) = order.ask else { return Ok(Vec::new()) };
    if order.extra.iter().any(|arg| arg.to_string_lossy().starts_with("--settings")) {
        let why = "Claude Code reads only one --settings, and --ask needs it";
        return Err(Refusal::new(why, "put your own settings into .claude/settings.local.json"));
    }
    let program = host.which("claude");
    let version = program.and_then(|program| version_beside(&program, PACKAGE));
    if let Some(version) = version.filter(|version| is_before(version, HOOKS_SINCE)) {
        let why = format!(
            "Claude Code {version} does not call a hook without a terminal, so --ask would deny every request"
        );
        return Err(Refusal::new(why, "update it to 2.1.280 or later, or use --keep"));
    }
    if let Some(file) = disables_hooks(host, order) {
        let why = format!(
            "`disableAllHooks` in {} switches our hook off, so --ask would deny every request",
            file.display()
        );
        return Err(Refusal::new(why, "remove that setting, or use --keep"));
    }
    let settings = ClaudeCode.settings(&host.program, &host.runtime(), span.as_secs().max(1));
    Ok(words(&["--settings", &settings]))
}

/// Returns the settings file that switches all hooks off, if there is one.
fn disables_hooks(host: &Host, order: &Order) -> Option<PathBuf> {
    let user = order.home().map_or_else(|| home(host), PathBuf::from).join("settings.json");
    let project = |name: &str| order.cwd.join(".claude").join(name);
    let files = [user, project("settings.json"), project("settings.local.json")];
    files.into_iter().find(|path| {
        let bytes = file::read_small(path, host.kernel.uid(), MAX_SETTINGS_BYTES);
        let settings = bytes.ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        settings.is_some_and(|settings| settings["disableAllHooks"] == true)
    })
}

/// Says whether a version is older than another; a text that is no version is not.
fn is_before(version: &str, other: [u32; 3]) -> bool {
    let mut numbers = version.splitn(3, '.').map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part[..digits].parse::<u32>().ok()
    });
    let mut next = || numbers.next().flatten();
    matches!((next(), next(), next()), (Some(a), Some(b), Some(c)) if [a, b, c] < other)
}

/// Says whether there is a variable or file that Claude Code could log in with.
fn logged_in(host: &Host) -> bool {
    VARIABLES.launch.iter().any(|key| VARIABLES.get(host, key).is_some())
        || home(host).join(".credentials.json").is_file()
}

/// Returns the home that a Claude Code started with this environment would use.
fn home(host: &Host) -> PathBuf {
    let moved = VARIABLES.get(host, "CLAUDE_CONFIG_DIR").map(PathBuf::from);
    moved.unwrap_or_else(|| host.home.join(".claude"))
}
