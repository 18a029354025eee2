//! Worktrees by the real git: how they are made and undone, and what is read about them.
#![cfg(target_os = "linux")]
// Helpers of tests panic as the tests themselves do.
#![allow(clippy::expect_used, clippy::disallowed_methods)]

#[path = "worktrees/faults.rs"]
mod faults;
#[path = "worktrees/hard_links.rs"]
mod hard_links;
#[path = "worktrees/making.rs"]
mod making;
#[path = "worktrees/snapshots.rs"]
mod snapshots;
#[path = "worktrees/submodules.rs"]
mod submodules;
#[path = "worktrees/unfinished_setups.rs"]
mod unfinished_setups;

use std::path::{Path, PathBuf};

use agentctl_core::git::Git;
use agentctl_core::host::Host;
use agentctl_core::kernel::{Cancellation, Kernel};
use agentctl_core::model::Time;
use agentctl_core::worktrees::{
    Made, MakeError, MakeOrder, Wanted, WorktreeOptions, WorktreeSettings, make,
};
use testkit::Repository;

/// A home with a repository in `shop`.
struct World {
    _dir: tempfile::TempDir,
    path: PathBuf,
    host: Host,
    shop: Repository,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = std::fs::canonicalize(dir.path()).expect("resolved");
        let host = host(&path);
        let shop = Repository::new(&path.join("shop"));
        Self { _dir: dir, path, host, shop }
    }

    fn git(&self) -> Git {
        Git::find(&self.host).expect("git")
    }

    fn order(&self) -> MakeOrder {
        order_from(&self.shop.path)
    }

    fn make(&self, order: &MakeOrder, names: &[&str]) -> Result<Vec<Made>, MakeError> {
        make::all(&self.host, order, &wanted(names), &mut |_| {})
    }

    fn made(&self, name: &str) -> Made {
        self.make(&self.order(), &[name]).expect("made").remove(0)
    }
}

fn order_from(from: &Path) -> MakeOrder {
    MakeOrder {
        from: from.to_owned(),
        options: WorktreeOptions::default(),
        settings: WorktreeSettings::default(),
        group: None,
        cancellation: Cancellation::default(),
    }
}

fn wanted(names: &[&str]) -> Vec<Wanted> {
    let wanted =
        |(slot, name): (usize, &&str)| Wanted { name: (*name).to_owned(), slot, base: None };
    names.iter().enumerate().map(wanted).collect()
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
