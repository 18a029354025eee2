//! Orders as another interface gives them: requests that were read from JSON, and failures that are data.

use std::path::Path;
use std::sync::Arc;

use agentctl_core::adapters::ALL;
use agentctl_core::ask::{
    ExtendFuseRequest, Fleet, FuseOrderError, FuseRequest, FuseSelector, InvalidRequest,
    LockOrderError, LockRequest, NotOne, NotOneFuse, RequestField, StopRequest, UnlockRequest,
};
use agentctl_core::fuses::Action;
use agentctl_core::host::Host;
use agentctl_core::marks;
use agentctl_core::model::Status;
use agentctl_core::stop::StopFailureCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::home;

/// Returns the fleet of a program that runs in this home.
fn fleet(home: &TestHome) -> Fleet {
    Fleet::new(Arc::new(host(home)), ALL)
}

fn host(home: &TestHome) -> Host {
    Host::clone(&crate::event_sinks::host(home, agentctl::config::clock))
}

/// Reads a request as another process would send it.
#[track_caller]
fn read<T: DeserializeOwned>(request: Value) -> T {
    serde_json::from_value(request).expect("a request")
}

/// Writes an answer as JSON and reads it again.
#[track_caller]
fn sent<T: Serialize + DeserializeOwned>(answer: &T) -> T {
    let written = serde_json::to_value(answer).expect("written");
    let read: T = serde_json::from_value(written.clone()).expect("read");
    assert_eq!(serde_json::to_value(&read).expect("written"), written);
    read
}

fn shown(path: &Path) -> String {
    std::fs::canonicalize(path).expect("resolved").to_string_lossy().into_owned()
}

#[test]
fn a_lock_is_checked_set_refused_and_removed() {
    sandboxed(|| {
        let home = home();
        std::fs::create_dir(home.at("shop")).expect("a directory");
        let (fleet, place) = (fleet(&home), shown(&home.at("shop")));
        let invalid = [
            (json!({"by": "n".repeat(201)}), (RequestField::By, Some(200))),
            (json!({"reason": "r".repeat(2001)}), (RequestField::Reason, Some(2000))),
            (json!({"ttl_ms": 0}), (RequestField::Ttl, None)),
        ];
        for (request, (field, limit)) in invalid {
            let refused = fleet.lock(&read::<LockRequest>(request)).expect_err("refused");
            let expected = match limit {
                Some(limit) => InvalidRequest::TooManyCharacters { field, limit },
                None => InvalidRequest::ZeroTime { field },
            };
            assert_eq!(sent(&refused), LockOrderError::Invalid(expected));
        }
        let far = fleet.lock(&read(json!({"ttl_ms": u64::MAX}))).expect_err("refused");
        let field = RequestField::Ttl;
        assert_eq!(far, LockOrderError::Invalid(InvalidRequest::TooFar { field }));
        assert!(fleet.locks().locks.is_empty(), "an invalid request locks nothing");

        let request = json!({"directory": "shop", "by": " ann ", "reason": " ", "ttl_ms": 60_000});
        let locked = fleet.lock(&read(request)).expect("locked");
        let lock = sent(&locked).lock.expect("a lock");
        assert_eq!((&locked.directory, &lock.directory), (&place, &place));
        assert_eq!((lock.holder.by.as_deref(), lock.holder.reason), (Some("ann"), None));
        let (since, until) = (lock.holder.since.expect("since"), lock.holder.until.expect("until"));
        assert!(until.millis() > since.millis());
        let again = fleet.lock(&read(json!({"directory": place}))).expect_err("refused");
        assert!(matches!(sent(&again), LockOrderError::Locked(lock) if lock.directory == place));

        let unlock: UnlockRequest = read(json!({"directory": "shop"}));
        assert_eq!(sent(&fleet.unlock(&unlock).expect("unlocked")).lock, None);
        let twice = fleet.unlock(&unlock).expect_err("refused");
        assert_eq!(sent(&twice), LockOrderError::NotLocked { directory: place });
    });
}

