//! Every key of the configuration file: its type, its default and what reads it. The check of a file, `config
//! show` and the page docs/CONFIGURATION.md agree with this list.

use agentctl_core::adapters::{self, Settings};
use agentctl_core::ask::LaunchDefaults;
use agentctl_core::host::{Deadlines, LaunchLimits};

use super::settings::{DESKTOP_PROGRAM, METRICS_LISTEN};
use super::web::WEB_LISTEN;

/// The largest number that a key takes.
pub(super) const MAX_COUNT: i64 = 1000;

/// The type of the value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// A text.
    Text,
    /// A text that `config show` and errors do not print.
    Secret,
    /// A URL, whose path may hold a secret.
    Url,
    /// The path of a file or directory; `~` is the home directory.
    Path,
    /// A duration: `30s`, `10m`, `2h`, `7d`.
    Span,
    /// `true` or `false`.
    Flag,
    /// A list of texts.
    Texts,
    /// A list of paths.
    Paths,
    /// A number from 0 to 1000.
    Count,
    /// One of these words.
    Choice(Vec<&'static str>),
}

/// The group of settings that a key belongs to. It decides which commands refuse to work when the key cannot
/// be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The defaults of launches.
    Launch,
    /// The places where sessions are looked for, and the deadlines for that.
    Sources,
    /// How long the folders of ended runs are kept.
    Runs,
    /// Webhooks, notifications and metrics.
    Daemon,
    /// The page in the browser.
    Web,
    /// The whole file, or an unknown key: any setting may be missing.
    #[default]
    Any,
}

/// One key of the configuration file.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name with its tables: `deadline.live`, `webhooks[].url`.
    pub name: String,
    /// The type of its value.
    pub kind: KeyType,
    /// The value that is used without the key, as `config show` prints it; empty if there is none.
    pub default: String,
    /// A table that lacks this key is refused.
    pub required: bool,
}

impl KeyType {
    /// Returns the name of the type in the documentation.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Secret => "secret",
            Self::Url => "url",
            Self::Path => "path",
            Self::Span => "span",
            Self::Flag => "boolean",
            Self::Texts => "list of texts",
            Self::Paths => "list of paths",
            Self::Count => "number",
            Self::Choice(_) => "word",
        }
    }

    /// Says which value belongs to a key of this type.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Text | Self::Secret | Self::Url | Self::Path => {
                "expected a text in quotes".into()
            }
            Self::Span => "expected a span such as \"30s\", \"10m\", \"2h\" or \"7d\"".into(),
            Self::Flag => "expected true or false".into(),
            Self::Texts => "expected a list of texts such as [\"a\", \"b\"]".into(),
            Self::Paths => "expected a list of paths such as [\"~/a\", \"/srv/b\"]".into(),
            Self::Count => format!("expected a number from 0 to {MAX_COUNT}"),
            Self::Choice(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("expected {}", words.join(" or "))
            }
        }
    }
}

impl Part {
    /// Returns the group of a key, by its first table. An unknown one may be any setting.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let first = name.split(['.', '[']).next().unwrap_or_default();
        match first {
            "adapter" | "model" | "permissions" | "ask" | "answers" | "limits" | "hooks"
            | "worktree" => Self::Launch,
            "roots" | "deadline" => Self::Sources,
            "runs" => Self::Runs,
            "webhooks" | "notify" | "metrics" => Self::Daemon,
            "web" => Self::Web,
            _ => match adapters::ALL.iter().find(|adapter| adapter.name() == first) {
                Some(adapter) => match adapter.settings() {
                    Settings::Gateways => Self::Sources,
                    Settings::Choices(_) => Self::Launch,
                    Settings::None => Self::Any,
                },
                None => Self::Any,
            },
        }
    }
}

