//! `agentctl changes`: recorded sessions of every agent, old and new, and the patches applied by real git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::gateway::Gateway;
use testkit::{TestHome, eventually, sandboxed};

use crate::launched::{launch, until_stopped};
use crate::{fixtures_dir, home, openclaw};

/// The files before each recorded session.
const START: [(&str, &str); 5] = [
    ("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"),
    ("d.txt", "gone\n"),
    ("m.txt", "mv\n"),
    ("n.txt", "no newline"),
    ("crlf.txt", "line\nother\n"),
];

/// A recorded session: its agent, its version, and where the agent keeps it.
struct Recorded {
    agent: &'static str,
    version: &'static str,
    place: &'static str,
}

const fn recorded(agent: &'static str, version: &'static str, place: &'static str) -> Recorded {
    Recorded { agent, version, place }
}

const CLAUDE: Recorded = recorded(
    "claude-code",
    "2.1.325",
    ".claude/projects/-shop/11111111-1111-4111-8111-111111111111.jsonl",
);
const OLD_CLAUDE: Recorded = Recorded { version: "2.0.77", ..CLAUDE };
const CODEX_PLACE: &str = ".codex/sessions/2026/11/16/rollout-2026-11-16T18-19-23-";
const CODEX: Recorded = recorded("codex", "0.166.0", CODEX_PLACE);
const MIDDLE_CODEX: Recorded = recorded("codex", "0.142.5", CODEX_PLACE);
const OLD_CODEX: Recorded = recorded("codex", "0.100.0", CODEX_PLACE);
const PI_PLACE: &str = ".pi/agent/sessions/--shop--/2026-11-16T18-21-15-000Z_";
const PI: Recorded = recorded("pi", "1.5.0", PI_PLACE);
const OLD_PI: Recorded = recorded("pi", "0.73.1", PI_PLACE);
const OPENCODE: Recorded = recorded("opencode", "1.18.33", ".local/share/opencode/opencode.db");

impl Recorded {
    /// Plants the session with the directory `shop` of this home as its own; returns its id.
    fn plant(&self, home: &TestHome) -> String {
        let ending = if self.agent == "opencode" { "sql" } else { "jsonl" };
        let file = fixtures_dir().join(format!("changes/{}/{}.{ending}", self.agent, self.version));
        let text = fs::read_to_string(file).expect("a fixture");
        let text = text.replace("/home/ada/shop", &home.at("shop").to_string_lossy());
        if self.agent == "opencode" {
            let path = home.at(self.place);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            let database = rusqlite::Connection::open(path).expect("opened");
            database.execute_batch(&format!("PRAGMA foreign_keys = off; {text}")).expect("filled");
            return "ses_e1a67c4a1ffe45Xfa4DsauEs3p".to_owned();
        }
        let first: Value =
            serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        let ids = [&first["sessionId"], &first["payload"]["id"], &first["id"]];
        let id = ids.iter().find_map(|id| id.as_str()).expect("an id").to_owned();
        let place = match self.place.strip_suffix(".jsonl") {
            Some(_) => self.place.to_owned(),
            None => format!("{}{id}.jsonl", self.place),
        };
        home.write(&place, text);
        id
    }
}

/// Writes files below a directory of a home.
fn write_all(directory: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
}

/// Applies a patch with `git apply` to the files before the session; returns the files afterwards.
fn applied(home: &TestHome, patch: &str) -> Vec<(String, String)> {
    let tree = home.at("applied");
    let _none = fs::remove_dir_all(&tree);
    write_all(&tree, &START);
    let file = home.write("told.patch", patch);
    let mut git = Command::new("git");
    git.arg("apply").arg(&file).current_dir(&tree).env("GIT_CEILING_DIRECTORIES", home.path());
    let output = git.output().expect("git");
    assert!(output.status.success(), "{}\n{patch}", String::from_utf8_lossy(&output.stderr));
    files(&tree)
}

fn files(tree: &Path) -> Vec<(String, String)> {
    let (mut pending, mut found) = (vec![tree.to_owned()], Vec::new());
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory");
            pending.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else {
            let name = path.strip_prefix(tree).expect("below").to_string_lossy().into_owned();
            found.push((name, fs::read_to_string(&path).expect("text")));
        }
    }
    found.sort();
    found
}

