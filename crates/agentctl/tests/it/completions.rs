//! The words that the program offers to the completion scripts. The scripts themselves are run in real shells by
//! `.ci/completions`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::inbox::ask_of;
use crate::launched::{folder, launch, shims, until_stopped};

/// Asks as the script of fish does, and returns the first line and the completions with their descriptions.
fn offered(home: &TestHome, words: &[&str]) -> (String, Vec<(String, String)>) {
    let question = [&["__complete", "fish"], words].concat();
    let answer = home.run(&question);
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{words:?}");
    let mut lines = answer.stdout.lines().map(str::to_owned);
    let first = lines.next().unwrap_or_default();
    let pair = |line: String| {
        let (text, description) = line.split_once('\t').expect("a tab");
        (text.to_owned(), description.to_owned())
    };
    (first, lines.map(pair).collect())
}

fn texts(home: &TestHome, words: &[&str]) -> Vec<String> {
    offered(home, words).1.into_iter().map(|(text, _)| text).collect()
}

/// Asks until this text is offered: on a busy machine a look may take longer than a person waits for it.
fn until_offered(home: &TestHome, words: &[&str], wanted: &str) -> Vec<(String, String)> {
    eventually(&format!("{wanted} is offered for {words:?}"), || {
        let all = offered(home, words).1;
        all.iter().any(|(text, _)| text == wanted).then_some(all)
    })
}

/// Asks as the script of bash does: the line ends at the cursor, and bash replaces `replaced`.
fn bash(home: &TestHome, line: &str, replaced: &str, kind: &str) -> Vec<String> {
    let answer = home.run(&["__complete", "bash", "100", kind, replaced, line]);
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{line}");
    answer.stdout.lines().skip(1).map(str::to_owned).collect()
}

/// Asks as bash does until this is its only completion.
fn until_bash(home: &TestHome, line: &str, replaced: &str, wanted: &str) {
    eventually(&format!("{line} is completed to {wanted}"), || {
        (bash(home, line, replaced, "9") == [wanted]).then_some(())
    });
}

#[test]
fn asks_are_offered_by_their_ids_and_a_single_one_is_not_inserted_unread() {
    sandboxed(|| {
        let home = home();
        let first = launch(&home, "a", "x [[ask:Blue or green?|Blue|Green]]", &[]);
        let first = ask_of(&home, &first)["id"].as_str().expect("an id").to_owned();
        let shown = until_offered(&home, &["asks", ""], &first[..8]);
        assert_eq!(shown[0].1, "question: Blue or green? 1 Blue 2 Green");
        for command in ["answer", "approve", "deny"] {
            assert_eq!(texts(&home, &[command, ""]), Vec::<String>::new(), "{command}");
            until_offered(&home, &[command, &first[..2]], &first[..8]);
            until_offered(&home, &[command, &first[..12]], &first);
        }
        let second = launch(&home, "b", "x [[permit:true]]", &[]);
        let second = ask_of(&home, &second)["id"].as_str().expect("an id").to_owned();
        let both = until_offered(&home, &["approve", ""], &second[..8]);
        assert_eq!(both.len(), 2, "{both:?}");
        until_offered(&home, &["approve", &second[..8], ""], &first[..8]);
        assert!(texts(&home, &["asks", "--sort", ""]).contains(&"since".to_owned()));
    });
}

