//! The checks of `doctor` about everything that can be configured: the file, extra homes, webhooks,
//! notifications, the daemon, completions, and the limits of the kernel.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::{Check, CheckState, DaemonState, DoctorContext};
use crate::host::{Host, Secret};
use crate::kernel::Limits;
use crate::text::with_tilde;

/// Fewer watches than this are used up by a few large projects.
const FEW_FILE_WATCHES: u64 = 8192;
/// Fewer watching processes than this are used up by a desktop and an editor.
const FEW_FILE_WATCHERS: u64 = 64;
/// A question over many sessions needs about this many open files.
const FEW_OPEN_FILES: u64 = 512;

/// Checks the configuration file: one row, or one for each finding.
pub(super) fn file(host: &Host, context: &DoctorContext) -> Vec<Check> {
    let path = &context.configuration;
    let shown = with_tilde(&host.home, &path.to_string_lossy());
    if !context.findings.is_empty() {
        let check = |finding: &super::ConfigFinding| {
            let check = Check::new("config", "file", CheckState::Failed, finding.what.clone());
            check.hint(finding.hint.clone().unwrap_or_else(|| "correct this line".to_owned()))
        };
        return context.findings.iter().map(check).collect();
    }
    let check = if path.exists() {
        Check::new("config", "file", CheckState::Ok, shown)
    } else {
        Check::new("config", "file", CheckState::Absent, format!("{shown} (defaults are used)"))
    };
    vec![check]
}

/// Checks that the extra homes exist.
pub(super) fn roots(host: &Host) -> Vec<Check> {
    let all = host.roots.iter().flat_map(|(name, paths)| paths.iter().map(move |p| (name, p)));
    let check = |(name, path): (&String, &std::path::PathBuf)| {
        let shown = with_tilde(&host.home, &path.to_string_lossy());
        let (name, failed) = (format!("roots.{name}"), CheckState::Failed);
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Check::new("config", name, CheckState::Ok, shown),
            Ok(_) => Check::new("config", name, failed, format!("{shown} is not a directory"))
                .hint("name the home directory of the agent"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Check::new("config", name, failed, format!("{shown} does not exist"))
                    .hint("correct the path, or remove it from [roots]")
            }
            Err(error) => Check::new("config", name, failed, format!("{shown}: {error}"))
                .hint("make it readable, or remove it from [roots]"),
        }
    };
    all.map(check).collect()
}

/// Checks the secret of each webhook.
pub(super) fn webhooks(host: &Host, context: &DoctorContext) -> Vec<Check> {
    let check = |webhook: &super::ConfiguredWebhook| {
        let name = format!("webhook {}", webhook.name);
        match webhook.secret.as_ref().map(|secret| secret.read(host)) {
            None => Check::new("config", name, CheckState::Ok, "events are not signed"),
            Some(Ok(_)) => Check::new("config", name, CheckState::Ok, "events are signed"),
            Some(Err(why)) => {
                let detail = format!("{why}: no event is sent to it");
                Check::new("config", name, CheckState::Failed, detail)
                    .hint("set the secret, then `agentctl daemon restart`")
            }
        }
    };
    context.webhooks.iter().map(check).collect()
}

/// Checks the configured tokens of gateways and metrics.
pub(super) fn tokens(host: &Host, context: &DoctorContext) -> Vec<Check> {
    let gateways = host.gateways.values().flatten().filter_map(|gateway| {
        let name = gateway.name.clone().unwrap_or_else(|| server_of(&gateway.url));
        Some((format!("gateway {name}"), gateway.token.as_ref()?))
    });
    let metrics = context.metrics_token.iter().map(|token| ("metrics".to_owned(), token));
    let check = |(name, token): (String, &Secret)| match token.read(host) {
        Ok(_) => Check::new("config", name, CheckState::Ok, "its token is set"),
        Err(why) => Check::new("config", name, CheckState::Failed, why)
            .hint("set the token, then `agentctl daemon restart` if a daemon runs"),
    };
    gateways.chain(metrics).map(check).collect()
}

/// Returns the server of a URL without its path, which may hold a secret.
fn server_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let server = rest.split(['/', '?', '#']).next().unwrap_or_default();
    server.rsplit('@').next().unwrap_or_default().to_owned()
}

