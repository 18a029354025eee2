//! Making worktrees: all refs in one transaction, then the worktrees, their submodules, copied files and setup.
//!
//! If a step fails, everything that this call made is removed: worktrees first, then each branch and base ref that is
//! still at its first value. Contents of a worktree that may be of others are saved before (`clean/failed_launch.rs`). The same
//! happens if the order is called off. While a worktree is made it is locked with the launcher's identity, so that the
//! rest of a killed launch is recognised ([`LockReason`]).

mod changes;
mod copy;
mod error;
mod plan;
mod prepared;
mod preview;
mod save;
mod space;
mod submodules;
mod undo;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

pub use self::error::{KeptWorktree, MakeError, NameHolder, Remains};
use self::plan::{Place, Plan};
pub use self::plan::{check_names, worktrees_directory};
pub use self::prepared::Prepared;
pub use self::preview::{directory, preview};
pub(super) use self::save::SetUpFiles;
pub use self::undo::{Undone, undo};
use super::{LockReason, Made, MakeOrder, Wanted};
use crate::git::{Git, GitError};
use crate::hooks;
use crate::host::Host;
use crate::kernel::OpenOrder;
use crate::marks::{hook, setup};
use crate::text::{bounded, last_lines, shell_word};

/// How many worktrees are made at the same time.
const AT_ONCE: usize = 4;
/// Timeout of the setup program.
const SETUP_TIMEOUT: Duration = Duration::from_mins(10);
/// Longest excerpt of a hook's words in a message.
const HOOK_EXCERPT_BYTES: usize = 400;

/// A step of making a worktree, for a display of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakeStep {
    /// Its files are checked out.
    CheckOut,
    /// Its submodules are checked out.
    Submodules,
    /// Untracked files of the main tree are copied.
    Copy,
    /// The setup program runs.
    SetUp,
    /// It is complete.
    Done,
}

/// A report while worktrees are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MakeNews {
    /// The remotes are asked for new commits.
    Fetching,
    /// A step of one worktree begins.
    Step {
        /// The name of the worktree.
        name: String,
        /// The step.
        step: MakeStep,
    },
}

/// Makes all worktrees, or none: in the order of `wanted`. Each is unlocked when all are complete.
pub fn all(
    host: &Host,
    order: &MakeOrder,
    wanted: &[Wanted],
    tell: &mut dyn FnMut(MakeNews),
) -> Result<Vec<Made>, MakeError> {
    let cancellation = &order.cancellation;
    let mut open = cancellation.open();
    let made = all_or_none(host, (order, &mut open), wanted, tell);
    if cancellation.is_cancelled() { made.map_err(MakeError::of_cancelled) } else { made }
}

fn all_or_none(
    host: &Host,
    (order, open): (&MakeOrder, &mut OpenOrder),
    wanted: &[Wanted],
    tell: &mut dyn FnMut(MakeNews),
) -> Result<Vec<Made>, MakeError> {
    // The calls of `git` are never ended: they check, and undo.
    let git = Git::find(host)?;
    let ended_git = git.cancelled_by(&order.cancellation);
    if order.options.fetch {
        tell(MakeNews::Fetching);
        ended_git.change(&order.from).args(["fetch", "--all", "--quiet"]).ok()?;
    }
    let plan = Plan::new(host, &git, order, wanted)?;
    let id = uuid::Uuid::now_v7().to_string();
    let reason = LockReason::of_this_process(host, &id)
        .ok_or_else(|| MakeError::Io { what: "this process cannot be identified".into() })?;
    plan.make_parent()?;
    if let Err(error) = plan.create_refs() {
        plan.remove_parent();
        return Err(error);
    }
    let making = Making { host, git: &ended_git, order, plan: &plan, reason: reason.to_string() };
    let made = making.all(wanted, tell);
    let made = made.and_then(|made| {
        let unlock = |made: &Made| {
            git.change(&plan.repository.common).args(["worktree", "unlock"]).arg(&made.path).ok()
        };
        made.iter().try_for_each(|made| unlock(made).map(drop))?;
        if open.close() { Ok(made) } else { Err(MakeError::Cancelled) }
    });
    made.map_err(|error| {
        let remains = plan.undo_all(host, &order.settings, &making.reason);
        plan.remove_parent();
        if remains.is_nothing() {
            return error;
        }
        MakeError::Left { cause: Box::new(error), remains: Box::new(remains) }
    })
}

