//! Signs events: the Standard Webhooks headers, and on request the three signature headers that the
//! predecessor of this program sent.

use agentctl_core::model::Time;
use agentctl_core::talk::base64;
use ring::{digest, hmac};

use crate::config::secret_key;
use crate::text::hex;

/// The secret and the extent of a signature.
#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    /// The secret shared with the receiver.
    pub secret: &'a str,
    /// Adds signatures of the body alone. They cover neither id nor time, so a message can be replayed.
    pub body_alone: bool,
}

/// Returns the headers of a message: id, time, and with a secret the signatures.
pub fn headers(
    event_id: &str,
    now: Time,
    body: &[u8],
    signing: Option<Signing<'_>>,
) -> Result<Vec<(&'static str, String)>, String> {
    let id = message_id(event_id);
    let seconds = now.0.as_second().to_string();
    let mut headers = vec![("webhook-id", id.clone()), ("webhook-timestamp", seconds.clone())];
    if let Some(Signing { secret, body_alone }) = signing {
        let mut signed = format!("{id}.{seconds}.").into_bytes();
        signed.extend_from_slice(body);
        let signature = base64::encode(hash(&secret_key(secret)?, &signed).as_ref());
        headers.push(("webhook-signature", format!("v1,{signature}")));
        if body_alone {
            // Receivers of the predecessor use the secret as it is written as the key.
            let plain = hex(hash(secret.as_bytes(), body).as_ref());
            headers.push(("x-agentctl-signature", plain.clone()));
            headers.push(("x-signature", format!("sha256={plain}")));
            headers.push(("x-hub-signature-256", format!("sha256={plain}")));
        }
    }
    Ok(headers)
}

fn hash(key: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message)
}

/// Returns an id that fits into a header and has no full stop, which separates the signed parts.
fn message_id(id: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':');
    if !id.is_empty() && id.len() <= 200 && id.bytes().all(plain) {
        return id.to_owned();
    }
    hex(digest::digest(&digest::SHA256, id.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(id: &str, secret: Option<&str>) -> Vec<(&'static str, String)> {
        let now = Time::from_millis(1_614_265_330_999).expect("a time");
        let signing = secret.map(|secret| Signing { secret, body_alone: false });
        headers(id, now, br#"{"test": 2432232314}"#, signing).expect("signed")
    }

    #[test]
    fn the_example_of_the_standard_webhooks_libraries_gets_their_signature() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let headers = signed("msg_p5jXN8AQM9LWM0D4loKWxJek", Some(secret));
        assert_eq!(headers[0], ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".into()));
        assert_eq!(headers[1], ("webhook-timestamp", "1614265330".into()));
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(headers[2], ("webhook-signature", expected.into()));
    }

    #[test]
    fn an_id_with_ambiguous_characters_is_hashed() {
        for id in ["", "a.b", "a b", "a\r\nx: y", "ä", &"a".repeat(201)] {
            let sent = signed(id, None).remove(0).1;
            assert!(sent.len() == 64 && sent.bytes().all(|b| b.is_ascii_hexdigit()), "{sent}");
            assert_eq!(sent, signed(id, None).remove(0).1, "the same each time");
        }
        assert_eq!(signed("run:0199-ab_c", None).remove(0).1, "run:0199-ab_c");
    }
}
