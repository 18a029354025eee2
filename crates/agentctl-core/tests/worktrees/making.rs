//! What is made, and where; and what is refused before anything exists.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use agentctl_core::worktrees::{Made, MakeError, make};
use testkit::Repository;

use super::{World, order_from};

#[test]
fn a_worktree_has_its_branch_base_ref_and_directory() {
    testkit::sandboxed(|| {
        let world = World::new();
        let head = world.shop.git(["rev-parse", "HEAD"]);
        let made = world.made("g-1/codex");
        assert_eq!(made.path, world.path.join("shop.worktrees/g-1-codex"));
        assert_eq!((made.cwd.as_path(), made.left_behind), (made.path.as_path(), 0));
        assert_eq!(made.branch, "agentctl/g-1/codex");
        assert_eq!(world.shop.git(["rev-parse", "refs/heads/agentctl/g-1/codex"]), head);
        assert_eq!(world.shop.git(["rev-parse", "refs/agentctl/base/g-1/codex"]), head);
        let reflog = world.shop.git(["reflog", "show", "--format=%gs", "agentctl/g-1/codex"]);
        assert_eq!(reflog, "branch: Created from refs/heads/main");
        let listed = world.shop.git(["worktree", "list", "--porcelain"]);
        assert!(!listed.contains("locked"), "{listed}");
        assert_eq!(std::fs::read_to_string(made.path.join("README.md")).expect("there"), "first\n");
    });
}

#[test]
fn a_taken_name_among_several_makes_nothing() {
    testkit::sandboxed(|| {
        let world = World::new();
        world.made("b");
        let before = world.shop.git(["for-each-ref"]);
        let error = world.make(&world.order(), &["a", "b", "c"]).expect_err("taken");
        assert!(matches!(&error, MakeError::Taken { name, .. } if name == "b"), "{error}");
        assert!(error.to_string().contains("shop.worktrees/b has it"), "{error}");
        let error = world.make(&world.order(), &["c/d", "c"]).expect_err("git cannot keep both");
        let said = "`c` cannot be the name of a worktree: git cannot keep both its branch and that of `c/d`";
        assert_eq!(error.to_string(), said);
        assert_eq!(world.shop.git(["for-each-ref"]), before);
        assert_eq!(world.shop.git(["worktree", "list"]).lines().count(), 2);
    });
}

#[test]
fn a_branch_called_like_the_prefix_is_named_as_the_holder() {
    testkit::sandboxed(|| {
        let world = World::new();
        world.shop.git(["branch", "agentctl"]);
        let before = world.shop.git(["for-each-ref"]);
        let error = world.make(&world.order(), &["a", "b"]).expect_err("a collision");
        assert!(error.to_string().contains("the branch `agentctl` exists"), "{error}");
        assert_eq!(world.shop.git(["for-each-ref"]), before);
        assert!(!world.path.join("shop.worktrees").exists());
    });
}

#[test]
fn an_unused_worktree_is_undone_and_one_with_work_is_kept() {
    testkit::sandboxed(|| {
        let world = World::new();
        let before = world.shop.git(["for-each-ref"]);
        let made = world.made("x");
        assert_eq!(make::undo(&world.host, &made).expect("undone"), make::Undone::Removed);
        assert_eq!(world.shop.git(["for-each-ref"]), before);
        assert!(!made.path.exists() && !world.path.join("shop.worktrees").exists());
        for (name, file) in [("y", "new.txt"), ("z", "ignored.log")] {
            let made = world.made(name);
            std::fs::write(made.path.join(file), "work").expect("written");
            let undone = make::undo(&world.host, &made).expect("looked at");
            assert!(matches!(undone, make::Undone::Kept(_)), "{undone:?}");
            assert!(made.path.join(file).exists());
        }
    });
}