/// Returns the rows of `changes --json` as short lines, and the number of commands.
fn rows(home: &TestHome, id: &str) -> (Vec<String>, u64) {
    let output = home.run(&["changes", id, "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let document = output.json();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |row: &Value| {
        let fields = ["path", "kind", "edits", "added", "removed", "by", "told", "now"];
        fields.map(|field| text(&row[field])).join(" ")
    };
    let rows = document["files"].as_array().expect("files").iter().map(row).collect();
    (rows, document["commands"].as_u64().expect("a number"))
}

/// The files after the session of Claude Code; its records hold every change.
const CLAUDE_END: [(&str, &str); 6] = [
    ("a.txt", "one\nTWO\nTWO and a half\nthree\nfour\nFIVE\nsix\nseven\neight\nNINE\nTEN\n"),
    ("crlf.txt", "line\nOTHER\n"),
    ("moved.txt", "mv\n"),
    ("n.txt", "still no newline"),
    ("new/w.txt", "hello\nwide\nworld"),
    ("s.txt", "by shell\n"),
];

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn the_patches_of_claude_code_lead_from_the_start_to_the_end() {
    sandboxed(|| {
        let home = home();
        let id = CLAUDE.plant(&home);
        let patch = home.run(&["changes", &id, "--patch"]);
        assert_eq!(patch.code, Some(0), "{}", patch.stderr);
        assert_eq!(applied(&home, &patch.stdout), owned(&CLAUDE_END));
        let last = patch.stdout.lines().last();
        assert_eq!(last, Some("# 2 shell commands left no record of what they changed"));
    });
}

#[test]
fn the_files_on_disk_are_compared_with_the_records() {
    sandboxed(|| {
        let home = home();
        let id = CLAUDE.plant(&home);
        let shop = home.at("shop");
        write_all(&shop, &CLAUDE_END);
        // Claude Code records files without their carriage returns.
        fs::write(shop.join("crlf.txt"), "line\r\nOTHER\r\n").expect("written");
        let expected = [
            "a.txt changed 4 5 4 edit hunks same",
            "new/w.txt added 2 4 1 write content same",
            "n.txt changed 1 1 1 edit hunks same",
            "crlf.txt changed 1 1 1 edit hunks same",
            "d.txt deleted 1 0 1 shell hunks same",
            "m.txt deleted 1 0 1 shell hunks same",
            "moved.txt added 1 1 0 shell hunks same",
            "s.txt added 1 1 0 shell hunks same",
        ];
        assert_eq!(rows(&home, &id), (expected.map(str::to_owned).to_vec(), 2));
        // Changed, removed, a link out of the directory, a FIFO, a folder that is a link, a file that is back.
        fs::write(shop.join("a.txt"), "other").expect("written");
        fs::remove_file(shop.join("n.txt")).expect("removed");
        fs::remove_file(shop.join("moved.txt")).expect("removed");
        let secret = home.write("secret", "mv\n");
        std::os::unix::fs::symlink(&secret, shop.join("moved.txt")).expect("linked");
        fs::remove_file(shop.join("s.txt")).expect("removed");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, shop.join("s.txt"), fifo, mode, 0).expect("made");
        fs::rename(shop.join("new"), home.at("elsewhere")).expect("renamed");
        std::os::unix::fs::symlink(home.at("elsewhere"), shop.join("new")).expect("linked");
        fs::write(shop.join("d.txt"), "gone\n").expect("written");
        let now: Vec<String> = rows(&home, &id).0;
        let now: Vec<&str> = now.iter().filter_map(|row| row.split(' ').next_back()).collect();
        let expected =
            ["different", "unknown", "gone", "same", "different", "same", "different", "different"];
        assert_eq!(now, expected);
    });
}

#[test]
fn every_agent_and_version_tells_what_it_recorded() {
    let old_claude = &[
        "a.txt changed 3 4 3 edit hunks gone",
        "new/w.txt added 2 4 1 write content gone",
        "n.txt changed 1 1 1 edit hunks gone",
        "crlf.txt changed 1 1 1 edit hunks gone",
    ][..];
    let codex = &[
        "a.txt changed 2 3 2 patch hunks gone",
        "d.txt deleted 1 0 1 patch content same",
        "moved.txt moved 1 1 1 patch hunks gone",
        "new/w.txt added 1 2 0 patch content gone",
        "n.txt changed 1 1 1 patch hunks gone",
    ][..];
    let opencode = &[
        "a.txt changed 3 4 3 shell hunks gone",
        "new/w.txt added 2 3 0 write hunks gone",
        "d.txt deleted 1 0 1 shell hunks same",
    ][..];
    let pi = &[
        "a.txt changed 2 4 3 edit hunks gone",
        "new/w.txt changed 2 4 1 write arguments gone",
    ][..];
    let old_pi = &[
        "a.txt changed 2 4 3 edit arguments gone",
        "new/w.txt changed 2 4 1 write arguments gone",
    ][..];
    let old_codex = &["a.txt changed 1 2 1 patch arguments gone"][..];
    let cases = [
        (&OLD_CLAUDE, old_claude, 6),
        (&CODEX, codex, 4),
        (&MIDDLE_CODEX, codex, 4),
        (&OLD_CODEX, old_codex, 0),
        (&OPENCODE, opencode, 1),
        (&PI, pi, 3),
        (&OLD_PI, old_pi, 3),
    ];
    sandboxed(|| {
        for (recorded, expected, commands) in cases {
            let home = home();
            fs::create_dir_all(home.at("shop")).expect("made");
            let id = recorded.plant(&home);
            let expected: Vec<String> = expected.iter().map(|row| (*row).to_owned()).collect();
            let told = rows(&home, &id);
            assert_eq!(told, (expected, commands), "{} {}", recorded.agent, recorded.version);
        }
    });
}

