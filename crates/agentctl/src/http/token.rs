//! The bearer token: its source, its comparison, and the rate limit for wrong tokens.
//!
//! The token itself is not kept in memory, only an HMAC of it. Without a configured token, one of 256 bits
//! is generated and written to a file that only this user can read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use agentctl_core::host::{Host, Secret};
use agentctl_core::native::private;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::check_token;
use crate::text::hex;

/// This many wrong tokens are answered at once; then the rate limit applies.
const WRONG_TOKENS_BURST: f64 = 20.0;
/// Rate limit for answers to wrong tokens.
const WRONG_TOKENS_PER_SECOND: f64 = 2.0;

/// The source of a token: the configuration, or else a file of our own.
pub(crate) struct TokenSource<'a> {
    pub(crate) configured: Option<&'a Secret>,
    /// Holds the generated token when none is configured.
    pub(crate) file: PathBuf,
}

impl TokenSource<'_> {
    /// Describes where a person finds the token.
    pub(crate) fn description(&self) -> String {
        match self.configured {
            Some(Secret::Text(_)) => "in the configuration file".into(),
            Some(Secret::Variable(name)) => format!("in ${name}"),
            Some(Secret::File(path)) => path.display().to_string(),
            None => self.file.display().to_string(),
        }
    }

    /// Reads the token, or generates one.
    pub(crate) fn load(&self, host: &Host) -> Result<Token, String> {
        let text = match self.configured {
            Some(secret) => secret.read(host)?,
            None => read_or_generate(&self.file, host)?,
        };
        check_token(&text)?;
        Token::new(&text).map_err(|_| "the system gives no random bytes".into())
    }
}

/// The result of comparing the token of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenCheck {
    Right,
    Wrong,
    Missing,
    /// Wrong, and the rate limit for wrong tokens is exceeded.
    TooManyWrong,
}

/// Compares the token of a request, in constant time.
pub(crate) trait BearerCheck: Send + Sync {
    /// Says whether a token is right.
    fn is_right(&self, token: &str) -> bool;
}

/// One token that requests are checked against.
pub(crate) struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
}

/// How many wrong tokens are still answered. One budget for all callers: on loopback they share an address.
pub(crate) struct WrongTokenBudget(Mutex<Budget>);

struct Budget {
    left: f64,
    refilled_at: Instant,
}

impl Default for WrongTokenBudget {
    fn default() -> Self {
        Self(Mutex::new(Budget { left: WRONG_TOKENS_BURST, refilled_at: Instant::now() }))
    }
}

impl WrongTokenBudget {
    /// Takes note of a wrong token; says whether it is still answered.
    pub(crate) fn allows_a_wrong_one(&self) -> bool {
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(budget.refilled_at).as_secs_f64();
        budget.left = (budget.left + elapsed * WRONG_TOKENS_PER_SECOND).min(WRONG_TOKENS_BURST);
        budget.refilled_at = now;
        if budget.left < 1.0 {
            return false;
        }
        budget.left -= 1.0;
        true
    }
}

/// Checks an `Authorization` header.
pub(super) fn check(
    tokens: &dyn BearerCheck,
    budget: &WrongTokenBudget,
    authorization: Option<&str>,
) -> TokenCheck {
    let Some(given) = authorization.and_then(bearer) else { return TokenCheck::Missing };
    // Compare before the rate limit: wrong tokens of other callers must not lock out the right one.
    // 256 bits cannot be guessed.
    if tokens.is_right(given) {
        TokenCheck::Right
    } else if budget.allows_a_wrong_one() {
        TokenCheck::Wrong
    } else {
        TokenCheck::TooManyWrong
    }
}

/// Returns the token of an `Authorization` header.
pub(crate) fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Token {
    pub(super) fn new(text: &str) -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        let tag = hmac::sign(&key, text.as_bytes());
        Ok(Self { key, tag })
    }
}

impl BearerCheck for Token {
    fn is_right(&self, token: &str) -> bool {
        hmac::verify(&self.key, token.as_bytes(), self.tag.as_ref()).is_ok()
    }
}

/// Returns the token in our file. Generates a new one if the file is missing or others could read it.
pub(crate) fn read_or_generate(path: &Path, host: &Host) -> Result<String, String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let private =
        fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.mode() & 0o777 == 0o600);
    if private && let Ok(text) = Secret::File(path.to_owned()).read(host) {
        return Ok(text);
    }
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    let text = hex(&bytes);
    // Only the process that holds the lock of its server writes it.
    private::replace(path, format!("{text}\n").as_bytes()).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{Token, TokenCheck, WRONG_TOKENS_BURST, WrongTokenBudget};

    #[test]
    fn only_the_right_token_is_right() {
        let token = Token::new("0123456789abcdef").expect("random bytes");
        let budget = WrongTokenBudget::default();
        let check = |text| super::check(&token, &budget, text);
        assert_eq!(check(Some("Bearer 0123456789abcdef")), TokenCheck::Right);
        assert_eq!(check(Some("bearer 0123456789abcdef")), TokenCheck::Right);
        for missing in [None, Some("0123456789abcdef"), Some("Basic 0123456789abcdef")] {
            assert_eq!(check(missing), TokenCheck::Missing, "{missing:?}");
        }
        for wrong in ["Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdefg"] {
            assert_eq!(check(Some(wrong)), TokenCheck::Wrong, "{wrong}");
        }
    }

    #[test]
    fn wrong_tokens_are_rate_limited_and_the_right_one_is_not() {
        let token = Token::new("0123456789abcdef").expect("random bytes");
        let budget = WrongTokenBudget::default();
        let check = |text| super::check(&token, &budget, text);
        let mut guesses = 0;
        while check(Some("Bearer guess")) == TokenCheck::Wrong {
            guesses += 1;
            assert!(f64::from(guesses) < WRONG_TOKENS_BURST * 2.0, "no rate limit");
        }
        assert!(f64::from(guesses) >= WRONG_TOKENS_BURST);
        assert_eq!(check(None), TokenCheck::Missing, "no token is not a wrong token");
        assert_eq!(check(Some("Bearer 0123456789abcdef")), TokenCheck::Right);
    }
}
