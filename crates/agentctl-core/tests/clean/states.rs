//! The states that a worktree can be in, each made by the real git.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use agentctl_core::worktrees::LockReason;
use testkit::Repository;

use super::World;

/// Random numbers from a seed (xorshift).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("64 bits") % limit
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Something that was done in a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Dirty,
    Deleted,
    StagedOnly,
    Untracked,
    IgnoredFile,
    IgnoredEmpty,
    BuildFolders,
    EditedCopy,
    Stash,
    Unpushed,
    Pushed,
    Merged,
    SquashMerged,
    Amended,
    ResetAway,
    DetachedCommit,
    PrivateRef,
    SubmoduleCommit,
    SubmoduleFile,
    SubmoduleStash,
    NestedRepository,
    NestedClone,
    RemoteGone,
    RemoteLostBranch,
    RemotesOfEachOther,
    NotARepository,
    LiveDirectory,
    OpenFile,
    HalfMade,
    AssumeUnchanged,
    SkipWorktree,
    ForeignLock,
    MissingFolder,
    GitFileElsewhere,
    NoWorktree,
    Conflict,
    BranchAlias,
    BaseIsSymbolic,
    BranchIsSymbolic,
    BranchDeleted,
    OrphanHead,
    RootRef,
    NotesMerge,
    SideOfConflict,
    LaunchInProgress,
    EmptiedHalfMade,
    NestedRebase,
    NestedPatch,
    NestedRootRef,
    NestedUnborn,
    NestedTag,
    NestedLfs,
    SubmoduleRebase,
    SubmoduleStaged,
    BelowGitlink,
}

use State as S;

/// All states, those of a submodule last.
pub(super) const ALL: [State; 55] = [
    S::Dirty,
    S::Deleted,
    S::StagedOnly,
    S::Untracked,
    S::IgnoredFile,
    S::IgnoredEmpty,
    S::BuildFolders,
    S::EditedCopy,
    S::Stash,
    S::Unpushed,
    S::Pushed,
    S::Merged,
    S::SquashMerged,
    S::Amended,
    S::ResetAway,
    S::DetachedCommit,
    S::PrivateRef,
    S::NestedRepository,
    S::NestedClone,
    S::RemoteGone,
    S::RemoteLostBranch,
    S::RemotesOfEachOther,
    S::NotARepository,
    S::LiveDirectory,
    S::OpenFile,
    S::HalfMade,
    S::AssumeUnchanged,
    S::SkipWorktree,
    S::ForeignLock,
    S::MissingFolder,
    S::GitFileElsewhere,
    S::NoWorktree,
    S::Conflict,
    S::BranchAlias,
    S::BaseIsSymbolic,
    S::BranchIsSymbolic,
    S::BranchDeleted,
    S::OrphanHead,
    S::RootRef,
    S::NotesMerge,
    S::SideOfConflict,
    S::LaunchInProgress,
    S::EmptiedHalfMade,
    S::NestedRebase,
    S::NestedPatch,
    S::NestedRootRef,
    S::NestedUnborn,
    S::NestedTag,
    S::NestedLfs,
    S::SubmoduleCommit,
    S::SubmoduleFile,
    S::SubmoduleStash,
    S::SubmoduleRebase,
    S::SubmoduleStaged,
    S::BelowGitlink,
];

/// How many of them need a submodule.
pub(super) const OF_SUBMODULES: usize = 6;

/// States in which everything is elsewhere, also together.
const WORTHLESS: [State; 11] = [
    S::IgnoredEmpty,
    S::BuildFolders,
    S::Pushed,
    S::Merged,
    S::SquashMerged,
    S::Amended,
    S::ResetAway,
    S::NestedClone,
    S::HalfMade,
    S::BranchAlias,
    S::BaseIsSymbolic,
];

/// Says whether a worktree with these states must go.
pub(super) fn is_worthless(states: &[State]) -> bool {
    states.iter().all(|state| WORTHLESS.contains(state))
        || states == [S::MissingFolder]
        || states == [S::NoWorktree]
}

/// Says whether a state ends all others: nothing can be done in the worktree afterwards.
fn is_final(state: State) -> bool {
    matches!(
        state,
        S::HalfMade
            | S::MissingFolder
            | S::GitFileElsewhere
            | S::NoWorktree
            | S::Conflict
            | S::BranchIsSymbolic
            | S::BranchDeleted
            | S::OrphanHead
            | S::SideOfConflict
            | S::EmptiedHalfMade
    )
}

