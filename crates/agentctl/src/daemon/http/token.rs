//! The token: where it comes from, how it is compared, and how often it may be wrong.
//!
//! It is not kept: only what its comparison needs is. Where none is configured, one of 256 bits is made
//! and written to a file that only its user can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use agentctl_core::host::{Host, Secret};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::check_token;
use crate::daemon::webhooks::hex;

const FILE: &str = "metrics.token";
/// So many wrong tokens in a row are answered …
const WRONG_MOST: f64 = 20.0;
/// … and then so many a second.
const WRONG_A_SECOND: f64 = 2.0;

/// Says in words where the token is found.
pub(super) fn place(secret: Option<&Secret>, host: &Host) -> String {
    match secret {
        Some(Secret::Text(_)) => "in the configuration file".into(),
        Some(Secret::Variable(name)) => format!("in ${name}"),
        Some(Secret::File(path)) => path.display().to_string(),
        None => file(host).display().to_string(),
    }
}

fn file(host: &Host) -> PathBuf {
    host.state().join(FILE)
}

/// What was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    Missing,
    /// Wrong, as too many before it.
    TooMany,
}

/// What a token is compared with.
pub(super) struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
    patience: Mutex<Patience>,
}

/// How many wrong tokens will be answered yet. It is one for all: whoever asks sits on the same address.
struct Patience {
    left: f64,
    at: Instant,
}

impl Token {
    /// Reads the token, or makes one.
    pub(super) fn of(secret: Option<&Secret>, host: &Host) -> Result<Self, String> {
        let text = match secret {
            Some(secret) => secret.read(host)?,
            None => own(host)?,
        };
        check_token(&text)?;
        Self::new(&text).map_err(|_| "the system gives no random bytes".into())
    }

    fn new(text: &str) -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        let tag = hmac::sign(&key, text.as_bytes());
        let patience = Patience { left: WRONG_MOST, at: Instant::now() };
        Ok(Self { key, tag, patience: Mutex::new(patience) })
    }

    /// Judges an `Authorization` header. How long that takes says nothing about the token.
    pub(super) fn verdict(&self, authorization: Option<&str>) -> Verdict {
        let shown = authorization.and_then(|text| text.split_once(' '));
        let Some((_, shown)) = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        else {
            return Verdict::Missing;
        };
        // Compared first: wrong tokens of others must not keep the right one out, and 256 bits are not guessed.
        if hmac::verify(&self.key, shown.trim().as_bytes(), self.tag.as_ref()).is_ok() {
            return Verdict::Right;
        }
        let mut patience = self.patience.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = now.saturating_duration_since(patience.at).as_secs_f64() * WRONG_A_SECOND;
        patience.left = (patience.left + gained).min(WRONG_MOST);
        patience.at = now;
        if patience.left < 1.0 {
            return Verdict::TooMany;
        }
        patience.left -= 1.0;
        Verdict::Wrong
    }
}

/// Returns the token of our own file; makes one where there is none, or where others could read it.
fn own(host: &Host) -> Result<String, String> {
    let path = file(host);
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let private =
        fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.mode() & 0o777 == 0o600);
    if private && let Ok(text) = Secret::File(path.clone()).read(host) {
        return Ok(text);
    }
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    let text = hex(&bytes);
    write(&path, &text).map_err(failed)?;
    Ok(text)
}

/// Puts it into its place whole. Only one daemon serves, so nobody else writes there.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::{Token, Verdict, WRONG_MOST};

    #[test]
    fn only_the_right_token_is_right() {
        let token = Token::new("0123456789abcdef").expect("random bytes");
        let verdict = |text| token.verdict(text);
        assert_eq!(verdict(Some("Bearer 0123456789abcdef")), Verdict::Right);
        assert_eq!(verdict(Some("bearer 0123456789abcdef")), Verdict::Right);
        for missing in [None, Some("0123456789abcdef"), Some("Basic 0123456789abcdef")] {
            assert_eq!(verdict(missing), Verdict::Missing, "{missing:?}");
        }
        for wrong in ["Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdefg"] {
            assert_eq!(verdict(Some(wrong)), Verdict::Wrong, "{wrong}");
        }
    }

    #[test]
    fn guessing_has_an_end() {
        let token = Token::new("0123456789abcdef").expect("random bytes");
        let mut guesses = 0;
        while token.verdict(Some("Bearer guess")) == Verdict::Wrong {
            guesses += 1;
            assert!(f64::from(guesses) < WRONG_MOST * 2.0, "somebody guesses for ever");
        }
        assert!(f64::from(guesses) >= WRONG_MOST);
        assert_eq!(token.verdict(None), Verdict::Missing, "who shows none guesses nothing");
        assert_eq!(token.verdict(Some("Bearer 0123456789abcdef")), Verdict::Right, "not throttled");
    }
}
