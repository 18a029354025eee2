//! Records of interrupted cleans, and directories that such cleans left: only a rest that nobody has used since goes.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_core::ask::WorktreesRequest;
use agentctl_core::worktrees::{CleanAction, CleanSelection, Cleaned};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use testkit::sandboxed;

use super::World;

impl World {
    fn sweep(&self, dry_run: bool) -> Cleaned {
        let mut order = self.order(CleanSelection::All);
        order.dry_run = dry_run;
        self.clean_telling(&order, &mut |_| {})
    }

    fn records(&self) -> PathBuf {
        self.shop.path.join(".git/agentctl/removed")
    }

    /// Writes the record of a directory, as a clean does before it deletes the directory. Returns the file.
    fn record(&self, directory: &Path, content: &Path) -> PathBuf {
        std::fs::create_dir_all(self.records()).expect("made");
        let meta = directory.symlink_metadata().expect("there");
        let record = self.records().join(format!("{:x}-{:x}", meta.dev(), meta.ino()));
        std::fs::write(&record, content.to_str().expect("UTF-8")).expect("written");
        record
    }

    /// Makes what a clean leaves that is killed before it deletes the files of a worktree.
    fn rest(&self, name: &str) -> PathBuf {
        let tree = self.made_fast(name);
        let aside = tree.path.with_file_name(format!(".{name}.agentctl-removed"));
        // The clock of a file system is coarse. A clean needs longer between its look and its record.
        let changed = |path: &Path| {
            let meta = path.symlink_metadata().expect("there");
            (meta.ctime(), meta.ctime_nsec())
        };
        while changed(&self.record(&tree.path, &aside)) <= changed(&tree.path.join(".env")) {}
        std::fs::rename(&tree.path, &aside).expect("renamed");
        self.shop.git(["worktree", "prune"]);
        aside
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("read").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn records_behind_a_link_are_neither_read_nor_written_nor_removed() {
    sandboxed(|| {
        for link in ["agentctl", "agentctl/removed"] {
            let world = World::new(false);
            let keys = world.path.join("keys");
            let folder = if link == "agentctl" { keys.join("removed") } else { keys.clone() };
            std::fs::create_dir_all(&folder).expect("made");
            let gone = world.path.join("shop.worktrees/.x.agentctl-removed");
            std::fs::write(folder.join("config"), "Host example\n").expect("written");
            std::fs::write(folder.join("1-2"), gone.to_str().expect("UTF-8")).expect("written");
            let link = world.shop.path.join(".git").join(link);
            std::fs::create_dir_all(link.parent().expect("a parent")).expect("made");
            symlink(&keys, &link).expect("linked");
            world.sweep(true);
            assert_eq!(names(&folder), ["1-2", "config"]);
            world.made_fast("fix");
            let folder_time = folder.metadata().expect("there").modified().expect("a time");
            let cleaned = world.sweep(false);
            assert_eq!(cleaned.worktrees[0].action, CleanAction::Removed, "{cleaned:?}");
            assert_eq!(names(&folder), ["1-2", "config"]);
            let now = folder.metadata().expect("there").modified().expect("a time");
            assert_eq!(now, folder_time, "something was written");
            assert!(link.symlink_metadata().expect("there").is_symlink());
        }
    });
}

#[test]
fn only_records_of_directories_that_are_gone_are_removed_and_none_by_a_dry_run() {
    sandboxed(|| {
        let world = World::new(false);
        world.made_fast("kept").write("work.txt", "work\n");
        std::fs::create_dir_all(world.records()).expect("made");
        let beside = world.path.join("shop.worktrees");
        let stale = beside.join(".gone.agentctl-removed");
        let stale = stale.to_str().expect("UTF-8");
        let foreign = [
            ("notes", stale),
            ("1-2.txt", stale),
            ("1-3", ".gone.agentctl-removed"),
            ("1-4", "/nowhere/at/all"),
            ("1-5", ""),
        ];
        for (name, content) in foreign.into_iter().chain([("1-6", stale)]) {
            std::fs::write(world.records().join(name), content).expect("written");
        }
        world.sweep(true);
        assert_eq!(names(&world.records()), ["1-2.txt", "1-3", "1-4", "1-5", "1-6", "notes"]);
        world.sweep(false);
        assert_eq!(names(&world.records()), ["1-2.txt", "1-3", "1-4", "1-5", "notes"]);
    });
}

#[test]
fn a_forged_record_deletes_nothing_elsewhere() {
    sandboxed(|| {
        let world = World::new(false);
        world.made_fast("kept").write("work.txt", "work\n");
        let precious = world.path.join("precious/.p.agentctl-removed");
        std::fs::create_dir_all(&precious).expect("made");
        world.record(&precious, &precious);
        // The record has the inode of this directory, and names another one.
        let beside = world.path.join("shop.worktrees/.q.agentctl-removed");
        std::fs::create_dir(&beside).expect("made");
        world.record(&beside, &precious);
        let cleaned = world.sweep(false);
        assert!(precious.exists() && beside.exists(), "{cleaned:?}");
        assert_eq!(cleaned.finished, Vec::<PathBuf>::new());
        for path in [&precious, &beside] {
            let named = |text: &String| text.starts_with(&path.display().to_string());
            assert!(cleaned.warnings.iter().any(named), "{cleaned:?}");
        }
    });
}

#[test]
fn the_rest_of_a_clean_stays_if_it_was_used_since() {
    sandboxed(|| {
        let world = World::new(false);
        let (edited, occupied, untouched) =
            (world.rest("edited"), world.rest("occupied"), world.rest("untouched"));
        std::fs::write(edited.join("notes"), "notes\n").expect("written");
        let mut process = Command::new("sleep");
        let mut process = process.arg("600").current_dir(&occupied).spawn().expect("started");
        let tried = world.sweep(true);
        assert_eq!(tried.finished, std::slice::from_ref(&untouched), "{tried:?}");
        let swept = world.sweep(false);
        assert_eq!(swept.finished, std::slice::from_ref(&untouched), "{swept:?}");
        assert!(edited.join("notes").exists() && occupied.exists() && !untouched.exists());
        let warned = |path: &Path, why: &str| {
            let beginning = format!("{} is the rest of an interrupted clean", path.display());
            let is_it = |text: &String| text.starts_with(&beginning) && text.contains(why);
            assert!(swept.warnings.iter().any(is_it), "{swept:?}");
        };
        warned(&edited, "notes was written since");
        warned(&occupied, "a process works in it");
        process.kill().and_then(|()| process.wait()).expect("ended");
        assert_eq!(world.sweep(false).finished, [occupied]);
    });
}

/// The path of the file is longer than the kernel takes in one call.
#[test]
fn a_file_that_lies_deep_below_a_rest_keeps_it() {
    sandboxed(|| {
        let world = World::new(false);
        let rest = world.rest("deep");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut folder = openat(CWD, &rest, flags, Mode::empty()).expect("opened");
        let name = "d".repeat(200);
        for _ in 0..25 {
            mkdirat(&folder, &name, Mode::RWXU).expect("made");
            folder = openat(&folder, &name, flags, Mode::empty()).expect("opened");
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        openat(&folder, "precious", flags, Mode::RWXU).expect("written");
        for dry_run in [true, false] {
            let swept = world.sweep(dry_run);
            assert_eq!(swept.finished, [] as [PathBuf; 0], "{swept:?}");
            assert!(swept.warnings.iter().any(|text| text.contains("was written since")));
        }
        assert!(rest.exists());
    });
}

#[test]
fn a_half_deleted_rest_goes() {
    sandboxed(|| {
        let world = World::new(false);
        let rest = world.rest("fix");
        std::fs::remove_file(rest.join("src/lib.txt")).expect("removed");
        std::fs::remove_dir(rest.join("src")).expect("removed");
        std::fs::remove_file(rest.join(".git")).expect("removed");
        assert_eq!(world.sweep(false).finished, std::slice::from_ref(&rest));
        assert!(!rest.exists() && !world.records().exists());
    });
}

#[test]
fn a_fifo_in_place_of_the_data_of_a_worktree_stops_no_list() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        std::fs::remove_dir_all(&tree.path).expect("removed");
        let planted = world.path.join("planted");
        std::fs::create_dir(&planted).expect("made");
        let fifo = planted.join("gitdir");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("run").success());
        let aside = tree.path.with_file_name(".fix.agentctl-removing");
        std::fs::create_dir_all(&aside).expect("made");
        let link = format!("gitdir: {}\n", planted.display());
        std::fs::write(aside.join(".git"), link).expect("written");
        let request =
            WorktreesRequest { directory: Some(world.shop.path.clone()), ..Default::default() };
        let listed = world.fleet.worktrees(&request).expect("listed");
        assert_eq!(listed.worktrees.len(), 1);
    });
}
