//! The configured gateways, and the secret of each.
//!
//! Gateways come from our configuration, from the environment and from OpenClaw's own settings. A
//! secret is bound to the address it was configured for and is never sent to another gateway.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{NAME, VARIABLES};
use crate::adapters::variable_named_by_settings;
use crate::host::{Host, Secret};
use crate::native::{file, json5};
use crate::talk::{Endpoint, TlsOptions};

/// The default port of a gateway.
const PORT: u16 = 18_789;
/// Longest settings or token file that is read, in bytes.
const SETTINGS_BYTES: u64 = 4 << 20;

/// One gateway.
#[derive(Clone)]
pub(super) struct Gateway {
    pub(super) endpoint: Endpoint,
    pub(super) tls: TlsOptions,
    /// Our configuration allows us to end runs of other clients.
    pub(super) admin: bool,
    /// Our configuration allows us to see and answer approvals.
    pub(super) approvals: bool,
    source: Source,
}

/// The place of its secret, which is read when it is needed.
#[derive(Clone)]
enum Source {
    /// The place that our configuration names; `None` if it names none.
    Ours(Option<Secret>),
    /// In the environment, then in OpenClaw's own settings.
    Theirs { settings: Option<PathBuf>, environment: bool, section: &'static str },
}

/// Returns every gateway, each address once; the first source that names an address decides its
/// options.
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
            tls: TlsOptions {
                insecure: ours.insecure,
                authorities: ours.ca_file.clone(),
                fingerprint: None,
            },
            admin: ours.admin,
            approvals: ours.approvals,
            source: Source::Ours(ours.token.clone()),
        }));
    }
    add(theirs(host));
    // Further state directories with settings of their own; the environment variables do not apply to
    // them.
    for directory in host.roots.get(NAME).into_iter().flatten() {
        let path = directory.join("openclaw.json");
        add(configured(host, &path, None, false));
    }
    found
}

/// Returns the gateway that OpenClaw's own commands would use here.
fn theirs(host: &Host) -> Option<Gateway> {
    let settings = settings_path(host);
    if let Some(url) = VARIABLES.get(host, "OPENCLAW_GATEWAY_URL") {
        // Only secrets from the environment are meant for an address from the environment.
        let source = Source::Theirs { settings: None, environment: true, section: "auth" };
        let endpoint = Endpoint::parse(url).ok()?;
        return Some(Gateway::plain(endpoint, TlsOptions::default(), source));
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

/// Returns the path of OpenClaw's settings.
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
    host.cwd.join(host.expanded(Path::new(path)))
}

/// Returns the gateway of these settings: the local one, or the remote one that they name.
fn configured(host: &Host, path: &Path, port: Option<u16>, environment: bool) -> Option<Gateway> {
    if !environment && !is_there(path) {
        return None;
    }
    // Unreadable settings are reported when the secret is read.
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
    // OpenClaw itself trusts the certificate that it made for its own gateway; so do we.
    let certificate = gateway["tls"]["certPath"].as_str().map(|p| expand(host, p));
    let made = path.parent().map(|d| d.join("gateway/tls/gateway-cert.pem"));
    let authorities = certificate.or(made).filter(|p| endpoint.is_loopback() && p.is_file());
    let settings = Some(path.to_owned());
    let source = Source::Theirs { settings, environment, section };
    let fingerprint = gateway["remote"]["tlsFingerprint"].as_str().filter(|_| section == "remote");
    // An unreadable fingerprint matches no certificate; it must not count as a missing one.
    let fingerprint = fingerprint.map(|text| fingerprint_of(text).unwrap_or_default());
    let tls = TlsOptions { insecure: false, authorities, fingerprint };
    Some(Gateway::plain(endpoint, tls, source))
}

/// Reads a SHA-256 in the usual spellings: `AB:CD:…`, `abcd…`, with or without the prefix `sha256:`.
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
    /// Makes a gateway that our configuration does not name, without further rights.
    fn plain(endpoint: Endpoint, tls: TlsOptions, source: Source) -> Self {
        Self { endpoint, tls, admin: false, approvals: false, source }
    }

    /// Returns the text that names it in answers.
    pub(super) fn label(&self) -> String {
        self.endpoint.to_string()
    }

    /// Returns the `auth` field of a connection; `None` without a secret; an error if it cannot be
    /// read.
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
    // With both set, its mode decides.
    let fields = match section["mode"].as_str() {
        Some("password") => ["password", "token"],
        _ => ["token", "password"],
    };
    for field in fields {
        match &section[field] {
            Value::Null => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => return Ok(Some((field, substituted(host, text)?))),
            // A reference: only one to a variable can be resolved without running a program.
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

/// Replaces `${NAME}` by the variable, as OpenClaw does in its settings.
fn substituted(host: &Host, text: &str) -> Result<String, String> {
    match text.strip_prefix("${").and_then(|t| t.strip_suffix('}')) {
        Some(name) => variable_named_by_settings(host, name)
            .map(str::to_owned)
            .ok_or_else(|| format!("environment variable {name} is not set")),
        None => Ok(text.to_owned()),
    }
}
