//! The matrix file of a launch: lists that multiply, slots of their own, and errors that name file, line and key.

use std::fs;

use testkit::{eventually, sandboxed};

use crate::home;
use crate::launch_group::{assert_untouched, branches, launch, shop, slots};
use crate::launched::{runs, script};

#[test]
fn a_matrix_launches_the_product_and_its_slots() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        repository.write("docs/auth.md", "about auth\n");
        let base = repository.commit("docs");
        repository.git(["branch", "release"]);
        repository.write("later.txt", "x");
        repository.commit("later");
        let hook = script(&home, "hook", "echo $1 $AGENTCTL_GROUP >> $HOME/hooks.log");
        let hook = hook.to_string_lossy();
        home.write(
            "plans/fix.toml",
            format!(
                r#"
prompt_file = "task.md"
cwd     = "../shop"
base    = "release"
files   = ["docs/auth.md"]
group   = "fix"
verify  = ["cargo", "test"]
adapter = "demo"
model   = ["m1", "m2"]
permissions = "edits"
prompt_suffix = ["", "Write the test first."]
env = {{ WORD = "from-the-file" }}
[hooks]
on_create = ["{hook}", "begun"]
on_complete = ["{hook}", "ended"]
[[slot]]
adapter = "demo"
branch = "alone"
prompt = "its own [[tool:echo $WORD > word]] [[say:done]]"
"#
            ),
        );
        home.write("plans/task.md", "Fix it [[say:done]]");
        let file = home.path().join("plans/fix.toml");
        let file = file.to_string_lossy();
        let launched = home.run(&["launch", "--matrix", &file, "--json", "--wait"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let rows = slots(&launched);
        let names = ["demo-m1", "demo-m1-2", "demo-m2", "demo-m2-2", "alone"];
        let expected = names.map(|name| format!("agentctl/fix/{name}"));
        let branch = |row: &serde_json::Value| row["branch"].as_str().expect("a branch").to_owned();
        assert_eq!(rows.iter().map(branch).collect::<Vec<_>>(), expected);
        assert_eq!(repository.git(["rev-parse", "agentctl/fix/alone"]), base, "from its base");
        let prompt = |row: &serde_json::Value| {
            let run = row["run"].as_str().expect("a run");
            let runs = home.path().join(".local/state/agentctl/runs");
            fs::read_to_string(runs.join(run).join("prompt")).expect("a prompt")
        };
        let context = "## File: docs/auth.md\n\n```text\nabout auth\n```\n\n## Task\n\n";
        assert_eq!(prompt(&rows[0]), format!("{context}Fix it [[say:done]]"));
        let suffix = format!("{context}Fix it [[say:done]]\n\nWrite the test first.");
        assert_eq!(prompt(&rows[1]), suffix);
        let word = std::path::Path::new(rows[4]["worktree"].as_str().expect("a path")).join("word");
        assert_eq!(fs::read_to_string(word).expect("written"), "from-the-file\n");
        eventually("all hooks ran", || {
            let log = fs::read_to_string(home.path().join("hooks.log")).ok()?;
            let count = |line: &str| log.lines().filter(|l| *l == line).count();
            (count("begun fix") == 5 && count("ended fix") == 5).then_some(())
        });
        assert!(
            launched.stderr.contains("agentctl compare fix --verify 'cargo test'"),
            "{}",
            launched.stderr
        );
        let over = ["--matrix", &file, "-p", "another", "--group", "other", "--dry-run", "--json"];
        let plan = slots(&launch(&home, &over));
        assert_eq!(plan[0]["prompt"], format!("{context}another"));
        assert_eq!(plan[0]["branch"], "agentctl/other/demo-m1");
        assert!(
            plan[4]["prompt"].as_str().is_some_and(|text| text.contains("its own")),
            "{plan:?}"
        );
    });
}

#[test]
fn a_slot_begins_at_its_own_base() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let old = repository.git(["rev-parse", "HEAD"]);
        repository.git(["branch", "release"]);
        repository.write("later.txt", "x");
        let new = repository.commit("later");
        let text = "prompt = \"x [[say:done]]\"\ncwd = \"~/shop\"\ngroup = \"two\"\n\
                    [[slot]]\nadapter = \"demo\"\nbranch = \"old\"\nbase = \"release\"\n\
                    [[slot]]\nadapter = \"demo\"\nbranch = \"new\"\n";
        home.write("two.toml", text);
        let file = home.path().join("two.toml");
        let launch = |home: &testkit::TestHome| {
            home.run(&["launch", "--matrix", &file.to_string_lossy(), "--json", "--wait"])
        };
        let launched = launch(&home);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let at = |name: &str| repository.git(["rev-parse", name]);
        assert_eq!([at("agentctl/two/old"), at("agentctl/two/new")], [old.clone(), new.clone()]);
        let bases = ["old", "new"].map(|name| at(&format!("refs/agentctl/base/two/{name}")));
        assert_eq!(bases, [old, new]);
        let mut list = home.command(&["worktree", "list", "--json"]);
        let listed: testkit::Output = list.current_dir(home.path().join("shop")).output().into();
        let listed = listed.json();
        let branches = listed["worktrees"].as_array().into_iter().flatten().filter_map(|row| {
            let name = row["branch"].as_str()?.strip_prefix("agentctl/two/")?.to_owned();
            Some((name, row["base_branch"].as_str().map(str::to_owned)))
        });
        let mut branches: Vec<_> = branches.collect();
        branches.sort();
        let main = repository.git(["symbolic-ref", "--short", "HEAD"]);
        let expected = [("new", main.as_str()), ("old", "release")];
        let expected = expected.map(|(name, base)| (name.to_owned(), Some(base.to_owned())));
        assert_eq!(branches, expected, "each is taken into the branch that it began from");
        // A taken name in the second transaction leaves nothing of the first one.
        repository.git(["update-ref", "-d", "refs/heads/agentctl/two/old"]);
        repository.git(["update-ref", "-d", "refs/agentctl/base/two/old"]);
        repository.git(["worktree", "remove", "--force", "../shop.worktrees/two-old"]);
        let refused = launch(&home);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        let left = repository.git([
            "for-each-ref",
            "--format=%(refname)",
            "refs/heads/agentctl",
            "refs/agentctl/base",
        ]);
        let left: Vec<&str> = left.lines().collect();
        assert_eq!(left, ["refs/agentctl/base/two/new", "refs/heads/agentctl/two/new"]);
    });
}