/// `git status` shows none of these changes: the files were untracked or ignored before, and no ref has moved.
#[test]
fn work_in_files_that_setup_left_keeps_the_worktree_of_a_failed_launch() {
    testkit::sandboxed(|| {
        let world = World::new();
        world.shop.write(".env", "KEY=1\n");
        world.shop.write(".git/info/exclude", "out/\n.env\n");
        let mut order = world.order();
        order.settings.copy = vec![".env".into()];
        let setup = "mkdir out; echo log > out/log; echo gen > gen.txt";
        order.settings.setup = ["sh", "-c", setup].map(str::to_owned).to_vec();
        let run = |made: &Made, script: &str| {
            let mut command = std::process::Command::new("sh");
            let status = command.args(["-ec", script]).current_dir(&made.path).status();
            assert!(status.expect("started").success(), "{script}");
        };
        let commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x";
        let work = [
            ("in-folder", "echo work > out/result.txt"),
            ("appended", "echo work >> gen.txt"),
            ("same-size", "printf 'GEN\\n' > gen.txt"),
            ("copied", "echo KEY=2 >> .env"),
            ("flagged", "git update-index --assume-unchanged README.md; echo work >> README.md"),
            ("reset", &format!("{commit}; git reset -q --hard HEAD~")),
            ("staged", "echo s > s; git add s; rm s"),
            ("switched", "git switch -qc feature"),
        ];
        for (name, script) in work {
            let made = world.make(&order, &[name]).expect("made").remove(0);
            run(&made, script);
            let undone = make::undo(&world.host, &made).expect("looked at");
            assert!(matches!(undone, make::Undone::Kept(_)), "{name}: {undone:?}");
            assert!(made.path.join("out/log").exists(), "{name}");
            world.shop.git(["rev-parse", "--verify", &format!("refs/agentctl/base/{name}")]);
        }
        let made = world.make(&order, &["only-read"]).expect("made").remove(0);
        run(
            &made,
            "cat .env out/log gen.txt > /dev/null; git status > /dev/null; git log > /dev/null",
        );
        assert_eq!(make::undo(&world.host, &made).expect("undone"), make::Undone::Removed);
    });
}

#[test]
fn changes_stay_behind_and_are_counted_or_are_taken_along() {
    testkit::sandboxed(|| {
        let world = World::new();
        let shop = &world.shop;
        shop.write("README.md", "changed\n");
        shop.write("new/file.txt", "new\n");
        shop.write("noise.log", "ignored\n");
        let index = shop.git(["status", "--porcelain", "-uall"]);
        assert_eq!(world.made("behind").left_behind, 2);
        let mut order = world.order();
        order.options.with_changes = true;
        let made = world.make(&order, &["along"]).expect("made").remove(0);
        assert_eq!(
            std::fs::read_to_string(made.path.join("README.md")).expect("there"),
            "changed\n"
        );
        assert!(made.path.join("new/file.txt").exists() && !made.path.join("noise.log").exists());
        let tree = shop.at(&made.path);
        assert_eq!(tree.git(["status", "--porcelain"]), "");
        assert_eq!(tree.git(["rev-parse", "HEAD^"]), made.base);
        assert_eq!(
            shop.git(["status", "--porcelain", "-uall"]),
            index,
            "the main tree was changed"
        );
        order.options.base = Some("HEAD~0".to_owned());
        world.make(&order, &["same"]).expect("HEAD by another name");
        shop.commit("second");
        order.options.base = Some("HEAD^".to_owned());
        let error = world.make(&order, &["other"]).expect_err("another base");
        assert!(matches!(error, MakeError::ChangesOfOtherBase { .. }), "{error}");
    });
}

/// Makes a worktree from this directory and checks its files.
pub(crate) fn works(world: &World, from: &Path, name: &str) -> Made {
    let made = world.make(&order_from(from), &[name]);
    let made = made.unwrap_or_else(|error| panic!("{}: {error}", from.display())).remove(0);
    assert!(made.path.join("README.md").exists(), "{}", made.path.display());
    assert!(made.warnings.is_empty(), "{:?}", made.warnings);
    made
}

