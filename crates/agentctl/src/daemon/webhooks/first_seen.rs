//! Remembers when the daemon first served each endpoint. Ends of runs before that time are not posted to it: a
//! new endpoint starts at "now".
//!
//! The file holds a digest of each URL, never the URL, which may be a secret. An endpoint that is removed from
//! the configuration is forgotten. Without the file every endpoint is new.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentctl_core::host::Host;
use agentctl_core::model::Time;
use agentctl_core::native::{file, private};
use ring::digest;

use crate::config::WebhookEndpoint;
use crate::text::hex;

/// Limit of the file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns for each endpoint when it was first served, and remembers the new ones. The error says why the times
/// could not be stored; the returned times are valid all the same.
pub(super) fn first_seen(
    host: &Host,
    endpoints: &[WebhookEndpoint],
) -> (Vec<Time>, Result<(), String>) {
    let path = path(host);
    let known = read(&path, host.kernel.uid());
    let mut kept = BTreeMap::new();
    let mut times = Vec::new();
    for endpoint in endpoints {
        let key = key(endpoint);
        let time = known.get(&key).copied().unwrap_or_else(|| host.now());
        kept.insert(key, time);
        times.push(time);
    }
    if kept == known {
        return (times, Ok(()));
    }
    let stored = write(&path, &kept);
    (times, stored.map_err(|error| format!("{}: {error}", path.display())))
}

fn path(host: &Host) -> PathBuf {
    host.state().join("webhooks.json")
}

fn key(endpoint: &WebhookEndpoint) -> String {
    hex(digest::digest(&digest::SHA256, endpoint.url().to_string().as_bytes()).as_ref())
}

fn read(path: &Path, uid: u32) -> BTreeMap<String, Time> {
    let bytes = file::read_small(path, uid, MAX_FILE_BYTES).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(path: &Path, kept: &BTreeMap<String, Time>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private::directory(folder)?;
    }
    let temporary = path.with_extension(format!("json.{}", std::process::id()));
    let mut file = private::file(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(kept)?)?;
    std::fs::rename(&temporary, path)
}
