//! `agentctl top`: all sessions on one screen.

use clap::Args;

use crate::config::Loaded;
use crate::failure::{Failure, Kind, Outcome};
use crate::tui::{self, TopForm};
use crate::ui::Ui;

/// Show all sessions on one screen, answer and act
///
/// Sessions that wait for you come first. The screen changes when something happens; `?` shows the keys. `agentctl`
/// alone on a terminal is the same.
#[derive(Args, Default)]
pub(super) struct TopArgs {
    /// Ring the bell and send a notification (OSC 9 or 777) when a session starts to wait for you
    #[arg(long)]
    bell: bool,
}

pub(super) fn cmd_top(ui: &mut Ui, loaded: &Loaded, args: &TopArgs) -> Outcome {
    if !is_possible(ui) {
        return Err(Failure::new(
            Kind::Usage,
            "`top` needs a terminal for its keys and its screen",
        )
        .hint("`agentctl list --watch` prints the list again whenever it changes"));
    }
    ui.flush()?;
    let form = TopForm {
        has_colour: ui.canvas().colour,
        has_unicode: ui.has_unicode(),
        is_notified: ui.is_notified(args.bell),
    };
    tui::run(loaded, form)
}

/// Says whether stdin and stdout are a terminal with a screen.
pub(super) fn is_possible(ui: &Ui) -> bool {
    ui.has_screen() && ui.reads_keys()
}
