//! The files that a session changed, as the agent's own records tell them.
//!
//! Each native line gives notes (`Adapter::changes`). `collect` matches calls with their results and keeps
//! the changes that were carried out, `fold` adds them up per file in the order of time and makes patches,
//! `disk` compares the result with the files. Subagents that have records of their own are included. Shell
//! commands without a record are counted: their changes are not known.

mod collect;
mod disk;
mod fold;
mod git_patch;

use std::path::PathBuf;

use self::collect::Collector;
use crate::adapters::{Depth, Found};
use crate::fleet::{Fleet, each_adapter, limited, written};
use crate::model::{FileChanges, FilePatch, Locator, Target};
use crate::transcript::{Transcript, TranscriptError};

/// Most subagents whose records are read.
const MAX_SUBAGENTS: usize = 1000;

/// Whether the patches are wanted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patches {
    /// Only the files.
    No,
    /// Each change as a patch.
    Yes,
}

/// The changed files of a session, as its records have them.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The session's directory.
    pub cwd: Option<String>,
    /// The changed files, in the order of their first change.
    pub files: Vec<FileChanges>,
    /// Each change as a patch, in the order of time.
    pub patches: Vec<FilePatch>,
    /// The number of shell commands that ended without a record of what they changed.
    pub commands: u64,
    /// The number of file changes and shell commands that were called and have no result.
    pub unanswered: u64,
    /// The number of subagents whose records are included.
    pub subagents: u64,
    /// The parts that were left out, in sentences.
    pub left_out: Vec<String>,
}

/// The parts of a session: its directory and its subagents.
#[derive(Clone, Debug, Default)]
struct Parts {
    cwd: Option<String>,
    subagents: Vec<Locator>,
    left_out: Vec<String>,
}

/// Reads the records of a session and of its subagents.
pub fn read(fleet: &Fleet, target: &Target, patches: Patches) -> Result<Changes, TranscriptError> {
    let parts = parts(fleet, target);
    let mut collector = Collector::default();
    let mut left_out = parts.left_out;
    let mut read_one = |target: &Target| -> Result<(), TranscriptError> {
        let mut transcript = Transcript::open(fleet, target)?;
        collector.begin();
        let skipped = transcript.each_line(&mut |adapter, line| {
            for note in adapter.changes(line) {
                collector.take(note);
            }
        })?;
        collector.skipped_lines += skipped;
        Ok(())
    };
    read_one(target)?;
    let mut subagents = 0;
    for locator in parts.subagents {
        let id = locator.id.clone();
        match read_one(&Target { session: Some(locator), ..target.clone() }) {
            Ok(()) => subagents += 1,
            Err(TranscriptError::Unwritten) => {}
            Err(error) => left_out.push(format!("subagent {id}: {error}")),
        }
    }
    let collected = collector.finish();
    left_out.extend(collected.left_out);
    let cwd = parts.cwd.map(PathBuf::from);
    let uid = fleet.host.kernel.uid();
    let folded = fold::fold(collected.edits, cwd.as_deref(), patches);
    let files = disk::compared(folded.files, cwd.as_deref(), uid);
    let (commands, unanswered) = (collected.commands, collected.unanswered);
    let cwd = cwd.map(|path| path.to_string_lossy().into_owned());
    Ok(Changes { cwd, files, patches: folded.patches, commands, unanswered, subagents, left_out })
}

/// Finds the directory of a session, and its subagents at every depth.
fn parts(fleet: &Fleet, target: &Target) -> Parts {
    let wanted = target.clone();
    let found = each_adapter(fleet, fleet.host.deadlines.all, move |adapter, look| {
        let mut found = Found::default();
        let Some(locator) = wanted.session.as_ref().filter(|_| adapter.name() == wanted.adapter)
        else {
            return found;
        };
        for root in adapter.roots(look).iter().filter(|root| root.label() == wanted.root) {
            let _limit = limited(root);
            let store = adapter.store(look, root);
            let locator = written(store.as_ref(), locator).rows.pop();
            let Some(locator) = locator else { continue };
            let record = store.record(&locator, Depth::Outline);
            let mut parts = Parts { cwd: record.cwd, ..Parts::default() };
            let mut pending = vec![locator.clone()];
            while let Some(parent) = pending.pop() {
                let children = store.children(&parent);
                found.faults.extend(children.faults);
                for child in children.rows {
                    let is_known = child.id == locator.id
                        || parts.subagents.iter().any(|known| known.id == child.id);
                    if is_known {
                        continue;
                    }
                    if parts.subagents.len() == MAX_SUBAGENTS {
                        let why = format!("it has more than {MAX_SUBAGENTS} subagents");
                        parts.left_out = vec![why];
                        break;
                    }
                    parts.subagents.push(child.clone());
                    pending.push(child);
                }
            }
            found.rows.push(parts);
        }
        found
    });
    let mut parts = found.rows.into_iter().next().unwrap_or_default();
    parts.left_out.extend(found.faults.into_iter().map(|fault| fault.message));
    parts
}
