//! Which gateways there are, and which secret belongs to which of them.
//!
//! Ours from the configuration, the one the environment names, and the one OpenClaw's own settings name.
//! A secret is bound to the address it was found beside: no other gateway is ever sent it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{NAME, VARIABLES};
use crate::adapters::variable_named_by_settings;
use crate::host::{Host, Secret};
use crate::native::{file, json5};
use crate::talk::{Endpoint, TlsOptions};

/// The port of a gateway that nobody moved.
const PORT: u16 = 18_789;
/// Settings and token files are small.
const SETTINGS_BYTES: u64 = 4 << 20;

/// One gateway.
#[derive(Clone)]
pub(super) struct Gateway {
    pub(super) endpoint: Endpoint,
    pub(super) manner: TlsOptions,
    /// The configuration lets us end runs that others began.
    pub(super) admin: bool,
    source: Source,
}

/// Where its secret is found when it is needed.
#[derive(Clone)]
enum Source {
    /// Where the configuration says; `None` when it says nothing.
    Ours(Option<Secret>),
    /// In the environment, then in OpenClaw's own settings.
    Theirs { settings: Option<PathBuf>, environment: bool, section: &'static str },
}

/// Returns every gateway, each address once; the first to name one decides about it.
pub(super) fn all(host: &Host) -> Vec<Gateway> {
    let mut found: Vec<Gateway> = Vec::new();
    let mut add = |gateway: Option<Gateway>| {
        let Some(gateway) = gateway else { return };
        if !found.iter().any(|known| known.endpoint == gateway.endpoint) {
            found.push(gateway);
        }
    };
    for ours in host.gateways.get(NAME).into_iter().flatten() {
        add(Endpoint::parse(&ours.url).ok().map(|endpoint| Gateway {
            endpoint,
            manner: TlsOptions {
                insecure: ours.insecure,
                authorities: ours.ca_file.clone(),
                fingerprint: None,
            },
            admin: ours.admin,
            source: Source::Ours(ours.token.clone()),
        }));
    }
    add(theirs(host));
    // Further state directories, each with settings of its own; the environment speaks of none of them.
    for directory in host.roots.get(NAME).into_iter().flatten() {
        let path = directory.join("openclaw.json");
        add(configured(host, &path, None, false));
    }
    found
}

/// The gateway that OpenClaw's own commands would use here.
fn theirs(host: &Host) -> Option<Gateway> {
    let settings = settings_path(host);
    if let Some(url) = VARIABLES.get(host, "OPENCLAW_GATEWAY_URL") {
        // Only what stands beside it in the environment is meant for it.
        let source = Source::Theirs { settings: None, environment: true, section: "auth" };
        let endpoint = Endpoint::parse(url).ok()?;
        return Some(Gateway { endpoint, manner: TlsOptions::default(), admin: false, source });
    }
    let port = VARIABLES.get(host, "OPENCLAW_GATEWAY_PORT").and_then(|p| p.parse().ok());
    let told = ["OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD"];
    if told.iter().any(|name| VARIABLES.get(host, name).is_some())
        || port.is_some()
        || is_there(&settings)
    {
        return configured(host, &settings, port, true);
    }
    None
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// Where OpenClaw keeps its settings.
fn settings_path(host: &Host) -> PathBuf {
    if let Some(path) = VARIABLES.get(host, "OPENCLAW_CONFIG_PATH") {
        return expand(host, path);
    }
    let home =
        VARIABLES.get(host, "OPENCLAW_HOME").map_or_else(|| host.home.clone(), |h| expand(host, h));
    let state = match (
        VARIABLES.get(host, "OPENCLAW_STATE_DIR"),
        VARIABLES.get(host, "OPENCLAW_PROFILE"),
    ) {
        (Some(directory), _) => expand(host, directory),
        (None, Some(profile)) if profile != "default" && !profile.contains('/') => {
            home.join(format!(".openclaw-{profile}"))
        }
        _ => home.join(".openclaw"),
    };
    state.join("openclaw.json")
}

fn expand(host: &Host, path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => host.home.join(rest),
        None => host.cwd.join(path),
    }
}

/// Reads which gateway these settings speak of: the local one, or the remote one they were pointed at.
fn configured(host: &Host, path: &Path, port: Option<u16>, environment: bool) -> Option<Gateway> {
    if !environment && !is_there(path) {
        return None;
    }
    // Settings that cannot be read are told when the secret is asked for.
    let settings = read(host, path).unwrap_or_default();
    let gateway = &settings["gateway"];
    let remote = gateway["remote"]["url"].as_str().filter(|_| gateway["mode"] == "remote");
    let far = remote.and_then(|url| Endpoint::parse(url).ok()).filter(|_| port.is_none());
    let (endpoint, section) = match far {
        Some(endpoint) => (endpoint, "remote"),
        None => {
            let set = gateway["port"].as_u64().and_then(|p| u16::try_from(p).ok());
            let scheme = if gateway["tls"]["enabled"] == true { "wss" } else { "ws" };
            let port = port.or(set).unwrap_or(PORT);
            (Endpoint::parse(&format!("{scheme}://127.0.0.1:{port}")).ok()?, "auth")
        }
    };
    // What OpenClaw itself would trust: the certificate it made for its own gateway.
    let certificate = gateway["tls"]["certPath"].as_str().map(|p| expand(host, p));
    let made = path.parent().map(|d| d.join("gateway/tls/gateway-cert.pem"));
    let authorities = certificate.or(made).filter(|p| endpoint.is_loopback() && p.is_file());
    let settings = Some(path.to_owned());
    let source = Source::Theirs { settings, environment, section };
    let fingerprint = gateway["remote"]["tlsFingerprint"].as_str().filter(|_| section == "remote");
    // One that cannot be read is nobody's: it is not as if none had been wanted.
    let fingerprint = fingerprint.map(|text| fingerprint_of(text).unwrap_or_default());
    let manner = TlsOptions { insecure: false, authorities, fingerprint };
    Some(Gateway { endpoint, manner, admin: false, source })
}

/// Reads a SHA-256 as people write it: `AB:CD:…`, `abcd…`, with or without its name before it.
fn fingerprint_of(text: &str) -> Option<[u8; 32]> {
    let text = text.trim().to_ascii_lowercase();
    let text =
        text.strip_prefix("sha256:").or_else(|| text.strip_prefix("sha256/")).unwrap_or(&text);
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | ' ')).collect();
    super::device::unhex(&digits)?.try_into().ok()
}

