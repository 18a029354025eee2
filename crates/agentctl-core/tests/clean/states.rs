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
}

use State as S;

/// All states, those of a submodule last.
pub(super) const ALL: [State; 33] = [
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
    S::SubmoduleCommit,
    S::SubmoduleFile,
    S::SubmoduleStash,
];

/// How many of them need a submodule.
pub(super) const OF_SUBMODULES: usize = 3;

/// States in which everything is elsewhere, also together.
const WORTHLESS: [State; 9] = [
    S::IgnoredEmpty,
    S::BuildFolders,
    S::Pushed,
    S::Merged,
    S::SquashMerged,
    S::Amended,
    S::ResetAway,
    S::NestedClone,
    S::HalfMade,
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
        S::HalfMade | S::MissingFolder | S::GitFileElsewhere | S::NoWorktree | S::Conflict
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
    states.sort_by_key(|state| (is_final(*state), *state == S::ForeignLock));
    let last = states.iter().position(|state| is_final(*state));
    states.truncate(last.map_or(states.len(), |at| at + 1));
    // A worktree has one lock only, and a half-made one has no work in it.
    if states.contains(&S::HalfMade) {
        states.retain(|state| *state == S::HalfMade);
    }
    states
}

/// Brings a worktree into a state. Processes are returned.
pub(super) fn apply(world: &World, tree: &Repository, name: &str, state: State) -> Option<Child> {
    let unique = format!("{}-{state:?}.txt", name.replace('/', "-"));
    let text = format!("{name} {state:?}\n");
    let branch = format!("agentctl/{name}");
    let commit = |message: &str| {
        tree.write(&unique, format!("{text}{message}\n"));
        tree.git(["add", &unique]);
        tree.git(["commit", "--quiet", "-m", message]);
    };
    let append = |file: &str| {
        let path = tree.path.join(file);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{old}{text}")).expect("written");
    };
    let shop = &world.shop;
    match state {
        S::Dirty => append("README.md"),
        S::Deleted => std::fs::remove_file(tree.path.join(".gitignore")).expect("removed"),
        S::StagedOnly => {
            let path = tree.write(&unique, &text);
            tree.git(["add", &unique]);
            std::fs::remove_file(path).expect("removed");
        }
        S::Untracked => drop(tree.write(format!("new/{unique}"), &text)),
        S::IgnoredFile => drop(tree.write("deep/data.log", &text)),
        S::IgnoredEmpty => drop(tree.write("empty.log", "")),
        S::BuildFolders => {
            let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# made\n";
            tree.write("target/CACHEDIR.TAG", tag);
            tree.write("target/debug/program", "made again\n");
            tree.write("web/node_modules/left-pad/index.js", "made again\n");
        }
        S::EditedCopy => append(".env"),
        S::Stash => {
            append("src/lib.txt");
            tree.git(["stash", "--quiet"]);
        }
        S::Unpushed => commit("unpushed"),
        S::Pushed => {
            commit("pushed");
            tree.git(["push", "--quiet", "origin", "HEAD"]);
        }
        S::Merged => {
            commit("merged");
            shop.git(["merge", "--quiet", "--no-ff", "-m", "merge", &branch]);
        }
        S::SquashMerged => {
            commit("one");
            commit("two");
            shop.git(["merge", "--quiet", "--squash", &branch]);
            shop.git(["commit", "--quiet", "--allow-empty", "-m", "squashed"]);
        }
        S::Amended => {
            commit("first try");
            tree.write(&unique, "second try\n");
            tree.git(["add", &unique]);
            tree.git(["commit", "--quiet", "--amend", "-m", "second try"]);
            shop.git(["merge", "--quiet", "--no-ff", "-m", "merge", &branch]);
        }
        S::ResetAway => {
            commit("abandoned");
            tree.git(["reset", "--quiet", "--hard", "HEAD~1"]);
        }
        S::DetachedCommit => {
            tree.git(["checkout", "--quiet", "--detach"]);
            commit("detached");
        }
        S::PrivateRef => {
            commit("private");
            tree.git(["update-ref", "refs/worktree/kept", "HEAD"]);
            tree.git(["reset", "--quiet", "--hard", "HEAD~1"]);
        }
        S::SubmoduleCommit => {
            // The submodule is back at its commit; the new one is on a branch of its own.
            let lib = tree.at(&tree.path.join("lib"));
            lib.git(["checkout", "--quiet", "-b", "work"]);
            lib.write(&unique, &text);
            lib.commit("work");
            lib.git(["checkout", "--quiet", "--detach", "HEAD~1"]);
        }
        S::SubmoduleFile => drop(tree.write(format!("lib/{unique}"), &text)),
        S::SubmoduleStash => {
            let lib = tree.at(&tree.path.join("lib"));
            lib.write("README.md", &text);
            lib.git(["stash", "--quiet"]);
        }
        S::NestedRepository => {
            let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
            tree.write("target/CACHEDIR.TAG", tag);
            let nested = Repository::empty(&tree.path.join("target/nested"), &[]);
            nested.write(&unique, &text);
            nested.commit("nested");
        }
        S::NestedClone => {
            let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
            tree.write("target/CACHEDIR.TAG", tag);
            let remote = world.path.join("remote.git");
            tree.git(["clone", "--quiet", remote.to_str().expect("UTF-8"), "target/clone"]);
        }
        S::NotARepository => drop(tree.write("odd/.git/notes.txt", &text)),
        S::LiveDirectory => return Some(sleep(&tree.path.join("src"), Stdio::null())),
        S::OpenFile => {
            let file = File::open(tree.path.join("README.md")).expect("opened");
            return Some(sleep(&world.path, file.into()));
        }
        S::HalfMade => {
            let mut reason = LockReason::of_this_process(&world.fleet.host, "id").expect("own");
            reason.start_ticks += 1;
            let path = tree.path.to_str().expect("UTF-8");
            shop.git(["worktree", "lock", "--reason", &reason.to_string(), path]);
            std::fs::remove_file(tree.path.join("src/lib.txt")).expect("removed");
        }
        S::AssumeUnchanged => {
            tree.git(["update-index", "--assume-unchanged", "README.md"]);
            append("README.md");
        }
        S::SkipWorktree => {
            tree.git(["update-index", "--skip-worktree", "src/lib.txt"]);
            append("src/lib.txt");
        }
        S::ForeignLock => {
            let path = tree.path.to_str().expect("UTF-8");
            shop.git(["worktree", "lock", "--reason", "on a stick", path]);
        }
        S::MissingFolder => std::fs::remove_dir_all(&tree.path).expect("removed"),
        S::GitFileElsewhere => {
            let other = world.path.join("shop/.git");
            tree.write(".git", format!("gitdir: {}\n", other.display()));
        }
        S::NoWorktree => {
            let path = tree.path.to_str().expect("UTF-8");
            shop.git(["worktree", "remove", "--force", "--force", path]);
        }
        S::Conflict => {
            let base = tree.git(["rev-parse", "HEAD"]);
            tree.write("README.md", "one side\n");
            tree.commit("one side");
            tree.git([
                "checkout",
                "--quiet",
                "-b",
                &format!("other-{}", name.replace('/', "-")),
                &base,
            ]);
            tree.write("README.md", "other side\n");
            tree.commit("other side");
            tree.git(["checkout", "--quiet", &branch]);
            let other = format!("other-{}", name.replace('/', "-"));
            assert!(!tree.succeeds(["merge", "--quiet", &other]), "a conflict");
        }
    }
    None
}

fn sleep(directory: &Path, stdin: Stdio) -> Child {
    let mut command = Command::new("sleep");
    command.arg("600").current_dir(directory).stdin(stdin).spawn().expect("started")
}
