//! The remark in a run's folder that an order of ours ends it, so that `status` can say who ended the session.

use super::Stopping;
use crate::model::Session;
use crate::runs::{EndOrder, Runs};

impl Stopping<'_> {
    /// Writes into the run that this order ends it, before the first signal.
    pub(super) fn write_order(&mut self, run: Option<&str>) {
        let Some(run) = run.map(|run| Runs::of(&self.fleet.host).run(run)) else { return };
        let order = EndOrder { by: self.ordered_by.clone(), at: self.fleet.host.now() };
        // The folder may be gone or the disk full; the stop goes on without the remark.
        if run.write_end_order(&order).is_ok() {
            self.ordered_run = Some(run);
        }
    }

    /// Removes the order from the run if the session lives on.
    pub(super) fn settle_order(&mut self, after: Option<&Session>) {
        let lives = after.is_some_and(|session| session.status.is_live());
        if let Some(run) = self.ordered_run.take().filter(|run| lives && run.ended().is_none()) {
            let _left = run.withdraw_end_order();
        }
    }
}