#[test]
fn the_patches_of_other_agents_can_be_applied_and_miss_only_shell_commands() {
    let edited = "one\nTWO\nTWO and a half\nthree\nfour\nfive\nsix\nseven\neight\nNINE\nten\n";
    let codex = [
        ("a.txt", edited),
        ("crlf.txt", "line\nother\n"),
        ("moved.txt", "MV\n"),
        ("n.txt", "still no newline\n"),
        ("new/w.txt", "hello\nworld\n"),
    ];
    let by_shell = edited.replace("five", "FIVE");
    let opencode = [
        ("a.txt", by_shell.as_str()),
        ("crlf.txt", "line\nother\n"),
        ("m.txt", "mv\n"),
        ("n.txt", "no newline"),
        ("new/w.txt", "hello\nwide\nworld"),
    ];
    let thrice = edited.replace("three", "THREE");
    let pi = [
        ("a.txt", thrice.as_str()),
        ("crlf.txt", "line\nother\n"),
        ("d.txt", "gone\n"),
        ("m.txt", "mv\n"),
        ("n.txt", "no newline"),
        ("new/w.txt", "hello\nwide\nworld"),
    ];
    let cases: [(&Recorded, &[(&str, &str)]); 4] =
        [(&CODEX, &codex), (&MIDDLE_CODEX, &codex), (&OPENCODE, &opencode), (&PI, &pi)];
    sandboxed(|| {
        for (recorded, end) in cases {
            let home = home();
            let id = recorded.plant(&home);
            let patch = home.run(&["changes", &id, "--patch"]).stdout;
            // The recorded Codex moved a file of two lines.
            let patch =
                patch.replace("@@ -1,2 +1,2 @@\n-mv\n+MV\n more\n", "@@ -1,1 +1,1 @@\n-mv\n+MV\n");
            assert_eq!(applied(&home, &patch), owned(end), "{}", recorded.agent);
        }
        let home = home();
        let id = OLD_CODEX.plant(&home);
        let told = home.run(&["changes", &id, "--patch"]).stdout;
        assert!(
            told.contains("# a.txt (by patch): the record tells texts without their places"),
            "{told}"
        );
    });
}

#[test]
fn the_demo_agent_records_what_it_writes() {
    sandboxed(|| {
        let home = home();
        let shop = home.at("shop");
        write_all(&shop, &[("a.txt", "one\ntwo\n")]);
        let prompt = "write [[write:a.txt|one\\nTWO]] [[write:new/b.txt|b]] [[write:new/b.txt|B]] \
                      [[write:a.txt/c|no folder]] [[tool:echo x > x.txt]] [[say:done]]";
        let run = home
            .command(&["demo-agent", "--session-id", "writer-1", "-p", prompt])
            .current_dir(&shop)
            .output()
            .expect("run");
        assert!(run.status.success());
        let (told, commands) = rows(&home, "writer-1");
        assert_eq!(
            told,
            ["a.txt changed 1 1 1 write hunks same", "new/b.txt added 2 2 1 write content same"]
        );
        assert_eq!(commands, 1);
        let text = home.run(&["changes", "writer-1"]).stdout;
        assert_eq!(
            text.lines().last(),
            Some("1 shell command left no record of what it changed"),
            "{text}"
        );
        let quiet =
            ["demo-agent", "--session-id", "writer-2", "-p", "x [[write:c.txt|c]] [[say:done]]"];
        assert!(home.command(&quiet).current_dir(&shop).status().expect("run").success());
        let text = home.run(&["changes", "writer-2"]).stdout;
        assert!(text.contains("c.txt") && !text.contains("shell command"), "{text}");
        assert_eq!(home.run(&["changes", "writer-1", "-q"]).stdout, "a.txt\nnew/b.txt\n");
        let sorted =
            ["changes", "writer-1", "--format", "{path} {edits}", "--sort", "edits", "--reverse"];
        assert_eq!(home.run(&sorted).stdout, "new/b.txt 2\na.txt 1\n");
    });
}

