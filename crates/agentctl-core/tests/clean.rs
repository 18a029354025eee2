//! Cleaning worktrees by the real git: nothing is lost, and what is worthless goes.
#![cfg(target_os = "linux")]
// Helpers of tests panic as the tests themselves do.
#![allow(clippy::expect_used, clippy::disallowed_methods, clippy::print_stdout)]

#[path = "clean/cases.rs"]
mod cases;
#[path = "clean/distrust.rs"]
mod distrust;
#[path = "clean/hidden_commits.rs"]
mod hidden_commits;
#[path = "clean/hidden_contents.rs"]
mod hidden_contents;
#[path = "clean/hidden_states.rs"]
mod hidden_states;
#[path = "clean/kept_names.rs"]
mod kept_names;
#[path = "clean/losses.rs"]
mod losses;
#[path = "clean/names.rs"]
mod names;
#[path = "clean/nemesis.rs"]
mod nemesis;
#[path = "clean/nested_remotes.rs"]
mod nested_remotes;
#[path = "clean/obstacles.rs"]
mod obstacles;
#[path = "clean/oracle.rs"]
mod oracle;
#[path = "clean/remains.rs"]
mod remains;
#[path = "clean/sparse.rs"]
mod sparse;
#[path = "clean/states.rs"]
mod states;
#[path = "clean/symbolic_refs.rs"]
mod symbolic_refs;
#[path = "clean/take_attributes.rs"]
mod take_attributes;
#[path = "clean/take_losses.rs"]
mod take_losses;
#[path = "clean/take_refusals.rs"]
mod take_refusals;
#[path = "clean/take_submodules.rs"]
mod take_submodules;
#[path = "clean/taking.rs"]
mod taking;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentctl_core::ask::Fleet;
use agentctl_core::host::Host;
use agentctl_core::kernel::{Cancellation, Kernel};
use agentctl_core::model::Time;
use agentctl_core::worktrees::take::{TakeOrder, TakeWay};
use agentctl_core::worktrees::{
    CleanAction, CleanNews, CleanOrder, CleanSelection, Cleaned, CleanedWorktree, MakeOrder,
    Wanted, WorktreeOptions, WorktreeSettings, clean, make,
};
use testkit::Repository;

/// A home with a repository in `shop` that has a remote, and on request a submodule `lib`.
struct World {
    _dir: tempfile::TempDir,
    path: PathBuf,
    fleet: Fleet,
    shop: Repository,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Commits a file. Returns the commit.
fn commit_in(tree: &Repository) -> String {
    tree.write("work.txt", "work\n");
    tree.git(["add", "work.txt"]);
    tree.git(["commit", "--quiet", "-m", "work"]);
    tree.git(["rev-parse", "HEAD"])
}

fn add_hook(world: &World, name: &str, script: &str) {
    let hook = world.shop.write(Path::new(".git/hooks").join(name), script);
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

impl World {
    fn new(with_submodule: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = std::fs::canonicalize(dir.path()).expect("resolved");
        let shop = Repository::new(&path.join("shop"));
        shop.write(".gitignore", "*.log\n.env\ntarget/\nnode_modules/\n");
        shop.write(".env", "SECRET=main\n");
        shop.commit("ignore");
        if with_submodule {
            let lib = Repository::new(&path.join("lib"));
            shop.add_submodule(&lib, "lib");
        }
        let remote = Repository::empty(&path.join("remote.git"), &["--bare"]);
        shop.git(["remote", "add", "origin", remote.path.to_str().expect("UTF-8")]);
        shop.git(["push", "--quiet", "origin", "main"]);
        let fleet = Fleet::new(Arc::new(host(&path)), &[]);
        Self { _dir: dir, path, fleet, shop }
    }

    fn settings() -> WorktreeSettings {
        WorktreeSettings { copy: vec![".env".into()], ..WorktreeSettings::default() }
    }

    /// Returns the order to take the work of a worktree by a merge.
    fn take_order(tree: &Repository) -> TakeOrder {
        TakeOrder {
            path: tree.path.clone(),
            into: None,
            way: TakeWay::Merge,
            with_uncommitted: false,
            settings: Self::settings(),
        }
    }

    /// Makes a worktree as a launch does.
    fn made(&self, name: &str) -> Repository {
        self.made_with(name, WorktreeOptions::default())
    }

    /// Makes a worktree that begins at a revision, as a launch does.
    fn made_from(&self, name: &str, base: &str) -> Repository {
        self.made_with(name, WorktreeOptions { base: Some(base.to_owned()), ..Default::default() })
    }

    fn made_with(&self, name: &str, options: WorktreeOptions) -> Repository {
        let order = MakeOrder {
            from: self.shop.path.clone(),
            options,
            settings: Self::settings(),
            group: None,
            cancellation: Cancellation::default(),
        };
        let wanted = [Wanted { name: name.to_owned(), slot: 0, base: None }];
        let made = make::all(&self.fleet.host, &order, &wanted, &mut |_| {}).expect("made");
        self.shop.at(&made[0].path)
    }

    /// Makes a worktree with fewer calls of git than a launch needs, without submodules.
    fn made_fast(&self, name: &str) -> Repository {
        let path = self.path.join("shop.worktrees").join(name.replace('/', "-"));
        let branch = format!("agentctl/{name}");
        let text = path.to_str().expect("UTF-8");
        self.shop.git(["worktree", "add", "--quiet", "-b", &branch, text]);
        self.shop.git(["update-ref", &format!("refs/agentctl/base/{name}"), "HEAD"]);
        std::fs::copy(self.shop.path.join(".env"), path.join(".env")).expect("copied");
        self.shop.at(&path)
    }

    fn order(&self, which: CleanSelection) -> CleanOrder {
        CleanOrder {
            from: self.shop.path.clone(),
            which,
            dry_run: false,
            keep_branch: false,
            force: false,
            ignored: false,
            settings: Self::settings(),
        }
    }

    fn named(&self, name: &str) -> CleanOrder {
        self.order(CleanSelection::Named(vec![name.to_owned()]))
    }

    fn clean_telling(&self, order: &CleanOrder, tell: &mut dyn FnMut(CleanNews)) -> Cleaned {
        clean(&self.fleet, order, tell).expect("cleaned")
    }

    fn clean(&self, order: &CleanOrder) -> Vec<CleanedWorktree> {
        self.clean_telling(order, &mut |_| {}).worktrees
    }

    /// Cleans one worktree by its name, and returns its row.
    fn clean_one(&self, name: &str) -> CleanedWorktree {
        self.clean(&self.named(name)).remove(0)
    }

    fn assert_kept(&self, name: &str, reason: &str) {
        let row = self.clean_one(name);
        assert_eq!(row.action, CleanAction::Kept, "{name}: {row:?}");
        assert!(row.reasons.iter().any(|said| said.contains(reason)), "{name}: {row:?}");
        if let Some(path) = &row.path {
            assert!(path.symlink_metadata().is_ok(), "{}", path.display());
        }
    }
}

fn host(home: &Path) -> Host {
    let clock = || Time::from_millis(1_790_000_000_000).expect("a time");
    let mut host = Host::new(home, Kernel::open().expect("a kernel"), clock);
    host.env.insert("PATH".into(), "/usr/bin:/bin".into());
    host.env.insert("GIT_CONFIG_NOSYSTEM".into(), "1".into());
    host.env.insert("TMPDIR".into(), home.join("tmp").to_string_lossy().into_owned());
    std::fs::create_dir_all(home.join("tmp")).expect("made");
    host
}
