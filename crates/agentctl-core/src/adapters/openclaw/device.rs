//! Our identity for gateways that demand one: an Ed25519 key per address, all derived from one secret.
//!
//! The secret is a credential of the user, not a record of any session: one file beside the
//! configuration, readable by this user only, created when it is first needed and never written again.
//! The key of an address is derived from it, so a signature for one gateway proves nothing to another.
//! The token that a gateway issues to a device is not stored: the configured secret and a signature are
//! sent each time.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use ring::{digest, hmac};
use serde_json::{Value, json};

use super::gateways::Gateway;
use crate::host::Host;
use crate::native::file::{self, Skip};
use crate::talk::base64;
use crate::trust;

/// The file, beside the configuration.
const FILE: &str = "openclaw-device.key";
/// Explanation for people who open the file.
const HEAD: &str = "# agentctl's own secret, by which OpenClaw gateways know this device. Removing it \
                    makes a new device, which has to be approved again.";
/// Context of the key derivation, so that other keys derived from the same secret differ.
const PURPOSE: &str = "agentctl openclaw device v1";
const SECRET_BYTES: usize = 32;
/// Longest file that is read, in bytes.
const FILE_BYTES: u64 = 1024;

/// Our identity for one gateway.
pub(super) struct Device {
    pair: Ed25519KeyPair,
    /// The name by which the gateway knows it.
    pub(super) id: String,
}

/// The fields that a signature covers, beside the device itself.
pub(super) struct Signed<'a> {
    pub(super) client: &'a Value,
    pub(super) role: &'a str,
    pub(super) scopes: &'a [&'a str],
    /// The secret that is sent with it; empty if there is none, or if it is a password.
    pub(super) token: &'a str,
    pub(super) challenge: &'a Value,
}

impl Device {
    /// Returns our identity for this gateway if the secret exists already.
    pub(super) fn kept(host: &Host, gateway: &Gateway) -> Result<Option<Self>, String> {
        read(host)?.map(|secret| Self::derived(&secret, &gateway.label())).transpose()
    }

    /// Returns our identity for this gateway; creates the secret if there is none.
    pub(super) fn of(host: &Host, gateway: &Gateway) -> Result<Self, String> {
        if let Some(device) = Self::kept(host, gateway)? {
            return Ok(device);
        }
        let unkept = |e: io::Error| format!("{} cannot be made: {e}", path(host).display());
        make(host).map_err(unkept)?;
        // Another process may have created it at the same time: the file that exists counts.
        let made = Self::kept(host, gateway)?;
        made.ok_or_else(|| unkept(io::ErrorKind::NotFound.into()))
    }

    fn derived(secret: &[u8], address: &str) -> Result<Self, String> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let seed = hmac::sign(&key, format!("{PURPOSE}\n{address}").as_bytes());
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref());
        let pair = pair.map_err(|_| "no key can be derived from it".to_owned())?;
        let id = hex(digest::digest(&digest::SHA256, pair.public_key().as_ref()).as_ref());
        Ok(Self { pair, id })
    }

    /// Returns the `device` field of a connection: a proof that is valid for this challenge only.
    pub(super) fn proof(&self, signed: &Signed<'_>) -> Value {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (nonce, at) = (&signed.challenge["nonce"], &signed.challenge["ts"]);
        let said = [
            "v3",
            &self.id,
            &text(&signed.client["id"]),
            &text(&signed.client["mode"]),
            signed.role,
            &signed.scopes.join(","),
            // The gateway's own clock: ours may be wrong.
            &text(at),
            signed.token,
            &text(nonce),
            &text(&signed.client["platform"]),
            "",
        ];
        let signature = self.pair.sign(said.join("|").as_bytes());
        json!({
            "id": self.id,
            "publicKey": url_safe(self.pair.public_key().as_ref()),
            "signature": url_safe(signature.as_ref()),
            "signedAt": at,
            "nonce": nonce,
        })
    }
}

fn path(host: &Host) -> PathBuf {
    host.config().join(FILE)
}

