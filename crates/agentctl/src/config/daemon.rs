//! The tables of the daemon: `[[webhooks]]`, `[notify]` and `[metrics]`.

use std::path::PathBuf;

use agentctl_core::adapters;
use agentctl_core::events::EventKind;
use agentctl_core::host::{Host, Secret};
use serde::Deserialize;

use super::finding::Problem;
use super::settings::{METRICS_LISTEN, MetricsSettings, NotifySettings, check_token};
use super::webhook::{WebhookEndpoint, check_secret};
use super::{Hidden, Span, relative, secret};

/// Maximum `timeout` of a webhook.
const MAX_WEBHOOK_TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

/// One `[[webhooks]]`. Its secret is in this file, in a variable or in another file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookTable {
    url: Hidden,
    name: Option<String>,
    secret: Option<Hidden>,
    secret_env: Option<String>,
    secret_file: Option<PathBuf>,
    #[serde(default)]
    body_signatures: bool,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    adapters: Vec<String>,
    #[serde(default)]
    allow_private: bool,
    timeout: Option<Span>,
    ca_file: Option<PathBuf>,
}

impl WebhookTable {
    /// Returns whether the secret is in this file, and the other file that may hold it.
    pub(super) fn secret_places(&self) -> (bool, Option<&PathBuf>) {
        (self.secret.is_some(), self.secret_file.as_ref())
    }
}

/// `[notify]`. Its presence enables notifications.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotifyTable {
    command: Option<Vec<String>>,
    on: Option<Vec<String>>,
    desktop: Option<bool>,
    tmux: Option<bool>,
    tty: Option<PathBuf>,
    terminal: Option<bool>,
}

/// `[metrics]`. Its presence enables metrics.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricsTable {
    listen: Option<String>,
    token: Option<Hidden>,
    token_env: Option<String>,
    token_file: Option<PathBuf>,
    #[serde(default)]
    allow_remote: bool,
    #[serde(default)]
    hosts: Vec<String>,
}

impl MetricsTable {
    /// Returns whether the secret is in this file, and the other file that may hold it.
    pub(super) fn secret_places(&self) -> (bool, Option<&PathBuf>) {
        (self.token.is_some(), self.token_file.as_ref())
    }
}

/// Reads the webhook endpoints and makes their names unique. An unusable endpoint is left out.
pub(super) fn webhooks(
    host: &Host,
    tables: Vec<WebhookTable>,
    problems: &mut Vec<Problem>,
) -> Vec<WebhookEndpoint> {
    let mut all: Vec<WebhookEndpoint> = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let wrong = |key: &str, what: String| {
            Problem::new(format!("[[webhooks]] {}: {key}", index + 1), what)
        };
        let mut endpoint = match webhook(host, table, &wrong) {
            Ok(endpoint) => endpoint,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let same = all.iter().filter(|e| e.url() == endpoint.url() || e.name == endpoint.name);
        if same.count() > 0 {
            endpoint.name = format!("{} ({})", endpoint.name, index + 1);
        }
        all.push(endpoint);
    }
    all
}

fn webhook(
    host: &Host,
    table: WebhookTable,
    wrong: &dyn Fn(&str, String) -> Problem,
) -> Result<WebhookEndpoint, Problem> {
    // The error does not contain the URL, which may hold a secret.
    let mut endpoint = WebhookEndpoint::parse(&table.url.0)
        .map_err(|why| wrong("url", why).hint("write it like https://hooks.example/agentctl"))?;
    endpoint.allow_private = table.allow_private;
    if let Some(why) = endpoint.never() {
        return Err(wrong("url", why).hint(
            "allow_private = true admits this machine and private networks, and http:// there",
        ));
    }
    let given = (table.secret, table.secret_env, table.secret_file);
    endpoint.secret = secret(host, given).map_err(|()| {
        wrong("secret", "there is more than one".into())
            .hint("give one of secret, secret_env and secret_file")
    })?;
    if let Some(Secret::Text(text)) = &endpoint.secret {
        check_secret(text).map_err(|why| wrong("secret", why))?;
    }
    endpoint.body_signatures = table.body_signatures;
    for word in &table.types {
        endpoint.kinds.push(kind(word).map_err(|(why, hint)| wrong("types", why).hint(hint))?);
    }
    for name in &table.adapters {
        let adapter = adapters::adapter_called(adapters::ALL, name)
            .ok_or_else(|| wrong("adapters", format!("`{name}`: there is no such adapter")))?;
        endpoint.adapters.push(adapter.name().to_owned());
    }
    if let Some(Span(span)) = table.timeout {
        if span.is_zero() || span > MAX_WEBHOOK_TIMEOUT {
            return Err(wrong("timeout", "it is not between 1ms and 60s".into()));
        }
        endpoint.timeout = span;
    }
    endpoint.ca_file = table.ca_file.map(|file| host.expanded(&file));
    endpoint.name = table.name.unwrap_or(endpoint.name);
    Ok(endpoint)
}

