//! A snapshot has everything that git would commit, and leaves no trace.

use super::World;

#[test]
fn a_snapshot_has_changed_staged_untracked_and_hidden_files_and_writes_nothing() {
    testkit::sandboxed(|| {
        let world = World::new();
        let shop = &world.shop;
        shop.write("README.md", "changed\n");
        shop.write("staged.txt", "staged\n");
        shop.git(["add", "staged.txt"]);
        shop.write("new file\n.txt", "untracked\n");
        shop.write("noise.log", "ignored\n");
        shop.git(["update-index", "--assume-unchanged", "src/lib.txt"]);
        shop.write("src/lib.txt", "hidden edit\n");
        let before = shop.git_files();
        let git = world.git();
        let snapshot = git.snapshot(&shop.path).expect("a snapshot");
        assert!(snapshot.gaps.is_empty(), "{:?}", snapshot.gaps);
        let list = snapshot.see(git.read(&shop.path)).args(["ls-tree", "-r", "-z", "--name-only"]);
        let list = list.arg(&snapshot.tree).text().expect("a tree");
        let names: Vec<&str> = list.split('\0').filter(|name| !name.is_empty()).collect();
        assert_eq!(
            names,
            [".gitignore", "README.md", "new file\n.txt", "src/lib.txt", "staged.txt"]
        );
        for (name, content) in [("README.md", "changed"), ("src/lib.txt", "hidden edit")] {
            let show = snapshot.see(git.read(&shop.path)).args(["cat-file", "blob"]);
            let text = show.arg(format!("{}:{name}", snapshot.tree)).text().expect("a file");
            assert_eq!(text, content);
        }
        assert_eq!(shop.git_files(), before, "the repository was changed");
        drop(snapshot);
        let left: Vec<_> = std::fs::read_dir(world.path.join("tmp")).expect("there").collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_file_that_cannot_be_added_is_a_gap() {
    testkit::sandboxed(|| {
        let world = World::new();
        // A nested repository without a commit cannot be recorded.
        let nested = testkit::Repository::empty(&world.shop.path.join("nested"), &[]);
        nested.write("work.txt", "work\n");
        let snapshot = world.git().snapshot(&world.shop.path).expect("a snapshot");
        assert!(!snapshot.gaps.is_empty());
    });
}
