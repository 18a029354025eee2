//! Configuration: defaults, then the file, then the environment, then flags.
//!
//! An unknown key or a bad value is an error that names file, line and key; nothing is guessed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters;
use agentctl_core::host::{Deadlines, Host};
use agentctl_core::kernel::Kernel;
use agentctl_core::model::Time;
use serde::Deserialize;

use crate::failure::{Failure, Kind};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    roots: BTreeMap<String, Vec<PathBuf>>,
    deadline: Deadline,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Deadline {
    live: Option<Span>,
    all: Option<Span>,
}

/// A span as typed: `30s`, `10m`, `2h`, `7d`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a span; write it like 30s, 10m, 2h or 7d");
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let unit_ms = match &text[digits..] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(wrong()),
        };
        count.checked_mul(unit_ms).map(|ms| Self(Duration::from_millis(ms))).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Builds the world from the environment and the configuration file.
pub fn host() -> Result<Arc<Host>, Failure> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    let home =
        env.get("HOME").filter(|h| h.starts_with('/')).map(PathBuf::from).ok_or_else(|| {
            Failure::new(Kind::Failed, "HOME is not set to an absolute path")
                .hint("agents keep their files below it; set it to your home directory")
        })?;
    let kernel = Kernel::open().map_err(|e| {
        Failure::new(Kind::Failed, format!("the process table cannot be read: {e}"))
            .hint("agentctl needs /proc mounted")
    })?;
    let mut host = Host {
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("agentctl")),
        cwd: std::env::current_dir().unwrap_or_else(|_| home.clone()),
        home,
        env,
        roots: BTreeMap::new(),
        settings: BTreeMap::new(),
        kernel,
        clock,
        deadlines: Deadlines::default(),
    };
    let path = path(&host);
    if let Some(file) = read(&path, host.var("AGENTCTL_CONFIG").is_some())? {
        apply(&mut host, file, &path)?;
    }
    Ok(Arc::new(host))
}

/// Returns where the configuration file is.
#[must_use]
pub fn path(host: &Host) -> PathBuf {
    let default = || host.xdg("XDG_CONFIG_HOME", ".config").join("agentctl/config.toml");
    host.var("AGENTCTL_CONFIG").map_or_else(default, PathBuf::from)
}

#[allow(clippy::disallowed_methods)] // the one clock
fn clock() -> Time {
    Time(jiff::Timestamp::now())
}

fn read(path: &Path, must_exist: bool) -> Result<Option<File>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
            return Ok(None);
        }
        Err(error) => {
            return Err(Failure::new(Kind::Failed, format!("{}: {error}", path.display()))
                .hint("AGENTCTL_CONFIG names this file; unset it to use the default"));
        }
    };
    toml::from_str(&text).map(Some).map_err(|error| {
        let line = error.span().map_or(1, |s| text[..s.start].matches('\n').count() + 1);
        let message = error.message().replace('\n', " ");
        Failure::new(Kind::Failed, format!("{} line {line}: {message}", path.display()))
            .hint("keys: [roots] with one list per adapter, [deadline] live and all")
    })
}

fn apply(host: &mut Host, file: File, path: &Path) -> Result<(), Failure> {
    for name in file.roots.keys() {
        if !adapters::ALL.iter().any(|a| a.name() == name) {
            let known: Vec<_> = adapters::ALL.iter().map(|a| a.name()).collect();
            let message = format!("{}: roots.{name}: there is no such adapter", path.display());
            return Err(
                Failure::new(Kind::Failed, message).hint(format!("adapters: {}", known.join(", ")))
            );
        }
    }
    let expand = |p: PathBuf| match p.strip_prefix("~") {
        Ok(rest) => host.home.join(rest),
        Err(_) => p,
    };
    host.roots = file
        .roots
        .into_iter()
        .map(|(name, paths)| (name, paths.into_iter().map(expand).collect()))
        .collect();
    if let Some(Span(live)) = file.deadline.live {
        host.deadlines.live = live;
    }
    if let Some(Span(all)) = file.deadline.all {
        host.deadlines.all = all;
    }
    Ok(())
}