/// One call of [`all`], after its refs exist.
struct Making<'a> {
    host: &'a Host,
    git: &'a Git,
    order: &'a MakeOrder,
    plan: &'a Plan<'a>,
    reason: String,
}

impl Making<'_> {
    /// Makes the worktrees, some at a time. After the first failure no further one is begun.
    fn all(
        &self,
        wanted: &[Wanted],
        tell: &mut dyn FnMut(MakeNews),
    ) -> Result<Vec<Made>, MakeError> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, news) = channel();
        let mut results: Vec<(usize, Result<Made, MakeError>)> = std::thread::scope(|scope| {
            let worker = |sender: Sender<MakeNews>| {
                let (next, failed, cancellation) = (&next, &failed, &self.order.cancellation);
                move || {
                    let mut results = Vec::new();
                    let stops = || failed.load(Ordering::Relaxed) || cancellation.is_cancelled();
                    while !stops() {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(place) = self.plan.places.get(number) else { break };
                        let result = self.one(place, wanted[number].slot, &sender);
                        failed.fetch_or(result.is_err(), Ordering::Relaxed);
                        results.push((number, result));
                    }
                    results
                }
            };
            let workers: Vec<_> = (0..AT_ONCE.min(wanted.len()))
                .map(|_| scope.spawn(worker(sender.clone())))
                .collect();
            drop(sender);
            news.iter().for_each(tell);
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        });
        results.sort_by_key(|(number, _)| *number);
        let made: Vec<Made> =
            results.into_iter().map(|(_, result)| result).collect::<Result<_, _>>()?;
        if made.len() == wanted.len() {
            return Ok(made);
        }
        Err(MakeError::Io { what: "a worktree was not made: its thread ended".into() })
    }

    fn one(&self, place: &Place, slot: usize, news: &Sender<MakeNews>) -> Result<Made, MakeError> {
        let tell = |step| {
            let _unheard = news.send(MakeNews::Step { name: place.name.clone(), step });
        };
        let mut made = Made {
            name: place.name.clone(),
            branch: place.branch.clone(),
            path: place.path.clone(),
            cwd: place.path.clone(),
            base: place.base.clone(),
            start: place.start.clone(),
            left_behind: self.plan.left_behind,
            warnings: self.plan.warnings.clone(),
            prepared: Prepared::default(),
            setup_output: Vec::new(),
        };
        tell(MakeStep::CheckOut);
        self.check_out(place)?;
        if made.path.join(".gitmodules").symlink_metadata().is_ok() {
            tell(MakeStep::Submodules);
            let failures = submodules::check_out(self.git, &self.plan.repository, &made.path);
            if let Some(first) = failures.first().filter(|_| self.order.options.strict) {
                return Err(MakeError::Submodule { what: first.clone() });
            }
            made.warnings.extend(failures);
        }
        if !self.order.settings.copy.is_empty() && !self.plan.repository.bare {
            tell(MakeStep::Copy);
            let main = &self.plan.repository.main;
            made.warnings.extend(copy::all(main, &made.path, &self.order.settings.copy)?);
        }
        let _first = place.checked_out.set(());
        self.enter_prefix(&mut made);
        if !self.order.settings.setup.is_empty() {
            tell(MakeStep::SetUp);
            made.setup_output = self.set_up(&made, slot)?;
        }
        made.prepared = Prepared::of(self.git, &made.path)?;
        let _first = place.prepared.set(made.prepared.clone());
        tell(MakeStep::Done);
        Ok(made)
    }

    /// Adds the worktree, locked, with its files.
    fn check_out(&self, place: &Place) -> Result<(), MakeError> {
        let (options, common) = (&self.order.options, &self.plan.repository.common);
        let change = |directory: &Path| {
            let call = self.git.change(directory);
            if options.no_lfs { call.env("GIT_LFS_SKIP_SMUDGE", "1") } else { call }
        };
        let mut args = vec!["worktree", "add", "--lock", "--reason", &self.reason];
        if !options.sparse.is_empty() {
            args.push("--no-checkout");
        }
        let call = change(common).args(args).arg("--").arg(&place.path).arg(&place.branch);
        call.ok().map_err(not_added)?;
        if options.sparse.is_empty() {
            return Ok(());
        }
        let sparse = ["sparse-checkout", "set", "--cone", "--end-of-options"];
        change(&place.path).args(sparse).args(&options.sparse).ok()?;
        let files = ["checkout", "--quiet", &place.branch, "--"];
        change(&place.path).args(files).ok().map_err(full)?;
        Ok(())
    }

    /// Lets the agent start in the same directory as the launch; in the nearest one above it that the base has.
    fn enter_prefix(&self, made: &mut Made) {
        let wanted = made.path.join(&self.plan.repository.prefix);
        let inside = |path: &&Path| {
            let real = std::fs::canonicalize(path).ok();
            real.is_some_and(|real| real.is_dir() && real.starts_with(&made.path))
        };
        let found = wanted.ancestors().find(inside).unwrap_or(&made.path).to_owned();
        // An empty prefix ends the path with a slash.
        made.cwd = found.components().collect();
        let whole: std::path::PathBuf = wanted.components().collect();
        if made.cwd != whole {
            let missing = self.plan.repository.prefix.display();
            let text = format!(
                "the base has no directory {missing}: the agent starts in {}",
                made.cwd.display()
            );
            made.warnings.push(text);
        }
    }

    /// Runs the setup program and returns its output.
    fn set_up(&self, made: &Made, slot: usize) -> Result<Vec<u8>, MakeError> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let call = hooks::Call {
            argv: &self.order.settings.setup,
            variables: vec![
                (setup::WORKTREE, text(&made.path)),
                (setup::MAIN, text(&self.plan.repository.main)),
                (setup::SLOT, slot.to_string()),
                (hook::GROUP, self.order.group.clone().unwrap_or_default()),
                (hook::BRANCH, made.branch.clone()),
            ],
            cwd: &made.path,
            stdin: None,
            limit: SETUP_TIMEOUT,
        };
        let words: Vec<String> = call.argv.iter().map(|word| shell_word(word)).collect();
        let program = words.join(" ");
        let failed = |why: String| MakeError::SetUp { program: program.clone(), why };
        let end = call.run_in_order(self.host, &self.order.cancellation).map_err(failed)?;
        let last = last_lines(&end.said);
        match end.exit {
            Some(exit) if exit.code == Some(0) => Ok(end.said),
            Some(exit) => Err(failed(match (exit.code, exit.signal) {
                (Some(code), _) => format!("exit code {code}: {last}"),
                (_, signal) => format!("signal {}: {last}", signal.unwrap_or_default()),
            })),
            None => {
                let seconds = SETUP_TIMEOUT.as_secs();
                Err(failed(format!("it was killed after {seconds} s: {last}")))
            }
        }
    }
}

/// Names a hook as the cause if git said nothing but its usual words: then its own work was done.
fn not_added(error: GitError) -> MakeError {
    let is_usual = |line: &str| {
        let line = line.trim();
        line.is_empty()
            || ["Preparing worktree", "Updating files"].iter().any(|words| line.starts_with(words))
    };
    let said: Vec<&str> = error.stderr().lines().filter(|line| !is_usual(line)).collect();
    let is_of_git =
        said.iter().any(|line| line.starts_with("fatal: ") || line.starts_with("error: "));
    if is_of_git || !matches!(error, GitError::Failed { .. }) {
        return full(error);
    }
    let words = said.last().copied().unwrap_or("it said nothing");
    let words = bounded(words.trim(), HOOK_EXCERPT_BYTES).into_owned();
    MakeError::Hook { hook: "post-checkout", words }
}

/// Names a full disk as the cause where git's own words do.
fn full(error: GitError) -> MakeError {
    // For some files git says only that it could not write them.
    let words = ["No space left on device", "Disk quota exceeded", "unable to write file"];
    if words.iter().any(|words| error.stderr().contains(words)) {
        return MakeError::DiskFull;
    }
    error.into()
}
