//! The runs of sessions: listing them, their output, and the order `rm`, which removes them. A session's own record
//! is the agent's and stays.

use std::fs::File;
use std::path::PathBuf;

use super::runs::remove_folders;
use super::{Fleet, NotOne, PruneDocument, PruneError, ResolvedTarget, RunsDocument};
use crate::fleet::session_of;
use crate::model::SCHEMA_VERSION;
use crate::names::Subject;
use crate::native::file;
use crate::resolve::newest_launch;
use crate::runs::{Run, Runs};

/// Why the runs of a session were not removed.
#[derive(Debug)]
pub enum RunsNotRemoved {
    /// A text names neither a single session nor a run.
    NotOne {
        /// The text.
        text: String,
        /// Why.
        why: NotOne,
    },
    /// The session lives.
    Live {
        /// The session, or the text that names its process.
        session: String,
    },
    /// The session was not launched from here, or its runs are gone already.
    NoRun {
        /// The session.
        session: String,
    },
    /// The agent of a run, or a hook of it, may still be at work.
    Running {
        /// The run.
        run: String,
    },
    /// The folder of a run cannot be removed, or the runs cannot be listed.
    Failed(PruneError),
}

/// Why the runs of a session cannot be shown.
#[derive(Debug)]
pub enum RunsNotFound {
    /// The text names neither a single session nor a run.
    NotOne(NotOne),
    /// The session was not launched from here, or its runs are gone already.
    NoRun {
        /// The session.
        session: String,
    },
    /// The runs cannot be listed.
    Failed(PruneError),
    /// The output of the run cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// An output of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Its stdout.
    Stdout,
    /// Its stderr.
    Stderr,
}

impl Fleet {
    /// Removes the runs of the sessions that these texts name. A session that no source knows any more is named by
    /// its whole id, and a run without a session by its own. `@last` is the newest launch, also a failed one. All texts are checked before the first run is removed:
    /// if one is refused, nothing is removed.
    pub fn remove_runs(&self, texts: &[String]) -> Result<PruneDocument, RunsNotRemoved> {
        let mut runs: Vec<Run> = Vec::new();
        for text in texts {
            let removable = self.removable_runs(text)?;
            runs.retain(|run| removable.iter().all(|other| other.id != run.id));
            runs.extend(removable);
        }
        let pruned = self.run_rows(&runs);
        remove_folders(&runs).map_err(RunsNotRemoved::Failed)?;
        let bytes = pruned.iter().map(|run| run.bytes).sum();
        Ok(PruneDocument { schema_version: SCHEMA_VERSION, dry_run: false, pruned, bytes })
    }

    fn removable_runs(&self, text: &str) -> Result<Vec<Run>, RunsNotRemoved> {
        let not_one = |why| RunsNotRemoved::NotOne { text: text.to_owned(), why };
        let last = newest_launch(self, text);
        let text = last.as_deref().unwrap_or(text);
        let subject = match self.target(text) {
            Ok(ResolvedTarget { target, .. }) => {
                let session = self.inspect(&target).session;
                if session.is_none_or(|session| session.status.is_live()) {
                    return Err(RunsNotRemoved::Live { session: text.to_owned() });
                }
                Subject::of(&target)
            }
            Err(NotOne::Nothing) => None,
            Err(why) => return Err(not_one(why)),
        };
        let runs = self.runs_of(subject.as_ref(), text).map_err(RunsNotRemoved::Failed)?;
        match (&subject, runs.is_empty()) {
            (Some(subject), true) => {
                return Err(RunsNotRemoved::NoRun { session: subject.session.clone() });
            }
            (None, true) => return Err(not_one(NotOne::Nothing)),
            _ => {}
        }
        let works = |run: &&Run| run.over(&self.host).is_none() || run.is_attended(&self.host);
        if let Some(run) = runs.iter().find(works) {
            return Err(RunsNotRemoved::Running { run: run.id.clone() });
        }
        Ok(runs)
    }

    /// Returns the runs of the session that a text names, newest first. A session that no source knows any more is
    /// named by its whole id, and a run by its own. `@last` is the newest launch, also a failed one.
    pub fn session_runs(&self, text: &str) -> Result<RunsDocument, RunsNotFound> {
        let runs = self.run_rows(&self.kept_runs(text)?);
        let bytes = runs.iter().map(|run| run.bytes).sum();
        Ok(RunsDocument { schema_version: SCHEMA_VERSION, runs, bytes })
    }

    /// Opens the output of the newest run of the session that a text names.
    pub fn run_output(&self, text: &str, stream: OutputStream) -> Result<File, RunsNotFound> {
        let runs = self.kept_runs(text)?;
        let nothing = || RunsNotFound::NotOne(NotOne::Nothing);
        let run = runs.first().ok_or_else(nothing)?;
        let path = match stream {
            OutputStream::Stdout => run.stdout(),
            OutputStream::Stderr => run.stderr(),
        };
        match file::open(&path, self.host.kernel.uid()) {
            Ok(opened) => Ok(opened.file),
            Err(skip) => Err(RunsNotFound::Unreadable { path, why: skip.to_string() }),
        }
    }

    /// Returns the runs of the session that a text names; at least one.
    fn kept_runs(&self, text: &str) -> Result<Vec<Run>, RunsNotFound> {
        let last = newest_launch(self, text);
        let text = last.as_deref().unwrap_or(text);
        let subject = match self.target(text) {
            Ok(ResolvedTarget { target, .. }) => Subject::of(&target),
            Err(NotOne::Nothing) => None,
            Err(not_one) => return Err(RunsNotFound::NotOne(not_one)),
        };
        let runs = self.runs_of(subject.as_ref(), text).map_err(RunsNotFound::Failed)?;
        match (subject, runs.is_empty()) {
            (Some(subject), true) => Err(RunsNotFound::NoRun { session: subject.session }),
            (None, true) => Err(RunsNotFound::NotOne(NotOne::Nothing)),
            _ => Ok(runs),
        }
    }

    fn runs_of(&self, subject: Option<&Subject>, text: &str) -> Result<Vec<Run>, PruneError> {
        let mut runs = Runs::of(&self.host).all().map_err(PruneError::Unlisted)?;
        runs.retain(|run| {
            let Some(spec) = run.spec() else { return run.id == text };
            let session = session_of(self, run, &spec);
            match subject {
                Some(subject) => {
                    spec.adapter == subject.adapter && session.as_ref() == Some(&subject.session)
                }
                None => run.id == text || session.as_deref() == Some(text),
            }
        });
        Ok(runs)
    }
}