#[test]
fn every_kind_of_repository_works() {
    testkit::sandboxed(|| {
        let world = World::new();
        let at = |name: &str| world.path.join(name);
        // Below the top: the agent starts in the same directory of its worktree.
        let below = works(&world, &world.shop.path.join("src"), "below");
        assert_eq!(below.cwd, below.path.join("src"));
        // Names with blanks, a line end, quotes and letters of other languages.
        for name in ["sp ace", "new\nline", "qu\"ote", "Überraschung-日本"] {
            let odd = Repository::new(&at(name));
            let made = works(&world, &odd.path.join("src"), "odd/ünï");
            assert_eq!(made.cwd, made.path.join("src"));
            assert_eq!(made.path.parent(), Some(at(&format!("{name}.worktrees")).as_path()));
        }
        // Detached.
        world.shop.git(["checkout", "--quiet", "--detach"]);
        works(&world, &world.shop.path, "detached");
        // From a linked worktree: beside the main one.
        let linked = works(&world, &below.path, "from-linked");
        assert_eq!(linked.path, at("shop.worktrees/from-linked"));
        // SHA-256.
        let sha256 = Repository::empty(&at("sha256"), &["--object-format=sha256"]);
        sha256.write("README.md", "x\n");
        sha256.commit("first");
        assert_eq!(works(&world, &sha256.path, "x").base.len(), 64);
        // A bare repository.
        let url = world.shop.path.to_str().expect("UTF-8");
        world.shop.git([
            "clone",
            "--quiet",
            "--bare",
            url,
            at("bare.git").to_str().expect("UTF-8"),
        ]);
        let bare = works(&world, &at("bare.git"), "x");
        assert_eq!(bare.path, at("bare.worktrees/x"));
        // A repository whose working tree is elsewhere, from the tree, its git directory and a worktree of it.
        let apart = Repository::new(&at("apart.git-only"));
        std::fs::create_dir_all(at("tree/src")).expect("made");
        let tree = at("tree");
        apart.git(["config", "core.worktree", tree.to_str().expect("UTF-8")]);
        apart.git(["checkout", "--force", "--quiet", "HEAD", "--", ":/"]);
        std::fs::write(
            tree.join(".git"),
            format!("gitdir: {}\n", apart.path.join(".git").display()),
        )
        .expect("written");
        let made = works(&world, &tree.join("src"), "x");
        assert_eq!((&made.path, &made.cwd), (&at("tree.worktrees/x"), &at("tree.worktrees/x/src")));
        assert_eq!(works(&world, &made.path, "from-it").path, at("tree.worktrees/from-it"));
        // A clone that borrows its objects.
        world.shop.git([
            "clone",
            "--quiet",
            "--shared",
            url,
            at("borrows").to_str().expect("UTF-8"),
        ]);
        works(&world, &at("borrows"), "x");
    });
}

#[test]
fn a_repository_without_a_commit_is_refused_and_nothing_is_left() {
    testkit::sandboxed(|| {
        let world = World::new();
        let unborn = Repository::empty(&world.path.join("unborn"), &[]);
        let error = world.make(&order_from(&unborn.path), &["x"]).expect_err("unborn");
        assert!(matches!(error, MakeError::Unborn { .. }), "{error}");
        let error = world.make(&order_from(&world.path), &["x"]).expect_err("no repository");
        assert!(error.to_string().ends_with("is not in a git repository"), "{error}");
        assert!(!world.path.join("unborn.worktrees").exists());
    });
}

