//! git sets variables that name a repository for its aliases and hooks. No program that is started here inherits them.

use std::path::Path;

use testkit::{Output, Repository, TestHome, sandboxed};

use crate::home;
use crate::launch_group::shop;

/// Makes a linked worktree of a person, on the branch `mine`.
fn linked(home: &TestHome, shop: &Repository) -> Repository {
    let path = home.at("mine");
    let text = path.to_str().expect("UTF-8");
    shop.git(["worktree", "add", "--quiet", "-b", "mine", text]);
    home.write(".gitconfig", "[user]\nname = Test\nemail = test@example.com\n");
    shop.at(&path)
}

/// Runs a command of the program as git runs an alias or a hook in this working tree.
fn inside_git(home: &TestHome, tree: &Repository, cwd: &Path, args: &[&str]) -> Output {
    let mut command = home.command(args);
    let git_dir = tree.git(["rev-parse", "--absolute-git-dir"]);
    let index = format!("{git_dir}/index");
    for name in tree.git(["rev-parse", "--local-env-vars"]).lines() {
        let value = match name {
            "GIT_DIR" => git_dir.as_str(),
            "GIT_INDEX_FILE" => index.as_str(),
            "GIT_WORK_TREE" => tree.path.to_str().expect("UTF-8"),
            "GIT_CONFIG_PARAMETERS" => "'user.name'='Odd'",
            "GIT_PREFIX" => "",
            _ => continue,
        };
        command.env(name, value);
    }
    command.env("GIT_QUARANTINE_PATH", &git_dir).env("GIT_CONFIG_COUNT", "0");
    command.current_dir(cwd).output().into()
}

/// A script that writes its variables of git into the file whose name follows.
const TOLD: &str = "env | grep ^GIT_ | sort >";
/// The variable that remains: one that only a person sets.
const REMAINING: &str = "GIT_CONFIG_COUNT=0\n";

fn told(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !line.contains("NOSYSTEM")).collect()
}

#[test]
fn an_alias_in_a_linked_worktree_lets_the_agent_commit_on_its_own_branch() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let mine = linked(&home, &shop);
        let (heads, files) =
            (|| shop.git(["rev-parse", "main", "mine"]), || mine.git(["status", "-s"]));
        let before = (heads(), files());
        let program = home.command(&[]);
        let prompt = "x [[tool:echo w2 >w2; git add w2; git commit -qm agentwork]]";
        let alias = format!(
            "!'{}' launch demo --worktree=ali --wait -p '{prompt}' </dev/null",
            program.get_program().display()
        );
        mine.git(["config", "alias.ag", &alias]);
        let mut git = mine.command(["ag"]);
        for (name, value) in program.get_envs() {
            value.map(|value| git.env(name, value));
        }
        let launched: Output = git.output().into();
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert_eq!((heads(), files()), before, "the person's branch or index was changed");
        assert_eq!(shop.git(["log", "-1", "--format=%s", "agentctl/ali"]), "agentwork");
    });
}

#[test]
fn the_agent_the_setup_program_and_the_hooks_inherit_no_variable_that_names_a_repository() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let mine = linked(&home, &shop);
        let script = format!("{TOLD} \"$HOME/setup-$AGENTCTL_SLOT\"");
        let config = format!("[worktree]\nsetup = [\"sh\", \"-c\", {script:?}]\n");
        home.write(".config/agentctl/config.toml", config);
        let prompt = format!("x [[tool:{TOLD} $HOME/agent]]");
        let hook = |name: &str| format!("sh -c '{TOLD} \"$HOME/{name}\"'");
        let (begun, ended) = (hook("begun"), hook("ended"));
        let launch = ["launch", "demo", "-p", &prompt, "--wait"];
        let hooks = ["--on-create", &begun, "--on-complete", &ended];
        let args = [&launch[..], &hooks, &["--worktree=fix"]].concat();
        let launched = inside_git(&home, &mine, &mine.path, &args);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        testkit::eventually("the last hook has run", || home.at("ended").exists().then_some(()));
        for name in ["setup-0", "agent", "begun"] {
            assert_eq!(told(&home.at(name)), REMAINING, "{name}");
        }
        testkit::eventually("it has written", || {
            (told(&home.at("ended")) == REMAINING).then_some(())
        });
        // Also without a worktree; a variable of the order itself counts.
        let elsewhere = Repository::new(&home.at("elsewhere"));
        let cwd = elsewhere.path.to_str().expect("UTF-8");
        let prompt = "x [[tool:git rev-parse --show-toplevel >$HOME/top; env | grep ^GIT_TRACE= >$HOME/own]]";
        let args = ["launch", "demo", "-p", prompt, "--wait", "--cwd", cwd];
        let own = ["--env", "GIT_TRACE=0", "--env", "GIT_PREFIX=own/"];
        let launched = inside_git(&home, &mine, &mine.path, &[&args[..], &own].concat());
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert_eq!(told(&home.at("top")).trim(), cwd);
        assert_eq!(told(&home.at("own")), "GIT_TRACE=0\n");
    });
}

#[test]
fn the_verification_inherits_no_variable_that_names_a_repository() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let mine = linked(&home, &shop);
        let args = ["launch", "demo", "--times", "2", "--group", "g", "-p", "x", "--wait"];
        let launched: Output = home.command(&args).current_dir(&shop.path).output().into();
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let verify =
            format!("sh -c '{TOLD} $HOME/verify; git rev-parse --show-toplevel >> $HOME/verify'");
        let args = ["compare", "g", "--verify", &verify, "--json"];
        let compared = inside_git(&home, &mine, &mine.path, &args);
        assert_eq!(compared.code, Some(0), "{}", compared.stderr);
        let top = home.at("shop.worktrees/g-demo-2");
        assert_eq!(told(&home.at("verify")), format!("{REMAINING}{}\n", top.display()));
    });
}
