//! The cost of worktrees beside what git itself needs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use testkit::Repository;

use crate::measure::{Times, command, compare, ours};
use crate::promises::Bench;

/// How many files the repository has.
const FILES: usize = 4000;
/// How many worktrees are listed.
const WORKTREES: usize = 50;
/// How many agents are launched at once.
const SLOTS: usize = 8;

impl Bench<'_> {
    pub(crate) fn worktrees(&mut self) {
        let list = format!("`worktree list`, {WORKTREES} worktrees of {FILES} files");
        let launch = format!("`launch --worktree`, {FILES} files");
        if self.wanted(&list) {
            let shop = repository(&self.directory.join("worktree-list"));
            for number in 0..WORKTREES {
                add(&shop, number);
            }
            // The same questions by git itself, four at a time.
            let status = "git -C {} status --porcelain --untracked-files=all";
            let (theirs, ours) = (each_worktree(status), &["worktree", "list"][..]);
            let times = self.in_shop(&shop, &theirs, ours);
            self.at_most_ratio(list.clone(), "`git status`, 4 at a time", times, Some(1.5));
            // A table has no sizes, a document has: every file is looked at for them.
            let with_size = each_worktree(&format!("sh -c '{status}; du -sb {{}}'"));
            let times = self.in_shop(&shop, &with_size, &["worktree", "list", "--json"]);
            let reference = "`git status` and `du`, 4 at a time";
            self.at_most_ratio(format!("{list}, with sizes"), reference, times, Some(1.5));
        }
        if self.wanted(&launch) {
            let shop = repository(&self.directory.join("worktree-launch"));
            let times = launches(&shop, self.options.runs.min(7));
            self.at_most_above(launch, "`git worktree add` and a plain launch", times, 60.0);
        }
        let group = format!("`launch --times {SLOTS}`, {FILES} files");
        if self.wanted(&group) {
            let shop = repository(&self.directory.join("worktree-group"));
            let times = groups(&shop, self.options.runs.min(5));
            let reference = "`git worktree add`, 4 at a time, and plain launches at once";
            self.at_most_ratio(group, reference, times, Some(1.3));
        }
    }

    fn in_shop(&self, shop: &Repository, theirs: &str, args: &[&str]) -> Times {
        let mut theirs = command(&shop.path, "/bin/sh", &["-c", theirs]);
        let mut listing = ours(&shop.path, args);
        let (theirs, listing) = (theirs.current_dir(&shop.path), listing.current_dir(&shop.path));
        compare(self.options.runs.min(5), theirs, listing)
    }
}

/// Returns a script that runs a command for each worktree, four at a time.
fn each_worktree(command: &str) -> String {
    let list = "git worktree list --porcelain | sed -n 's/^worktree //p'";
    format!("{list} | xargs -P 4 -I{{}} {command}")
}

fn repository(path: &Path) -> Repository {
    if path.exists() {
        std::fs::remove_dir_all(path).expect("removed");
    }
    let shop = Repository::new(&path.join("shop"));
    for number in 0..FILES {
        shop.write(format!("src/{}/{number}.txt", number % 40), format!("file {number}\n"));
    }
    shop.commit("files");
    shop
}

fn add(shop: &Repository, number: usize) -> PathBuf {
    let path = shop.path.with_file_name("shop.worktrees").join(format!("n{number}"));
    let branch = format!("agentctl/n{number}");
    shop.git(["worktree", "add", "--quiet", "-b", &branch, path.to_str().expect("UTF-8")]);
    path
}

/// Measures, in turn, git's own worktree with a plain launch, and a launch with a worktree.
fn launches(shop: &Repository, runs: usize) -> Times {
    let (mut apart, mut together) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let start = start();
        let path = add(shop, run);
        launch(&shop.path, &path, &[]);
        apart.push(start.elapsed().as_secs_f64() * 1000.0);
        let start = self::start();
        launch(&shop.path, &shop.path, &[&format!("--worktree=bench-{run}")]);
        together.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    // The first of each warms the page cache and is not counted.
    Times::of(apart.split_off(1), together.split_off(1))
}

/// Returns the time after everything was written to the disk, so that neither side pays for the files of the other.
fn start() -> Instant {
    rustix::fs::sync();
    Instant::now()
}

fn launch(home: &Path, directory: &Path, more: &[&str]) {
    let args = [&["launch", "demo", "-p", "x [[say:done]]"], more].concat();
    let mut launch = ours(home, &args);
    let launched = launch.current_dir(directory).output().expect("started");
    assert!(launched.status.success(), "the launch failed");
}

/// Measures, in turn, git's own worktrees, four at a time, with plain launches at once, and one launch of a group.
fn groups(shop: &Repository, runs: usize) -> Times {
    let (mut apart, mut together) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let start = start();
        let folder = shop.path.with_file_name("shop.worktrees").join(format!("apart-{run}"));
        // git fails if it meets the incomplete entry that another git makes at the same moment.
        let add = format!("git worktree add --quiet -B apart-{run}-$1 \"{}/$1\"", folder.display());
        let tries = format!("for n in 1 2 3 4 5 6 7 8; do {add} && exit 0; done; exit 255");
        let script = format!("seq {SLOTS} | xargs -P 4 -n 1 sh -c '{tries}' sh");
        let mut adds = command(&shop.path, "/bin/sh", &["-c", &script]);
        let added = adds.current_dir(&shop.path).output().expect("started");
        assert!(added.status.success(), "git failed: {added:?}");
        std::thread::scope(|scope| {
            for slot in 1..=SLOTS {
                let directory = folder.join(slot.to_string());
                scope.spawn(move || launch(&shop.path, &directory, &[]));
            }
        });
        apart.push(start.elapsed().as_secs_f64() * 1000.0);
        let start = self::start();
        let (times, group) = (SLOTS.to_string(), format!("bench-{run}"));
        launch(&shop.path, &shop.path, &["--times", &times, "--group", &group]);
        together.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    // The first of each warms the page cache and is not counted.
    Times::of(apart.split_off(1), together.split_off(1))
}
