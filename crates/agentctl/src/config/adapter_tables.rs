//! The tables `[<adapter>]` of the configuration file. The adapters declare their tables and keys.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use agentctl_core::adapters::{ALL, Settings};
use agentctl_core::host::{Gateway, Host};
use agentctl_core::talk::Endpoint;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::finding::Problem;
use super::{Hidden, secret};

/// The tables of all adapters that have one, by adapter.
#[derive(Default)]
pub(super) struct AdapterTables(BTreeMap<&'static str, AdapterTable>);

enum AdapterTable {
    Choices(BTreeMap<String, String>),
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
    #[serde(default)]
    approvals: bool,
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
                while let Some(key) = map.next_key::<String>()? {
                    let table = match declared().find(|(name, _)| *name == key) {
                        Some((name, Settings::Choices(_))) => {
                            (name, AdapterTable::Choices(map.next_value()?))
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
            AdapterTable::Choices(_) => &[],
        });
        servers.map(|server| (server.token.is_some(), server.token_file.as_ref()))
    }

    /// Stores the settings in the host. A gateway that cannot be used is left out.
    pub(super) fn apply(self, host: &mut Host, problems: &mut Vec<Problem>) {
        for (name, table) in self.0 {
            match table {
                AdapterTable::Choices(given) => {
                    host.settings.insert(name.to_owned(), given);
                }
                AdapterTable::Gateways(servers) => {
                    let mut read = Vec::new();
                    for (index, server) in servers.into_iter().enumerate() {
                        let title = format!("[[{name}.gateways]] {}", index + 1);
                        match gateway(host, &title, server) {
                            Ok(gateway) => read.push(gateway),
                            Err(problem) => problems.push(problem),
                        }
                    }
                    host.gateways.insert(name.to_owned(), read);
                }
            }
        }
    }
}

/// Reads one gateway: a URL without a secret, and at most one token.
fn gateway(host: &Host, title: &str, table: GatewayTable) -> Result<Gateway, Problem> {
    if let Err(why) = Endpoint::parse(&table.url) {
        // The finding does not contain the URL, which may hold a secret.
        return Err(Problem::new(format!("{title}: url"), format!("it is not usable: {why}"))
            .hint("write it like wss://gateway.example or ws://127.0.0.1:18789"));
    }
    let token = secret(host, (table.token, table.token_env, table.token_file)).map_err(|()| {
        Problem::new(format!("{title}: token"), "there is more than one")
            .hint("give one of token, token_env and token_file")
    })?;
    Ok(Gateway {
        name: table.name,
        url: table.url,
        token,
        insecure: table.insecure,
        admin: table.admin,
        approvals: table.approvals,
        ca_file: table.ca_file.map(|file| host.expanded(&file)),
    })
}
