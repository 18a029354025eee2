//! The words of `diff`: which base was used and why, the files, and what the comparison does not see.

use agentctl_core::ask::{DiffBase, Fleet, GoneDirectory, NoDiff, NotOne, WorkDiff};
use agentctl_core::git::DiffKind;
use agentctl_core::host::Host;
use agentctl_core::resolve::HERE;
use agentctl_core::text::shell_word;

use super::failed_worktree::no_git_work;
use super::{put_back, unresolved, worktrees_hint};
use crate::failure::{Failure, Kind};
use crate::text::{counted, one_line, with_tilde};

/// Returns the line above the files: whose work, how much, and compared with what.
#[must_use]
pub fn diff_heading(host: &Host, diff: &WorkDiff) -> String {
    let subject = match (&diff.adapter, &diff.session, &diff.branch) {
        (Some(adapter), Some(id), _) => format!("{adapter} {id}"),
        (_, _, Some(branch)) => branch.clone(),
        _ => "the working tree".to_owned(),
    };
    let place = with_tilde(&host.home, &diff.directory);
    let files = counted(diff.files.len(), "file");
    let commits = match diff.commits {
        Some(0) | None => String::new(),
        Some(count) => format!(", {}", counted(count, "commit")),
    };
    let base: String = diff.base.chars().take(8).collect();
    let (added, removed) = (diff.added, diff.removed);
    format!(
        "{subject} in {place}: {files}, +{added} -{removed}{commits}, since {base} ({})",
        base_words(diff.base_from)
    )
}

/// Says how the base is known.
fn base_words(from: DiffBase) -> &'static str {
    match from {
        DiffBase::Given => "as given",
        DiffBase::WorktreeRef => "the base of the worktree",
        DiffBase::Run => "recorded by its run",
        DiffBase::Reflog => "HEAD when the session started, by git's reflog",
        DiffBase::Head => "HEAD now: no source says where the work began",
    }
}

/// Returns a line for each file.
#[must_use]
pub fn diff_files(diff: &WorkDiff) -> Vec<String> {
    let width = |numbers: &dyn Fn(&agentctl_core::git::DiffFile) -> String| {
        diff.files.iter().map(|file| numbers(file).len()).max().unwrap_or_default()
    };
    let added = |file: &agentctl_core::git::DiffFile| {
        file.added.map_or("-".to_owned(), |count| format!("+{count}"))
    };
    let removed = |file: &agentctl_core::git::DiffFile| {
        file.removed.map_or("-".to_owned(), |count| format!("-{count}"))
    };
    let (first, second) = (width(&added), width(&removed));
    let line = |file: &agentctl_core::git::DiffFile| {
        let kind = match file.kind {
            DiffKind::Added => "added",
            DiffKind::Changed => "changed",
            DiffKind::Deleted => "deleted",
            DiffKind::Moved => "moved",
        };
        let from = file.moved_from.as_ref().map(|from| format!(" (from {})", one_line(from)));
        let path = one_line(&file.path);
        format!(
            "  {kind:<8}{:>first$} {:>second$}  {path}{}",
            added(file),
            removed(file),
            from.unwrap_or_default()
        )
    };
    diff.files.iter().map(line).collect()
}

/// Returns what the comparison does not see, or sees too much of.
#[must_use]
pub fn diff_remarks(diff: &WorkDiff) -> Vec<String> {
    let mut remarks = Vec::new();
    if !diff.shared_with.is_empty() {
        let others = diff.shared_with.join(", ");
        remarks.push(format!("{} is shared: it also has the work of {others}", diff.directory));
    }
    for submodule in &diff.dirty_submodules {
        remarks
            .push(format!("the submodule {submodule} has changes of its own, which are not shown"));
    }
    for gap in &diff.gaps {
        remarks.push(format!("not everything could be read: {gap}"));
    }
    remarks
}

/// Says that a directory does not exist any more, and how its work is brought back.
pub(super) fn directory_gone(fleet: &Fleet, text: &str, gone: &GoneDirectory) -> Failure {
    let path = with_tilde(&fleet.host.home, &gone.path.to_string_lossy());
    let message = format!("{path} does not exist any more");
    let text = shell_word(text);
    match (put_back(&gone.path), gone.rescued.as_slice()) {
        (Some(hint), _) => Failure::new(Kind::Failed, message).hint(hint),
        (None, []) if gone.branch.is_some() => {
            let branch = shell_word(gone.branch.as_deref().unwrap_or_default());
            Failure::new(Kind::NotFound, message)
                .hint(format!("its commits are on its branch: `git log {branch}` shows them"))
        }
        (None, []) => Failure::new(Kind::NotFound, message)
            .hint(format!("`agentctl changes {text}` shows what the agent itself recorded")),
        (None, refs) if gone.is_of_repository => Failure::new(Kind::NotFound, message)
            .hint(format!("its work is saved: {}", brought_back(refs))),
        (None, refs) => Failure::new(Kind::NotFound, message).hint(format!(
            "`agentctl changes {text}` shows what the agent itself recorded; a removed worktree had the same name: {}",
            brought_back(refs)
        )),
    }
}

fn brought_back(refs: &[String]) -> String {
    let refs = refs.join(", ");
    format!("`git worktree add -b BRANCH DIR REF` brings a worktree back from {refs}")
}

/// Says why there is no comparison.
#[must_use]
pub fn no_diff(fleet: &Fleet, text: &str, why: NoDiff) -> Failure {
    match why {
        NoDiff::NotOne(NotOne::Nothing) if text == "." => unresolved(fleet, HERE, NotOne::Nothing),
        NoDiff::NotOne(NotOne::Nothing) if text != HERE && !text.trim().is_empty() => {
            let message = format!("no session, group or worktree matches `{text}`");
            let failure = Failure::new(Kind::NotFound, message);
            if fleet.host.cwd.join(text).is_dir() && !text.contains('/') {
                let directory = shell_word(&format!("./{text}"));
                return failure.hint(format!("write `{directory}` for the directory"));
            }
            failure.hint(format!(
                "`agentctl list --all --since all -o wide` shows sessions and their groups, {}",
                worktrees_hint(&fleet.host)
            ))
        }
        NoDiff::NotOne(not_one) => unresolved(fleet, text, not_one),
        NoDiff::UnknownDirectory => {
            Failure::new(Kind::Failed, format!("the directory of `{text}` is unknown"))
        }
        NoDiff::DirectoryGone(gone) => directory_gone(fleet, text, &gone),
        NoDiff::WorktreesGone { rescued } => {
            let message = format!("the directories of the group `{text}` do not exist any more");
            let failure = Failure::new(Kind::NotFound, message);
            match rescued.as_slice() {
                [] => failure.hint(format!(
                    "`agentctl list --all --since all --group {}` shows its sessions, `agentctl changes ID` what \
                     an agent recorded",
                    shell_word(text)
                )),
                refs => failure.hint(format!("their work is saved: {}", brought_back(refs))),
            }
        }
        NoDiff::NoSuchBase(revision) => no_such_base("--base", &revision),
        NoDiff::CalledOff => {
            Failure::new(Kind::Failed, "interrupted: every program that it had started was ended")
        }
        NoDiff::Git(error) => no_git_work(fleet, text, &error),
    }
}

/// Says that a base names no commit; `parameter` is the name of the base where it was given.
#[must_use]
pub fn no_such_base(parameter: &str, revision: &str) -> Failure {
    Failure::new(Kind::Usage, format!("{parameter}: `{revision}` names no commit"))
        .hint("name a branch, a tag or a commit of that repository")
}
