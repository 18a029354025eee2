//! Tokens: `v1.DEVICE.EXPIRY.HMAC`, signed with the key in `web.key`. No token is stored: the key proves them all, also
//! after a restart. Without the file every token is wrong, and a new key is made.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentctl_core::host::Host;
use agentctl_core::model::Time;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::http::{BearerCheck, read_or_generate};
use crate::text::{hex, unhex};

/// The file of the key, in the state directory.
const KEY_FILE: &str = "web.key";
/// The form of the tokens.
const VERSION: &str = "v1";
/// Bytes of the name of a device.
const DEVICE_BYTES: usize = 8;

/// The key, as it is in its file now.
pub(super) struct Keys {
    host: Arc<Host>,
    file: PathBuf,
    current: Mutex<Option<Current>>,
}

struct Current {
    key: hmac::Key,
    /// The file that it was read from.
    identity: FileIdentity,
    /// Counts the keys.
    generation: u64,
}

/// Device, inode, time of the last change, size and mode: a key that others can read is replaced.
type FileIdentity = Option<(u64, u64, i64, i64, u64, u32)>;

/// A token that was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// It ends then, in seconds since 1970.
    until: i64,
    /// The key that it was signed with.
    generation: u64,
}

impl Keys {
    /// Opens the key; makes one if there is none.
    pub(super) fn open(host: &Arc<Host>) -> Result<Self, String> {
        let file = host.state().join(KEY_FILE);
        let keys = Self { host: Arc::clone(host), file, current: Mutex::default() };
        keys.refreshed().map(|_| ())?;
        Ok(keys)
    }

    /// Returns the key, read again if its file has changed.
    fn refreshed(&self) -> Result<MutexGuard<'_, Option<Current>>, String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = self.identity();
        let is_fresh = |key: &Current| identity.is_some() && key.identity == identity;
        if !current.as_ref().is_some_and(is_fresh) {
            let generation = current.take().map_or(0, |before| before.generation + 1);
            let text = read_or_generate(&self.file, &self.host)?;
            let bytes = unhex(text.trim()).filter(|bytes| bytes.len() >= 32);
            let bytes = bytes.ok_or_else(|| format!("{} holds no key", self.file.display()))?;
            let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
            *current = Some(Current { key, identity: self.identity(), generation });
        }
        Ok(current)
    }

    fn identity(&self) -> FileIdentity {
        let meta = std::fs::symlink_metadata(&self.file).ok()?;
        Some((meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len(), meta.mode()))
    }

    /// Makes a token that is good until then.
    pub(super) fn issue(&self, until: Time) -> Result<String, String> {
        let mut device = [0_u8; DEVICE_BYTES];
        let filled = SystemRandom::new().fill(&mut device);
        filled.map_err(|_| "the system gives no random bytes")?;
        let claim = format!("{VERSION}.{}.{}", hex(&device), until.millis() / 1000);
        let current = self.refreshed()?;
        let key = current.as_ref().map(|current| &current.key);
        let tag = key.map(|key| hmac::sign(key, claim.as_bytes())).ok_or("there is no key")?;
        Ok(format!("{claim}.{}", hex(tag.as_ref())))
    }

    /// Returns the claim of a token; `None` if it is wrong or has ended.
    pub(super) fn claim(&self, token: &str) -> Option<Claim> {
        let (signed, tag) = token.rsplit_once('.')?;
        let tag = unhex(tag)?;
        let current = self.refreshed().ok()?;
        let current = current.as_ref()?;
        hmac::verify(&current.key, signed.as_bytes(), &tag).ok()?;
        let mut parts = signed.split('.');
        let (version, _device) = (parts.next()?, parts.next()?);
        let until = parts.next()?.parse().ok()?;
        let claim = Claim { until, generation: current.generation };
        (version == VERSION && parts.next().is_none() && self.is_before(until)).then_some(claim)
    }

    /// Says whether a claim still holds.
    pub(super) fn holds(&self, claim: Claim) -> bool {
        let current = self.refreshed().ok();
        let generation = current.as_deref().and_then(|c| c.as_ref()).map(|c| c.generation);
        generation == Some(claim.generation) && self.is_before(claim.until)
    }

    fn is_before(&self, until: i64) -> bool {
        self.host.now().millis() / 1000 < until
    }
}

impl BearerCheck for Arc<Keys> {
    fn is_right(&self, token: &str) -> bool {
        self.claim(token).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use agentctl_core::kernel::Kernel;

    use super::*;

    /// The time of the test, in milliseconds.
    static NOW: AtomicI64 = AtomicI64::new(0);

    fn time(millis: i64) -> Time {
        Time::from_millis(millis).expect("a time")
    }

    #[test]
    fn a_token_ends_at_its_time() {
        let home = tempfile::tempdir().expect("a directory");
        let clock = || time(NOW.load(Ordering::SeqCst));
        let host = Arc::new(Host::new(home.path(), Kernel::open().expect("a kernel"), clock));
        std::fs::create_dir_all(host.state()).expect("made");
        let keys = Keys::open(&host).expect("a key");
        NOW.store(1_000_000, Ordering::SeqCst);
        let token = keys.issue(time(2_000_000)).expect("a token");
        let claim = keys.claim(&token).expect("it is good");
        NOW.store(1_999_999, Ordering::SeqCst);
        assert!(keys.claim(&token).is_some() && keys.holds(claim), "in its last second");
        NOW.store(2_000_000, Ordering::SeqCst);
        assert!(keys.claim(&token).is_none() && !keys.holds(claim), "it has ended");
    }
}
