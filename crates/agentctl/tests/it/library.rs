//! The library without the command line: what another interface gets from the orders of `Fleet`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::ask::{
    Fleet, GroupLaunchNews, GroupLaunchRequest, LaunchDefaults, LaunchDocument, LaunchNews,
    LaunchRequest, LogsRequest, PlanPlace, WaitDocument, WaitRequest,
};
use agentctl_core::host::{BASE_DIRECTORIES, Deadlines, Host};
use agentctl_core::wait::{End, WaitVerdict};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::home;

/// Returns the fleet of a program that runs in this home, with long deadlines.
fn fleet(home: &TestHome) -> Fleet {
    let long = Duration::from_mins(5);
    let deadlines = Deadlines { live: long, all: long, launch: long, gateway: long };
    let env = variables(home).into_iter().chain([("PATH".into(), "/usr/bin:/bin".into())]);
    let base = crate::event_sinks::host(home, agentctl::config::clock);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_agentctl"));
    let env = env.collect::<BTreeMap<_, _>>();
    Fleet::new(Arc::new(Host { program, env, deadlines, ..Host::clone(&base) }), ALL)
}

/// Returns the variables that keep a program in this home.
fn variables(home: &TestHome) -> Vec<(String, String)> {
    let path = home.path().display().to_string();
    let bases = BASE_DIRECTORIES.map(|name| (name.to_owned(), format!("{path}/{name}")));
    bases.into_iter().chain([("HOME".to_owned(), path.clone())]).collect()
}

/// Returns a request as another process would send it.
fn request(home: &TestHome, more: Value) -> LaunchRequest {
    let mut request = json!({
        "subject": {"new": {"adapter": "demo"}}, "prompt": "x [[say:ok]]",
        "options": {"env": variables(home)},
    });
    for (name, value) in more.as_object().expect("an object") {
        request[name.as_str()] = value.clone();
    }
    let request: LaunchRequest = serde_json::from_value(request).expect("a request");
    assert_eq!(through_json(&request), request);
    request
}

/// Writes a document as JSON and reads it again.
#[track_caller]
fn through_json<T: Serialize + DeserializeOwned>(document: &T) -> T {
    let written = serde_json::to_value(document).expect("it can be written");
    let read: T = serde_json::from_value(written.clone()).expect("it can be read");
    assert_eq!(serde_json::to_value(&read).expect("it can be written"), written);
    read
}

#[test]
fn a_launch_runs_its_hook_after_the_id_is_told_and_its_document_survives_json() {
    sandboxed(|| {
        let home = home();
        let fleet = fleet(&home);
        let ran = home.at("ran");
        let script = format!("echo \"$AGENTCTL_SESSION_ID\" > '{}'", ran.display());
        let options = json!({
            "env": variables(&home), "hooks": {"on_create": ["sh", "-c", script]},
        });
        let mut told = None;
        let request = request(&home, json!({ "options": options }));
        let launched = fleet.launch(&request, &LaunchDefaults::default(), &mut |news| {
            if let LaunchNews::Started { id } = news {
                assert!(!ran.exists(), "the id is told before the hook is run");
                told = Some(id.to_owned());
            }
        });
        let document: LaunchDocument = through_json(&launched.expect("it starts"));
        assert_eq!((told.as_deref(), document.adapter), (Some(document.id.as_str()), "demo"));
        let seen = std::fs::read_to_string(&ran).expect("the hook was run");
        assert_eq!((seen.trim(), document.hook_failure), (document.id.as_str(), None));
        let session = document.session.expect("the session was looked for");
        assert_eq!((session.id, session.run), (Some(document.id), document.run));
    });
}

#[test]
fn a_group_is_planned_and_launched_from_a_request_that_was_sent() {
    sandboxed(|| {
        let home = home();
        let repository = testkit::Repository::new(&home.at("shop"));
        let fleet = fleet(&home);
        let request = json!({
            "slots": [{"adapter": "demo"}, {"adapter": "demo", "prompt_suffix": "quickly"}],
            "prompt": "x [[say:ok]]", "context": {"files": ["README.md"]},
            "cwd": repository.path, "options": {"env": variables(&home), "group": "g"},
        });
        let request: GroupLaunchRequest = serde_json::from_value(request).expect("a request");
        assert_eq!(through_json(&request), request);
        let defaults = LaunchDefaults::default();
        let plan = fleet.plan_launch(&request, None, &PlanPlace::Worktrees, &defaults);
        let plan = through_json(&plan.expect("a plan"));
        let mut started = Vec::new();
        let launched = fleet.launch_group(&request, &defaults, &mut |news| {
            if let GroupLaunchNews::Started { slot, .. } = news {
                started.push(slot);
            }
        });
        let document = through_json(&launched.expect("it starts"));
        started.sort_unstable();
        assert_eq!((started, document.started()), (vec![0, 1], 2));
        let planned: Vec<_> = plan.slots.into_iter().map(|s| (s.branch, s.worktree)).collect();
        let made: Vec<_> = document.slots.into_iter().map(|s| (s.branch, s.worktree)).collect();
        assert_eq!(planned, made);
        assert_eq!(made[1].0.as_deref(), Some("agentctl/g/demo-2"));
    });
}

