//! Records that another program wrote to deceive: paths, headers inside hunks, sizes, refusals.

use std::io::Write;

use serde_json::{Value, json};
use testkit::sandboxed;

use super::{applied, call, result, rows, with_lines};

const ID: &str = "22222222-2222-4222-8222-222222222222";

fn created(path: &str, content: &str) -> Value {
    json!({"type": "create", "filePath": path, "content": content, "structuredPatch": [], "originalFile": null})
}

fn edited(path: &str, lines: &[&str]) -> Value {
    let count = |other: char| lines.iter().filter(|line| !line.starts_with([other, '\\'])).count();
    let place = json!({"oldStart": 1, "oldLines": count('+'), "newStart": 1, "newLines": count('-'), "lines": lines});
    json!({"filePath": path, "oldString": "a", "newString": "b", "originalFile": null, "structuredPatch": [place]})
}

#[test]
fn paths_are_shown_harmless_and_patches_keep_to_the_directory() {
    let paths = [
        "CWD/new\nline\u{1b}[31m.txt",
        "CWD/../outside.txt",
        "/etc/agentctl-test-file",
        "CWD/with \"quotes\" and  blanks",
        "CWD/sub/../plain.txt",
        "/",
    ];
    let lines: Vec<Value> = paths
        .iter()
        .enumerate()
        .map(|(at, path)| result(&format!("t{at}"), &created(path, "text\n")))
        .collect();
    sandboxed(|| {
        let (home, _) = with_lines(&lines);
        let table = home.run(&["changes", ID]);
        assert!(!table.stdout.contains('\u{1b}'), "{}", table.stdout);
        assert!(table.stdout.contains("new\\nline\\x1b[31m.txt"), "{}", table.stdout);
        let told = home.run(&["changes", ID, "--json"]).json();
        let path = |at: usize| told["files"][at]["path"].as_str().unwrap_or_default().to_owned();
        assert!(path(1).starts_with('/') && path(1).ends_with("/outside.txt"), "{}", path(1));
        assert_eq!([path(2), path(4)], ["/etc/agentctl-test-file", "plain.txt"]);
        assert_eq!(told["files"][1]["now"], "unknown", "files outside are not read");
        let patch = home.run(&["changes", ID, "--patch"]).stdout;
        assert!(!patch.contains('\u{1b}'), "{patch}");
        assert!(!patch.contains("b/etc") && !patch.contains("b//etc"), "{patch}");
        let made: Vec<String> = applied(&home, &patch).into_iter().map(|(path, _)| path).collect();
        for expected in ["new\nline\u{1b}[31m.txt", "with \"quotes\" and  blanks", "plain.txt"] {
            assert!(made.iter().any(|path| path == expected), "{expected}: {made:?}");
        }
        assert_eq!(made.len(), 5 + 3, "{made:?}");
        assert!(!home.at("outside.txt").exists());
    });
}

#[test]
fn a_hunk_cannot_pass_for_the_header_of_another_file() {
    let forged = [
        "-a",
        "+b\ndiff --git a/forged b/forged\nnew file mode 100644\n--- /dev/null\n+++ b/forged\n@@ -0,0 +1,1 @@\n+x",
    ];
    let unmarked = ["-a", "diff --git a/forged b/forged"];
    let miscounted = json!({"filePath": "CWD/c.txt", "structuredPatch": [
        {"oldStart": 1, "oldLines": 9, "newStart": 1, "newLines": 9, "lines": ["-a", "+b"]}]});
    let lines = [
        result("t1", &edited("CWD/a.txt", &forged)),
        result("t2", &edited("CWD/b.txt", &unmarked)),
        result("t3", &miscounted),
    ];
    sandboxed(|| {
        let (home, _) = with_lines(&lines);
        let patch = home.run(&["changes", ID, "--patch"]).stdout;
        assert!(!patch.contains("forged") && !patch.contains("\n@@"), "{patch}");
        let (told, _) = rows(&home, ID);
        assert_eq!(
            told,
            ["a", "b", "c"].map(|n| format!("{n}.txt changed 1 null null edit path gone"))
        );
    });
}

