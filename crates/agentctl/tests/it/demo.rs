//! The demo agent: seen truly in every state, and gone without a trace when asked.

use std::process::{Child, Stdio};

use agentctl_core::adapters::demo::LEAVING_COMM;
use serde_json::Value;
use testkit::{eventually, sandboxed};

use crate::home;

struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn start(home: &testkit::TestHome, id: &str, args: &[&str]) -> Demo {
    let mut all = vec!["demo-agent", "--session-id", id];
    all.extend(args);
    let child = home.command(&all).stdout(Stdio::null()).spawn().expect("starts");
    Demo(child)
}

fn until(home: &testkit::TestHome, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("{id} is as wanted"), || {
        let listed = home.run(&["list", "-a", "--json"]);
        listed.sessions().into_iter().find(|s| s["id"] == id && wanted(s))
    })
}

#[test]
fn every_state_is_distinguished() {
    sandboxed(|| {
        let home = home();
        let _tool = start(&home, "tool", &["-p", "x [[tool:exec sleep 600]]"]);
        let _hang = start(&home, "hang", &["-p", "x [[hang]]"]);
        let _ask = start(&home, "ask", &["-p", "x [[ask:Which one?]] [[say:thanks]]"]);
        let _idle = start(&home, "idle", &["--stay", "-p", "x [[say:hello]]"]);
        let mut failed = start(&home, "failed", &["-p", "x [[error:no luck]]"]);
        let mut done = start(&home, "done", &["-p", "x [[say:a]] [[tool:echo hi]] [[say:b]]"]);

        let tool = until(&home, "tool", |s| s["reason"]["kind"] == "tool");
        assert_eq!(
            (&tool["status"], &tool["reason"]["detail"]),
            (&"running".into(), &"shell: exec sleep 600".into())
        );
        until(&home, "hang", |s| s["status"] == "running" && s["reason"].is_null());
        let ask = until(&home, "ask", |s| s["status"] == "waiting");
        assert_eq!(ask["reason"]["detail"], "Which one?");
        until(&home, "idle", |s| s["status"] == "idle");

        assert_eq!(failed.0.wait().expect("ends").code(), Some(1));
        assert_eq!(done.0.wait().expect("ends").code(), Some(0));
        let failed = until(&home, "failed", |s| s["status"] == "error");
        assert_eq!(
            (&failed["outcome"], &failed["reason"]["detail"]),
            (&"failed".into(), &"no luck".into())
        );
        let done = until(&home, "done", |s| s["status"] == "stopped");
        assert_eq!((&done["outcome"], &done["exit"]["code"]), (&"finished".into(), &0.into()));

        let listed = home.run(&["list", "-a", "--json"]).sessions();
        let order: Vec<_> =
            listed.iter().map(|s| s["status"].as_str().unwrap_or_default()).collect();
        assert_eq!(order[..4], ["waiting", "running", "running", "idle"]);
        let ended: Vec<_> =
            listed[4..].iter().map(|s| s["last_activity_at"].as_str().expect("a time")).collect();
        assert!(ended.len() == 2 && ended[0] >= ended[1], "the newest first: {ended:?}");
        assert_eq!(home.run(&["list", "--json"]).sessions().len(), 4, "ended ones need -a");

        assert_eq!(home.run(&["demo-agent", "--tell", "ask", "-p", "both"]).code, Some(0));
        let answered = until(&home, "ask", |s| s["outcome"] == "finished");
        assert_eq!(answered["status"], "stopped");
        let said = home.run(&["logs", "ask", "--json"]).stdout;
        let texts: Vec<Value> = said
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).expect("JSON")["text"].clone())
            .collect();
        assert_eq!(texts, ["x [[ask:Which one?]] [[say:thanks]]", "Which one?", "both", "thanks"]);
    });
}

#[test]
fn a_killed_agent_is_stopped_though_its_record_says_busy() {
    sandboxed(|| {
        let home = home();
        let mut agent = start(&home, "victim", &["-p", "x [[tool:true]] [[hang]]"]);
        // A turn that dies must have begun: the live record says busy a moment before the prompt is written.
        until(&home, "victim", |s| {
            s["status"] == "running" && s["pid"].is_u64() && s["prompt"].is_string()
        });
        agent.0.kill().expect("killed");
        // Not reaped on purpose: a zombie is not alive.
        let killed = until(&home, "victim", |s| s["status"] == "stopped");
        assert_eq!((&killed["outcome"], &killed["pid"]), (&"killed".into(), &Value::Null));
        assert!(
            home.path()
                .join(".local/share/agentctl-demo/live")
                .join(format!("{}.json", agent.0.id()))
                .exists()
        );

        let mut again =
            home.command(&["demo-agent", "--resume", "victim", "-p", "go on [[say:fine]]"]);
        assert!(again.stdout(Stdio::null()).status().expect("runs").success());
        let resumed = until(&home, "victim", |s| s["outcome"] == "finished");
        assert_eq!(resumed["prompt"], "x [[tool:true]] [[hang]]");
        let status = home.run(&["status", "victim", "--json"]).json();
        assert!(status["tokens"]["output"].as_u64().is_some_and(|n| n > 0), "{status}");
    });
}