#[test]
fn files_are_copied_without_following_links_and_setup_gets_its_variables() {
    testkit::sandboxed(|| {
        let world = World::new();
        let shop = &world.shop;
        shop.write(".env", "SECRET=1\n");
        shop.write("conf/local.log", "x\n");
        let outside = world.path.join("outside");
        std::fs::write(&outside, "outside").expect("written");
        std::os::unix::fs::symlink(&outside, shop.path.join("link.log")).expect("linked");
        // The base has a directory that is a link in the worktree.
        std::os::unix::fs::symlink(&world.path, shop.path.join("tricky")).expect("linked");
        shop.commit("a link");
        std::fs::remove_file(shop.path.join("tricky")).expect("removed");
        shop.write("tricky/planted.log", "x\n");
        let mut order = world.order();
        let copy = [".env", "conf", "link.log", "tricky/planted.log", "missing", "README.md"];
        order.settings.copy = copy.map(PathBuf::from).to_vec();
        let script = "env | grep ^AGENTCTL_ | sort; pwd; cat .env";
        order.settings.setup = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        order.group = Some("g".to_owned());
        let made = world.make(&order, &["x"]).expect("made").remove(0);
        assert!(made.path.join("conf/local.log").exists() && !made.path.join("link.log").exists());
        assert!(!world.path.join("planted.log").exists(), "a link was followed");
        assert_eq!(made.warnings.len(), 2, "{:?}", made.warnings);
        let said = String::from_utf8_lossy(&made.setup_output).into_owned();
        let (path, main) = (made.path.display(), shop.path.display());
        for line in [
            "AGENTCTL_BRANCH=agentctl/x".to_owned(),
            "AGENTCTL_GROUP=g".to_owned(),
            format!("AGENTCTL_MAIN={main}"),
            "AGENTCTL_SLOT=0".to_owned(),
            format!("AGENTCTL_WORKTREE={path}"),
            path.to_string(),
            "SECRET=1".to_owned(),
        ] {
            assert!(said.lines().any(|said| said == line), "{line} is not in {said}");
        }
    });
}

#[test]
fn a_failed_setup_removes_everything_that_was_made() {
    testkit::sandboxed(|| {
        let world = World::new();
        let before = (world.shop.git(["for-each-ref"]), world.shop.git(["worktree", "list"]));
        let mut order = world.order();
        let script =
            "touch made-by-setup; test $AGENTCTL_SLOT != 1 || { echo no ports left; exit 3; }";
        order.settings.setup = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let error = world.make(&order, &["a", "b", "c"]).expect_err("the setup of b fails");
        assert!(error.to_string().contains("exit code 3: no ports left"), "{error}");
        let after = (world.shop.git(["for-each-ref"]), world.shop.git(["worktree", "list"]));
        assert_eq!(after, before);
        assert!(!world.path.join("shop.worktrees").exists());
    });
}

/// Nothing tells files of a setup program that did not finish from those that others put there meanwhile.
#[test]
fn files_that_lie_in_a_worktree_whose_setup_fails_are_saved() {
    testkit::sandboxed(|| {
        let world = World::new();
        world.shop.write(".gitignore", "node_modules/\n");
        world.shop.commit("ignore");
        world.shop.write("local.toml", "a copy\n");
        let mut order = world.order();
        order.settings.copy = vec!["local.toml".into()];
        let set_up = |order: &mut agentctl_core::worktrees::MakeOrder, script: &str| {
            order.settings.setup = ["sh", "-c", script].map(str::to_owned).to_vec();
        };
        set_up(&mut order, "mkdir node_modules; echo x > node_modules/x; exit 1");
        let error = world.make(&order, &["a"]).expect_err("the setup fails");
        assert!(matches!(error, MakeError::SetUp { .. }), "{error}");

        let before = world.shop.git(["for-each-ref"]);
        set_up(&mut order, "echo one; echo PRECIOUS > mine.txt; echo two; exit 1");
        let error = world.make(&order, &["a"]).expect_err("the setup fails");
        let MakeError::Left { cause, remains } = &error else { panic!("{error}") };
        let script = "`sh -c 'echo one; echo PRECIOUS > mine.txt; echo two; exit 1'`";
        let said = format!("the setup program {script} failed: exit code 1: one; two");
        assert_eq!(cause.to_string(), said);
        assert!(remains.left.is_empty() && remains.kept.is_empty(), "{error}");
        let [saved] = &remains.saved[..] else { panic!("{error}") };
        assert!(error.to_string().contains(&saved.reference), "{error}");
        let file = format!("{}:mine.txt", saved.reference);
        assert_eq!(world.shop.git(["show", &file]), "PRECIOUS");
        assert!(!world.path.join("shop.worktrees").exists());
        world.shop.git(["update-ref", "-d", &saved.reference]);
        assert_eq!(world.shop.git(["for-each-ref"]), before);

        // A rescue ref does not hold the files of a repository.
        let identity = "-c user.name=ada -c user.email=ada@example.org";
        let commit = format!("git -C inside {identity} commit --quiet --allow-empty -m x");
        set_up(&mut order, &format!("git init --quiet inside; {commit}; exit 1"));
        let error = world.make(&order, &["a"]).expect_err("the setup fails");
        let MakeError::Left { remains, .. } = &error else { panic!("{error}") };
        let why = &remains.kept[0].why;
        assert!(why.starts_with("repository inside: 1 commit is nowhere else ("), "{why}");
        assert!(remains.kept[0].path.join("inside/.git").exists());
    });
}