#[test]
fn refused_failed_and_repeated_calls_do_not_count() {
    let write = |path: &str| json!({"file_path": path, "content": "x\n"});
    let refusal = |id: &str, text: &str| {
        let mut line = result(id, &json!(text));
        line["message"]["content"][0]["is_error"] = json!(true);
        line
    };
    let lines = [
        call("t1", "Write", &write("CWD/refused.txt")),
        refusal("t1", "User rejected tool use"),
        call("t2", "Bash", &json!({"command": "rm -rf x"})),
        refusal(
            "t2",
            "Error: Claude requested permissions to use Bash, but you haven't granted it yet.",
        ),
        call("t3", "Bash", &json!({"command": "false"})),
        refusal("t3", "Error: Exit code 1"),
        call("t4", "Write", &write("CWD/once.txt")),
        result("t4", &created("CWD/once.txt", "x\n")),
        result("t4", &created("CWD/once.txt", "x\n")),
        // No record beside the result: the arguments tell it.
        call("t5", "Write", &write("CWD/told.txt")),
        result("t5", &json!("File created successfully")),
        // Killed before the results.
        call("t6", "Write", &write("CWD/open.txt")),
        call("t7", "Bash", &json!({"command": "make"})),
    ];
    sandboxed(|| {
        let (home, _) = with_lines(&lines);
        let (told, commands) = rows(&home, ID);
        assert_eq!(
            told,
            [
                "once.txt added 1 1 0 write content gone",
                "told.txt changed 1 1 0 write arguments gone"
            ]
        );
        assert_eq!(commands, 1, "the failed one");
        let text = home.run(&["changes", ID]).stdout;
        assert!(text.contains("2 calls have no result: they may have changed files"), "{text}");
    });
}

#[test]
fn subagents_are_included_in_the_order_of_time() {
    let mut early = result("s1", &created("CWD/sub.txt", "one\n"));
    early["timestamp"] = json!("2026-11-16T09:00:00Z");
    let later = result("t1", &edited("CWD/sub.txt", &["-one", "+two"]));
    sandboxed(|| {
        let (home, shop) = with_lines(std::slice::from_ref(&later));
        early["isSidechain"] = json!(true);
        let text = format!("{early}\n").replace("CWD", &shop.to_string_lossy());
        home.write(&format!(".claude/projects/-shop/{ID}/subagents/agent-a1b2c3d.jsonl"), text);
        std::fs::write(shop.join("sub.txt"), "two\n").expect("written");
        let (told, _) = rows(&home, ID);
        assert_eq!(told, ["sub.txt added 2 2 1 edit content same"]);
        assert_eq!(home.run(&["changes", ID, "--json"]).json()["subagents"], 1);
        let patch = home.run(&["changes", ID, "--patch"]).stdout;
        let made = applied(&home, &patch);
        assert!(made.contains(&("sub.txt".to_owned(), "two\n".to_owned())), "{made:?}");
    });
}

#[test]
fn a_record_of_any_size_is_answered_in_part() {
    sandboxed(|| {
        let (home, shop) = with_lines(&[result("t0", &created("CWD/first.txt", "1\n"))]);
        let path = home.at(&format!(".claude/projects/-shop/{ID}.jsonl"));
        let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("opened");
        // One line of 256 MB, most of it a hole of the file.
        let head = result("t1", &edited("CWD/long.txt", &["-a", "+HERE"])).to_string();
        let (before, after) = head.split_once("HERE").expect("a mark");
        file.write_all(before.as_bytes()).expect("written");
        let length = file.metadata().expect("there").len();
        file.set_len(length + (256 << 20)).expect("a hole");
        writeln!(file, "{after}").expect("written");
        // 100 contents of 1 MB: more than the texts that are kept.
        let content = "x".repeat(1 << 20);
        for at in 0..100 {
            let line = result(&format!("n{at}"), &created("CWD/many.txt", &content)).to_string();
            writeln!(file, "{}", line.replace("CWD", &shop.to_string_lossy())).expect("written");
        }
        let output = home.run_within(160, &["changes", ID, "--json"]);
        assert_eq!(output.code, Some(3), "{}", output.stderr);
        for words in
            ["1 lines of its record are too long to read", "changes are told by their path only"]
        {
            assert!(output.stderr.contains(words), "{}", output.stderr);
        }
        let told = output.json();
        assert_eq!(told["files"][0]["path"], "first.txt");
        assert_eq!(told["files"][1]["edits"], 100);
    });
}
