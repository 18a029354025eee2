//! How a receiver can tell that an event is ours and was not changed: the Standard Webhooks headers,
//! and on request the three that the predecessor of this program sent.

use agentctl_core::model::Time;
use agentctl_core::talk::base64;
use ring::{digest, hmac};

use crate::config::secret_key;
use crate::text::hex;

/// What a message is signed with.
#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    /// The secret that the receiver knows.
    pub secret: &'a str,
    /// The body alone is signed, too: without the id and the time, so that it can be replayed.
    pub body_alone: bool,
}

/// Returns the headers of a message: always its id and time, and with a secret its signatures.
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
            // Keyed by the secret as it is written: that is how those receivers were set up.
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

/// An id must fit into a header, and hold no full stop: those part what is signed.
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
    fn the_example_of_everybody_elses_libraries_is_signed_alike() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let headers = signed("msg_p5jXN8AQM9LWM0D4loKWxJek", Some(secret));
        assert_eq!(headers[0], ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".into()));
        assert_eq!(headers[1], ("webhook-timestamp", "1614265330".into()));
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(headers[2], ("webhook-signature", expected.into()));
    }

    #[test]
    fn an_id_that_could_be_read_in_two_ways_is_not_sent() {
        for id in ["", "a.b", "a b", "a\r\nx: y", "ä", &"a".repeat(201)] {
            let sent = signed(id, None).remove(0).1;
            assert!(sent.len() == 64 && sent.bytes().all(|b| b.is_ascii_hexdigit()), "{sent}");
            assert_eq!(sent, signed(id, None).remove(0).1, "the same each time");
        }
        assert_eq!(signed("run:0199-ab_c", None).remove(0).1, "run:0199-ab_c");
    }
}