#[test]
fn live_sessions_come_first_and_only_live_ones_can_be_stopped() {
    sandboxed(|| {
        let home = home();
        let done = launch(&home, "a", "Write the manual [[say:hi]]", &[]);
        until_stopped(&home, &done);
        let works = launch(&home, "b", "Refactor the router [[hang]]", &["--name", "painter"]);
        let asks = launch(&home, "c", "Paint it [[ask:Blue or green?]]", &[]);
        let shown = eventually("it asks", || {
            let shown = home.run(&["list", "--format", "{status} {short_id}"]).stdout;
            let (asks, works) = shown.trim().split_once('\n')?;
            let (asks, works) = (asks.strip_prefix("waiting ")?, works.strip_prefix("running ")?);
            Some([asks.to_owned(), works.to_owned()])
        });
        assert!(asks.starts_with(&shown[0]) && works.starts_with(&shown[1]));

        let live = until_offered(&home, &["stop", ""], &shown[0]);
        let expected = [
            (shown[0].as_str(), "waiting · question: Blue or green? · ~/c".to_owned()),
            (&shown[1], "running · Refactor the router · ~/b".to_owned()),
            ("painter", format!("{} · running · Refactor the router · ~/b", shown[1])),
            ("@last", "newest launch · waiting · question: Blue or green? · ~/c".to_owned()),
        ];
        let live: Vec<(&str, String)> = live.iter().map(|(t, d)| (t.as_str(), d.clone())).collect();
        assert_eq!(live, expected, "the order and the ids of `list`");
        until_offered(&home, &["wait", ""], "painter");

        let ended =
            home.run(&["list", "-a", "--status", "stopped", "--format", "{short_id}"]).stdout;
        for command in ["status", "why", "logs", "resume", "attach", "name", "group"] {
            let all = until_offered(&home, &[command, ""], ended.trim());
            assert_eq!((all.len(), &*all[4].0), (5, ended.trim()), "{command}: {all:?}");
        }
        until_offered(&home, &["events", "--session", ""], ended.trim());
        let removable = until_offered(&home, &["rm", ""], ended.trim());
        assert_eq!(removable.len(), 1, "only what has ended can be removed: {removable:?}");
        // A value that is given already is not offered again, and an id may be typed further than it is shown.
        let further = until_offered(&home, &["stop", "painter", ""], &shown[0]);
        assert!(!further.iter().any(|(text, _)| text == "painter"));
        until_offered(&home, &["status", &done[..20]], &done);
        let of_demo = until_offered(&home, &["stop", "demo:"], "demo:painter");
        assert!(of_demo.iter().all(|(text, _)| text.starts_with("demo:")), "{of_demo:?}");
        assert_eq!(offered(&home, &["stop", "./x"]).0, "directories");
        assert_eq!(home.run(&["stop", &works, &asks]).code, Some(0));
        assert_eq!(texts(&home, &["stop", ""]), Vec::<String>::new());
    });
}