/// Reads the settings of notifications.
pub(super) fn notify(table: NotifyTable) -> Result<NotifySettings, Problem> {
    let wrong = |key: &str, what: String| Problem::new(format!("notify.{key}"), what);
    if let Some(command) = &table.command {
        let program = command.first().map_or("", String::as_str);
        if program.is_empty() {
            return Err(wrong("command", "it is empty".into())
                .hint("write it like [\"notify-send\", \"agentctl\"], or leave it out"));
        }
        if relative(program) {
            return Err(wrong("command", format!("`{program}` is a relative path"))
                .hint("write the whole path"));
        }
    }
    if let Some(tty) = table.tty.as_ref().filter(|tty| !tty.is_absolute()) {
        return Err(wrong("tty", format!("`{}` is a relative path", tty.display()))
            .hint("write what `tty` prints in that terminal, like /dev/pts/3"));
    }
    let usual = NotifySettings::default();
    let has_other_channel =
        table.tmux == Some(true) || table.terminal == Some(true) || table.tty.is_some();
    let mut settings = NotifySettings {
        command: table.command,
        // A channel that was chosen replaces the default one.
        desktop: table.desktop.unwrap_or(usual.desktop && !has_other_channel),
        tmux: table.tmux.unwrap_or(usual.tmux),
        tty: table.tty,
        terminal: table.terminal.unwrap_or(usual.terminal),
        ..usual
    };
    if let Some(words) = table.on {
        let kinds = words.iter().map(|word| kind(word)).collect::<Result<_, _>>();
        settings.on = kinds.map_err(|(why, hint)| wrong("on", why).hint(hint))?;
    }
    Ok(settings)
}

/// Reads the settings of metrics. A `listen` address beyond loopback needs `allow_remote = true` as well.
pub(super) fn metrics(host: &Host, table: MetricsTable) -> Result<MetricsSettings, Problem> {
    let wrong = |key: &str, what: String| Problem::new(format!("metrics.{key}"), what);
    let listen = match &table.listen {
        None => METRICS_LISTEN,
        Some(text) => text.parse().map_err(|_| {
            wrong("listen", format!("`{text}` is not an address and a port"))
                .hint(format!("write it like {METRICS_LISTEN}"))
        })?,
    };
    if !listen.ip().is_loopback() && !table.allow_remote {
        return Err(wrong("listen", format!("{listen} can be reached from other machines"))
            .hint("the connection is not encrypted; allow_remote = true allows it anyway"));
    }
    let given = (table.token, table.token_env, table.token_file);
    let token = secret(host, given).map_err(|()| {
        wrong("token", "there is more than one".into())
            .hint("give one of token, token_env and token_file, or none to have one made")
    })?;
    if let Some(Secret::Text(text)) = &token {
        check_token(text).map_err(|why| wrong("token", why))?;
    }
    Ok(MetricsSettings { listen, token, hosts: table.hosts })
}

/// Parses a kind of event: `session.waiting`, or `waiting` for short.
fn kind(word: &str) -> Result<EventKind, (String, String)> {
    EventKind::parse(word).ok_or_else(|| {
        let all: Vec<_> = EventKind::ALL.iter().map(|kind| kind.word()).collect();
        (format!("`{word}` is no type of event"), format!("types: {}", all.join(", ")))
    })
}