/// Chooses up to three states; one that ends all others comes last.
pub(super) fn choose(random: &mut Random, with_submodule: bool) -> Vec<State> {
    let count = if with_submodule { ALL.len() } else { ALL.len() - OF_SUBMODULES };
    let mut states = Vec::new();
    for _ in 0..random.below(4) {
        // Half of the choices are worthless, so that whole sets of them are.
        let worthless = random.below(2) == 0;
        let state = if worthless { random.pick(&WORTHLESS) } else { ALL[random.below(count)] };
        if !states.contains(&state) {
            states.push(state);
        }
    }
    // On a detached HEAD nothing can be pushed or merged by the branch's name.
    states.sort_by_key(|state| {
        // Nothing can be done in a submodule afterwards.
        let is_last_of_submodule = matches!(state, S::SubmoduleStaged | S::BelowGitlink);
        let is_detached = *state == S::DetachedCommit;
        (is_final(*state), *state == S::ForeignLock, is_detached, is_last_of_submodule)
    });
    let last = states.iter().position(|state| is_final(*state));
    states.truncate(last.map_or(states.len(), |at| at + 1));
    // A worktree has one lock only, and a half-made one has no work in it.
    for half_made in [S::HalfMade, S::EmptiedHalfMade] {
        if states.contains(&half_made) {
            states.retain(|state| *state == half_made);
        }
    }
    // Of these two each ends the submodule.
    if states.contains(&S::SubmoduleStaged) {
        states.retain(|state| *state != S::BelowGitlink);
    }
    // The branch that is deleted is the one of HEAD.
    if states.contains(&S::BranchDeleted) {
        states.retain(|state| *state != S::DetachedCommit);
    }
    // Without its own branch in a worktree, it is ours by its base ref only.
    let needs_base = [S::NoWorktree, S::OrphanHead, S::SideOfConflict];
    if states.iter().any(|state| needs_base.contains(state)) {
        states.retain(|state| *state != S::BaseIsSymbolic);
    }
    // Both sides of a conflict are committed on the branch, by a commit of README.md.
    if states.contains(&S::Conflict) || states.contains(&S::SideOfConflict) {
        states.retain(|state| !matches!(state, S::DetachedCommit | S::AssumeUnchanged));
    }
    states
}

/// Brings a worktree into a state. Processes are returned.
pub(super) fn apply(world: &World, tree: &Repository, name: &str, state: State) -> Option<Child> {
    let scene = Scene {
        world,
        tree,
        name,
        unique: format!("{}-{state:?}.txt", name.replace('/', "-")),
        text: format!("{name} {state:?}\n"),
        branch: format!("agentctl/{name}"),
    };
    scene.change_files(state);
    scene.change_commits(state);
    scene.change_refs(state);
    scene.hide_commits(state);
    scene.add_repositories(state);
    scene.hide_in_repositories(state);
    scene.change_surroundings(state)
}

/// A worktree that is brought into a state.
pub(super) struct Scene<'a> {
    pub world: &'a World,
    pub tree: &'a Repository,
    pub name: &'a str,
    /// A file that no other worktree has.
    pub unique: String,
    pub text: String,
    pub branch: String,
}