#[test]
fn the_session_of_this_directory_is_offered_as_a_dot() {
    sandboxed(|| {
        let home = home();
        let launched = home.run(&["launch", "demo", "-p", "x [[hang]]"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let all = until_offered(&home, &["stop", ""], ".");
        assert!(all[2].1.starts_with("this directory · running"), "{all:?}");
        assert_eq!(home.run(&["stop", "."]).code, Some(0));
    });
}

#[test]
fn ended_sessions_of_all_history_match_a_prefix() {
    sandboxed(|| {
        let home = home();
        let id = "0c2f8f8e-1111-4222-8333-123456789abc";
        let old = r#""message":{"role":"user","content":"x"},"uuid":"u","timestamp":"2025-01-15T10:00:00.000Z","cwd":"/w""#;
        let text = format!(
            "{{\"type\":\"user\",{old},\"sessionId\":\"{id}\"}}\n{{\"type\":\"custom-title\",\"customTitle\":\"my task\",\"sessionId\":\"{id}\"}}\n"
        );
        let file = home.write(&format!(".claude/projects/-w/{id}.jsonl"), text);
        let long_ago = std::time::SystemTime::now() - Duration::from_hours(90 * 24);
        fs::File::options()
            .append(true)
            .open(file)
            .expect("open")
            .set_modified(long_ago)
            .expect("set");
        assert_eq!(texts(&home, &["status", ""]), Vec::<String>::new());
        until_offered(&home, &["status", "0c2f"], "0c2f8f8e");
        until_offered(&home, &["status", "my"], "my task");
        assert_eq!(texts(&home, &["stop", "0c2f"]), Vec::<String>::new());
        until_bash(&home, "agentctl status my", "my", "my\\ task");
        until_bash(&home, "agentctl status 'my t", "my t", "my task");
    });
}

#[test]
fn every_argument_is_offered_its_own_values() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "a", "x [[say:hi]]", &["--group", "morning"]);
        until_stopped(&home, &id);
        assert_eq!(home.run(&["fuse", "set", "--ttl", "2h", "--session", &id]).code, Some(0));
        let has = |words: &[&str], wanted: &str| drop(until_offered(&home, words, wanted));
        has(&["list", "--group", ""], "morning");
        has(&["group", &id, ""], "morning");
        has(&["launch", "--group", ""], "morning");
        has(&["launch", ""], "claude-code");
        has(&["list", "--adapter", ""], "demo");
        has(&["list", "--adapter=d"], "--adapter=demo");
        has(&["list", "--status", ""], "waiting");
        has(&["list", "--status", "waiting,"], "waiting,running");
        has(&["wait", "--for", ""], "idle");
        has(&["list", "-o", ""], "jsonl");
        has(&["list", "-ao", ""], "jsonl");
        has(&["list", "--sort", ""], "last_activity_at");
        has(&["runs", "--sort", ""], "id");
        has(&["events", "--type", ""], "lock.acquired");
        has(&["fuse", "set", "--on-expire", ""], "webhook:");
        has(&["schema", ""], "doctor");
        has(&["completions", ""], "fish");
        has(&["--color", "never", "list", "--color", ""], "always");
        has(&["launch", "--permissions", ""], "edits");
        has(&["fuse", ""], "extend");
        has(&["help", ""], "launch");
        has(&["help", "fuse", ""], "extend");
        has(&["list", "--"], "--watch");
        has(&["list", ""], "--watch");
        assert!(!texts(&home, &["list", "--watch", "--"]).contains(&"--watch".to_owned()));
        assert!(!texts(&home, &["list", "--status", "idle,"]).contains(&"idle,idle".to_owned()));
        for words in [&["launch", "--cwd", ""][..], &["lock", ""], &["fuse", "set", ""]] {
            assert_eq!(offered(&home, words), ("directories".into(), Vec::new()), "{words:?}");
        }
        let (first, fuses) = offered(&home, &["fuse", "cancel", ""]);
        assert_eq!((first.as_str(), fuses.len()), ("directories", 1));
        assert!(fuses[0].1.contains("ttl 2h"), "{fuses:?}");
        assert_eq!(offered(&home, &["launch", "--prompt-file", ""]).0, "files");
        // A text that only the person knows: options at most, and none where they would be its words.
        for free in [&["launch", "-p", ""][..], &["launch", "demo", "--", ""]] {
            assert_eq!(offered(&home, free), ("values".into(), Vec::new()), "{free:?}");
        }
        has(&["resume", &id, ""], "--fork");
        has(&["no-such-command", ""], "--color");
    });
}

#[test]
fn the_words_of_man_are_commands() {
    let home = home();
    for (words, wanted) in [(&["man", ""][..], "fuse"), (&["man", "fuse", ""], "set")] {
        let (first, all) = offered(&home, words);
        let texts: Vec<&str> = all.iter().map(|(text, _)| text.as_str()).collect();
        assert!(first == "values" && texts.contains(&wanted), "{words:?}: {first} {texts:?}");
        assert!(!texts.contains(&"help") && !texts.contains(&"demo-agent"), "{texts:?}");
    }
    assert_eq!(texts(&home, &["man", "fuse", "set", ""]), Vec::<String>::new());
    assert_eq!(offered(&home, &["man", "--install", ""]).0, "directories");
}

#[test]
fn the_sort_keys_are_those_that_the_command_accepts() {
    let home = home();
    for command in ["list", "runs", "locks", "fuses", "adapters"] {
        let refused = home.run(&[command, "--sort", "no-such-key"]);
        assert_eq!(refused.code, Some(2), "{command}");
        let keys = texts(&home, &[command, "--sort", ""]).join(", ");
        assert!(refused.stderr.contains(&format!("keys: {keys}\n")), "{command}: {keys}");
    }
}

