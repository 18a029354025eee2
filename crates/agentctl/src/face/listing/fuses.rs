//! The fields of `agentctl fuses`.

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::{Query, unique_prefixes};
use agentctl_core::fuses::{Fuse, FuseState};
use agentctl_core::model::{Fault, Listing, Session};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{
    Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument, shown_sessions,
};
use crate::face::{fuse_actions, fuse_conditions};
use crate::text::with_tilde;

/// A fuse, and the parts of its id and of its session's id that a table shows.
pub struct FuseListRow {
    /// The fuse.
    pub fuse: Fuse,
    short_id: String,
    short_session: Option<String>,
    /// The status of its live session, or `ended`; `None` for the fuse of a directory, or if it is not known.
    session_state: Option<&'static str>,
}

/// The live sessions, looked for once for all fuses.
pub struct FuseSessions {
    live: Vec<Session>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
    /// A session that was not found has ended.
    is_complete: bool,
}

impl FuseSessions {
    /// Looks for live sessions. `has_all_sources` is false if a home or server may be missing from the settings.
    #[must_use]
    pub fn look(fleet: &Fleet, has_all_sources: bool) -> Self {
        let query = Query { resting: true, children: true, ..Query::default() };
        let Listing { sessions: live, faults, .. } = fleet.list(&query);
        let is_complete = has_all_sources && faults.is_empty();
        Self { live, faults, is_complete }
    }

    /// Returns the status of the live session of a fuse, and `ended` for any other: its fuse expires only by its
    /// time to live, or after the session was resumed. `None` if a source that may have the session did not answer.
    fn state(&self, fuse: &Fuse) -> Option<&'static str> {
        let id = fuse.session.as_deref()?;
        let is_it = |session: &&Session| {
            session.id.as_deref() == Some(id)
                && fuse.adapter.as_deref().is_none_or(|adapter| adapter == session.adapter)
        };
        match self.live.iter().find(is_it) {
            Some(session) => Some(session.status.word()),
            None => self.is_complete.then_some("ended"),
        }
    }
}

impl FuseListRow {
    /// Returns the rows of these fuses. Short ids are as long as every command needs to accept them.
    #[must_use]
    pub fn all(
        fleet: &Fleet,
        fuses: Vec<Fuse>,
        sessions: Option<&FuseSessions>,
        has_short_ids: bool,
    ) -> Vec<Self> {
        let ids: Vec<&str> = fuses.iter().map(|fuse| fuse.id.as_str()).collect();
        let ids = if has_short_ids { unique_prefixes(&ids) } else { ids };
        let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        let bound = fuses.iter().map(|fuse| fuse.session.as_deref());
        let bound = shown_sessions(fleet, bound, has_short_ids);
        let rows = fuses.into_iter().zip(ids).zip(bound);
        let row = |((fuse, short_id), short_session)| {
            let session_state = sessions.and_then(|sessions| sessions.state(&fuse));
            Self { fuse, short_id, short_session, session_state }
        };
        rows.map(row).collect()
    }
}

impl ListRow for FuseListRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "id", value: |_, row| FieldValue::Text(row.fuse.id.clone()) },
        Field { name: "short_id", value: |_, row| FieldValue::Text(row.short_id.clone()) },
        Field { name: "state", value: |_, row| FieldValue::text(Some(row.fuse.state.word())) },
        Field { name: "expires", value: |_, row| expires(&row.fuse) },
        Field { name: "due_at", value: |_, row| FieldValue::moment(row.fuse.due_at) },
        Field { name: "set", value: |_, row| FieldValue::Age(row.fuse.set_at) },
        Field { name: "set_at", value: |_, row| FieldValue::Moment(row.fuse.set_at) },
        Field { name: "when", value: |_, row| FieldValue::Text(fuse_conditions(&row.fuse)) },
        Field { name: "target", value: target },
        Field { name: "cwd", value: |_, row| FieldValue::text(row.fuse.directory.clone()) },
        Field { name: "session", value: |_, row| FieldValue::text(row.fuse.session.clone()) },
        Field { name: "session_state", value: |_, row| FieldValue::text(row.session_state) },
        Field { name: "adapter", value: |_, row| FieldValue::text(row.fuse.adapter.clone()) },
        Field { name: "agent", value: |_, row| FieldValue::text(row.fuse.adapter.clone()) },
        Field { name: "then", value: |_, row| FieldValue::Text(fuse_actions(&row.fuse)) },
        Field { name: "label", value: |_, row| FieldValue::text(row.fuse.label.clone()) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("ID", "short_id"),
        Column::new("EXPIRES", "expires"),
        Column::new("WHEN", "when").cut(Cut::Right).dropped(2),
        Column::new("TARGET", "target").cut(Cut::Path),
        Column::new("SESSION", "session_state").dropped(1).optional(),
        Column::new("ON EXPIRY", "then").cut(Cut::Right).dropped(3),
        Column::new("LABEL", "label").cut(Cut::Right).dropped(4).optional(),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("ID", "id"),
        Column::new("EXPIRES", "expires"),
        Column::new("SET", "set").dropped(5),
        Column::new("WHEN", "when").cut(Cut::Right).dropped(2),
        Column::new("TARGET", "target").cut(Cut::Path),
        Column::new("SESSION", "session_state").dropped(1).optional(),
        Column::new("ON EXPIRY", "then").cut(Cut::Right).dropped(3),
        Column::new("LABEL", "label").cut(Cut::Right).dropped(4),
    ];

    fn id_text(&self) -> String {
        self.fuse.id.clone()
    }

    fn status_argument(&self) -> Option<String> {
        Some(session_argument(self.fuse.adapter.as_deref(), self.fuse.session.as_deref()?))
    }

    const PAINTED: &'static str = "expires";

    fn style(&self, context: &RowContext<'_>) -> Style {
        let burns = self.fuse.state == FuseState::Burning;
        let is_due = self.fuse.due_at.is_some_and(|at| at <= context.now);
        if burns && !is_due { Style::new() } else { AnsiColor::Yellow.on_default() }
    }

    fn document(&self) -> &impl Serialize {
        &self.fuse
    }
}

/// Returns the time that is left, or the progress of a fuse that has expired.
fn expires(fuse: &Fuse) -> FieldValue {
    match (fuse.state, fuse.due_at) {
        (FuseState::Burning, Some(at)) => FieldValue::Remaining(at),
        (FuseState::Burning, None) => FieldValue::Missing,
        (state, _) => FieldValue::text(Some(state.word())),
    }
}

/// Returns the directory or the session, with an id that can be typed.
fn target(context: &RowContext<'_>, row: &FuseListRow) -> FieldValue {
    let fuse = &row.fuse;
    match (&fuse.directory, &fuse.session) {
        (Some(directory), _) => FieldValue::Text(with_tilde(&context.host.home, directory)),
        (None, Some(id)) => {
            let short = row.short_session.as_deref().unwrap_or(id);
            FieldValue::Text(session_argument(fuse.adapter.as_deref(), short))
        }
        (None, None) => FieldValue::Missing,
    }
}
