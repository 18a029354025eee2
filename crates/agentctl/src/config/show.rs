//! The settings in force, and where each comes from. Secrets are masked.

use std::path::PathBuf;

use agentctl_core::adapters::ALL;
use agentctl_core::host::BASE_DIRECTORIES;
use agentctl_core::marks;
use agentctl_core::model::SCHEMA_VERSION;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::keys::{Key, KeyType, keys};
use super::{Loaded, WebhookEndpoint, path};

/// The text that is shown instead of a secret.
const MASKED: &str = "(hidden)";

/// The answer to `config show --json`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct ConfigDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The configuration file.
    pub file: PathBuf,
    /// Whether the file exists.
    pub exists: bool,
    /// The settings in force, in the order of the documentation.
    pub settings: Vec<ConfigSetting>,
    /// The settings of the file that could not be used.
    pub findings: Vec<Finding>,
}

/// One setting in force.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct ConfigSetting {
    /// The key with its table, or the name of an environment variable.
    pub key: String,
    /// The value as it is written in the file; null if there is none. A secret is not shown.
    pub value: Option<String>,
    /// The source of the value.
    pub source: SettingSource,
    /// The line in the file.
    pub line: Option<usize>,
}

/// The source of the value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SettingSource {
    /// The configuration file.
    File,
    /// The environment.
    Environment,
    /// The program.
    Default,
}

impl Loaded {
    /// Returns the settings in force.
    #[must_use]
    pub fn settings(&self) -> ConfigDocument {
        let file = path(&self.host);
        let mut settings = Vec::new();
        for key in keys() {
            match key.name.split_once("[].") {
                Some((list, field)) => self.list(&key, list, field, &mut settings),
                None => settings.extend(self.setting(&key)),
            }
        }
        settings.extend(self.environment());
        let exists = file.exists();
        let findings = self.findings.clone();
        ConfigDocument { schema_version: SCHEMA_VERSION, file, exists, settings, findings }
    }

    /// Returns a key that stands once in the file. A key without a value and without a default is left out.
    fn setting(&self, key: &Key) -> Option<ConfigSetting> {
        let found = key.name.split('.').try_fold(None, |table: Option<&toml::Value>, name| {
            let value = match table {
                None => self.document.table.get(name),
                Some(table) => table.get(name),
            };
            value.map(Some)
        });
        // `[notify]` and `[metrics]` turn their part on: without them their keys have no effect.
        let table = key.name.split_once('.').map(|(table, _)| table);
        let is_off = matches!(table, Some("notify" | "metrics"))
            && !table.is_some_and(|table| self.document.table.contains_key(table));
        // Without the notifications of the desktop, the default program is not run.
        let notify = self.notify.as_ref();
        let is_off = is_off
            || (matches!(key.name.as_str(), "notify.command" | "notify.desktop")
                && notify.is_some_and(|notify| !notify.desktop));
        match found.flatten() {
            Some(value) => Some(ConfigSetting {
                key: key.name.clone(),
                value: Some(shown(&key.kind, value)),
                source: SettingSource::File,
                line: self.document.line(&key.name),
            }),
            None if key.default.is_empty() || is_off => None,
            None => Some(ConfigSetting {
                key: key.name.clone(),
                value: Some(key.default.clone()),
                source: SettingSource::Default,
                line: None,
            }),
        }
    }

    /// Adds a key of every table in a list of tables.
    fn list(&self, key: &Key, list: &str, field: &str, settings: &mut Vec<ConfigSetting>) {
        let mut names = list.split('.');
        let first = names.next().and_then(|name| self.document.table.get(name));
        let found = names.fold(first, |value, name| value.and_then(|value| value.get(name)));
        let tables = found.and_then(toml::Value::as_array).into_iter().flatten();
        for (index, table) in tables.enumerate() {
            let Some(value) = table.get(field) else { continue };
            let name = format!("[[{list}]] {}: {field}", index + 1);
            settings.push(ConfigSetting {
                line: self.document.line(&name),
                key: name,
                value: Some(shown(&key.kind, value)),
                source: SettingSource::File,
            });
        }
    }

    /// Returns the variables of the environment that decide answers or launches, if they are set.
    fn environment(&self) -> Vec<ConfigSetting> {
        let own = [marks::CONFIG, marks::NO_DAEMON];
        let output = ["XDG_RUNTIME_DIR", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "TZ"];
        let mut names: Vec<&str> = own.into_iter().chain(BASE_DIRECTORIES).chain(output).collect();
        for adapter in ALL {
            let variables = adapter.variables();
            names.extend(variables.answers.iter().chain(variables.launch));
        }
        let mut seen = std::collections::BTreeSet::new();
        // Long, and seldom of interest here.
        names.retain(|name| *name != "PATH" && seen.insert(*name));
        let set = names.into_iter().filter_map(|name| Some((name, self.host.var(name)?)));
        let row = |(name, value): (&str, &str)| ConfigSetting {
            key: name.to_owned(),
            value: Some(if may_be_secret(name) { MASKED } else { value }.to_owned()),
            source: SettingSource::Environment,
            line: None,
        };
        set.map(row).collect()
    }
}

/// Returns a value as it is shown: a secret is masked, and a URL keeps its scheme and host only.
fn shown(kind: &KeyType, value: &toml::Value) -> String {
    match (kind, value) {
        (KeyType::Secret, _) => MASKED.to_owned(),
        (KeyType::Url, toml::Value::String(url)) => match WebhookEndpoint::parse(url) {
            Ok(endpoint) => endpoint.name,
            Err(_) => url.split_once("://").map_or_else(
                || MASKED.to_owned(),
                |(scheme, rest)| {
                    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
                    let host = place.rsplit('@').next().unwrap_or_default();
                    format!("{scheme}://{host}")
                },
            ),
        },
        (_, toml::Value::String(text)) => text.clone(),
        (_, toml::Value::Boolean(flag)) => flag.to_string(),
        (_, toml::Value::Integer(number)) => number.to_string(),
        (_, toml::Value::Array(items)) => {
            let items = items.iter().filter_map(toml::Value::as_str);
            let items: Vec<String> = items.map(|item| format!("\"{item}\"")).collect();
            format!("[{}]", items.join(", "))
        }
        (_, _) => MASKED.to_owned(),
    }
}

/// Says whether a variable holds a secret, by its name.
fn may_be_secret(name: &str) -> bool {
    ["TOKEN", "KEY", "SECRET", "PASSWORD", "URL"].iter().any(|word| name.contains(word))
}