/// Checks the channels of notifications: the program, tmux and the terminal.
pub(super) fn notify(host: &Host, context: &DoctorContext) -> Vec<Check> {
    let program = context.notify_program.as_deref().map(|program| notify_program(host, program));
    let tmux = context.notify_tmux.then(|| notify_tmux(host));
    let tty = context.notify_tty.as_deref().map(|path| notify_tty(path, host.kernel.uid()));
    [program, tmux, tty].into_iter().flatten().collect()
}

fn notify_program(host: &Host, program: &str) -> Check {
    let found = if program.contains('/') {
        Some(Path::new(program).to_owned()).filter(|path| path.is_file())
    } else {
        host.which(program)
    };
    match found {
        Some(path) => {
            let shown = with_tilde(&host.home, &path.to_string_lossy());
            Check::new("config", "notify", CheckState::Ok, shown)
        }
        None => {
            let detail = format!("`{program}` is not installed: no notification is shown");
            Check::new("config", "notify", CheckState::Failed, detail)
                .hint("install it, or name another program in `command` below [notify]")
        }
    }
}

fn notify_tmux(host: &Host) -> Check {
    match host.which("tmux") {
        Some(path) => {
            Check::new("config", "notify.tmux", CheckState::Ok, path.display().to_string())
        }
        None => {
            let detail = "`tmux` is not installed: no notification is shown there";
            Check::new("config", "notify.tmux", CheckState::Failed, detail)
                .hint("install it, or remove `tmux` from [notify]")
        }
    }
}

/// Checks that the device file is a terminal of this user. It is not opened: nothing is written.
fn notify_tty(path: &Path, uid: u32) -> Check {
    let why = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
        Ok(meta) if !meta.file_type().is_char_device() => "is not a terminal".to_owned(),
        Ok(meta) if meta.uid() != uid => "belongs to another user".to_owned(),
        Ok(_) => {
            let shown = path.display().to_string();
            return Check::new("config", "notify.tty", CheckState::Ok, shown);
        }
    };
    let detail = format!("{} {why}: no notification is written to it", path.display());
    Check::new("config", "notify.tty", CheckState::Failed, detail)
        .hint("write what `tty` prints in that terminal; it differs after each login")
}

/// Checks whether a daemon runs, whether the settings need one, and its version.
pub(super) fn daemon(context: &DoctorContext) -> Check {
    let check = |state, detail: String| Check::new("daemon", "daemon", state, detail);
    match &context.daemon {
        DaemonState::Serves { version, .. } if *version == context.version => {
            check(CheckState::Ok, format!("running, version {version}"))
        }
        DaemonState::Serves { version, .. } => {
            let detail = format!("version {version} runs, and this is {}", context.version);
            check(CheckState::Degraded, detail).hint("`agentctl daemon restart`")
        }
        DaemonState::Silent(why) => {
            check(CheckState::Failed, why.clone()).hint("`agentctl daemon restart --force`")
        }
        DaemonState::Absent if context.needs_daemon => {
            let detail = "not running: no webhook, notification or metric is served";
            check(CheckState::Degraded, detail.to_owned())
                .hint("`agentctl daemon start`, or `agentctl daemon install` to start it at login")
        }
        DaemonState::Absent => {
            check(CheckState::Absent, "not running, and nothing configured needs it".to_owned())
        }
    }
}

/// Checks the limits of the kernel.
pub(super) fn limits(limits: Limits) -> Vec<Check> {
    let row = |name: &str, value: Option<u64>, few: u64, hint: &str| {
        let value = value?;
        let state = if value < few { CheckState::Degraded } else { CheckState::Ok };
        let check = Check::new("kernel", name, state, format!("at most {value}"));
        Some(if value < few { check.hint(hint) } else { check })
    };
    [
        row(
            "file watches",
            limits.file_watches,
            FEW_FILE_WATCHES,
            "`sysctl fs.inotify.max_user_watches=65536` as root; without watches changes are seen late",
        ),
        row(
            "file watchers",
            limits.file_watchers,
            FEW_FILE_WATCHERS,
            "`sysctl fs.inotify.max_user_instances=256` as root; without one changes are seen late",
        ),
        row("open files", limits.open_files, FEW_OPEN_FILES, "`ulimit -n 4096` before agentctl"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_degraded_and_has_a_fix() {
        let few = Limits { file_watches: Some(10), file_watchers: Some(8192), open_files: None };
        let checks = limits(few);
        let states: Vec<_> = checks.iter().map(|c| (c.state, c.hint.is_some())).collect();
        assert_eq!(states, [(CheckState::Degraded, true), (CheckState::Ok, false)]);
    }
}
