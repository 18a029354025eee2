//! The fields of the listing commands, for help and manual pages.

use agentctl_core::ask::AdapterRow;
use agentctl_core::model::FileChanges;

use crate::face::{
    CompareListRow, FuseListRow, LockListRow, RunListRow, WorktreeListRow, field_names,
};
use crate::session_table::SessionRow;

/// Returns the fields of a listing command, which are its sort keys too; `None` for any other command.
pub(in crate::cli) fn fields_of(path: &str) -> Option<Vec<&'static str>> {
    match path {
        "list" | "status" => Some(field_names::<SessionRow>()),
        "runs" => Some(field_names::<RunListRow>()),
        "locks" => Some(field_names::<LockListRow>()),
        "fuses" => Some(field_names::<FuseListRow>()),
        "changes" => Some(field_names::<FileChanges>()),
        "compare" => Some(field_names::<CompareListRow>()),
        "worktree list" => Some(field_names::<WorktreeListRow>()),
        "adapters" => Some(field_names::<AdapterRow>()),
        _ => None,
    }
}