/// Returns every key, in the order of the documentation.
#[must_use]
pub fn keys() -> Vec<Key> {
    let key = |name: &str, kind: KeyType, default: &str| Key {
        name: name.to_owned(),
        kind,
        default: default.to_owned(),
        required: false,
    };
    let required = |name: &str| Key { required: true, ..key(name, KeyType::Url, "") };
    let names = || adapters::ALL.iter().map(|adapter| adapter.name());
    let deadlines = Deadlines::default();
    let mut all = vec![
        key("adapter", KeyType::Choice(names().collect()), "the first that is installed"),
        key("model", KeyType::Text, "the agent's own"),
        key("permissions", KeyType::Choice(vec!["default", "edits", "bypass"]), "default"),
        key("ask", KeyType::Span, &span(LaunchDefaults::default().ask)),
        key("answers.agents", KeyType::Choice(vec!["never", "others"]), "never"),
        key("limits.depth", KeyType::Count, &LaunchLimits::default().depth.to_string()),
        key("limits.children", KeyType::Count, &LaunchLimits::default().children.to_string()),
    ];
    all.extend(names().map(|name| key(&format!("roots.{name}"), KeyType::Paths, "")));
    all.extend([
        key("deadline.live", KeyType::Span, &span(deadlines.live)),
        key("deadline.all", KeyType::Span, &span(deadlines.all)),
        key("deadline.launch", KeyType::Span, &span(deadlines.launch)),
        key("deadline.gateway", KeyType::Span, &span(deadlines.gateway)),
        key("runs.keep", KeyType::Span, &span(LaunchDefaults::default().keep)),
        key("hooks.on_create", KeyType::Texts, ""),
        key("hooks.on_complete", KeyType::Texts, ""),
        key("worktree.prefix", KeyType::Text, "agentctl"),
        key("worktree.dir", KeyType::Path, "REPOSITORY.worktrees, beside the repository"),
        key("worktree.copy", KeyType::Paths, "[]"),
        key("worktree.setup", KeyType::Texts, ""),
    ]);
    for adapter in adapters::ALL {
        let name = adapter.name();
        match adapter.settings() {
            Settings::None => {}
            Settings::Choices(settings) => all.extend(settings.iter().map(|setting| {
                let default = setting.values.first().copied().unwrap_or_default();
                let kind = KeyType::Choice(setting.values.to_vec());
                key(&format!("{name}.{}", setting.key), kind, default)
            })),
            Settings::Gateways => {
                let field = |field: &str| format!("{name}.gateways[].{field}");
                all.extend([
                    required(&field("url")),
                    key(&field("name"), KeyType::Text, ""),
                    key(&field("token"), KeyType::Secret, ""),
                    key(&field("token_env"), KeyType::Text, ""),
                    key(&field("token_file"), KeyType::Path, ""),
                    key(&field("ca_file"), KeyType::Path, "the system's"),
                    key(&field("insecure"), KeyType::Flag, "false"),
                    key(&field("admin"), KeyType::Flag, "false"),
                    key(&field("approvals"), KeyType::Flag, "false"),
                ]);
            }
        }
    }
    all.extend([
        required("webhooks[].url"),
        key("webhooks[].name", KeyType::Text, "the host of the url"),
        key("webhooks[].secret", KeyType::Secret, ""),
        key("webhooks[].secret_env", KeyType::Text, ""),
        key("webhooks[].secret_file", KeyType::Path, ""),
        key("webhooks[].body_signatures", KeyType::Flag, "false"),
        key("webhooks[].types", KeyType::Texts, "all"),
        key("webhooks[].adapters", KeyType::Texts, "all"),
        key("webhooks[].allow_private", KeyType::Flag, "false"),
        key("webhooks[].timeout", KeyType::Span, "10s"),
        key("webhooks[].ca_file", KeyType::Path, "the system's"),
        key("notify.command", KeyType::Texts, DESKTOP_PROGRAM),
        key("notify.on", KeyType::Texts, "[\"waiting\", \"stopped\", \"error\"]"),
        key("notify.desktop", KeyType::Flag, "true"),
        key("notify.tmux", KeyType::Flag, "false"),
        key("notify.tty", KeyType::Path, ""),
        key("notify.terminal", KeyType::Flag, "false"),
        key("metrics.listen", KeyType::Text, &METRICS_LISTEN.to_string()),
        key("metrics.token", KeyType::Secret, "one is generated"),
        key("metrics.token_env", KeyType::Text, ""),
        key("metrics.token_file", KeyType::Path, ""),
        key("metrics.allow_remote", KeyType::Flag, "false"),
        key("metrics.hosts", KeyType::Texts, "[]"),
        key("web.listen", KeyType::Text, &WEB_LISTEN.to_string()),
        key("web.control", KeyType::Flag, "false"),
        key("web.hosts", KeyType::Texts, "[]"),
        key("web.proxy_users", KeyType::Texts, "[]"),
    ]);
    all
}

/// Formats a duration as it is written in the file.
fn span(time: std::time::Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 86_400 == 0 => format!("{}d", seconds / 86_400),
        seconds => format!("{seconds}s"),
    }
}
