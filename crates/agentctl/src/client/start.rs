//! Starts a daemon without a service manager, detached from the command that needs it.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentctl_core::adapters::ALL;
use agentctl_core::host::Host;
use agentctl_core::kernel::{Spawn, Stdio};
use agentctl_core::{launch, marks};

use super::{Client, ClientError, HELLO_TIMEOUT};
use crate::failure::{Failure, Kind};
use crate::place::{Place, open_log};

/// Timeout for a new daemon until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two tries to connect while another daemon starts or ends.
const CONNECT_RETRY_PAUSE: Duration = Duration::from_millis(5);
/// Written to the `--ready` pipe by a new daemon when it serves.
pub const READY: &[u8] = b"ready\n";
/// Written to the `--ready` pipe by a new daemon that does not serve with its configuration; the reason follows.
pub const REFUSED: &[u8] = b"refused: ";
/// Maximum number of bytes that are read from the `--ready` pipe.
const MAX_WORD_BYTES: u64 = 4096;

/// Why there is no connection to a daemon.
#[derive(Debug)]
pub enum NotConnected {
    /// The socket is not trusted, and no daemon can be started there.
    Untrusted(ClientError),
    /// A new daemon refused to serve with this configuration.
    Refused(String),
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for NotConnected {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<NotConnected> for Failure {
    fn from(why: NotConnected) -> Self {
        match why {
            NotConnected::Untrusted(error) => Self::new(Kind::Failed, error.to_string())
                .hint("set XDG_RUNTIME_DIR to a directory of your own, or unset it"),
            NotConnected::Refused(why) => {
                Self::new(Kind::Failed, format!("the daemon did not start: {why}"))
                    .hint("`agentctl config check` shows what is wrong with the configuration")
            }
            NotConnected::Failed(failure) => failure,
        }
    }
}

/// Returns a connection to the daemon, and whether it was started for it.
pub fn ensure(host: &Host) -> Result<(Client, bool), NotConnected> {
    let place = Place::of(host);
    match Client::connect(&place, HELLO_TIMEOUT) {
        Ok(client) => return Ok((client, false)),
        Err(ClientError::NotRunning) => {}
        Err(error @ ClientError::Untrusted(_)) => return Err(NotConnected::Untrusted(error)),
        Err(error) => return Err(unasked(&error).into()),
    }
    let failed = |why: String| {
        Failure::new(Kind::Failed, format!("the daemon did not start: {why}"))
            .hint("`agentctl daemon run` shows what is wrong; `agentctl daemon logs` what was")
    };
    place.prepare().map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + START_TIMEOUT;
    loop {
        let fresh = match start(host, &place).map_err(|error| failed(error.to_string()))? {
            Started::Serves => true,
            Started::Ended => false,
            Started::Refused(why) => return Err(NotConnected::Refused(why)),
        };
        match Client::connect(&place, HELLO_TIMEOUT) {
            Ok(client) => return Ok((client, fresh)),
            // Race: another new daemon holds the lock and does not listen yet, or an old one is ending.
            Err(ClientError::NotRunning | ClientError::TimedOut | ClientError::Busy)
                if Instant::now() < until =>
            {
                std::thread::park_timeout(CONNECT_RETRY_PAUSE);
            }
            Err(error) => return Err(failed(error.to_string()).into()),
        }
    }
}

/// Returns the failure for a daemon that runs and cannot be asked, with a hint.
#[must_use]
pub fn unasked(error: &ClientError) -> Failure {
    let failure = Failure::new(Kind::Failed, error.to_string());
    match error {
        ClientError::Busy => failure.hint(
            "end some of the programs that listen to its events, or `agentctl daemon restart --force`",
        ),
        _ => failure.hint("`agentctl daemon restart --force` replaces it"),
    }
}

/// The result of starting a daemon.
enum Started {
    Serves,
    /// It ended without a word; another one may serve.
    Ended,
    /// It does not serve with this configuration.
    Refused(String),
}

/// Starts a daemon and waits until it serves or ends.
fn start(host: &Host, place: &Place) -> std::io::Result<Started> {
    let (mut ready, theirs) = std::io::pipe()?;
    // The daemon outlives this process.
    drop(spawn(host, place, theirs.into())?);
    let mut word = Vec::new();
    // The daemon writes one word and closes the pipe, or exits: both end the read.
    let _broken = ready.by_ref().take(MAX_WORD_BYTES).read_to_end(&mut word);
    Ok(match word.strip_prefix(REFUSED) {
        Some(why) => Started::Refused(String::from_utf8_lossy(why).into_owned()),
        None if word == READY => Started::Serves,
        None => Started::Ended,
    })
}

fn spawn(host: &Host, place: &Place, ready: OwnedFd) -> std::io::Result<std::process::Child> {
    let number = ready.as_raw_fd().to_string();
    let log = open_log(&place.log())?;
    let config = host.var(marks::CONFIG).map(|path| host.cwd.join(path));
    let mut set = vec![(marks::DAEMON.into(), "1".into())];
    set.extend(config.map(|path| (marks::CONFIG.into(), path.into_os_string())));
    Spawn {
        program: host.program.clone(),
        args: ["daemon", "run", "--ready", &number].map(Into::into).to_vec(),
        set,
        unset: launch::around_us(ALL),
        // Keeps no file system from being unmounted.
        cwd: PathBuf::from("/"),
        stdin: Stdio::Null,
        stdout: Stdio::Null,
        stderr: Stdio::File(log),
        keep: vec![ready],
    }
    .detached()
}
