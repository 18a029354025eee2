//! OpenClaw through a scripted gateway on loopback: its rows, and its control.

use serde_json::{Value, json};
use testkit::gateway::{Gateway, Manner, TOKEN};
use testkit::{TestHome, eventually, sandboxed};

use crate::{assert_list_equals_status, configure, home};

pub(crate) const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

/// A row in the format of the real gateway, without unused fields.
pub(crate) fn row(id: &str, status: Option<&str>, active: bool) -> Value {
    json!({
        "key": format!("agent:main:dashboard:{id}"), "sessionId": id, "agentId": "main",
        "classification": "direct", "createdVia": "operator", "isBackground": false,
        "label": format!("label {}", &id[..4]), "displayName": "shown", "derivedTitle": "what it is about",
        "status": status, "hasActiveRun": active, "model": "fake-1",
        "createdAt": 1_794_728_786_726_i64, "updatedAt": 1_794_728_789_472_i64,
        "endedAt": 1_794_728_789_447_i64, "parentSessionKey": "agent:main:main",
    })
}

/// A home whose configuration names this gateway.
pub(crate) fn beside(gateway: &Gateway, more: &str) -> TestHome {
    let home = home();
    configure(&home, &[], &table(gateway, more));
    home
}

/// A gateway as the configuration names it.
pub(crate) fn table(gateway: &Gateway, more: &str) -> String {
    format!("[[openclaw.gateways]]\nurl = \"{}\"\ntoken = \"{TOKEN}\"\n{more}", gateway.url())
}

pub(crate) fn all(home: &TestHome) -> testkit::Output {
    home.run(&["list", "-a", "--since", "all", "--tree", "--json"])
}

/// The scopes of every connection so far.
fn scopes(gateway: &Gateway) -> Vec<String> {
    let world = gateway.world();
    let connects = world.asked.iter().filter(|(method, _)| method == "connect");
    connects.map(|(_, params)| params["scopes"].to_string()).collect()
}

#[test]
fn has_active_run_decides() {
    sandboxed(|| {
        let cases = [
            (row(A, Some("running"), true), "running", Value::Null, Value::Null),
            (row(A, Some("queued"), true), "running", Value::Null, "queued".into()),
            (row(A, Some("done"), true), "running", Value::Null, Value::Null),
            (row(A, None, false), "idle", Value::Null, Value::Null),
            (row(A, Some("done"), false), "idle", "finished".into(), Value::Null),
            (row(A, Some("failed"), false), "idle", "failed".into(), Value::Null),
            (row(A, Some("timeout"), false), "idle", "failed".into(), Value::Null),
            (row(A, Some("killed"), false), "idle", "interrupted".into(), Value::Null),
            (row(A, Some("new word"), false), "idle", "unknown".into(), Value::Null),
        ];
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        for (row, status, outcome, kind) in cases {
            gateway.world().rows = vec![row.clone()];
            let shown = all(&home).session(A);
            assert_eq!(shown["status"], status, "{row}");
            assert_eq!((&shown["outcome"], &shown["reason"]["kind"]), (&outcome, &kind), "{row}");
            assert_eq!(shown["native_key"], row["key"]);
            assert_eq!((&shown["pid"], &shown["cwd"]), (&Value::Null, &Value::Null));
            assert_list_equals_status(&home);
            // An idle conversation is not a live session.
            let living = home.run(&["list", "--json"]).sessions().len();
            assert_eq!(living, usize::from(status == "running"), "{row}");
        }
        // A gateway that does not say is not guessed at.
        let mut silent = row(A, Some("running"), true);
        silent["hasActiveRun"] = "yes".into();
        gateway.world().rows = vec![silent];
        assert_eq!(all(&home).session(A)["status"], "unknown");
    });
}