#[test]
fn the_lock_that_an_ended_git_left_on_a_new_branch_does_not_keep_the_branch() {
    testkit::sandboxed(|| {
        let world = World::new();
        let before = world.shop.git(["for-each-ref"]);
        let lock = world.shop.path.join(".git/refs/heads/agentctl/a.lock");
        let mut order = world.order();
        let script = ": > \"$AGENTCTL_MAIN/.git/refs/heads/$AGENTCTL_BRANCH.lock\"; exit 3";
        order.settings.setup = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let error = world.make(&order, &["a"]).expect_err("the setup fails");
        assert!(matches!(error, MakeError::SetUp { .. }), "{error}");
        assert!(!lock.exists());
        assert_eq!(world.shop.git(["for-each-ref"]), before);
    });
}

#[test]
fn a_sparse_directory_that_the_base_does_not_have_is_refused() {
    testkit::sandboxed(|| {
        let world = World::new();
        let mut order = world.order();
        order.options.sparse = vec!["src".to_owned(), "nosuch".to_owned()];
        order.options.force = true;
        let refused = world.make(&order, &["fix"]).expect_err("there is no such directory");
        assert_eq!(refused.to_string(), "--sparse: the base has no directory `nosuch`");
        assert_eq!(world.shop.git(["branch", "--list", "agentctl/*"]), "");
        order.options.sparse = vec!["src/".to_owned()];
        assert!(world.make(&order, &["fix"]).is_ok());
    });
}

#[test]
fn a_repository_that_cannot_be_written_is_no_taken_name() {
    testkit::sandboxed(|| {
        let world = World::new();
        let git_dir = world.shop.path.join(".git");
        let text = git_dir.to_str().expect("UTF-8");
        let run = |args: &[&str]| {
            let status = std::process::Command::new(args[0]).args(&args[1..]).status();
            assert!(status.expect("run").success(), "{args:?}");
        };
        // The sandbox has a mount namespace of its own.
        run(&["mount", "--bind", text, text]);
        run(&["mount", "-o", "remount,bind,ro", text]);
        let refused = world.make(&world.order(), &["fix"]).expect_err("read-only").to_string();
        run(&["umount", text]);
        let said = format!("the repository {} cannot be written: ", world.shop.path.display());
        assert!(refused.starts_with(&said), "{refused}");
    });
}

