//! An agent can write anything into its worktree and into the repository. No answer runs a program that it chose
//! there, and none takes a forged proof for work that is elsewhere.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use agentctl_core::ask::WorktreesRequest;
use agentctl_core::worktrees::{CleanAction, CleanedWorktree};
use testkit::{Repository, sandboxed};

use super::World;

impl World {
    fn dry_run(&self, name: &str) -> CleanedWorktree {
        let mut order = self.named(name);
        order.dry_run = true;
        self.clean(&order).remove(0)
    }

    /// Clones the remote into a build folder of a worktree.
    fn nested_clone(&self, tree: &Repository) -> Repository {
        let nested = tree.path.join("node_modules/x");
        let remote = self.path.join("remote.git");
        let (remote, path) = (remote.to_str().expect("UTF-8"), nested.to_str().expect("UTF-8"));
        self.shop.git(["clone", "--quiet", remote, path]);
        self.shop.at(&nested)
    }
}

/// Returns a command that leaves a trace.
fn traced(trace: &Path, then: &str) -> String {
    format!("touch {}; {then}", trace.display())
}

#[test]
fn a_filter_of_a_repository_inside_is_not_run() {
    sandboxed(|| {
        let world = World::new(false);
        let trace = world.path.join("trace");
        for (number, file) in ["config", "config.worktree", "included"].into_iter().enumerate() {
            let name = format!("w{number}");
            let nested = world.nested_clone(&world.made_fast(&name));
            nested.write(".git/info/attributes", "* filter=evil\n");
            let path = nested.path.join(".git").join(file);
            let path = path.to_str().expect("UTF-8");
            nested.git(["config", "--file", path, "filter.evil.clean", &traced(&trace, "cat")]);
            match file {
                "included" => drop(nested.git(["config", "include.path", "included"])),
                "config.worktree" => {
                    nested.git(["config", "core.repositoryFormatVersion", "1"]);
                    nested.git(["config", "extensions.worktreeConfig", "true"]);
                }
                _ => {}
            }
            // Another time than in the index: git has to read the file.
            let readme = std::fs::File::options().write(true).open(nested.path.join("README.md"));
            readme.and_then(|file| file.set_modified(std::time::UNIX_EPOCH)).expect("older");
            let row = world.dry_run(&name);
            assert!(!trace.exists(), "{file}: {row:?}");
            assert_eq!(row.action, CleanAction::Kept, "{file}: {row:?}");
            let reason = "repository node_modules/x: its configuration names a program";
            assert!(row.reasons.iter().any(|said| said.starts_with(reason)), "{file}: {row:?}");
        }
    });
}

#[test]
fn a_remote_tracking_branch_without_a_remote_proves_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("w1");
        let nested = Repository::new(&tree.path.join("node_modules/x"));
        nested.git(["update-ref", "refs/remotes/origin/main", "HEAD"]);
        world.assert_kept("w1", "repository node_modules/x: 1 commit is nowhere else");
    });
}

#[test]
fn a_merge_driver_is_not_run_and_its_result_not_believed() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("w1");
        tree.write("README.md", "of the worktree\n");
        tree.commit("work");
        world.shop.write("README.md", "of main\n");
        world.shop.commit("other work");
        let trace = world.path.join("trace");
        world.shop.write(".git/info/attributes", "* merge=evil=x\n");
        world.shop.git(["config", "merge.renormalize", "true"]);
        world.shop.git(["config", "merge.evil=x.driver", &traced(&trace, "true")]);
        world.shop.git(["config", "merge.evil=x.name", "a driver"]);
        let request =
            WorktreesRequest { directory: Some(world.shop.path.clone()), ..Default::default() };
        let listed = world.fleet.worktrees(&request).expect("listed");
        assert_eq!(
            listed.worktrees[0].merged.map(agentctl_core::worktrees::Merged::word),
            Some("no")
        );
        world.assert_kept("w1", "1 commit is nowhere else");
        assert!(!trace.exists(), "the driver ran");
    });
}