#[test]
fn background_runs_end_with_an_outcome() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let cron = |id: &str, job: &str| {
            let mut row = row(id, None, false);
            row["key"] = format!("agent:main:cron:{job}").into();
            row["classification"] = "cron".into();
            row["createdVia"] = "cron".into();
            row
        };
        let job = |id: &str, state: Value| json!({"id": id, "name": "n", "state": state});
        let ids: Vec<String> =
            (0..6).map(|n| format!("{n:08}-0000-4000-8000-000000000000")).collect();
        {
            let mut world = gateway.world();
            let jobs = ["ok", "bad", "now", "never"];
            world.rows = ids.iter().zip(jobs).map(|(id, name)| cron(id, name)).collect();
            world.rows.push(cron(&ids[4], "request-1"));
            world.rows.push(cron(&ids[5], "request-2"));
            world.jobs = vec![
                job("ok", json!({"lastRunStatus": "ok"})),
                job("bad", json!({"lastRunStatus": "error", "lastError": "no channel"})),
                job("now", json!({"runningAtMs": 5, "lastRunStatus": "ok"})),
                job("never", json!({})),
            ];
            let answered = json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "stopReason": "stop"}]});
            world.histories.insert("agent:main:cron:request-1".into(), answered);
        }
        let listed = all(&home);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        let wanted = [
            ("stopped", "finished", "-", "a cron run"),
            ("error", "failed", "failure", "a cron run"),
            // The row alone would show no active run.
            ("running", "-", "starting", "a cron run"),
            ("unknown", "-", "ambiguous", "a cron run"),
            ("stopped", "finished", "-", "a hook run"),
            ("unknown", "-", "ambiguous", "a hook run"),
        ];
        for (id, (status, outcome, kind, note)) in ids.iter().zip(wanted) {
            let row = listed.session(id);
            let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
            assert_eq!(
                (text(&row["status"]), text(&row["outcome"]), text(&row["reason"]["kind"])),
                (status.to_owned(), outcome.to_owned(), kind.to_owned()),
                "{row}"
            );
            assert_eq!(row["notes"][0], note);
        }
        assert_list_equals_status(&home);
    });
}

#[test]
fn subagents_are_listed_under_their_parent() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let mut parent = row(A, Some("done"), false);
        parent["hasActiveSubagentRun"] = true.into();
        let mut child = row(B, Some("running"), true);
        child["classification"] = "subagent".into();
        child["createdVia"] = "spawn".into();
        child["spawnedBy"] = parent["key"].clone();
        gateway.world().rows = vec![parent, child.clone()];
        let shown = all(&home);
        assert_eq!(shown.session(B)["parent"], A);
        assert_eq!(shown.session(B)["status"], "running");
        // Its own turn is over, but a subagent works: it is in the list of live sessions.
        let living = home.run(&["list", "--json"]).session(A);
        assert_eq!(
            (&living["status"], &living["reason"]["kind"]),
            (&"idle".into(), &"background".into())
        );
        let stopped = home.run(&["stop", B, "--json"]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert_eq!(stopped.json()["stopped"][0]["status"], "stopped");
        // A parent that the gateway no longer has leaves it standing alone.
        gateway.world().rows.remove(0);
        let orphan = all(&home).session(B);
        assert_eq!((&orphan["parent"], &orphan["status"]), (&Value::Null, &"stopped".into()));
    });
}

#[test]
fn an_unlisted_session_is_asked_for_before_it_counts_as_gone() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        gateway.world().rows = vec![row(A, Some("running"), true)];
        assert_eq!(home.run(&["status", A, "--json"]).json()["status"], "running");
        // The gateway has it and hides it (incognito): it must not be reported as ended.
        {
            let mut world = gateway.world();
            world.hidden = std::mem::take(&mut world.rows);
        }
        let hidden = home.run(&["status", A, "--json"]);
        assert_eq!((&hidden.json()["status"], hidden.code), (&"unknown".into(), Some(3)));
        // Its key has been given to another session since: it is gone, the other is not it.
        {
            let mut world = gateway.world();
            let mut other = row(B, Some("running"), true);
            other["key"] = world.hidden[0]["key"].clone();
            world.hidden.insert(0, other);
        }
        assert_eq!(home.run(&["status", A, "--json"]).code, Some(4));
        // It says that it has none: gone, and nothing of it is left anywhere.
        gateway.world().hidden.clear();
        let gone = home.run(&["status", A, "--json"]);
        assert_eq!(gone.code, Some(4), "{}", gone.stdout);
        let asked: Vec<String> = gateway.world().asked.iter().map(|(m, _)| m.clone()).collect();
        assert!(
            asked.contains(&"sessions.resolve".into())
                && asked.contains(&"sessions.describe".into())
        );
        assert_eq!(all(&home).sessions().len(), 0);
    });
}

#[test]
fn queries_request_read_scope_and_only_orders_write_scope() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        gateway.world().rows = vec![row(A, Some("done"), false)];
        for args in
            [&["list"][..], &["list", "-a"], &["status", A], &["logs", A], &["why", A], &["doctor"]]
        {
            assert_eq!(home.run(args).code, Some(0), "{args:?}");
        }
        assert!(
            scopes(&gateway).iter().all(|s| s == "[\"operator.read\"]"),
            "{:?}",
            scopes(&gateway)
        );
        let known = scopes(&gateway).len();
        assert_eq!(home.run(&["resume", A, "go on"]).code, Some(0));
        let later = scopes(&gateway).split_off(known);
        let write = "[\"operator.read\",\"operator.write\"]";
        assert_eq!(later.iter().filter(|s| *s == write).count(), 1, "{later:?}");
        assert!(!later.iter().any(|s| s.contains("admin")), "{later:?}");
    });
}

