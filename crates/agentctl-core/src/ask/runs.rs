//! The question `runs`, and the order `prune`: the folders of launches, and their removal.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::fleet::session_of;
use crate::model::{Exit, SCHEMA_VERSION, Time, shorten};
use crate::names::{Names, Word};
use crate::runs::{HookMoment, Run, Runs, Spec, beginning};

/// The answer to `runs --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RunsDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The runs that are kept, newest first.
    pub runs: Vec<RunRow>,
    /// How many bytes they take in all.
    pub bytes: u64,
}

/// The answer to `prune --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct PruneDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// Nothing was removed; `pruned` lists the runs that would be.
    pub dry_run: bool,
    /// The runs.
    pub pruned: Vec<RunRow>,
    /// How many bytes they take, or took.
    pub bytes: u64,
}

/// One launch.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RunRow {
    /// Its id.
    pub id: String,
    /// The adapter.
    pub adapter: Option<String>,
    /// The session it began or continued.
    pub session: Option<String>,
    /// The directory in which the agent was started.
    pub cwd: Option<String>,
    /// The group of its session now.
    pub group: Option<String>,
    /// The name of its session now.
    pub name: Option<String>,
    /// The beginning of its prompt.
    #[serde(default)]
    pub prompt: Option<String>,
    /// When it was launched.
    pub started_at: Option<Time>,
    /// When it ended; null while it may still be running.
    pub ended_at: Option<Time>,
    /// The exit status of the agent, as its shim recorded it.
    pub exit: Option<Exit>,
    /// The failures of its hooks.
    pub hook_failures: Vec<String>,
    /// How many bytes it takes.
    pub bytes: u64,
    /// Its folder: `stdout`, `stderr`, `prompt` and the rest.
    pub directory: String,
}

/// The choice of the ended runs to remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PruneOptions {
    /// Remove none, and return those that would be removed.
    pub dry_run: bool,
    /// Only those that ended longer ago than this many milliseconds.
    pub older_than_ms: u64,
}

/// Why runs were not removed.
#[derive(Debug)]
pub enum PruneError {
    /// The folder of runs cannot be listed.
    Unlisted(io::Error),
    /// The folder of one run cannot be removed; those before it in the list are gone.
    Unremoved {
        /// The folder.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Fleet {
    /// Removes the runs that ended longer ago than `keep`, and lists the others.
    pub fn runs(&self, keep: Duration) -> io::Result<RunsDocument> {
        let folder = Runs::of(&self.host);
        // A failed cleanup does not prevent the listing.
        let _untidied = folder.evict(&self.host, keep);
        let runs = self.run_rows(&folder.all()?);
        let bytes = runs.iter().map(|run| run.bytes).sum();
        Ok(RunsDocument { schema_version: SCHEMA_VERSION, runs, bytes })
    }

    /// Removes the runs that have ended.
    pub fn prune(&self, options: PruneOptions) -> Result<PruneDocument, PruneError> {
        let least = i64::try_from(options.older_than_ms).unwrap_or(i64::MAX);
        let before = self.host.now().millis().saturating_sub(least);
        let ended = |run: &Run| {
            run.over(&self.host).is_some_and(|at| at.millis() <= before)
                && !run.is_attended(&self.host)
        };
        let mut runs = Runs::of(&self.host).all().map_err(PruneError::Unlisted)?;
        runs.retain(ended);
        let pruned = self.run_rows(&runs);
        if !options.dry_run {
            remove_folders(&runs)?;
        }
        let bytes = pruned.iter().map(|run| run.bytes).sum();
        let dry_run = options.dry_run;
        Ok(PruneDocument { schema_version: SCHEMA_VERSION, dry_run, pruned, bytes })
    }

    pub(super) fn run_rows(&self, runs: &[Run]) -> Vec<RunRow> {
        let names = Names::of(&self.host);
        runs.iter().map(|run| self.run_row(run, &names)).collect()
    }

    /// Returns the row of a run. Words that a person gave to the session win over those of the launch.
    fn run_row(&self, run: &Run, names: &Names) -> RunRow {
        let spec: Option<Spec> = run.spec();
        let failure = |moment: HookMoment| {
            let why = run.report(moment)?.failure()?;
            Some(format!("{}: {why}", moment.word()))
        };
        let moments = [HookMoment::Create, HookMoment::Complete];
        let session = spec.as_ref().and_then(|spec| session_of(self, run, spec));
        let subject = spec.as_ref().map(|spec| spec.adapter.as_str()).zip(session.as_deref());
        let given = |word: Word, launched: Option<&String>| {
            let said = subject.and_then(|(adapter, session)| names.word_of(word, adapter, session));
            let said = said.or(launched.map(String::as_str));
            said.filter(|word| !word.is_empty()).map(str::to_owned)
        };
        // Both facts come from one read: the shim may record the end between two.
        let ended = run.ended();
        let ended_at = ended.as_ref().map(|ended| ended.at).or_else(|| run.over(&self.host));
        RunRow {
            group: given(Word::Group, spec.as_ref().and_then(|s| s.group.as_ref())),
            name: given(Word::Name, spec.as_ref().and_then(|s| s.name.as_ref())),
            id: run.id.clone(),
            session,
            started_at: spec.as_ref().map(|spec| spec.at),
            ended_at,
            exit: ended.map(|ended| ended.exit),
            hook_failures: moments.into_iter().filter_map(failure).collect(),
            bytes: run.bytes(),
            directory: run.directory.to_string_lossy().into_owned(),
            adapter: spec.as_ref().map(|s| s.adapter.clone()),
            cwd: spec.as_ref().map(|s| s.cwd.to_string_lossy().into_owned()),
            prompt: prompt(run),
        }
    }
}

/// Returns the beginning of the prompt of a run; `None` if it cannot be read.
fn prompt(run: &Run) -> Option<String> {
    const MAX_PROMPT_BYTES: u64 = 1200;
    const MAX_PROMPT_CHARS: usize = 300;
    let bytes = beginning(&run.prompt(), MAX_PROMPT_BYTES);
    let text = shorten(&String::from_utf8_lossy(&bytes), MAX_PROMPT_CHARS);
    Some(text).filter(|text| !text.is_empty())
}

/// Removes the folders of these runs.
pub(super) fn remove_folders(runs: &[Run]) -> Result<(), PruneError> {
    for run in runs {
        let directory = run.directory.clone();
        run.remove().map_err(|source| PruneError::Unremoved { directory, source })?;
    }
    Ok(())
}
