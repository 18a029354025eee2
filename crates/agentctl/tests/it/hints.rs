//! Hints as a user follows them: a command in a hint can be copied, exists, and works where it is told.

use testkit::{Output, Repository, sandboxed};

use crate::home;
use crate::launched::{folder, launch};

#[track_caller]
fn assert_hint(told: &Output, hint: &str) {
    assert!(told.stderr.contains(&format!("hint: {hint}\n")), "{hint}: {told:?}");
}

#[test]
fn hints_outside_git_name_only_what_the_command_has() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--wait", "--group", "night"]);
        let changes =
            |id: &str| format!("`agentctl changes {id}` shows what the agent itself recorded");
        for (args, named) in [
            (&["diff", "@last"][..], "@last"),
            (&["diff", &id], &id),
            (&["worktree", "take", &id], &id),
            (&["diff", "night"], "ID"),
            (&["compare", "night"], "ID"),
        ] {
            let told = home.run(args);
            assert_eq!(told.code, Some(5), "{args:?}: {told:?}");
            assert_hint(&told, &changes(named));
        }
        let told = home.run(&["worktree", "list"]);
        assert_hint(&told, "go to a git repository, or name one with --cwd");

        let listed =
            "`agentctl worktree list --all-repos-of-sessions` lists the worktrees of sessions";
        assert_hint(&home.run(&["worktree", "take", "nothing"]), listed);
        let told = home.run(&["diff", "nothing"]);
        assert!(told.stderr.contains(listed), "{told:?}");
        assert_eq!(home.run(&["worktree", "list", "--all-repos-of-sessions"]).code, Some(0));
    });
}

#[test]
fn a_name_or_a_path_in_a_command_is_quoted() {
    sandboxed(|| {
        let home = home();
        let odd = home.path().join("Größe $x's");
        let shop = Repository::new(&odd);
        let cwd = shop.path.to_str().expect("UTF-8");
        let args = ["launch", "demo", "-p", "x [[say:hi]]", "--cwd", cwd, "--worktree=x", "--wait"];
        assert_eq!(home.run(&args).code, Some(0));
        let path = r"~/'Größe $x'\''s.worktrees/x'";
        let clean = format!("`agentctl worktree clean {path}`");
        assert_hint(&home.run(&args), &format!("choose another name, or remove it: {clean}"));

        assert_eq!(home.run(&["lock", cwd]).code, Some(0));
        let unlock = r"`agentctl unlock ~/'Größe $x'\''s'` removes the lock";
        assert_hint(&home.run(&["lock", cwd]), unlock);
        let told = home.run(&["launch", "demo", "-p", "x", "--cwd", cwd]);
        assert_hint(&told, &format!("{unlock}; --force launches anyway"));

        let text = "say \"hi\" $(id)";
        let told = home.run(&["send", text]);
        let quoted = r#"'say "hi" $(id)'"#;
        let send = format!("write `agentctl send ID {quoted}`, or `agentctl send -p {quoted}`");
        assert_hint(&told, &format!("{send} for the only session in this directory"));
        let told = home.run(&["launch", text]);
        let launch = format!("`agentctl launch ADAPTER {quoted}` or `agentctl launch -p {quoted}`");
        assert_hint(&told, &format!("if it is the prompt, write {launch}"));
        folder(&home, "two words");
        assert_hint(&home.run(&["diff", "two words"]), "write `'./two words'` for the directory");
    });
}

#[test]
fn an_empty_list_of_a_group_that_does_not_exist_says_so() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--wait", "--group", "night"]);
        for form in [&["-q"][..], &[], &["--json"]] {
            let told = home.run(&[&["list", "--group", "nigth"], form].concat());
            assert_eq!(told.code, Some(0), "{told:?}");
            assert!(told.stderr.contains("warning: there is no group `nigth`"), "{told:?}");
            assert!(told.stderr.contains("groups: night"), "{told:?}");
        }
        let told = home.run(&["list", "--group", "night", "-q"]);
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "it has ended: {told:?}");
        let told = home.run(&["wait", "--group", "night", "--any"]);
        assert!(told.code == Some(0) && told.stdout.contains(&id), "{told:?}");
    });
}