#[test]
fn hidden_commands_and_options_are_never_offered() {
    let home = home();
    for word in ["", "d", "demo", "demo-", "demo-a", "_", "__c"] {
        for words in [&[word][..], &["help", word]] {
            let all = texts(&home, words);
            assert!(
                !all.iter().any(|text| text == "demo-agent" || text.starts_with('_')),
                "{all:?}"
            );
        }
    }
    assert_eq!(bash(&home, "agentctl demo-", "demo-", "9"), Vec::<String>::new());
    assert_eq!(bash(&home, "agentctl demo", "demo", "9"), ["demo"]);
    assert!(!texts(&home, &["daemon", "run", "--"]).contains(&"--ready".to_owned()));
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).stdout;
        assert!(script.contains("__complete") && !script.contains("demo-agent"), "{shell}");
    }
    let other = home.run(&["completions", "elvish"]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("bash, zsh, fish"), "{}", other.stderr);
}

#[test]
fn texts_of_agents_cannot_leave_their_line() {
    sandboxed(|| {
        let home = home();
        let title = "$(id) `id` a:b\tc\nd \u{1b}]0;x\u{7}\u{1b}[2J\u{202e} %n 'q' \"r\" \\";
        let id = "aaaaaaaa-0000-4000-8000-000000000000";
        let cwd = folder(&home, "w");
        let prompt = format!("{title} [[ask:Go: $(id)?]]");
        let mut agent = home.command(&["demo-agent", "--session-id", id, "-p", &prompt]);
        let mut agent = agent.current_dir(cwd).spawn().expect("started");
        until_offered(&home, &["stop", ""], "aaaaaaaa");
        for shell in ["bash", "zsh", "fish"] {
            let words: &[&str] =
                if shell == "bash" { &["100", "63", "", "agentctl stop "] } else { &["stop", ""] };
            let answer = home.run(&[&["__complete", shell], words].concat());
            let allowed = |c: char| c == '\n' || (shell == "fish" && c == '\t') || !c.is_control();
            assert!(answer.stdout.chars().all(allowed), "{:?}", answer.stdout);
            assert!(!answer.stdout.contains('\u{202e}'));
            assert!(
                answer
                    .stdout
                    .lines()
                    .skip(1)
                    .all(|line| line.starts_with("aaaaaaaa") || line.starts_with('.')),
                "{}",
                answer.stdout
            );
        }
        // A name of an agent is offered only if no character of it means anything to a shell.
        let other = "bbbbbbbb-1111-4222-8333-123456789abc";
        let line = |more: &str| format!("{{{more},\"sessionId\":\"{other}\"}}\n");
        let user = r#""type":"user","message":{"role":"user","content":"x"},"uuid":"u","timestamp":"2026-11-15T10:00:00.000Z","cwd":"/w""#;
        let name = r#""type":"custom-title","customTitle":"zz$(touch x)""#;
        home.write(&format!(".claude/projects/-w/{other}.jsonl"), line(user) + &line(name));
        let all = until_offered(&home, &["status", ""], "bbbbbbbb");
        assert!(!all.iter().any(|(text, _)| text.contains('$')), "{all:?}");
        agent.kill().expect("killed");
        agent.wait().expect("ended");
    });
}