#[test]
fn replaced_and_grafted_commits_prove_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let commit_in = |name: &str| {
            let tree = world.made_fast(name);
            tree.write("work.txt", name);
            tree.commit("work")
        };
        let (one, two) = (commit_in("w1"), commit_in("w2"));
        world.shop.git(["replace", "--graft", "main", &one]);
        world.assert_kept("w1", "1 commit is nowhere else");
        world.shop.git(["replace", "--delete", "main"]);
        let main = world.shop.git(["rev-parse", "main"]);
        world.shop.write(".git/info/grafts", format!("{main} {two}\n"));
        world.assert_kept("w2", "1 commit is nowhere else");
    });
}

/// Makes the commit-graph of a repository state `parent` as the parent of `child`. Git does not check the file's
/// hash when it reads it.
fn forge_commit_graph(graph: &Path, child: &str, parent: &str) {
    const HASH_LENGTH: usize = 20;
    const COMMIT_LENGTH: usize = HASH_LENGTH + 16;
    let mut bytes = std::fs::read(graph).expect("a commit-graph");
    let number = |bytes: &[u8], at: usize| {
        let number = u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        usize::try_from(number).expect("a small file")
    };
    let chunk = |bytes: &[u8], name: &[u8]| {
        let entry = (0..usize::from(bytes[6])).map(|at| 8 + at * 12);
        let mut entry = entry.filter(|at| &bytes[*at..at + 4] == name);
        number(bytes, entry.next().expect("the chunk") + 4)
    };
    let (hashes, commits) = (chunk(&bytes, b"OIDL"), chunk(&bytes, b"CDAT"));
    let position = |bytes: &[u8], hash: &str| {
        let pair = |at: usize| u8::from_str_radix(&hash[at..at + 2], 16).expect("hexadecimal");
        let hash: Vec<u8> = (0..HASH_LENGTH).map(|at| pair(at * 2)).collect();
        let mut known = bytes[hashes..commits].chunks(HASH_LENGTH);
        known.position(|other| other == hash).expect("the commit")
    };
    let first_parent = commits + position(&bytes, child) * COMMIT_LENGTH + HASH_LENGTH;
    let stated = u32::try_from(position(&bytes, parent)).expect("few commits");
    bytes[first_parent..first_parent + 4].copy_from_slice(&stated.to_be_bytes());
    std::fs::remove_file(graph).expect("git keeps it read-only");
    std::fs::write(graph, bytes).expect("written");
}

#[test]
fn a_forged_commit_graph_proves_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("w1");
        tree.write("work.txt", "w1");
        let work = tree.commit("work");
        // A parent has a lower generation than its child.
        world.shop.write("later.txt", "main moves on");
        world.shop.commit("later");
        world.shop.write("later.txt", "main moves on again");
        let main = world.shop.commit("later again");
        world.shop.git(["commit-graph", "write", "--reachable"]);
        let graph = world.shop.path.join(".git/objects/info/commit-graph");
        forge_commit_graph(&graph, &main, &work);
        // Git itself believes the file.
        assert_eq!(world.shop.git(["rev-list", "--count", &work, "^main"]), "0");
        world.assert_kept("w1", "1 commit is nowhere else");
    });
}

/// Starts a shell outside of all worktrees that says `ready` after a script and stays.
fn stays_after(world: &World, script: &str) -> Child {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{script}; echo ready; exec sleep 600")]).current_dir(&world.path);
    let mut shell = shell.stdout(Stdio::piped()).spawn().expect("started");
    let mut said = String::new();
    BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut said).expect("read");
    assert_eq!(said, "ready\n");
    shell
}