#[test]
fn a_removed_current_directory_is_not_replaced_by_another() {
    let home = home();
    let fleet = Fleet::new(Arc::new(Host { cwd: home.at("gone"), ..host(&home) }), ALL);
    let gone = |invalid: &InvalidRequest| {
        assert!(matches!(invalid, InvalidRequest::NoCurrentDirectory { .. }), "{invalid:?}");
    };
    let Err(LockOrderError::Invalid(invalid)) = fleet.lock(&LockRequest::default()) else {
        panic!("it was locked");
    };
    gone(&invalid);
    let cancelled = fleet.cancel_fuse(&FuseSelector::default());
    let Err(FuseOrderError::Invalid(invalid)) = cancelled else { panic!("it was cancelled") };
    gone(&invalid);
    let whole = json!({"directory": home.path()});
    fleet.lock(&read(whole)).expect("a whole path needs no current directory");
}

#[test]
fn a_fuse_is_set_replaced_selected_extended_and_cancelled() {
    let home = home();
    let fleet = fleet(&home);
    let directory = format!("{}/shop", shown(&home.path()));
    let first = fleet.set_fuse(&read(json!({"directory": "shop"}))).expect("set");
    assert_eq!(sent(&first).fuse.id, first.fuse.id);
    assert_eq!(first.fuse.directory.as_ref(), Some(&directory));
    assert!(first.directory_is_missing && first.replaced.is_none());
    assert_eq!(first.fuse.ttl_ms, Some(600_000), "the default");
    assert_eq!(first.fuse.on_expire, [Action::Event]);

    let request: FuseRequest = read(json!({
        "directory": "shop", "label": "night", "when": {"idle_ms": 1000},
        "on_expire": [{"kind": "run", "argv": ["true", "x"]}, {"kind": "stop"}],
    }));
    assert_eq!(sent(&request), request);
    let second = fleet.set_fuse(&request).expect("set");
    let Action::Run { argv } = &second.fuse.on_expire[0] else { panic!("{second:?}") };
    assert!(Path::new(&argv[0]).is_absolute(), "{argv:?}");
    let third = fleet.set_fuse(&request).expect("set");
    assert_eq!(third.replaced.map(|fuse| fuse.id), Some(second.fuse.id));

    let several = fleet.fuse(&read(json!({"directory_or_id": "shop"}))).expect_err("two");
    assert!(matches!(sent(&several), NotOneFuse::Several(fuses) if fuses.len() == 2));
    let labelled: FuseSelector = read(json!({"directory_or_id": "shop", "label": "night"}));
    assert_eq!(fleet.fuse(&labelled).expect("one").id, third.fuse.id);
    let by_id = json!({"directory_or_id": &first.fuse.id[..8]});
    assert_eq!(fleet.fuse(&read(by_id)).expect("one").id, first.fuse.id);

    let extend: ExtendFuseRequest =
        read(json!({"which": {"label": "night", "directory_or_id": "shop"}}));
    let timeless = fleet.extend_fuse(&extend).expect_err("it has no time to live");
    assert!(matches!(sent(&timeless), FuseOrderError::Timeless(fuse) if fuse.id == third.fuse.id));
    let change = json!({"which": {"directory_or_id": third.fuse.id}, "change": {"ttl_ms": 5000}});
    let extended = fleet.extend_fuse(&read(change)).expect("extended");
    assert_eq!((extended.fuse.ttl_ms, extended.fuse.idle_ms), (Some(5000), Some(1000)));

    let cancelled = fleet.cancel_fuse(&labelled).expect("cancelled");
    assert_eq!(sent(&cancelled).fuse.map(|fuse| fuse.id), Some(third.fuse.id));
    let nothing = fleet.cancel_fuse(&labelled).expect_err("it is gone");
    let label = Some("night".to_owned());
    let expected = NotOneFuse::Nothing { session: None, directory: Some(directory), label };
    assert_eq!(sent(&nothing), FuseOrderError::NotOneFuse(expected));
}

