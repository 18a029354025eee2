//! Base64 as in RFC 4648, with padding, for HTTP passwords and for the keys and signatures of webhooks.

const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let sign = SIGNS[usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or(0)];
            text.push(if at <= three.len() { char::from(sign) } else { '=' });
        }
    }
    text
}

/// Decodes a text; padding may be missing at the end. `None` if it is not Base64.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let signs = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    if signs.len() < text.len() && !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(signs.len() * 3 / 4);
    for four in signs.as_bytes().chunks(4) {
        let mut bits = 0;
        for sign in four {
            bits = bits << 6 | u32::try_from(SIGNS.iter().position(|s| s == sign)?).ok()?;
        }
        // A single character encodes no byte.
        let whole = four.len().checked_sub(1).filter(|n| *n > 0)?;
        let left = (bits << (6 * (4 - four.len()))).to_be_bytes();
        bytes.extend_from_slice(left.get(1..=whole)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).as_deref(), Some(plain.as_bytes()));
            assert_eq!(decode(coded.trim_end_matches('=')).as_deref(), Some(plain.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for wrong in ["Z", "Zm9vY", "Zm 9", "Zm9-", "Zg===", "=", "Zg==Zg=="] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