#[test]
fn launch_resume_and_stop_are_the_gateways_own() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let launched =
            home.run(&["launch", "openclaw", "-p", "do it", "--name", "one", "--model", "m"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let id = launched.stdout.trim().to_owned();
        let (method, params) = {
            let world = gateway.world();
            world.asked.iter().find(|(m, _)| m == "sessions.create").cloned().expect("created")
        };
        assert_eq!(method, "sessions.create");
        let once = params["idempotencyKey"].clone();
        let wanted =
            json!({"message": "do it", "label": "one", "model": "m", "idempotencyKey": once});
        assert_eq!(params, wanted);
        assert_eq!(home.run(&["list", "--json"]).session(&id)["status"], "running");
        assert_eq!(home.run(&["status", "one", "--json"]).json()["id"], *id);
        // A message whose answer was lost is sent again under the same key: it arrives once.
        gateway.world().lost_answers = 2;
        let resumed = home.run(&["resume", &id, "go on"]);
        assert_eq!(
            (resumed.code, resumed.stdout.trim()),
            (Some(0), id.as_str()),
            "{}",
            resumed.stderr
        );
        let logs = home.run(&["logs", &id, "--json"]).stdout;
        assert_eq!(logs.lines().count(), 2, "{logs}");
        let stopped = home.run(&["stop", &id]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert!(stopped.stdout.starts_with("stopped openclaw"), "{}", stopped.stdout);
        let after = home.run(&["status", &id, "--json"]).json();
        assert_eq!((&after["status"], &after["outcome"]), (&"idle".into(), &"interrupted".into()));
        assert!(home.run(&["stop", &id]).stdout.contains("already"));
        // No directory is occupied, and nothing of all this is kept here but the name.
        assert_eq!(home.run(&["locks", "--json"]).json()["locks"], json!([]));
        let state = std::fs::read_dir(home.path().join(".local/state/agentctl")).expect("read");
        let kept: Vec<_> = state.flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(kept, ["names"]);
    });
}

#[test]
fn stopped_is_reported_only_when_the_next_look_confirms_it() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let running = || vec![row(A, Some("running"), true)];
        // Only the client that began a run may end it.
        {
            let mut world = gateway.world();
            world.rows = running();
            world.abort_needs_admin = true;
        }
        let refused = home.run(&["stop", A]);
        assert_eq!(refused.code, Some(1), "{}", refused.stdout);
        assert!(refused.stderr.contains("admin = true"), "{}", refused.stderr);
        assert_eq!(home.run(&["status", A, "--json"]).json()["status"], "running");
        // Unless the configuration says so.
        configure(&home, &[], &table(&gateway, "admin = true\n"));
        assert_eq!(home.run(&["stop", A]).code, Some(0));
        // Taken, and nothing comes of it.
        {
            let mut world = gateway.world();
            world.rows = running();
            world.abort_is_idle_talk = true;
        }
        let idle = home.run(&["stop", A, "--timeout", "300ms"]);
        assert_eq!(idle.code, Some(1), "{}", idle.stdout);
        assert!(!idle.stdout.contains("stopped openclaw"), "{}", idle.stdout);
        // It took the request and did not answer any more: the result is not known.
        {
            let mut world = gateway.world();
            world.rows = running();
            world.mute_after_abort = true;
        }
        configure(&home, &[("gateway", "700ms")], &table(&gateway, "admin = true\n"));
        let lost = home.run(&["stop", A, "--timeout", "20s"]);
        assert_eq!(lost.code, Some(3), "{} {}", lost.stdout, lost.stderr);
        // A gateway that does not answer says nothing about it.
        gateway.behaves(Manner::NoAnswer);
        configure(&home, &[("gateway", "500ms")], &table(&gateway, ""));
        let silent = home.run(&["stop", A]);
        assert_eq!(silent.code, Some(3), "{} {}", silent.stdout, silent.stderr);
    });
}

