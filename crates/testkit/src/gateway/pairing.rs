//! The devices of a gateway: it checks their signatures like the real one, and a person has to approve
//! them where it demands a device.

use std::collections::BTreeMap;

use ring::digest;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

/// The nonce of every challenge.
pub(super) const NONCE: &str = "a0f0c36e-nonce";
pub(super) const SIGNED_AT: u64 = 1_794_728_952_863;
/// The token for a device that is accepted.
pub const DEVICE_TOKEN: &str = "device-token-that-nobody-keeps";

/// Whether it wants to know which device asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Demand {
    /// No, and approves every device by itself, as on its own machine.
    #[default]
    No,
    /// No, and approves no device by itself.
    NoAndUnapproving,
    /// Lets the unknown in without any right, as off its own machine.
    Strips,
    /// Refuses the unknown.
    Refuses,
}

/// The devices.
#[derive(Debug, Default)]
pub struct Devices {
    /// Whether it wants to know.
    pub demand: Demand,
    /// The approved scopes of each device.
    pub approved: BTreeMap<String, Vec<String>>,
    /// The pending approvals: request, device, scopes.
    pub pending: Vec<(String, String, Vec<String>)>,
    /// Devices whose approval was revoked.
    pub revoked: Vec<String>,
    /// Ids of requests are this instead of an honest one.
    pub request_id: Option<String>,
}

impl Devices {
    /// Approves a request, as its own command would.
    ///
    /// # Panics
    /// When there is no such request.
    pub fn approve(&mut self, request: &str) {
        let at = self.pending.iter().position(|(id, ..)| id == request).expect("it is pending");
        let (_, device, scopes) = self.pending.remove(at);
        self.approved.insert(device, scopes);
    }

    /// Revokes all approvals.
    pub fn revoke_all(&mut self) {
        self.revoked.extend(std::mem::take(&mut self.approved).into_keys());
    }

    /// Decides about a connection: the scopes it gets, or why it is refused.
    pub(super) fn admit(&mut self, params: &Value) -> Result<Value, Value> {
        let refused = |code: &str, details: Value| {
            let mut details = details;
            details["code"] = code.into();
            json!({"code": "NOT_PAIRED", "message": "no", "details": details})
        };
        let Some(id) = params["device"]["id"].as_str() else {
            return match self.demand {
                Demand::Strips => Ok(json!([])),
                Demand::Refuses => Err(refused("DEVICE_IDENTITY_REQUIRED", json!({}))),
                Demand::No | Demand::NoAndUnapproving => Ok(params["scopes"].clone()),
            };
        };
        if let Err(code) = check(params) {
            return Err(refused(code, json!({})));
        }
        let wanted: Vec<String> = texts(&params["scopes"]);
        if self.demand == Demand::No {
            self.approved.insert(id.to_owned(), wanted);
            return Ok(params["scopes"].clone());
        }
        let known = self.approved.get(id);
        if known.is_some_and(|has| wanted.iter().all(|scope| has.contains(scope))) {
            return Ok(params["scopes"].clone());
        }
        let reason = match known {
            Some(_) => "scope-upgrade",
            None if self.revoked.iter().any(|r| r == id) => "role-upgrade",
            None => "not-paired",
        };
        let waiting = self.pending.iter_mut().find(|(_, device, _)| device == id);
        let request = match waiting {
            Some((request, _, scopes)) => {
                scopes.extend(
                    wanted.iter().filter(|w| !scopes.contains(w)).cloned().collect::<Vec<_>>(),
                );
                request.clone()
            }
            None => {
                let fresh = format!("request-{}-{}", &id[..8], wanted.len());
                let request = self.request_id.clone().unwrap_or(fresh);
                self.pending.push((request.clone(), id.to_owned(), wanted.clone()));
                request
            }
        };
        let details = json!({"reason": reason, "requestId": request, "deviceId": id, "requestedScopes": wanted});
        Err(refused("PAIRING_REQUIRED", details))
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// Checks the proof of a device, with the error texts of the real gateway.
fn check(params: &Value) -> Result<(), &'static str> {
    let device = &params["device"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if device["nonce"] != NONCE {
        return Err("DEVICE_AUTH_NONCE_MISMATCH");
    }
    if device["signedAt"] != SIGNED_AT {
        return Err("DEVICE_AUTH_SIGNATURE_EXPIRED");
    }
    let key = unbase64(&text(&device["publicKey"])).ok_or("DEVICE_AUTH_PUBLIC_KEY_INVALID")?;
    let digest = digest::digest(&digest::SHA256, &key);
    let digits: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let id = digits.concat();
    if device["id"] != *id {
        return Err("DEVICE_AUTH_DEVICE_ID_MISMATCH");
    }
    let client = &params["client"];
    let said = format!(
        "v3|{id}|{}|{}|{}|{}|{SIGNED_AT}|{}|{NONCE}|{}|",
        text(&client["id"]),
        text(&client["mode"]),
        text(&params["role"]),
        texts(&params["scopes"]).join(","),
        text(&params["auth"]["token"]),
        text(&client["platform"]),
    );
    let signature = unbase64(&text(&device["signature"])).ok_or("DEVICE_AUTH_SIGNATURE_INVALID")?;
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(said.as_bytes(), &signature).map_err(|_| "DEVICE_AUTH_SIGNATURE_INVALID")
}

/// Reads base64 of the alphabet for URLs, without padding.
fn unbase64(text: &str) -> Option<Vec<u8>> {
    let signs = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for sign in text.bytes() {
        let value = signs.iter().position(|s| *s == sign)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}
