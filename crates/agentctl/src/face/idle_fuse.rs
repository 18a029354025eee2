//! The fuse that ends a session which stays when it was idle for some time. The core sets it with the launch; only a
//! daemon fires it.

use agentctl_core::ask::{
    Fleet, FuseOrderError, LaunchDefaults, LaunchDocument, LaunchNews, LaunchRequest, NotStarted,
};
use agentctl_core::text::shell_word;

use super::fuses::span;
use super::{FuseDaemon, OutputKind, OutputLine, fuse_not_changed, launch_remark};
use crate::failure::Kind;

/// The report about the fuse of a session that stays.
pub struct IdleFuse {
    /// The remark or the warning.
    pub line: Option<OutputLine>,
    /// The kind of the failure, as of `fuse set`: nothing ends the session when it is idle.
    pub failed: Option<Kind>,
}

/// Makes sure that a daemon runs for a fuse that was set, and returns what there is to be said about the fuse and the
/// daemon.
#[must_use]
pub fn idle_fuse(
    fleet: &Fleet,
    (id, idle_ms): (&str, u64),
    set: Result<(), &FuseOrderError>,
) -> IdleFuse {
    let Err(why) = set else {
        let daemon = FuseDaemon::ensure(&fleet.host);
        let failed = daemon.has_failed().then_some(Kind::Unanswered);
        return IdleFuse { line: daemon.line(), failed };
    };
    let (why, idle) = (fuse_not_changed(fleet, why.clone()), span(idle_ms));
    let id = shell_word(id);
    let command = format!("agentctl fuse set --session {id} --idle {idle} --on-expire stop");
    let text = format!("it stays until it is stopped: {why}; `{command}` limits that");
    let line = Some(OutputLine::new(OutputKind::Warning, text));
    IdleFuse { line, failed: Some(why.kind()) }
}

/// Launches for an interface whose answer is one document: the notes of the session hold the remarks.
pub fn launch_with_notes(
    fleet: &Fleet,
    request: &LaunchRequest,
    defaults: &LaunchDefaults,
) -> Result<LaunchDocument, NotStarted> {
    let mut notes = Vec::new();
    let mut document = fleet.launch(request, defaults, &mut |news| match news {
        LaunchNews::IdleFuse { id, idle_ms, set } => {
            notes.extend(idle_fuse(fleet, (id, idle_ms), set).line.map(|line| line.text));
        }
        LaunchNews::AsBefore(_) => notes.extend(launch_remark(&news)),
        _ => {}
    })?;
    if let Some(session) = &mut document.session {
        session.notes.extend(notes);
    }
    Ok(document)
}
