//! `agentctl notify test`: shows a notification in every configured channel.

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Loaded;
use crate::daemon::notify::{Channel, Notice};
use crate::face::TerminalSequence;
use crate::failure::{Failure, Kind, Outcome};
use crate::text::one_line;
use crate::ui::Ui;

/// Test notifications
#[derive(Subcommand)]
pub(super) enum NotifyCommand {
    /// Send a test notification to every configured channel
    ///
    /// Prints for each channel of `[notify]` whether it worked.
    #[command(after_help = "Channels in the configuration file:
  [notify]
  desktop = true                  # notify-send, on macOS osascript; the default
                                  # where none of tmux, tty and terminal is set
  command = [\"my-notifier\"]       # a program of your own instead
  tmux = true                     # the status line of every tmux client
  tty = \"/dev/pts/3\"              # a terminal of yours: what `tty` prints there
  terminal = true                 # the terminal of `events`, `list --watch`, `top`")]
    Test,
}

pub(super) fn cmd_notify(ui: &mut Ui, loaded: &Loaded, command: &NotifyCommand) -> Outcome {
    match command {
        NotifyCommand::Test => test(ui, loaded),
    }
}

fn test(ui: &mut Ui, loaded: &Loaded) -> Outcome {
    loaded.check_notify()?;
    super::warn_of_settings(ui, loaded);
    let settings = loaded.notify.as_ref().ok_or_else(none)?;
    let channels = Channel::all(settings);
    if channels.is_empty() && !settings.terminal {
        return Err(none());
    }
    let notice = Notice::test();
    let mut failed = false;
    for channel in channels {
        let shown = channel.show(&loaded.host, settings, &notice);
        failed |= shown.is_err();
        let line = match shown {
            Ok(what) => format!("{:<9} ok      {}", channel.word(), one_line(&what)),
            Err(why) => format!("{:<9} failed  {}", channel.word(), one_line(&why)),
        };
        ui.line(&line)?;
    }
    if settings.terminal {
        let line = test_terminal(ui, &notice, loaded)?;
        ui.line(&line)?;
    }
    ui.flush()?;
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn none() -> Failure {
    Failure::new(Kind::Failed, "no notification is configured")
        .hint("add `[notify]` to the configuration file; `agentctl notify test --help` lists the channels")
}

/// Notifies the terminal of this command, if it has one.
fn test_terminal(ui: &mut Ui, notice: &Notice, loaded: &Loaded) -> Result<String, Failure> {
    if !ui.is_terminal() {
        return Ok(format!("{:<9} skipped the output is no terminal", "terminal"));
    }
    ui.raw(&TerminalSequence::of(&loaded.host).bytes(&notice.text))?;
    Ok(format!("{:<9} ok      sent to this terminal", "terminal"))
}