#[test]
fn bash_is_given_the_part_of_the_word_that_it_replaces() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "a", "Refactor the router [[hang]]", &["--name", "painter"]);
        let short = &id[..8];
        until_bash(&home, "agentctl list --status=wai", "wai", "waiting");
        until_bash(&home, "agentctl list --status wai", "wai", "waiting");
        until_bash(&home, "agentctl stop demo:pa", "pa", "painter");
        until_bash(&home, "agentctl stop @l", "@l", "@last");
        until_bash(&home, "agentctl stop \"pa", "pa", "painter");
        // Descriptions stand in a list only; what is inserted never holds one.
        let listed = eventually("a list", || {
            Some(bash(&home, "agentctl stop ", "", "63")).filter(|lines| !lines.is_empty())
        });
        assert!(listed[0].starts_with(&format!("{short}  (running · Refactor")), "{listed:?}");
        assert!(listed.iter().all(|line| line.chars().count() < 100));
        for kind in ["9", "37", "42"] {
            let inserted = eventually("completions", || {
                Some(bash(&home, "agentctl stop ", "", kind)).filter(|lines| !lines.is_empty())
            });
            assert_eq!(inserted[0], short);
        }
        let redirected = home.run(&["__complete", "bash", "100", "9", "o", "agentctl list > o"]);
        assert_eq!(redirected.stdout, "files\n");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

/// Returns every file below a directory with its size and the time of its last change.
fn files(directory: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let meta = entry.path().symlink_metadata().expect("there");
        if meta.is_dir() {
            found.extend(files(&entry.path()));
        }
        let path = entry.path().to_string_lossy().into_owned();
        found.insert(path, (meta.size(), meta.mtime(), meta.mtime_nsec()));
    }
    found
}

#[test]
fn a_question_writes_nothing_starts_nothing_and_never_fails() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "a", "x [[say:hi]]", &["--group", "g"]);
        until_stopped(&home, &id);
        home.write(".config/agentctl/config.toml", "[metrics]\nlisten = 5\nmodle = 1\n[roots\n");
        // The shim writes the exit code after the session has stopped.
        eventually("the run is over", || shims().is_empty().then_some(()));
        let before = files(&home.path());
        let short = &id[..8];
        until_offered(&home, &["status", ""], short);
        until_offered(&home, &["rm", ""], short);
        until_offered(&home, &["list", "--group", ""], "g");
        assert_eq!(offered(&home, &["fuse", "cancel", ""]).0, "directories");
        assert_eq!(files(&home.path()), before);
        assert_eq!(home.run(&["daemon", "status"]).code, Some(1), "no daemon was started");
        for question in [
            &["__complete"][..],
            &["__complete", "elvish", ""],
            &["__complete", "zsh"],
            &["__complete", "bash", "x"],
            &["__complete", "bash", "x", "9", "", "agentctl "],
            &["__complete", "bash", "80", "9", "", ""],
        ] {
            let answer = home.run(question);
            assert_eq!(
                (answer.code, answer.stdout, answer.stderr),
                (Some(0), String::new(), String::new()),
                "{question:?}"
            );
        }
        home.set("HOME", "");
        assert_eq!(texts(&home, &["stop", ""]), Vec::<String>::new());
        assert!(!texts(&home, &["list", "--status", ""]).is_empty());
    });
}

#[test]
fn a_source_that_never_answers_delays_no_question() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "a", "x [[hang]]", &[]);
        // It accepts connections and says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = silent.local_addr().expect("an address");
        let config = format!(
            "[[openclaw.gateways]]\nurl = \"ws://{address}\"\n\
             [deadline]\nlive = \"1h\"\nall = \"1h\"\ngateway = \"1h\"\n"
        );
        home.write(".config/agentctl/config.toml", config);
        let short = &id[..8];
        until_offered(&home, &["status", ""], short);
        until_offered(&home, &["stop", ""], short);
        home.write(".config/agentctl/config.toml", "");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn worktrees_are_offered_by_their_names() {
    sandboxed(|| {
        let home = home();
        let shop = testkit::Repository::new(&home.path().join("shop"));
        shop.git(["branch", "agentctl/g/fix"]);
        shop.git(["branch", "other"]);
        for verb in ["clean", "take"] {
            let words = ["__complete", "fish", "worktree", verb, ""];
            let answer = home.command(&words).current_dir(&shop.path).output().expect("started");
            let text = String::from_utf8_lossy(&answer.stdout).into_owned();
            assert!(text.lines().any(|line| line.starts_with("g/fix\t")), "{verb}: {text}");
            assert!(!text.contains("other"), "{verb}: {text}");
        }
    });
}
