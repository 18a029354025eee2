//! A merge that failed in a working tree: it is undone, no branch is moved for that, and nothing else is touched.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::in_tree::changed_in;
use super::{Preview, TakeError, TakeWay, Taking, failed_merge, short};
use crate::git::{GitError, TreeStep, git_dir_of};

/// Characters of a commit in a message.
const SHORT_COMMIT_CHARS: usize = 7;
/// How many commits of hooks are looked at to find the commit that was to be made.
const MAX_HOOK_COMMITS: usize = 20;

/// Hooks that run for a merge or a commit, and can change its content.
const CHANGING_HOOKS: [&str; 7] = [
    "pre-merge-commit",
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-merge",
    "reference-transaction",
];

/// The commit of a merge.
struct Made {
    commit: String,
    tree: String,
}

impl Taking<'_> {
    /// Ends a merge. If its commit was made, the branch has moved, and the rest is done, also if git failed or was ended
    /// then. Otherwise the merge is undone.
    pub(super) fn finish_or_undo(
        &self,
        path: &Path,
        preview: &Preview,
        error: GitError,
    ) -> Result<String, TakeError> {
        let head = self.lasting_git.commit(path, "HEAD");
        let made = match &head {
            Ok(Some(head)) => self.result(head, preview).unwrap_or_default(),
            Ok(None) | Err(_) => None,
        };
        match (head, made) {
            (Ok(Some(head)), Some(made)) => {
                if self.is_merge_in_progress(path) == Some(true)
                    && let Err(error) = self.lasting_git.change(path).args(["merge", "--quit"]).ok()
                {
                    return Err(self.not_undone(path, Some(&head), &error));
                }
                if made.tree == preview.tree || self.may_change_content(path)? {
                    return Ok(head);
                }
                Err(self.undo_made(path, preview, (&head, &made)))
            }
            (Ok(Some(head)), None) => Err(self.undo(path, preview, (head, error))),
            (Ok(None) | Err(_), _) => Err(self.not_undone(path, None, &error)),
        }
    }

    /// Returns the error of a merge that is left as it is.
    pub(super) fn not_undone(&self, path: &Path, head: Option<&str>, why: &GitError) -> TakeError {
        TakeError::NotUndone {
            into: short(&self.into),
            path: path.to_owned(),
            commit: head.map(|head| head.chars().take(SHORT_COMMIT_CHARS).collect()),
            left: Box::default(),
            is_staged: !self.is_untouched(path),
            why: why.to_string().into(),
        }
    }

    /// Returns the commit that was to be made, if a branch at this commit has it. A hook may have added others.
    fn result(&self, head: &str, preview: &Preview) -> Result<Option<Made>, GitError> {
        let count = format!("--max-count={MAX_HOOK_COMMITS}");
        let args = ["rev-list", "--first-parent", &count, head, &format!("^{}", self.tip), "--"];
        for commit in self.lasting_git.read(self.common).args(args).text()?.lines() {
            if let Some(made) = self.made(commit, preview)? {
                return Ok(Some(made));
            }
        }
        Ok(None)
    }

    /// Returns a commit if it is the one that was to be made. A hook may have changed its tree or its message.
    fn made(&self, commit: &str, preview: &Preview) -> Result<Option<Made>, GitError> {
        let args = ["log", "-1", "--no-show-signature", "--format=%T %P%n%s", commit, "--"];
        let said = self.lasting_git.read(self.common).args(args).text()?;
        let (ids, subject) = said.split_once('\n').unwrap_or((&said, ""));
        let mut ids = ids.split_whitespace();
        let tree = ids.next().unwrap_or_default();
        let parents: Vec<&str> = ids.collect();
        let is_made = match self.order.way {
            TakeWay::FastForward => commit == self.source,
            TakeWay::Merge => parents == [&self.tip, &self.source],
            TakeWay::Squash => {
                parents == [&self.tip] && (tree == preview.tree || subject == self.squash_subject())
            }
        };
        Ok(is_made.then(|| Made { commit: commit.to_owned(), tree: tree.to_owned() }))
    }

    /// Says whether the merge may have another content than its trial: a hook can change it, and renormalized line ends
    /// are the only rule of merges that the trial leaves out.
    fn may_change_content(&self, path: &Path) -> Result<bool, GitError> {
        // Not a question: that names no hooks.
        let ask = |args: &[&str]| self.lasting_git.change(path).args(args.iter().copied()).run();
        let hooks = ask(&["rev-parse", "--path-format=absolute", "--git-path", "hooks"])?.text();
        let is_program = |name: &str| {
            let meta = Path::new(&hooks).join(name).metadata();
            meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        let settings = ["config", "--name-only", "--get-regexp", r"^hook\..*\.command$"];
        Ok(CHANGING_HOOKS.iter().any(|name| is_program(name))
            || ask(&settings)?.code == 0
            || ask(&["config", "--type=bool", "--get", "merge.renormalize"])?.text() == "true")
    }

    /// Undoes a merge whose commit has another content than its trial, and returns the error. The branch moves back
    /// only if it is still at that commit.
    fn undo_made(&self, path: &Path, preview: &Preview, (head, made): (&str, &Made)) -> TakeError {
        let why = self.other_result();
        let git = self.lasting_git;
        let take_back = || {
            let changes = git.tree_changes(git.read(self.common), &self.tip, &made.commit)?;
            let call = git.change(self.common).setting("core.hooksPath=/dev/null");
            let reason = format!("agentctl: undo the merge of {}", self.branch);
            let args = ["update-ref", "--no-deref", "-m", &reason];
            call.args(args).args([&self.into, &self.tip, &made.commit]).ok()?;
            let (tree, store) = (&made.tree, &preview.store);
            let step = TreeStep { before: &self.tip, after: tree, changes: &changes, store };
            git.take_back(path, &step)
        };
        match take_back() {
            Ok(()) => why,
            Err(error) => {
                let now = git.commit(path, "HEAD").ok().flatten();
                let source = std::io::Error::other(format!("{why}: {error}"));
                let error = GitError::Io { what: "git made another merge", source };
                self.not_undone(path, Some(now.as_deref().unwrap_or(head)), &error)
            }
        }
    }

    fn other_result(&self) -> TakeError {
        TakeError::OtherResult { branch: self.branch.clone(), into: short(&self.into) }
    }

    /// Undoes a merge that failed, and returns the error. The working tree was clean before the merge. If the branch is
    /// not where it was, another program has made a commit meanwhile: then everything is left as it is.
    fn undo(&self, path: &Path, preview: &Preview, (head, error): (String, GitError)) -> TakeError {
        if head == self.tip
            && let Ok(conflicts) = self.take_back(path, preview)
        {
            if !conflicts.is_empty() {
                return self.conflicts(conflicts);
            }
            return failed_merge::describe(&self.into, path, error);
        }
        if head != self.tip && self.is_untouched(path) {
            return TakeError::Moved { into: short(&self.into) };
        }
        let mut not_undone = self.not_undone(path, Some(&head), &error);
        if let (true, TakeError::NotUndone { left, .. }) = (head == self.tip, &mut not_undone) {
            let files = self.lasting_git.not_taken_back(path, &preview.changes);
            let files = files.unwrap_or_default().into_iter();
            *left = files.map(|path| path.to_string_lossy().into_owned()).collect();
        }
        not_undone
    }

    /// Takes the merge back in the index and the files, and returns the files that had conflicts. Files that were
    /// staged or changed meanwhile stay.
    fn take_back(&self, path: &Path, preview: &Preview) -> Result<Vec<String>, GitError> {
        let Preview { tree, changes, store } = preview;
        if self.is_merge_in_progress(path) == Some(false) {
            let source = std::io::Error::other("another merge is in progress");
            return Err(GitError::Io { what: "the merge cannot be undone", source });
        }
        // Rules that the preview did not see, such as attributes in a file that is not tracked, can make conflicts.
        let conflicts = self.lasting_git.take_back_conflicts(path, &self.tip)?;
        let step = TreeStep { before: &self.tip, after: tree, changes, store };
        self.lasting_git.take_back(path, &step)?;
        self.lasting_git.change(path).args(["merge", "--quit"]).ok()?;
        if let (TakeWay::Squash, Some(git_dir)) = (self.order.way, git_dir_of(path)) {
            let _missing = std::fs::remove_file(git_dir.join("SQUASH_MSG"));
        }
        Ok(conflicts.iter().map(|path| path.to_string_lossy().into_owned()).collect())
    }

    /// Says whether the merge that is in progress in a working tree is this one; `None` if none is.
    fn is_merge_in_progress(&self, path: &Path) -> Option<bool> {
        let file = git_dir_of(path)?.join("MERGE_HEAD");
        file.symlink_metadata().ok()?;
        Some(std::fs::read_to_string(file).is_ok_and(|text| text.trim_end() == self.source))
    }

    /// Says whether a working tree has no changed file and no merge in progress.
    fn is_untouched(&self, path: &Path) -> bool {
        let merges = self.is_merge_in_progress(path).is_some();
        !merges && changed_in(self.lasting_git, path).is_ok_and(|count| count == 0)
    }
}
