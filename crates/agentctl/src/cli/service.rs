//! Installs and removes services of the user, for `daemon install` and `web install`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;

use agentctl_core::host::Host;
use agentctl_core::native::private;

use crate::daemon::service::{ServiceFile, command};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Prints the service file.
pub(super) fn print(ui: &mut Ui, host: &Host, service: &ServiceFile) -> Outcome {
    ui.drawn(&service.text(host))?;
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the service file.
pub(super) fn write(host: &Host, service: &ServiceFile) -> Result<(), Failure> {
    let file = service.file(host);
    let failed = |what: String| Failure::new(Kind::Failed, what);
    if let Some(folder) = file.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| failed(format!("{}: {e}", folder.display())))?;
    }
    // The file names a command: no other user may write to it, whatever the umask is.
    let written = private::replace(&file, service.text(host).as_bytes());
    written.map_err(|e| failed(format!("{}: {e}", file.display())))
}

/// Enables and starts a service whose file is written.
pub(super) fn enable(
    ui: &mut Ui,
    host: &Host,
    service: &ServiceFile,
    without_manager: &str,
) -> Outcome {
    let file = service.file(host);
    for words in service.enable(host) {
        command(host, &words).map_err(|why| {
            let what =
                format!("{} is written, but the service is not enabled: {why}", file.display());
            Failure::new(Kind::Failed, what)
                .hint(format!("{without_manager} works without a service manager"))
        })?;
    }
    ui.note(&format!("installed: {}", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Stops a service and removes its file.
pub(super) fn uninstall(ui: &mut Ui, host: &Host, service: &ServiceFile) -> Outcome {
    let file = service.file(host);
    if !file.exists() {
        ui.note("it is not installed");
        return Ok(ExitCode::SUCCESS);
    }
    for words in service.disable(host) {
        if let Err(why) = command(host, &words) {
            ui.warn(&why);
        }
    }
    std::fs::remove_file(&file)
        .map_err(|e| Failure::new(Kind::Failed, format!("{}: {e}", file.display())))?;
    ui.note(&format!("removed: {}", file.display()));
    Ok(ExitCode::SUCCESS)
}