#[test]
fn a_process_with_thousands_of_files_or_a_mapped_file_is_in_the_worktree() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("w1");
        let many = format!(
            "ulimit -n 6000; for ((i = 20; i < 5000; i++)); do eval \"exec $i</dev/null\"; done; \
             exec 5500<{}",
            tree.path.join("README.md").display()
        );
        let mut process = stays_after(&world, &many);
        world.assert_kept("w1", "a process works in it (pid ");
        process.kill().and_then(|()| process.wait()).expect("ended");

        tree.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
        let library = maps.lines().find_map(|line| {
            line.find('/').map(|at| &line[at..]).filter(|path| path.contains("/libgcc_s"))
        });
        let mapped = tree.path.join("target/a-library.so");
        std::fs::copy(library.expect("a library"), &mapped).expect("copied");
        let script = format!("export LD_PRELOAD='{}'", mapped.display());
        let mut process = stays_after(&world, &script);
        world.assert_kept("w1", "a process works in it (pid ");
        process.kill().and_then(|()| process.wait()).expect("ended");
        assert_eq!(world.clean_one("w1").action, CleanAction::Removed);
    });
}

/// In a container and below a bind mount the paths of a process do not begin with that of the worktree.
#[test]
fn a_process_that_sees_the_worktree_by_another_mount_is_in_it() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("w1");
        let point = world.path.join("mnt");
        std::fs::create_dir(&point).expect("made");
        let bind = |from: &Path| format!("mount --bind '{}' '{}'", from.display(), point.display());
        let outside = tree.path.parent().expect("a parent");
        for (script, name) in [
            (format!("{}; cd '{}'", bind(&tree.path), point.display()), "its directory"),
            (format!("{}; cd '{}/w1'", bind(outside), point.display()), "a directory around it"),
            (format!("{}; exec 50<'{}/README.md'", bind(&tree.path), point.display()), "a file"),
        ] {
            // In another namespace, and in this one.
            for unshared in [true, false] {
                let here = format!("{script}; echo ready; exec sleep 600");
                let there = format!("exec unshare -m bash -c \"{here}\"");
                let script = if unshared { there } else { here };
                let mut process = stays_after(&world, &script);
                let row = world.dry_run("w1");
                let said = row.reasons.join("; ");
                assert!(
                    said.contains("a process works in it (pid "),
                    "{name}, {unshared}: {row:?}"
                );
                process.kill().and_then(|()| process.wait()).expect("ended");
                if !unshared {
                    assert!(Command::new("umount").arg(&point).status().expect("run").success());
                }
            }
        }
        assert_eq!(world.dry_run("w1").action, CleanAction::Removed);
    });
}

#[test]
fn a_fifo_in_place_of_a_file_that_git_reads_stops_no_answer() {
    sandboxed(|| {
        let world = World::new(false);
        let fifo = |tree: &Repository, name: &str| {
            let path = tree.path.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            let _old = std::fs::remove_file(&path);
            assert!(Command::new("mkfifo").arg(&path).status().expect("run").success());
        };
        for (name, file) in
            [("w1", "sub/.gitignore"), ("w2", ".gitattributes"), ("w3", ".gitmodules")]
        {
            fifo(&world.made_fast(name), file);
            let row = world.dry_run(name);
            assert_eq!(row.action, CleanAction::Kept, "{row:?}");
            assert_eq!(
                row.reasons,
                [format!("{file} is not a regular file, so git cannot read it")]
            );
        }
        let inside = world.nested_clone(&world.made_fast("w4"));
        fifo(&inside, ".git/packed-refs");
        world.assert_kept("w4", "repository node_modules/x: packed-refs is not a regular file");
        let request =
            WorktreesRequest { directory: Some(world.shop.path.clone()), ..Default::default() };
        let listed = world.fleet.worktrees(&request).expect("listed");
        assert_eq!(listed.worktrees[0].dirty, None);
        let said: Vec<&str> = listed.faults.iter().map(|fault| fault.message.as_str()).collect();
        assert!(said[0].contains("sub/.gitignore is not a regular file"), "{said:?}");
        assert!(
            world.fleet.host.var("TMPDIR").is_some_and(|tmp| Path::new(tmp)
                .read_dir()
                .expect("there")
                .next()
                .is_none())
        );
    });
}
