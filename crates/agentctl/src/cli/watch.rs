//! `--watch` of the listing commands: the list again whenever something happens.

pub(super) mod view;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;
use agentctl_core::host::Host;
use agentctl_core::model::{Fault, Time};
use serde::Serialize;
use serde_json::Value;

use self::view::{Frame, Reported, TopRows, View};
use super::listed::Listed;
use super::shape::{Form, Shape};
use super::stream_end;
use crate::face::{
    Column, Field, ListRow, NextStep, PacedFeed, RowChanges, RowContext, StreamEnd, fault_text,
    local_hour,
};
use crate::failure::{Failure, Outcome};
use crate::text::one_line;
use crate::ui::{Canvas, Ui};

/// How often the ages on a screen are drawn again. No source is read for that.
const AGES_PACE: Duration = Duration::from_secs(5);

/// Shows a list after every change, until the user leaves or the reader of stdout does. `list` reads it.
pub(super) fn watch<R: ListRow, D: Serialize>(
    ui: &mut Ui,
    fleet: &Fleet,
    shape: &Shape<R>,
    mut list: impl FnMut() -> Result<Listed<R, D>, Failure>,
) -> Outcome {
    let mut feed = PacedFeed::open(fleet)?;
    let (end, closer) = (StreamEnd::default(), feed.feed().closer());
    end.set_wake(move || closer.close());
    // The first list is read before the screen is opened: an error in it needs no screen.
    if feed.next_step(Duration::MAX)? == NextStep::Close {
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = list()?;
    stream_end::on_reader_gone(&end);
    let mut watched = WatchedList {
        host: &fleet.host,
        shape,
        view: View::open(ui, matches!(shape.form, Form::Json), feed.feed(), &end)?,
        changes: RowChanges::default(),
        json: Value::Null,
        faults: Reported(Vec::new()),
        remarks: Reported(Vec::new()),
    };
    watched.show(ui, &shown)?;
    let limit = if watched.view.is_screen() { AGES_PACE } else { Duration::MAX };
    loop {
        match feed.next_step(limit)? {
            NextStep::Close => return Ok(ExitCode::SUCCESS),
            NextStep::Read => {
                let began = Instant::now();
                shown = list()?;
                feed.pause_after(began);
                watched.show(ui, &shown)?;
            }
            NextStep::Draw => watched.draw(ui, &shown, false)?,
        }
    }
}

/// A list that is shown again and again.
struct WatchedList<'a, R: 'static> {
    host: &'a Host,
    shape: &'a Shape<R>,
    view: View,
    changes: RowChanges<String>,
    /// The JSON document that was printed last, without the times of its evidence.
    json: Value,
    faults: Reported<Fault>,
    remarks: Reported<String>,
}

impl<R: ListRow> WatchedList<'_, R> {
    /// Shows a list that was read.
    fn show<D: Serialize>(&mut self, ui: &mut Ui, listed: &Listed<R, D>) -> Result<(), Failure> {
        let context = RowContext { host: self.host, now: self.host.now() };
        let rows = listed.rows.iter().map(|row| (row.key(), shown_hash(&context, self.shape, row)));
        let has_changed = self.changes.compare(rows);
        self.draw(ui, listed, has_changed)?;
        if self.view.is_screen() {
            return Ok(());
        }
        if matches!(self.view, View::Json) {
            let mut json = serde_json::to_value(&listed.document).map_err(std::io::Error::from)?;
            remove_evidence_times(&mut json);
            if json != self.json {
                ui.json_line(&listed.document)?;
                self.json = json;
            }
        }
        ui.flush()?;
        for fault in self.faults.new_ones(&listed.faults) {
            ui.warn_fault(&fault);
        }
        for remark in self.remarks.new_ones(&listed.remarks) {
            ui.warn(&remark);
        }
        Ok(())
    }

    /// Draws a list that was read now, or earlier: its ages or the size of the terminal may be others.
    fn draw<D>(
        &mut self,
        ui: &mut Ui,
        listed: &Listed<R, D>,
        has_changed: bool,
    ) -> Result<(), Failure> {
        let (host, shape, changes) = (self.host, self.shape, &self.changes);
        let frame = ListFrame { host, shape, listed, changes, has_changed };
        match &mut self.view {
            View::Screen(screen) => screen.paint(ui, host.now(), &frame),
            View::Printed(printed) => printed.print(ui, &frame),
            View::Json => Ok(()),
        }
    }
}