#[test]
fn logs_show_the_unfinished_answer_and_follow() {
    use std::io::{BufRead, BufReader};
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let key = format!("agent:main:dashboard:{A}");
        let say = |n: u64, role: &str, content: Value| {
            json!({"role": role, "content": content, "timestamp": 1_794_728_786_726_u64 + n, "__openclaw": {"id": format!("m{n}")}, "model": "fake-1",
            "usage": if role == "assistant" { json!({"input": 111, "output": 22, "cacheRead": 3, "cacheWrite": 4, "cost": {"total": 0.5}}) } else { Value::Null }})
        };
        let call = json!([{"type": "text", "text": "let me see"}, {"type": "toolCall", "id": "c", "name": "exec", "arguments": {"command": "ls"}}]);
        {
            let mut world = gateway.world();
            world.rows = vec![row(A, Some("running"), true)];
            let messages = vec![
                say(1, "user", "hello".into()),
                say(2, "assistant", call),
                say(3, "toolResult", json!([{"type": "text", "text": "a b"}])),
            ];
            world.histories.insert(key.clone(), json!({"messages": messages, "inFlightRun": {"runId": "r", "text": "I am about to", "startedAt": 5}}));
        }
        let lines: Vec<Value> = home
            .run(&["logs", A, "--json"])
            .stdout
            .lines()
            .map(|l| serde_json::from_str(l).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!((&lines[0]["role"], &lines[0]["text"]), (&"user".into(), &"hello".into()));
        assert_eq!(lines[1]["tool_calls"][0]["input"]["command"], "ls");
        assert_eq!(lines[2]["tool_results"][0]["text"], "a b");
        assert_eq!((&lines[3]["text"], &lines[3]["id"]), (&"I am about to".into(), &Value::Null));
        // Tokens are those of the whole conversation, not of the last run.
        let status = home.run(&["status", A, "--json"]).json();
        assert_eq!(
            status["tokens"],
            json!({"input": 111, "output": 22, "cache_read": 3, "cache_write": 4})
        );
        assert_eq!(status["cost_usd"], 0.5);
        let mut command = home.command(&["logs", "-f", A, "--json"]);
        let mut follower = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        let mut shown = BufReader::new(follower.stdout.take().expect("piped")).lines();
        let mut next = || -> Value {
            serde_json::from_str(&shown.next().expect("a line").expect("read")).expect("JSON")
        };
        for _ in 0..4 {
            next();
        }
        {
            let mut world = gateway.world();
            let history = world.histories.get_mut(&key).expect("there");
            history["messages"].as_array_mut().expect("messages").push(say(
                4,
                "assistant",
                "I am about to leave".into(),
            ));
            history["inFlightRun"] = Value::Null;
        }
        assert_eq!(next()["text"], "I am about to leave");
        follower.kill().expect("killed");
        follower.wait().expect("reaped");
    });
}

#[test]
fn waiting_ends_with_the_run_or_with_the_session() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        for (status, code) in
            [(Some("done"), 0), (Some("failed"), 1), (Some("killed"), 1), (None, 1)]
        {
            gateway.world().rows = vec![row(A, Some("running"), true)];
            gateway.world().asked.clear();
            let mut waiter =
                home.command(&["wait", A, "--timeout", "60s"]).spawn().expect("it starts");
            eventually("it has subscribed", || {
                gateway.world().asked.iter().any(|(m, _)| m == "sessions.subscribe").then_some(())
            });
            match status {
                Some(_) => gateway.world().rows = vec![row(A, status, false)],
                // Deleted: nothing will ever come of it.
                None => gateway.world().rows.clear(),
            }
            gateway.push(&json!({"type": "event", "event": "sessions.changed", "payload": {}}));
            let ended = waiter.wait().expect("it ends");
            assert_eq!(ended.code(), Some(code), "{status:?}");
        }
    });
}

#[test]
fn after_a_lost_connection_it_looks_and_subscribes_again() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        gateway.world().rows = vec![row(A, Some("running"), true)];
        let subscribed = |times: usize| {
            let world = gateway.world();
            let all = world.asked.iter().filter(|(method, _)| method == "sessions.subscribe");
            (all.count() == times).then_some(())
        };
        let mut waiter = home.command(&["wait", A, "--timeout", "60s"]).spawn().expect("started");
        eventually("it has subscribed", || subscribed(1));
        gateway.hang_up();
        eventually("it has subscribed again", || subscribed(2));
        gateway.world().rows = vec![row(A, Some("done"), false)];
        gateway.push(&json!({"type": "event", "event": "sessions.changed", "payload": {}}));
        assert_eq!(waiter.wait().expect("it ends").code(), Some(0));
    });
}