#[test]
fn a_record_counts_only_on_its_machine_and_in_its_boot() {
    sandboxed(|| {
        let live = |machine: Option<&str>, boot: &str| {
            format!(
                r#"{{"start_ticks":{{start}},"boot_id":"{boot}","machine_id":{},"pid_namespace":{{ns}},"session":"it","cwd":"/work","status":"idle","detail":null,"started_ms":0}}"#,
                Value::from(machine)
            )
        };
        let ended = [
            r#"{"type":"session","cwd":"/work","model":"demo-1"}"#,
            r#"{"type":"prompt","id":"1","text":"x","at":"2026-01-01T00:00:00Z"}"#,
            r#"{"type":"end","state":"finished","error":null,"at":"2026-01-01T00:00:01Z"}"#,
            r#"{"type":"exit","code":0,"at":"2026-01-01T00:00:02Z"}"#,
        ];
        for (machine, boot, status, exit) in [
            // A process serves it again: the earlier outcome does not count any more.
            (None, "{boot}", "idle", Value::Null),
            (None, "another", "stopped", 0.into()),
            (Some("another"), "{boot}", "unknown", Value::Null),
        ] {
            let home = home();
            let root = ".local/share/agentctl-demo";
            home.write(&format!("{root}/sessions/it.jsonl"), ended.join("\n") + "\n");
            let path = home.at(&format!("{root}/live/{{pid}}.json"));
            let path = path.to_str().expect("utf-8");
            let script = ["demo-agent", "write", path, &live(machine, boot)];
            let mut agent = home.agent("agentctl", "work", &script);
            agent.ready();
            let row = home.run(&["list", "-a", "--since", "all", "--json"]).session("it");
            assert_eq!(row["status"], status, "{machine:?} {boot}");
            assert_eq!(row["exit"]["code"], exit, "{machine:?} {boot}");
            assert_eq!(row["ended_at"].is_null(), exit.is_null(), "{machine:?} {boot}");
        }
    });
}

#[test]
fn the_guided_demo_cleans_up_after_itself_and_nothing_else() {
    sandboxed(|| {
        let home = home();
        let own = start(&home, "mine", &["--stay", "-p", "x [[say:hello]]"]);
        until(&home, "mine", |s| s["status"] == "idle");
        let shown = home.run(&["demo"]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        for status in ["waiting", "running", "idle", "error", "stopped"] {
            assert!(shown.stdout.contains(status), "{status} is missing:\n{}", shown.stdout);
        }
        assert_eq!(home.run(&["list", "-a", "--json"]).sessions().len(), 7);
        assert!(shown.stdout.starts_with("NAME"), "{}", shown.stdout);
        assert!(shown.stderr.contains("agentctl why site "), "{}", shown.stderr);
        let site = home.run(&["status", "site", "--json"]).json();
        assert_eq!((&site["name"], &site["status"]), (&"site".into(), &"waiting".into()));
        let cleaned = home.run(&["demo", "--clean"]);
        assert_eq!(cleaned.code, Some(0), "{}", cleaned.stderr);
        let left = home.run(&["list", "-a", "--json"]).sessions();
        assert_eq!(left.iter().map(|s| s["id"].clone()).collect::<Vec<_>>(), ["mine"]);
        assert!(!home.path().join(".local/share/agentctl-demo/scratch").exists());
        assert_eq!(home.run(&["status", "site"]).code, Some(4), "the name is gone");
        let names = home.path().join(".local/state/agentctl/names/names.json");
        let names = std::fs::read_to_string(names).expect("the file of names");
        assert!(!names.contains("\"demo\""), "no word of a removed session stays: {names}");
        drop(own);
    });
}

#[test]
fn the_guided_demo_lists_its_agents_in_one_order() {
    sandboxed(|| {
        let home = home();
        for _ in 0..5 {
            let shown = home.run(&["demo"]);
            assert_eq!(shown.code, Some(0), "{}", shown.stderr);
            let names: Vec<_> =
                shown.stdout.lines().skip(1).filter_map(|l| l.split_whitespace().next()).collect();
            assert_eq!(names, ["site", "api", "shop", "notes", "mail", "infra"]);
            assert_eq!(home.run(&["demo", "--clean"]).code, Some(0));
        }
    });
}

#[test]
fn the_guided_demo_leaves_the_name_of_a_live_session_alone() {
    sandboxed(|| {
        let home = home();
        let _own = start(&home, "mine", &["--stay", "-p", "x [[say:hello]]"]);
        until(&home, "mine", |s| s["status"] == "idle");
        assert_eq!(home.run(&["name", "mine", "site"]).code, Some(0));
        let shown = home.run(&["demo"]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        assert_eq!(home.run(&["status", "site", "--json"]).json()["id"], "mine");
        assert_eq!(home.run(&["demo", "--clean"]).code, Some(0));
        assert_eq!(home.run(&["status", "site", "--json"]).json()["id"], "mine");
    });
}

#[test]
fn a_process_that_has_removed_its_live_record_to_end_is_not_one_that_starts() {
    sandboxed(|| {
        let home = home();
        let _once = start(&home, "once", &["-p", "x"]).0.wait();
        let mut starting = home.agent("agentctl", "shop", &["demo-agent"]);
        starting.ready();
        let rows = home.run(&["list", "--json"]).sessions();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0]["reason"]["kind"], "starting");
        starting.kill();
        let rename = ["demo-agent", "write", "/proc/self/comm", LEAVING_COMM];
        let mut leaving = home.agent("agentctl", "shop", &rename);
        leaving.ready();
        assert_eq!(home.run(&["list", "--json"]).sessions(), [] as [Value; 0]);
    });
}
