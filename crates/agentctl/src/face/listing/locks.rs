//! The fields of `agentctl locks`.

use agentctl_core::locks::{Kind, Lock};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument};
use crate::face::holder_text;
use crate::text::with_tilde;

impl ListRow for Lock {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "kind", value: |_, lock| FieldValue::text(Some(lock.holder.kind.word())) },
        Field { name: "cwd", value: |_, lock| FieldValue::Text(lock.directory.clone()) },
        Field { name: "directory", value: directory },
        Field { name: "session", value: |_, lock| FieldValue::text(lock.holder.session.clone()) },
        Field { name: "adapter", value: |_, lock| FieldValue::text(lock.holder.adapter) },
        Field { name: "agent", value: |_, lock| FieldValue::text(lock.holder.adapter) },
        Field { name: "pid", value: pid },
        Field { name: "by", value: |_, lock| FieldValue::text(lock.holder.by.clone()) },
        Field { name: "reason", value: |_, lock| FieldValue::text(lock.holder.reason.clone()) },
        Field { name: "since", value: |_, lock| FieldValue::age(lock.holder.since) },
        Field { name: "since_at", value: |_, lock| FieldValue::moment(lock.holder.since) },
        Field { name: "until_at", value: |_, lock| FieldValue::moment(lock.holder.until) },
        Field { name: "who", value: |_, lock| FieldValue::Text(holder_text(&lock.holder)) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("KIND", "kind"),
        Column::new("SINCE", "since").dropped(1),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("WHO", "who").cut(Cut::Right),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("KIND", "kind"),
        Column::new("SINCE", "since").dropped(1),
        Column::new("AGENT", "agent").dropped(2),
        Column::new("PID", "pid").dropped(3),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("SESSION", "session").cut(Cut::Right).dropped(4),
        Column::new("WHO", "who").cut(Cut::Right),
    ];

    fn id_text(&self) -> String {
        self.directory.clone()
    }

    fn status_argument(&self) -> Option<String> {
        let session = self.holder.session.as_deref();
        let session = session.map(|id| session_argument(self.holder.adapter, id));
        session.or_else(|| self.holder.pid.map(|pid| pid.to_string()))
    }

    fn style(&self, _: &RowContext<'_>) -> Style {
        match self.holder.kind {
            Kind::Occupied => AnsiColor::Green.on_default(),
            Kind::Manual => AnsiColor::Yellow.on_default(),
        }
    }

    fn document(&self) -> &impl Serialize {
        self
    }
}

fn directory(context: &RowContext<'_>, lock: &Lock) -> FieldValue {
    FieldValue::Text(with_tilde(&context.host.home, &lock.directory))
}

fn pid(_: &RowContext<'_>, lock: &Lock) -> FieldValue {
    lock.holder.pid.map_or(FieldValue::Missing, |pid| FieldValue::Number(pid.into()))
}