#[test]
fn a_value_without_its_equals_sign_is_told_how_it_is_written() {
    sandboxed(|| {
        let home = home();
        for (args, option, word) in [
            (&["launch", "demo", "--worktree", "one", "fix it"][..], "--worktree", "one"),
            (&["launch", "demo", "--worktree", "one", "-p", "fix"], "--worktree", "one"),
            (&["launch", "demo", "--keep", "30m", "-p", "fix"], "--keep", "30m"),
            (&["launch", "demo", "--ask", "2h", "fix it"], "--ask", "2h"),
            (&["launch", "--keep", "30m", "fix it"], "--keep", "30m"),
            (&["launch", "--worktree", "one", "fix it"], "--worktree", "one"),
            (&["send", "x", "--keep", "30m", "fix it"], "--keep", "30m"),
        ] {
            let told = home.run(args);
            assert_eq!(told.code, Some(2), "{args:?}: {told:?}");
            let says = format!("error: the value of {option} is written with an equals sign\n");
            let expected = format!("{says}hint: write {option}={word}\n");
            assert_eq!(told.stderr, expected, "{args:?}");
        }
        let told = home.run(&["launch", "--worktree", "demo", "fix", "it"]);
        assert!(told.stderr.contains("unexpected argument `it`"), "{told:?}");
    });
}

#[test]
fn a_model_that_begins_with_a_dash_is_no_option_of_the_agent() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--wait"]);
        let model = "--model=--dangerously";
        for args in [
            &["launch", "demo", model, "-p", "x"][..],
            &["launch", "demo", model, "-p", "x", "--dry-run"],
            &["send", &id, "x", model],
        ] {
            let told = home.run(args);
            let says = format!("{}{}", told.stdout, told.stderr);
            assert_eq!(told.code, Some(2), "{args:?}: {told:?}");
            assert!(
                says.contains("`--dangerously` is no model: it begins with a dash"),
                "{told:?}"
            );
        }
        home.write(".config/agentctl/config.toml", "model = \"-x\"\n");
        assert_eq!(home.run(&["launch", "demo", "-p", "x", "--force"]).code, Some(2));
    });
}

#[test]
fn a_text_on_stdin_that_a_message_does_not_read_is_told() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--wait"]);
        let diff = home.write("diff.txt", "a diff\n");
        for (message, is_told) in [("review [[say:ok]]", true), ("-", false)] {
            let mut command = home.command(&["send", &id, message, "--wait"]);
            command.stdin(std::fs::File::open(&diff).expect("opened"));
            let output = command.output().expect("run");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{stderr}");
            assert_eq!(stderr.contains("stdin was not read and not sent"), is_told, "{stderr}");
        }
    });
}

#[test]
fn a_repository_without_an_issue_is_told_as_such() {
    sandboxed(|| {
        let told = home().run(&["launch", "demo", "-p", "x", "--repo", "a/b"]);
        assert_eq!(told.code, Some(2));
        let expected = "error: --repo needs --issue\nhint: add --issue N, or leave --repo out\n";
        assert_eq!(told.stderr, expected);
    });
}

#[test]
fn a_limit_of_a_kept_session_that_cannot_be_set_is_a_failure() {
    sandboxed(|| {
        let home = home();
        home.write(".local/state/agentctl/fuses", "not a directory\n");
        let cwd = folder(&home, "w");
        let args = ["launch", "demo", "-p", "x [[say:hi]]", "--cwd", &cwd, "--keep=30m"];
        let told = home.run(&args);
        let set = home.run(&["fuse", "set", "--session", told.stdout.trim(), "--idle", "30m"]);
        assert_eq!((told.code, set.code), (Some(1), Some(1)), "{told:?} {set:?}");
        assert!(told.stderr.contains("it stays until it is stopped"), "{told:?}");
        assert_eq!(home.run(&["stop", told.stdout.trim()]).code, Some(0));
    });
}