#[test]
fn a_launch_without_a_hook_looks_for_its_session_only_on_request() {
    sandboxed(|| {
        let home = home();
        let fleet = fleet(&home);
        let mut looks = 0;
        let mut launch = |look: bool| {
            // The second launch goes into the directory of the first, which may still run.
            let options = json!({ "env": variables(&home), "force": true });
            let request = request(&home, json!({ "look": look, "options": options }));
            let launched = fleet.launch(&request, &LaunchDefaults::default(), &mut |news| {
                looks += u32::from(matches!(news, LaunchNews::Looked { .. }));
            });
            let document = launched.expect("it starts");
            (document.session.is_some(), document.wait_target().is_some())
        };
        assert_eq!(launch(false), (false, false));
        assert_eq!(launch(true), (true, true));
        assert_eq!(looks, 1);
    });
}

/// Returns the request to wait for a launched session, as another process would send it.
fn wait_for(document: &LaunchDocument) -> WaitRequest {
    let target = document.wait_target().expect("the session was found");
    serde_json::from_value(json!({ "targets": [target] })).expect("a request")
}

#[test]
fn the_document_of_a_wait_survives_json_and_says_how_it_ended() {
    sandboxed(|| {
        let home = home();
        let fleet = fleet(&home);
        let launched = fleet.launch(
            &request(&home, json!({ "look": true })),
            &LaunchDefaults::default(),
            &mut |_| {},
        );
        let launched = launched.expect("it starts");
        let mut request = wait_for(&launched);
        let brief = fleet.wait(&request, &mut |_| {}).expect("it ends");
        request.figures = true;
        let whole = fleet.wait(&request, &mut |_| {}).expect("it ends");
        for document in [&brief, &whole] {
            let document: WaitDocument = through_json(document);
            assert_eq!((document.end, document.timed_out), (End::Reached, false));
            let verdict = document.verdicts.first().expect("one session");
            assert_eq!(verdict.id.as_ref(), Some(&launched.id));
            assert_eq!(verdict.verdict, WaitVerdict::Reached);
        }
        let tokens = |document: &WaitDocument| document.sessions[0].tokens.is_some();
        assert!(tokens(&whole) && !tokens(&brief), "figures are added on request only");
    });
}

#[test]
fn the_file_watches_of_a_wait_are_released_while_the_program_goes_on() {
    sandboxed(|| {
        let home = home();
        let fleet = fleet(&home);
        let prompt = json!({ "look": true, "prompt": "x [[tool:sleep 600]]" });
        let launched =
            fleet.launch(&request(&home, prompt), &LaunchDefaults::default(), &mut |_| {});
        let mut request = wait_for(&launched.expect("it starts"));
        request.timeout_ms = Some(1);
        let document = fleet.wait(&request, &mut |_| {}).expect("it times out");
        assert_eq!((document.end, document.timed_out), (End::TimedOut, true));
        eventually("no watch is left", || {
            let own = std::fs::read_dir("/proc/self/fd").expect("listed").flatten();
            let targets = own.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            let kinds = ["anon_inode:inotify", "anon_inode:[io_uring]"];
            let mut left = targets.filter(|to| kinds.iter().any(|kind| to.as_os_str() == *kind));
            left.next().is_none().then_some(())
        });
    });
}

#[test]
fn a_conversation_is_one_document_with_the_messages_that_were_asked_for() {
    sandboxed(|| {
        let home = home();
        let fleet = fleet(&home);
        let wanted = json!({"prompt": "paint [[say:one]] [[say:two]]", "look": true});
        let launched =
            fleet.launch(&request(&home, wanted), &LaunchDefaults::default(), &mut |_| {});
        let id = launched.expect("launched").id;
        let wait = json!({"targets": [id.clone()], "until": {"status": "stopped"}});
        let wait: WaitRequest = serde_json::from_value(wait).expect("a request");
        fleet.wait(&wait, &mut |_| {}).expect("it ends");
        let ask = |selection: Value| {
            let request = json!({"session": id.clone(), "selection": selection});
            let request: LogsRequest = serde_json::from_value(request).expect("a request");
            through_json(&fleet.logs(&request).expect("messages"))
        };
        let texts = |selection: Value| -> Vec<String> {
            ask(selection).messages.into_iter().filter_map(|message| message.text).collect()
        };
        assert_eq!(texts(json!({"limit": {"messages": 1}})), ["two"]);
        assert_eq!(texts(json!({"roles": ["user"]})).len(), 1);
        assert!(texts(json!({})).ends_with(&["one".to_owned(), "two".to_owned()]));
        let nonsense = json!({"session": "x", "selection": {"limits": 3}});
        assert!(serde_json::from_value::<LogsRequest>(nonsense).is_err());
    });
}
