//! The tables `[<adapter>]` of the configuration file. The adapters declare their tables and keys.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use agentctl_core::adapters::{ALL, Setting, Settings};
use agentctl_core::host::{Gateway, Host};
use agentctl_core::talk::Endpoint;
use serde::Deserialize;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};

use super::{Hidden, expand, secret};
use crate::failure::{Failure, Kind};

/// The keys of the file before and after those of the adapters, in the order in which errors list them.
pub(super) const KEYS_BEFORE: [&str; 7] =
    ["adapter", "model", "permissions", "roots", "deadline", "runs", "hooks"];
pub(super) const KEYS_AFTER: [&str; 3] = ["webhooks", "notify", "metrics"];

/// The tables of all adapters that have one, by adapter.
#[derive(Default)]
pub(super) struct AdapterTables(BTreeMap<&'static str, AdapterTable>);

enum AdapterTable {
    Choices(&'static [Setting], BTreeMap<String, String>),
    Gateways(Vec<GatewayTable>),
}

/// One gateway. Its token is in this file, in a variable or in another file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewayTable {
    url: String,
    name: Option<String>,
    token: Option<Hidden>,
    token_env: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    admin: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Gateways {
    gateways: Vec<GatewayTable>,
}

/// Returns the adapters that have a table, with its keys.
fn declared() -> impl Iterator<Item = (&'static str, Settings)> {
    let all = ALL.iter().map(|adapter| (adapter.name(), adapter.settings()));
    all.filter(|(_, settings)| !matches!(settings, Settings::None))
}

/// Returns the headings of the tables for a hint: `[name]`, `[[name.gateways]]`.
pub(super) fn headings() -> String {
    let heading = |(name, settings)| match settings {
        Settings::Gateways => format!("[[{name}.gateways]]"),
        Settings::None | Settings::Choices(_) => format!("[{name}]"),
    };
    declared().map(heading).collect::<Vec<_>>().join(", ")
}

/// A known key of the file. The error about an unknown key has the line of the key.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        let adapters = declared().map(|(name, _)| name);
        let known: Vec<&str> = KEYS_BEFORE.into_iter().chain(adapters).chain(KEYS_AFTER).collect();
        if known.contains(&key.as_str()) {
            return Ok(Self(key));
        }
        let list: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        Err(D::Error::custom(format!("unknown field `{key}`, expected one of {}", list.join(", "))))
    }
}

impl<'de> Deserialize<'de> for AdapterTables {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables;
        impl<'de> Visitor<'de> for Tables {
            type Value = AdapterTables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<AdapterTables, M::Error> {
                let mut found = BTreeMap::new();
                while let Some(Key(key)) = map.next_key()? {
                    let table = match declared().find(|(name, _)| *name == key) {
                        Some((name, Settings::Choices(known))) => {
                            (name, AdapterTable::Choices(known, map.next_value()?))
                        }
                        Some((name, Settings::Gateways)) => {
                            let Gateways { gateways } = map.next_value()?;
                            (name, AdapterTable::Gateways(gateways))
                        }
                        Some((_, Settings::None)) | None => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    found.insert(table.0, table.1);
                }
                Ok(AdapterTables(found))
            }
        }
        deserializer.deserialize_map(Tables)
    }
}

impl AdapterTables {
    /// Returns for each gateway whether the secret is in this file, and the other file that may hold it.
    pub(super) fn secret_places(&self) -> impl Iterator<Item = (bool, Option<&PathBuf>)> {
        let servers = self.0.values().flat_map(|table| match table {
            AdapterTable::Gateways(servers) => servers.as_slice(),
            AdapterTable::Choices(..) => &[],
        });
        servers.map(|server| (server.token.is_some(), server.token_file.as_ref()))
    }

    /// Stores the settings in the host.
    pub(super) fn apply(self, host: &mut Host, path: &Path) -> Result<(), Failure> {
        for (name, table) in self.0 {
            match table {
                AdapterTable::Choices(known, given) => {
                    check(name, known, &given, path)?;
                    host.settings.insert(name.to_owned(), given);
                }
                AdapterTable::Gateways(servers) => {
                    let read = servers.into_iter().map(|server| gateway(host, name, server, path));
                    let read = read.collect::<Result<_, _>>()?;
                    host.gateways.insert(name.to_owned(), read);
                }
            }
        }
        Ok(())
    }
}

/// Reads one gateway: a URL without a secret, and at most one token.
fn gateway(
    host: &Host,
    adapter: &str,
    table: GatewayTable,
    path: &Path,
) -> Result<Gateway, Failure> {
    let wrong = |what: String| {
        let message = format!("{}: {adapter}.gateways: {what}", path.display());
        Failure::new(Kind::Failed, message)
    };
    if let Err(why) = Endpoint::parse(&table.url) {
        // The error does not contain the URL, which may hold a secret.
        return Err(wrong(format!("a url is not usable: {why}"))
            .hint("write it like wss://gateway.example or ws://127.0.0.1:18789"));
    }
    let token = secret(host, (table.token, table.token_env, table.token_file)).map_err(|()| {
        wrong("a gateway has more than one token".into())
            .hint("give one of token, token_env and token_file")
    })?;
    Ok(Gateway {
        name: table.name,
        url: table.url,
        token,
        insecure: table.insecure,
        admin: table.admin,
        ca_file: table.ca_file.map(|file| expand(host, file)),
    })
}

/// Checks that the adapter declares every key and value of its table.
fn check(
    adapter: &str,
    known: &[Setting],
    given: &BTreeMap<String, String>,
    path: &Path,
) -> Result<(), Failure> {
    for (key, value) in given {
        let wrong = |what: String| {
            Failure::new(Kind::Failed, format!("{}: {adapter}.{key}: {what}", path.display()))
        };
        let Some(setting) = known.iter().find(|s| s.key == key) else {
            let keys: Vec<_> = known.iter().map(|s| s.key).collect();
            return Err(
                wrong("there is no such key".into()).hint(format!("keys: {}", keys.join(", ")))
            );
        };
        if !setting.values.contains(&value.as_str()) {
            let values = setting.values.join(" or ");
            return Err(wrong(format!("`{value}` is not one of its values"))
                .hint(format!("write {values}")));
        }
    }
    Ok(())
}