#[test]
fn a_fuse_that_cannot_work_is_refused_before_it_is_set() {
    sandboxed(|| {
        let home = home();
        std::fs::write(home.at("file"), "").expect("written");
        let fleet = fleet(&home);
        let field = RequestField::Idle;
        let invalid = [
            (json!({"when": {"idle_ms": 0}}), InvalidRequest::ZeroTime { field }),
            (json!({"when": {"idle_ms": u64::MAX}}), InvalidRequest::TooFar { field }),
            (
                json!({"when": {"max_cost_usd": -1.0}}),
                InvalidRequest::NotAnAmount { field: RequestField::MaxCost },
            ),
            (
                json!({"label": "l".repeat(201)}),
                InvalidRequest::TooManyCharacters { field: RequestField::Label, limit: 200 },
            ),
            (
                json!({"on_expire": [{"kind": "run", "argv": ["true", "x".repeat(17 << 10)]}]}),
                InvalidRequest::TooManyBytes { field: RequestField::Command, limit: 16 << 10 },
            ),
        ];
        for (request, expected) in invalid {
            let refused = fleet.set_fuse(&read(request)).expect_err("refused");
            assert_eq!(sent(&refused), FuseOrderError::Invalid(expected));
        }
        let refused = |request: Value| fleet.set_fuse(&read(request)).expect_err("refused");
        let unknown = json!({"on_expire": [{"kind": "run", "argv": ["no-such-program"]}]});
        assert!(matches!(sent(&refused(unknown)), FuseOrderError::NoProgram { .. }));
        let file = refused(json!({"directory": "file"}));
        assert!(matches!(sent(&file), FuseOrderError::NotADirectory { .. }), "{file:?}");
        let session = refused(json!({"session": "nobody"}));
        let FuseOrderError::NotOneSession(found) = sent(&session) else { panic!("{session:?}") };
        assert_eq!((found.text.as_str(), found.why), ("nobody", NotOne::Nothing));
        assert!(fleet.fuses().fuses.is_empty());
    });
}

#[test]
fn a_stop_names_its_targets_first_and_answers_with_one_document() {
    sandboxed(|| {
        let home = home();
        let _agent = crate::stop::demo(&home, "d-order", "x [[hang]]");
        let fleet = fleet(&home);
        let unresolved = fleet.stop_targets(&read::<StopRequest>(
            json!({"select": {"named": ["d-order", "nobody"]}}),
        ));
        let unresolved = sent(&unresolved.expect_err("one text names no session"));
        assert_eq!((unresolved.text.as_str(), unresolved.why), ("nobody", NotOne::Nothing));

        let request = json!({
            "select": {"matching": {"adapter": "demo"}}, "options": {"force": true},
        });
        let targets = fleet.stop_targets(&read(request)).expect("found");
        assert_eq!((targets.targets.len(), targets.sessions.len()), (1, 1));
        assert!(targets.options.force && !targets.may_miss_sessions);
        let document = sent(&fleet.stop(&sent(&targets), &mut |_| {}));
        assert_eq!(document.stopped.len(), 1, "{document:?}");
        assert_eq!(document.stopped[0].status, Some(Status::Stopped));
        assert!(document.failed.is_empty() && document.faults.is_empty(), "{document:?}");
        assert_eq!(serde_json::to_value(StopFailureCode::Refused).expect("written"), "refused");
    });
}

#[test]
fn a_stop_without_a_callback_answers_with_all_that_it_did() {
    sandboxed(|| {
        let home = home();
        let agent = crate::stop::demo(&home, "d-whole", "x [[hang]]");
        let mut starter = home.command(&[marks::STARTER, "lost-run", "", "sleep", "600"]);
        let mut lost = starter.spawn().expect("started");
        let fleet = fleet(&home);
        let request: StopRequest = read(json!({
            "select": {"named": ["d-whole", lost.id().to_string()]}, "options": {"force": true},
        }));
        let targets = eventually("the process has its marker", || {
            fleet.stop_targets(&request).ok().filter(|found| found.runs.len() == 1)
        });
        let document = sent(&fleet.stop(&sent(&targets), &mut |_| {}));
        lost.wait().expect("ended");
        let run = &document.runs[0];
        assert_eq!((run.run.as_str(), run.pid, run.lives_on), ("lost-run", lost.id(), false));
        let row = &document.stopped[0];
        assert_eq!(
            (row.agent_pids.as_slice(), row.ended[0].pid),
            (&[agent.pid()][..], agent.pid())
        );
        assert!(row.notes.is_empty() && document.failed.is_empty(), "{document:?}");
    });
}
