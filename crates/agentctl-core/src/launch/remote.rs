//! Launching and resuming on a remote server: the server is asked, and its answer names the session.
//!
//! No directory is locked and no run is kept, because nothing of the session is on this machine. An option
//! that only a local process or a run supports is refused before the server is asked.

use super::{LaunchError, LaunchOrder, StartedLaunch};
use crate::adapters::control::{Begin, Permissions, Refusal, Remote, Unbegun};
use crate::fleet::{self, Fleet};

/// Asks a remote server to start or continue a session.
pub(super) fn launch(
    fleet: &Fleet,
    remote: &dyn Remote,
    launch: &LaunchOrder,
) -> Result<StartedLaunch, LaunchError> {
    let agent = launch.adapter.name();
    let goes_on = matches!(launch.order.begin, Begin::Resume(_));
    let permitted = launch.order.permissions != Permissions::Default;
    let unheeded = [
        (!launch.env.is_empty(), "--env", "its environment is the server's"),
        (launch.group.is_some(), "--group", "groups are kept with runs, and it has none here"),
        (launch.on_complete.is_some(), "--on-complete", "no process of this machine sees it end"),
        (
            goes_on && launch.order.model.is_some(),
            "--model",
            "a session goes on with its own model",
        ),
        (goes_on && permitted, "--permissions", "a session goes on with its own permissions"),
        (
            launch.callback.is_some(),
            "--callback-…",
            "callbacks are kept with runs, and it has none here",
        ),
    ];
    if let Some((_, flag, why)) = unheeded.into_iter().find(|(given, ..)| *given) {
        return Err(LaunchError::Unheeded { agent, flag, why });
    }
    let message = std::str::from_utf8(&launch.prompt)
        .map_err(|_| Refusal::new("the prompt is not UTF-8", "a server takes text only"))?;
    let look = fleet::look(fleet, fleet.host.deadlines.launch);
    match remote.begin(&look, &launch.order, message) {
        Ok(begun) => Ok(StartedLaunch {
            run: None,
            session: begun.session,
            process: None,
            exempt: Vec::new(),
            faults: Vec::new(),
        }),
        Err(Unbegun::Refused(refusal)) => {
            let message = format!("{agent}: {}", refusal.message);
            Err(Refusal { message, hint: refusal.hint }.into())
        }
        Err(Unbegun::Unclear(why)) => Err(LaunchError::Unanswered { agent, why }),
    }
}