#[test]
fn a_matrix_that_cannot_be_used_is_refused_and_nothing_is_made() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let write = |name: &str, text: &[u8]| home.write(&format!("m/{name}"), text);
        write("toml", b"prompt = \"x\nadapter = 1");
        write("key", b"prompt = \"x\"\nadapter = \"demo\"\nmodle = \"opus\"");
        write("adapter", b"prompt = \"x\"\nadapter = [\"demo\", \"demo\", \"nonsense\"]");
        write("many", b"prompt = \"x\"\nmodel = [\"1\",\"2\",\"3\",\"4\",\"5\"]\nprompt_suffix=[\"1\",\"2\",\"3\",\"4\"]");
        write("latin", b"prompt = \"caf\xe9\"");
        write("empty", b"");
        write("base", b"prompt = \"x\"\nadapter = \"demo\"\nbase = \"nowhere\"");
        write("own-base", b"prompt = \"x\"\n[[slot]]\nadapter = \"demo\"\nbase = \"nowhere\"");
        write("slot", b"prompt = \"x\"\n[[slot]]\nadapter = \"nonsense\"");
        write(
            "files",
            b"prompt = \"x\"\nadapter = \"demo\"\nfiles = [\"README.md\",\n\"nowhere\"]",
        );
        write("max", b"prompt = \"x\"\nmodel = [\"1\", \"2\", \"3\"]\nmax = 2");
        write("cwd", b"prompt = \"x\"\ncwd = \"~/nowhere\"");
        write("bases", b"prompt = \"x\"\nadapter = \"demo\"\nbase = [\"main\", \"dev\"]");
        write("hook", b"prompt = \"x\"\n[hooks]\non_create = [\"no-such-program\"]");
        fs::create_dir_all(home.path().join("m/dir")).expect("made");
        let huge = fs::File::create(home.path().join("m/huge")).expect("made");
        huge.set_len(1 << 30).expect("a sparse gigabyte");
        let table = [
            ("toml", 2, "toml line 1: it is not valid TOML"),
            ("key", 2, "key line 3: modle: unknown key"),
            ("adapter", 2, "adapter line 2: adapter: there is no adapter named `nonsense`"),
            ("slot", 2, "slot line 3: [[slot]] 1: adapter: there is no adapter named `nonsense`"),
            ("many", 2, "20 slots; at most 16 are allowed"),
            ("latin", 2, "latin: it is not UTF-8 text"),
            ("empty", 2, "empty: no prompt is given"),
            ("base", 2, "base line 3: base: `nowhere` names no commit of"),
            ("own-base", 2, "own-base line 4: [[slot]] 1: base: `nowhere` names no commit of"),
            ("files", 2, "files line 4: files: nowhere cannot be used as context"),
            ("max", 2, "max line 3: max: the launch has 3 slots; at most 2 are allowed"),
            ("cwd", 2, "cwd line 2: cwd: "),
            ("bases", 2, "bases line 3: base: "),
            ("dir", 2, "dir: it is a directory"),
            ("huge", 2, "huge: it is larger than 500 kB"),
            ("gone", 2, "gone: it cannot be read: No such file"),
            ("/dev/zero", 2, "/dev/zero: it is no regular file"),
            ("hook", 1, "`no-such-program` is not a program"),
        ];
        for (name, code, expected) in table {
            let file = home.path().join("m").join(name);
            let refused = launch(&home, &["--matrix", &file.to_string_lossy()]);
            assert_eq!(refused.code, Some(code), "{name}: {}", refused.stderr);
            assert!(refused.stderr.contains(expected), "{name}: {}", refused.stderr);
            assert!(refused.stderr.contains("hint: "), "{name}: {}", refused.stderr);
        }
        let key = home.path().join("m/key");
        let key = key.to_string_lossy();
        for beside in [["--adapter", "demo"], ["--model", "x"], ["--permissions", "edits"]] {
            let refused = launch(&home, &["--matrix", &key, beside[0], beside[1]]);
            assert_eq!(refused.code, Some(2), "{beside:?}: {}", refused.stderr);
        }
        let named = launch(&home, &["demo", "--matrix", &key]);
        assert_eq!(named.code, Some(2), "{}", named.stderr);
        assert_untouched(&home, &repository, "refused");
        assert!(runs(&home).is_empty() && branches(&repository).is_empty());
    });
}
