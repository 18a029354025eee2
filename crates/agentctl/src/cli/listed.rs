//! The answer of a listing command: printed once, or watched.

use std::borrow::Cow;

use agentctl_core::host::Host;
use agentctl_core::model::Fault;
use serde::Serialize;

use super::shape::Shape;
use crate::face::ListRow;
use crate::failure::Failure;
use crate::ui::Ui;

/// The answer of a listing command.
pub(super) struct Listed<R, D> {
    /// The name of the list: `locks`.
    pub(super) title: &'static str,
    /// The rows, sorted and cut.
    pub(super) rows: Vec<R>,
    /// The same rows as a JSON document.
    pub(super) document: D,
    /// The sources that could not be read.
    pub(super) faults: Vec<Fault>,
    /// Further warnings about the rows.
    pub(super) remarks: Vec<String>,
    /// The sentence that is shown instead of an empty list.
    pub(super) empty: Cow<'static, str>,
}

impl<R: ListRow, D: Serialize> Listed<R, D> {
    /// Prints the rows, or a note that there are none.
    pub(super) fn print(&self, ui: &mut Ui, host: &Host, shape: &Shape<R>) -> Result<(), Failure> {
        if self.is_empty(shape) && !shape.is_for_programs() {
            ui.note(&self.empty);
            return Ok(());
        }
        shape.print(ui, host, &self.rows, &self.document)
    }

    /// Says whether there are no rows, not even rows that `-n 0` leaves out.
    pub(super) fn is_empty(&self, shape: &Shape<R>) -> bool {
        self.rows.is_empty() && shape.arrangement.limit != Some(0)
    }
}