#[test]
fn a_repository_inside_is_named_and_left_out_where_uncommitted_changes_are_taken_along() {
    testkit::sandboxed(|| {
        let world = World::new();
        let shop = &world.shop;
        shop.write("tracked", "of the base\n");
        shop.commit("a file");
        // One is new, one lies where the base has a file.
        let _inner = Repository::new(&shop.path.join("vendor/inner"));
        std::fs::remove_file(shop.path.join("tracked")).expect("removed");
        let _instead = Repository::new(&shop.path.join("tracked"));
        let mut order = world.order();
        order.options.with_changes = true;
        let warnings = ["tracked", "vendor/inner"].map(|path| {
            format!("{path} is a repository of its own: the files in it are not taken along")
        });
        // With nothing else to take along there is no commit.
        let made = world.make(&order, &["none"]).expect("made").remove(0);
        assert_eq!((&made.start, made.warnings.as_slice()), (&made.base, &warnings[..]));
        shop.write("new.txt", "new\n");
        let made = world.make(&order, &["a", "b"]).expect("made");
        for made in &made {
            assert_eq!(made.warnings, warnings);
            assert!(made.path.join("new.txt").exists());
            let changed = shop.git(["diff-tree", "-r", "--name-status", &made.base, &made.start]);
            assert_eq!(changed, "A\tnew.txt");
            assert_eq!(shop.at(&made.path).git(["status", "--porcelain"]), "");
        }
    });
}

#[test]
fn a_temporary_directory_is_refused_unless_the_repository_is_in_it() {
    testkit::sandboxed(|| {
        let world = World::new();
        let place = world.path.join("tmp");
        let mut order = world.order();
        order.options.directory = Some(place.join("trees"));
        let error = world.make(&order, &["fix"]).expect_err("refused");
        assert!(matches!(error, MakeError::BadDirectory { .. }), "{error}");
        let said = format!("it is in the temporary directory {}", place.display());
        assert!(error.to_string().contains(&said), "{error}");
        assert!(!place.join("trees").exists());
        works(&world, &Repository::new(&place.join("repository")).path, "fix");
    });
}

#[test]
fn a_hook_that_fails_is_named_with_its_words() {
    testkit::sandboxed(|| {
        let hooks = ["post-checkout", "reference-transaction"];
        for (hook, words) in hooks.into_iter().zip(["policy says no", "aborted by hook"]) {
            let world = World::new();
            let script = "#!/bin/sh\necho policy says no >&2\nexit 1\n";
            let path = world.shop.write(Path::new(".git/hooks").join(hook), script);
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, executable).expect("executable");
            let error = world.make(&world.order(), &["fix"]).expect_err("refused");
            assert!(
                matches!(error, MakeError::Hook { hook: named, .. } if named == hook),
                "{error}"
            );
            assert!(error.to_string().contains(words), "{error}");
            assert!(!world.path.join("shop.worktrees").exists());
        }
    });
}

#[test]
fn ten_thousand_files_are_checked_out_and_removed() {
    testkit::sandboxed(|| {
        let world = World::new();
        let blob = world.shop.git(["rev-parse", "HEAD:README.md"]);
        let tree_of = |entry: &dyn Fn(usize) -> String, count: usize| {
            let mut command = std::process::Command::new("git");
            command.arg("mktree").current_dir(&world.shop.path);
            let mut git =
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
            let entries: String = (0..count).map(entry).collect();
            git.stdin.take().expect("a pipe").write_all(entries.as_bytes()).expect("written");
            let output = git.wait_with_output().expect("ended");
            String::from_utf8(output.stdout).expect("an id").trim().to_owned()
        };
        let folder = tree_of(&|at| format!("100644 blob {blob}\tf{at}\n"), 1000);
        let top = tree_of(&|at| format!("040000 tree {folder}\td{at}\n"), 10);
        let mut order = world.order();
        order.options.base =
            Some(world.shop.git(["commit-tree", &top, "-p", "HEAD", "-m", "large"]));
        let made = world.make(&order, &["large"]).expect("made").remove(0);
        assert_eq!(world.shop.at(&made.path).git(["ls-files"]).lines().count(), 10_000);
        assert!(made.path.join("d9/f999").exists());
        let undone = make::undo(&world.host, &made).expect("looked at");
        assert_eq!(undone, make::Undone::Removed);
        assert!(!made.path.exists());
    });
}