fn read(host: &Host, path: &Path) -> Result<Value, String> {
    let shown = path.display();
    let bytes = file::read_small(path, host.kernel.uid(), SETTINGS_BYTES)
        .map_err(|skip| format!("{shown} cannot be read: {skip}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8"))?;
    json5::parse(&text).map_err(|why| format!("{shown}: {why}"))
}

impl Gateway {
    /// Returns the text that names it in answers.
    pub(super) fn label(&self) -> String {
        self.endpoint.to_string()
    }

    /// Returns the `auth` of a connection; `None` when no secret is known, or why it cannot be had.
    pub(super) fn auth(&self, host: &Host) -> Result<Option<Value>, String> {
        let secret = match &self.source {
            Source::Ours(None) => None,
            Source::Ours(Some(secret)) => Some(("token", secret.read(host)?)),
            Source::Theirs { settings, environment, section } => {
                let set = |name: &str| {
                    VARIABLES.get(host, name).filter(|_| *environment).map(str::to_owned)
                };
                let token = set("OPENCLAW_GATEWAY_TOKEN").map(|t| ("token", t));
                let told =
                    token.or_else(|| set("OPENCLAW_GATEWAY_PASSWORD").map(|p| ("password", p)));
                match (told, settings) {
                    (None, Some(path)) if is_there(path) => {
                        let settings = read(host, path)?;
                        secret_in(host, &settings["gateway"][section])?
                    }
                    (told, _) => told,
                }
            }
        };
        Ok(secret.map(|(field, value)| serde_json::json!({ field: value })))
    }
}

fn secret_in(host: &Host, section: &Value) -> Result<Option<(&'static str, String)>, String> {
    // With both set, its mode says which one counts.
    let fields = match section["mode"].as_str() {
        Some("password") => ["password", "token"],
        _ => ["token", "password"],
    };
    for field in fields {
        match &section[field] {
            Value::Null => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => return Ok(Some((field, substituted(host, text)?))),
            // A reference: only one to a variable can be followed without running anything.
            reference if reference["source"] == "env" => {
                let name = reference["id"].as_str().unwrap_or_default();
                let value = variable_named_by_settings(host, name).map(str::to_owned);
                return value
                    .map(|value| Some((field, value)))
                    .ok_or_else(|| format!("its {field} is in {name}, which is not set"));
            }
            _ => {
                return Err(format!(
                    "its {field} is a reference that only OpenClaw can follow; set OPENCLAW_GATEWAY_TOKEN"
                ));
            }
        }
    }
    Ok(None)
}

/// `${NAME}` stands for a variable, as OpenClaw reads its settings.
fn substituted(host: &Host, text: &str) -> Result<String, String> {
    match text.strip_prefix("${").and_then(|t| t.strip_suffix('}')) {
        Some(name) => variable_named_by_settings(host, name)
            .map(str::to_owned)
            .ok_or_else(|| format!("{name} is not set")),
        None => Ok(text.to_owned()),
    }
}