/// Removes the times of evidence from a document: most are the moment of the look, which is no news.
fn remove_evidence_times(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(remove_evidence_times),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Array(pieces) if name == "evidence" => {
                        let pieces = pieces.iter_mut().filter_map(Value::as_object_mut);
                        pieces.for_each(|piece| drop(piece.remove("at")));
                    }
                    value => remove_evidence_times(value),
                }
            }
        }
        _ => {}
    }
}

/// Returns a hash of the values that a row shows, without ages and sizes.
fn shown_hash<R: ListRow>(context: &RowContext<'_>, shape: &Shape<R>, row: &R) -> u64 {
    let compared = |field: &Field<R>| (field.value)(context, row).compared(context.now);
    let of = |columns: &[Column]| -> Vec<Option<String>> {
        let is_shown = |field: &&Field<R>| columns.iter().any(|column| column.field == field.name);
        R::FIELDS.iter().filter(is_shown).map(compared).collect()
    };
    let shown = match &shape.form {
        Form::Table => of(R::COLUMNS),
        Form::WideTable => of(R::WIDE_COLUMNS),
        Form::Template(template) => template.fields().map(compared).collect(),
        Form::Names => vec![row.status_argument()],
        Form::Ids => vec![Some(row.id_text())],
        Form::Json | Form::JsonLines => Vec::new(),
    };
    let mut hasher = DefaultHasher::new();
    shown.hash(&mut hasher);
    hasher.finish()
}

/// A list at one moment, and its differences from the list before.
struct ListFrame<'a, R: 'static, D> {
    host: &'a Host,
    shape: &'a Shape<R>,
    listed: &'a Listed<R, D>,
    changes: &'a RowChanges<String>,
    has_changed: bool,
}

impl<R: ListRow, D> Frame for ListFrame<'_, R, D> {
    type Row = R;

    fn shape(&self) -> &Shape<R> {
        self.shape
    }

    fn has_changed(&self) -> bool {
        self.has_changed
    }

    fn heading(&self, _width: usize) -> String {
        let Listed { title, rows, .. } = self.listed;
        let clock = local_hour(self.host.now());
        one_line(&format!("{clock} · {title}: {} · q quits", rows.len()))
    }

    fn next_paint(&self, now: Time) -> Time {
        let pace = i64::try_from(AGES_PACE.as_millis()).unwrap_or(i64::MAX);
        Time::from_millis(now.millis().saturating_add(pace)).unwrap_or(now)
    }

    fn empty_lines(&self) -> Vec<String> {
        vec![self.listed.empty.clone().into_owned()]
    }

    fn warnings(&self) -> Vec<String> {
        let faults = self.listed.faults.iter().map(fault_text);
        faults.chain(self.listed.remarks.iter().cloned()).collect()
    }

    fn row_count(&self) -> usize {
        self.listed.rows.len()
    }

    fn draw(&self, canvas: Canvas) -> String {
        self.shape.text(canvas, self.host, self.listed.rows.iter())
    }

    fn draw_top(&self, canvas: Canvas, count: usize) -> TopRows {
        // A mark says that a row needs a person.
        let (marked, others): (Vec<&R>, Vec<&R>) =
            self.listed.rows.iter().partition(|row| !row.mark().is_empty());
        let rows = || marked.iter().chain(&others).copied().take(count);
        let changed = rows().map(|row| self.changes.is_changed(&row.key())).collect();
        TopRows { text: self.shape.text(canvas, self.host, rows()), changed }
    }
}