/// Reads the secret; `None` when there is none. A secret that other users could read is an error.
fn read(host: &Host) -> Result<Option<Vec<u8>>, String> {
    let path = path(host);
    let unusable = |why: String| {
        format!("{} cannot be used: {why}; removing it makes a new device", path.display())
    };
    trust::owned(&path, host.kernel.uid()).map_err(|error| unusable(error.to_string()))?;
    let opened = match file::open(&path, host.kernel.uid()) {
        Ok(opened) => opened,
        Err(Skip::Missing) => return Ok(None),
        Err(skip) => return Err(unusable(skip.to_string())),
    };
    let mode = opened.file.metadata().map_err(|e| unusable(e.to_string()))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        let why = format!("others may read it (mode {mode:03o}), so `chmod 600` it if none has");
        return Err(unusable(why));
    }
    let mut text = String::new();
    let rubbish = || unusable("it does not hold a key".into());
    opened.file.take(FILE_BYTES).read_to_string(&mut text).map_err(|_| rubbish())?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let (secret, further) = (lines.next().and_then(unhex), lines.next());
    secret.filter(|s| s.len() == SECRET_BYTES && further.is_none()).map(Some).ok_or_else(rubbish)
}

/// Creates the secret atomically, and never replaces one that exists.
fn make(host: &Host) -> io::Result<()> {
    let path = path(host);
    trust::owned(&path, host.kernel.uid())?;
    let mut secret = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut secret).map_err(|_| io::Error::other("no randomness"))?;
    DirBuilder::new().recursive(true).mode(0o700).create(host.config())?;
    let beside = host.config().join(format!(".{FILE}.{}", uuid::Uuid::new_v4()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file
        .write_all(format!("{HEAD}\n{}\n", hex(&secret)).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| match fs::hard_link(&beside, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        });
    fs::remove_file(&beside)?;
    written
}

fn url_safe(bytes: &[u8]) -> String {
    base64::encode(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_gets_a_device_of_its_own_that_stays_the_same() {
        let device = |secret: &[u8], address| Device::derived(secret, address).expect("a key");
        let (one, again) = (device(&[7; 32], "ws://a:1"), device(&[7; 32], "ws://a:1"));
        assert_eq!(one.id, again.id);
        assert_ne!(one.id, device(&[7; 32], "wss://a:1").id);
        assert_ne!(one.id, device(&[8; 32], "ws://a:1").id);
    }

    #[test]
    fn the_signature_is_of_the_text_that_gateways_expect() {
        use ring::signature::{ED25519, UnparsedPublicKey};
        let device = Device::derived(&[7; 32], "ws://a:1").expect("a key");
        let client = json!({"id": "cli", "mode": "cli", "platform": "linux"});
        let challenge = json!({"nonce": "n-1", "ts": 1_794_728_952_863_i64});
        let scopes = ["operator.read", "operator.write"];
        let signed = Signed {
            client: &client,
            role: "operator",
            scopes: &scopes,
            token: "t",
            challenge: &challenge,
        };
        let proof = device.proof(&signed);
        let said = format!(
            "v3|{}|cli|cli|operator|operator.read,operator.write|1794728952863|t|n-1|linux|",
            device.id
        );
        assert_eq!((&proof["nonce"], &proof["signedAt"]), (&challenge["nonce"], &challenge["ts"]));
        assert_eq!(proof["publicKey"].as_str().map(str::len), Some(43));
        let signature = device.pair.sign(said.as_bytes());
        assert_eq!(proof["signature"], url_safe(signature.as_ref()));
        let key = UnparsedPublicKey::new(&ED25519, device.pair.public_key());
        assert!(key.verify(said.as_bytes(), signature.as_ref()).is_ok());
    }

    #[test]
    fn hexadecimal_text_is_read_back() {
        assert_eq!(unhex(&hex(&[0, 15, 16, 255])), Some(vec![0, 15, 16, 255]));
        for rubbish in ["0", "zz", "+1", "é0", "0 "] {
            assert_eq!(unhex(rubbish), None, "{rubbish}");
        }
    }
}
