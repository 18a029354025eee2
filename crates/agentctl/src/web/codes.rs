//! The codes of links: good once, for a short time, and few at once. Only their digests are kept.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::text::hex;

/// How long a code is good.
pub(super) const CODE_LIFETIME: Duration = Duration::from_mins(10);
/// Most codes that are open at once. A further one replaces the oldest.
const MAX_PENDING: usize = 8;
/// Bytes of a code.
const CODE_BYTES: usize = 16;

/// The open codes, oldest first.
#[derive(Default)]
pub(super) struct Codes(Mutex<Vec<Pending>>);

struct Pending {
    digest: Vec<u8>,
    until: Instant,
}

impl Codes {
    /// Makes a code.
    pub(super) fn make(&self) -> Result<String, String> {
        let mut bytes = [0_u8; CODE_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| "the system gives no random bytes")?;
        let code = hex(&bytes);
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|code| code.until > Instant::now());
        if pending.len() >= MAX_PENDING {
            pending.remove(0);
        }
        let until = Instant::now() + CODE_LIFETIME;
        pending.push(Pending { digest: digest_of(&code), until });
        Ok(code)
    }

    /// Uses a code up; says whether it was good.
    pub(super) fn take(&self, code: &str) -> bool {
        let wanted = digest_of(code);
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|code| code.until > Instant::now());
        let before = pending.len();
        pending.retain(|code| code.digest != wanted);
        pending.len() < before
    }
}

fn digest_of(code: &str) -> Vec<u8> {
    digest(&SHA256, code.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_few_are_open() {
        let codes = Codes::default();
        let made: Vec<String> =
            (0..=MAX_PENDING).map(|_| codes.make().expect("random bytes")).collect();
        assert!(made.iter().all(|code| code.len() == 2 * CODE_BYTES));
        assert!(!codes.take(&made[0]), "the oldest was replaced");
        assert!(!codes.take(""), "an empty code is none");
        assert!(codes.take(&made[1]));
        assert!(!codes.take(&made[1]), "it is used up");
        assert!(codes.take(&made[MAX_PENDING]));
    }

    #[test]
    fn a_code_ends() {
        let codes = Codes::default();
        let code = codes.make().expect("random bytes");
        codes.0.lock().expect("unpoisoned")[0].until = Instant::now();
        assert!(!codes.take(&code));
    }
}