impl Scene<'_> {
    pub(super) fn commit(&self, message: &str) {
        self.tree.write(&self.unique, format!("{}{message}\n", self.text));
        self.tree.git(["add", &self.unique]);
        self.tree.git(["commit", "--quiet", "-m", message]);
    }

    fn append(&self, file: &str) {
        let path = self.tree.path.join(file);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{old}{}", self.text)).expect("written");
    }

    /// States of files and of the index.
    fn change_files(&self, state: State) {
        match state {
            S::Dirty => self.append("README.md"),
            S::Deleted => std::fs::remove_file(self.tree.path.join(".gitignore")).expect("removed"),
            S::StagedOnly => {
                let path = self.tree.write(&self.unique, &self.text);
                self.tree.git(["add", &self.unique]);
                std::fs::remove_file(path).expect("removed");
            }
            S::Untracked => drop(self.tree.write(format!("new/{}", self.unique), &self.text)),
            S::IgnoredFile => drop(self.tree.write("deep/data.log", &self.text)),
            S::IgnoredEmpty => drop(self.tree.write("empty.log", "")),
            S::BuildFolders => {
                let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# made\n";
                self.tree.write("target/CACHEDIR.TAG", tag);
                self.tree.write("target/debug/program", "made again\n");
                self.tree.write("web/node_modules/left-pad/index.js", "made again\n");
            }
            S::EditedCopy => self.append(".env"),
            S::AssumeUnchanged => {
                self.tree.git(["update-index", "--assume-unchanged", "README.md"]);
                self.append("README.md");
            }
            S::SkipWorktree => {
                self.tree.git(["update-index", "--skip-worktree", "src/lib.txt"]);
                self.append("src/lib.txt");
            }
            S::NotARepository => drop(self.tree.write("odd/.git/notes.txt", &self.text)),
            S::GitFileElsewhere => {
                let other = self.world.path.join("shop/.git");
                self.tree.write(".git", format!("gitdir: {}\n", other.display()));
            }
            _ => {}
        }
    }

    /// States of commits.
    fn change_commits(&self, state: State) {
        match state {
            S::Stash => {
                self.append("src/lib.txt");
                self.tree.git(["stash", "--quiet"]);
            }
            S::Unpushed => self.commit("unpushed"),
            S::Pushed => {
                self.commit("pushed");
                self.tree.git(["push", "--quiet", "origin", "HEAD"]);
            }
            S::Merged => {
                self.commit("merged");
                self.world.shop.git(["merge", "--quiet", "--no-ff", "-m", "merge", &self.branch]);
            }
            S::SquashMerged => {
                self.commit("one");
                self.commit("two");
                self.world.shop.git(["merge", "--quiet", "--squash", &self.branch]);
                self.world.shop.git(["commit", "--quiet", "--allow-empty", "-m", "squashed"]);
            }
            S::Amended => {
                self.commit("first try");
                self.tree.write(&self.unique, "second try\n");
                self.tree.git(["add", &self.unique]);
                self.tree.git(["commit", "--quiet", "--amend", "-m", "second try"]);
                self.world.shop.git(["merge", "--quiet", "--no-ff", "-m", "merge", &self.branch]);
            }
            S::ResetAway => {
                self.commit("abandoned");
                self.tree.git(["reset", "--quiet", "--hard", "HEAD~1"]);
            }
            S::DetachedCommit => {
                self.tree.git(["checkout", "--quiet", "--detach"]);
                self.commit("detached");
            }
            S::PrivateRef => {
                self.commit("private");
                self.tree.git(["update-ref", "refs/worktree/kept", "HEAD"]);
                self.tree.git(["reset", "--quiet", "--hard", "HEAD~1"]);
            }
            S::Conflict => {
                let base = self.tree.git(["rev-parse", "HEAD"]);
                self.tree.write("README.md", "one side\n");
                self.tree.commit("one side");
                self.tree.git([
                    "checkout",
                    "--quiet",
                    "-b",
                    &format!("other-{}", self.name.replace('/', "-")),
                    &base,
                ]);
                self.tree.write("README.md", "other side\n");
                self.tree.commit("other side");
                self.tree.git(["checkout", "--quiet", &self.branch]);
                let other = format!("other-{}", self.name.replace('/', "-"));
                assert!(!self.tree.succeeds(["merge", "--quiet", &other]), "a conflict");
            }
            _ => {}
        }
    }

    /// States of symbolic refs. A branch that one leads to has a commit of its own.
    fn change_refs(&self, state: State) {
        let branch = format!("refs/heads/{}", self.branch);
        let flat = self.name.replace('/', "-");
        match state {
            S::BranchAlias => {
                let alias = format!("refs/heads/alias-{flat}");
                self.world.shop.git(["symbolic-ref", &alias, &branch]);
            }
            S::BaseIsSymbolic => {
                let target = format!("refs/heads/base-{flat}");
                let tree = self.world.shop.git(["rev-parse", "main^{tree}"]);
                let commit = ["commit-tree", &tree, "-p", "main", "-m", &self.unique];
                let commit = self.world.shop.git(commit);
                self.world.shop.git(["update-ref", &target, &commit]);
                let base = format!("refs/agentctl/base/{}", self.name);
                self.world.shop.git(["symbolic-ref", &base, &target]);
            }
            S::BranchIsSymbolic => {
                let target = format!("refs/heads/target-{flat}");
                let commit = self.world.shop.git(["rev-parse", &branch]);
                self.world.shop.git(["update-ref", &target, &commit]);
                self.world.shop.git(["symbolic-ref", &branch, &target]);
                self.commit("behind a symbolic ref");
            }
            _ => {}
        }
    }

    /// Makes a repository with a commit of its own in a build folder.
    fn nested(&self, tree: &Repository, name: &str) -> Repository {
        tree.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
        let nested = Repository::empty(&tree.path.join("target").join(name), &[]);
        nested.write(&self.unique, &self.text);
        nested.commit(name);
        nested
    }

    /// States of repositories inside that are no submodules.
    fn add_repositories(&self, state: State) {
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let remote = text(&self.world.path.join("remote.git"));
        match state {
            S::NestedRepository => drop(self.nested(self.tree, "nested")),
            S::NestedClone => {
                let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
                self.tree.write("target/CACHEDIR.TAG", tag);
                self.tree.git(["clone", "--quiet", &remote, "target/clone"]);
            }
            S::RemoteGone => {
                let gone = self.world.path.join(format!("{}.git", self.unique));
                let nested = self.nested(self.tree, "gone");
                let _bare = Repository::empty(&gone, &["--bare"]);
                nested.git(["remote", "add", "origin", &text(&gone)]);
                nested.git(["push", "--quiet", "origin", "HEAD"]);
                std::fs::remove_dir_all(gone).expect("removed");
            }
            S::RemoteLostBranch => {
                let branch = format!("refs/heads/lost-{}", self.name.replace('/', "-"));
                let nested = self.nested(self.tree, "lost");
                nested.git(["remote", "add", "origin", &remote]);
                nested.git(["push", "--quiet", "origin", &format!("HEAD:{branch}")]);
                self.world.shop.git(["--git-dir", &remote, "update-ref", "-d", &branch]);
            }
            S::RemotesOfEachOther => {
                let one = self.nested(self.tree, "one");
                let other = self.world.made_fast(&format!("{}-other", self.name));
                other.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
                other.git(["clone", "--quiet", &text(&one.path), "target/two"]);
                one.git(["remote", "add", "two", &text(&other.path.join("target/two"))]);
                one.git(["fetch", "--quiet", "two"]);
            }
            _ => {}
        }
    }

    /// States of submodules, of processes, and of the worktree as a whole.
    fn change_surroundings(&self, state: State) -> Option<Child> {
        match state {
            S::SubmoduleCommit => {
                // The submodule is back at its commit; the new one is on a branch of its own.
                let lib = self.tree.at(&self.tree.path.join("lib"));
                lib.git(["checkout", "--quiet", "-b", "work"]);
                lib.write(&self.unique, &self.text);
                lib.commit("work");
                lib.git(["checkout", "--quiet", "--detach", "HEAD~1"]);
            }
            S::SubmoduleFile => drop(self.tree.write(format!("lib/{}", self.unique), &self.text)),
            S::SubmoduleStash => {
                let lib = self.tree.at(&self.tree.path.join("lib"));
                lib.write("README.md", &self.text);
                lib.git(["stash", "--quiet"]);
            }
            S::LiveDirectory => return Some(sleep(&self.tree.path.join("src"), Stdio::null())),
            S::OpenFile => {
                let file = File::open(self.tree.path.join("README.md")).expect("opened");
                return Some(sleep(&self.world.path, file.into()));
            }
            S::HalfMade => {
                let mut reason =
                    LockReason::of_this_process(&self.world.fleet.host, "id").expect("own");
                reason.start_ticks += 1;
                let path = self.tree.path.to_str().expect("UTF-8");
                self.world.shop.git(["worktree", "lock", "--reason", &reason.to_string(), path]);
                std::fs::remove_file(self.tree.path.join("src/lib.txt")).expect("removed");
            }
            S::ForeignLock => {
                let path = self.tree.path.to_str().expect("UTF-8");
                self.world.shop.git(["worktree", "lock", "--reason", "on a stick", path]);
            }
            S::MissingFolder => std::fs::remove_dir_all(&self.tree.path).expect("removed"),
            S::NoWorktree => {
                let path = self.tree.path.to_str().expect("UTF-8");
                self.world.shop.git(["worktree", "remove", "--force", "--force", path]);
            }
            _ => {}
        }
        None
    }
}

fn sleep(directory: &Path, stdin: Stdio) -> Child {
    let mut command = Command::new("sleep");
    command.arg("600").current_dir(directory).stdin(stdin).spawn().expect("started")
}