/// If `git apply` gets all patches at once, a file that one adds and a later one changes stays with `-R`.
#[test]
fn patches_that_are_applied_one_by_one_lead_to_the_end_and_back() {
    sandboxed(|| {
        let home = home();
        let shop = home.at("shop");
        write_all(&shop, &[("a.txt", "one\n")]);
        let prompt = "x [[write:b.txt|1]] [[write:a.txt|2]] [[write:b.txt|3]] [[write:a.txt|4]] [[say:done]]";
        let args = ["demo-agent", "--session-id", "writer-3", "-p", prompt];
        assert!(home.command(&args).current_dir(&shop).status().expect("run").success());
        let end = files(&shop);
        let told = home.run(&["changes", "writer-3", "--patch", "--json"]).json();
        let patches = told["patches"].as_array().expect("patches").clone();
        assert_eq!(patches.len(), 4, "{patches:?}");
        let tree = home.at("led");
        write_all(&tree, &[("a.txt", "one\n")]);
        let apply = |patch: &Value, options: &[&str]| {
            let file = home.write("one.patch", patch["patch"].as_str().expect("a patch"));
            let mut git = Command::new("git");
            git.arg("apply").args(options).arg(&file).current_dir(&tree);
            git.env("GIT_CEILING_DIRECTORIES", home.path());
            assert!(git.status().expect("git").success(), "{patch}");
        };
        for patch in &patches {
            apply(patch, &[]);
        }
        assert_eq!(files(&tree), end);
        for patch in patches.iter().rev() {
            apply(patch, &["-R"]);
        }
        assert_eq!(files(&tree), owned(&[("a.txt", "one\n")]));
    });
}

#[test]
fn a_command_that_waits_for_permission_is_not_counted_as_one_that_ran() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[tool:true]] [[permit:touch ran]]", &[]);
        let ask = eventually("its ask is open", || {
            let document = home.run(&["asks", "--json"]).json();
            document["asks"][0]["id"].as_str().map(str::to_owned)
        });
        let counts = || {
            let document = home.run(&["changes", &id, "--json"]).json();
            (document["commands"].as_u64(), document["unanswered"].as_u64())
        };
        assert_eq!(counts(), (Some(1), Some(1)));
        let text = home.run(&["changes", &id]).stdout;
        assert!(text.contains("1 call has no result: it may have changed files"), "{text}");
        assert!(text.contains("1 shell command left no record"), "{text}");
        assert_eq!(home.run(&["answer", &ask, "--deny"]).code, Some(0));
        until_stopped(&home, &id);
        assert_eq!(counts(), (Some(1), Some(0)), "a refused one counts nowhere");
    });
}

#[test]
fn a_gateway_that_does_not_say_is_an_answer_in_part() {
    sandboxed(|| {
        let gateway = Gateway::start();
        gateway.world().rows = vec![openclaw::row(openclaw::A, Some("done"), false)];
        let home = openclaw::beside(&gateway, "");
        let told = home.run(&["changes", openclaw::A]);
        assert_eq!(told.code, Some(3), "{}", told.stderr);
        assert!(told.stderr.contains("its gateway does not say"), "{}", told.stderr);
        assert_eq!(home.run(&["changes", "nothing-like-it"]).code, Some(4));
    });
}

/// A home with a session of Claude Code that holds these lines.
fn with_lines(lines: &[Value]) -> (TestHome, PathBuf) {
    let home = home();
    let shop = home.at("shop");
    fs::create_dir_all(&shop).expect("made");
    let text = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n";
    let cwd = shop.to_string_lossy().into_owned();
    let place = ".claude/projects/-shop/22222222-2222-4222-8222-222222222222.jsonl";
    home.write(place, text.replace("CWD", &cwd));
    (home, shop)
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    let block = serde_json::json!([{"type": "tool_use", "id": id, "name": name, "input": input}]);
    serde_json::json!({"type": "assistant", "cwd": "CWD", "timestamp": "2026-11-16T10:00:00Z",
        "sessionId": "22222222-2222-4222-8222-222222222222", "message": {"role": "assistant", "content": block}})
}

fn result(id: &str, recorded: &Value) -> Value {
    let block = serde_json::json!([{"type": "tool_result", "tool_use_id": id, "content": "ok"}]);
    serde_json::json!({"type": "user", "cwd": "CWD", "timestamp": "2026-11-16T10:00:01Z",
        "sessionId": "22222222-2222-4222-8222-222222222222", "message": {"role": "user", "content": block},
        "toolUseResult": recorded})
}

#[path = "changes/hostile.rs"]
mod hostile;
