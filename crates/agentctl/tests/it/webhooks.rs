//! Webhooks against a real receiver: requests, signatures, retries, limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agentctl::config::WebhookEndpoint;
use agentctl::daemon::webhooks::{MAX_FUSE_ENDPOINTS, RetryPolicy, Webhooks, World};
use agentctl::protocol::WebhookStatus;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::host::Secret;
use agentctl_core::model::{Callback, Exit, Time};
use agentctl_core::talk::base64;
use serde_json::{Value, json};
use testkit::receiver::{Manner, Receiver, Request};
use testkit::{TestHome, eventually, hex, hmac_sha256};

use crate::event_sinks::{Recorder, SECRET, at, event, host, session};
use crate::home;

/// The environment of the endpoints of a test.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) settled: Recorder,
    pub(crate) said: Recorder,
    _home: TestHome,
}

/// A clock that advances one second with each reading.
fn ticking() -> Time {
    static NOW: AtomicI64 = AtomicI64::new(0);
    at(NOW.fetch_add(1000, Ordering::Relaxed))
}

const NEVER: Duration = Duration::from_hours(1000);

pub(crate) fn stage() -> Stage {
    let home = home();
    let (settled, said) = (Recorder::default(), Recorder::default());
    let hears = settled.clone();
    let hears = Arc::new(move |event: &Event| hears.add(&event.id));
    let mut world = World::new(host(&home, ticking), hears, said.say());
    world.retry = RetryPolicy {
        first_interval: Duration::from_millis(1),
        max_interval: Duration::from_millis(4),
        span: Duration::from_hours(1),
    };
    Stage { world, settled, said, _home: home }
}

/// Returns an endpoint for a local receiver.
pub(crate) fn endpoint(receiver: &Receiver) -> WebhookEndpoint {
    let url = format!("http://127.0.0.1:{}/in/PATHSECRET?key=QUERYSECRET", receiver.port);
    local(&url)
}

pub(crate) fn local(url: &str) -> WebhookEndpoint {
    let mut endpoint = WebhookEndpoint::parse(url).expect("a URL");
    endpoint.body_signatures = true;
    endpoint.allow_private = true;
    endpoint
}

pub(crate) fn start(stage: &Stage, endpoints: Vec<WebhookEndpoint>) -> Webhooks {
    Webhooks::start(endpoints, &stage.world).expect("started")
}

pub(crate) fn until(
    webhooks: &Webhooks,
    what: &str,
    is: impl Fn(&WebhookStatus) -> bool,
) -> WebhookStatus {
    eventually(what, || webhooks.status().into_iter().next().filter(&is))
}

pub(crate) fn stopped(id: &str) -> Arc<Event> {
    event(EventKind::Stopped, id, session())
}

/// Checks every signature of a request as its receiver would.
fn assert_signed(request: &Request, key: &[u8], text: &str) {
    let header = |name: &str| request.header(name).unwrap_or_else(|| panic!("no {name}"));
    let mut signed = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp"));
    signed.push_str(std::str::from_utf8(&request.body).expect("text"));
    let code = base64::encode(&hmac_sha256(key, signed.as_bytes()));
    assert_eq!(header("webhook-signature"), format!("v1,{code}"));
    let plain = hex(&hmac_sha256(text.as_bytes(), &request.body));
    assert_eq!(header("x-agentctl-signature"), plain);
    assert_eq!(header("x-signature"), format!("sha256={plain}"));
    assert_eq!(header("x-hub-signature-256"), format!("sha256={plain}"));
}

#[test]
fn an_event_is_posted_signed_with_the_fields_of_the_predecessor() {
    let (stage, receiver) = (stage(), Receiver::start([]));
    let marked = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut keyed = endpoint(&receiver);
    keyed.secret = Some(Secret::Text(marked.into()));
    let webhooks = start(&stage, vec![keyed]);
    let mut ended = session();
    ended.prompt = Some(format!("fix\u{1b}]0;x\u{7} the \u{202e}login {}", "x".repeat(300)));
    ended.exit = Some(Exit { code: None, signal: Some(9) });
    ended.ended_at = Some(at(61_250));
    let mut told = (*event(EventKind::Error, "run:1-stopped", ended)).clone();
    told.callback = Some(Callback { session: Some("k\u{7}ey".into()), agent: Some("a-1".into()) });
    webhooks.offer(&Arc::new(told));
    let request = receiver.until(1).remove(0);
    assert_eq!(request.line, "POST /in/PATHSECRET?key=QUERYSECRET");
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("webhook-id"), Some("run:1-stopped"));
    assert_signed(&request, &base64::decode(&marked[6..]).expect("base64"), marked);
    let body = request.json();
    for (field, value) in [
        ("type", json!("session.error")),
        ("hook_type", json!("session.stopped")),
        ("id", json!("run:1-stopped")),
        ("session_id", json!("s-1")),
        ("adapter", json!("demo")),
        ("cwd", json!("/w/shop")),
        ("duration_seconds", json!(61.25)),
        ("exit_status", json!(137)),
        ("timestamp", json!(at(62_500))),
        ("at", json!(at(62_500))),
        ("late", json!(false)),
    ] {
        assert_eq!(body[field], value, "{field}");
    }
    assert_eq!(body["session"]["exit"], json!({ "code": null, "signal": 9 }));
    assert_eq!(
        body["meta"],
        json!({ "openclaw_callback_session_key": "k\\x07ey", "openclaw_callback_agent_id": "a-1" })
    );
    let summary = body["summary"].as_str().expect("a summary");
    assert!(summary.starts_with("fix\\x1b]0;x\\x07 the \\u{202e}login xxx"), "{summary}");
    assert!(!summary.contains(&"x".repeat(200)), "{summary}");
    let text = String::from_utf8(request.body).expect("UTF-8");
    assert!(!text.contains("\\u001b") && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn unknown_fields_are_null_and_a_secret_may_be_plain_or_missing() {
    let (stage, receiver) = (stage(), Receiver::start([]));
    let mut keyed = endpoint(&receiver);
    keyed.secret = Some(Secret::Variable("HOOK_KEY".into()));
    let webhooks = start(&stage, vec![keyed, endpoint(&receiver)]);
    let mut fresh = session();
    (fresh.cwd, fresh.started_at) = (None, None);
    webhooks.offer(&event(EventKind::Stopped, "e-1", fresh));
    let requests = receiver.until(2);
    let is_signed = |r: &&Request| r.header("webhook-signature").is_some();
    let signed: Vec<_> = requests.iter().filter(is_signed).collect();
    assert_eq!(signed.len(), 1);
    assert_signed(signed[0], SECRET.as_bytes(), SECRET);
    let plain = requests.iter().find(|r| !is_signed(r)).expect("the other");
    assert_eq!(plain.header("webhook-id"), Some("e-1"));
    assert!(plain.headers.iter().all(|(name, _)| !name.contains("signature")), "{plain:?}");
    let body = plain.json();
    for field in ["cwd", "duration_seconds", "exit_status", "summary"] {
        assert_eq!(body.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!((&body["meta"], &body["hook_type"]), (&json!({}), &json!("session.stopped")));
    assert_eq!(plain.body, signed[0].body);
}

#[test]
fn nothing_is_sent_unsigned_when_the_secret_is_unavailable() {
    let (stage, receiver) = (stage(), Receiver::start([]));
    for secret in [
        Secret::Variable("NO_SUCH_KEY".into()),
        Secret::File("/nonexistent/key".into()),
        Secret::Text("whsec_not base64!".into()),
    ] {
        let mut keyed = endpoint(&receiver);
        keyed.secret = Some(secret);
        let webhooks = start(&stage, vec![keyed]);
        webhooks.offer(&stopped("e-1"));
        let status = until(&webhooks, "it was tried", |s| s.attempts > 1);
        assert!(status.last_error.expect("an error").contains("its secret"));
    }
    assert_eq!((receiver.connections(), stage.settled.all().len()), (0, 0));
}

#[test]
fn a_retry_has_the_same_id_and_body_and_is_signed_anew() {
    let script = [Manner::Status(500), Manner::HangUp, Manner::Rubbish, Manner::Status(404)];
    let (stage, receiver) = (stage(), Receiver::start(script));
    let mut keyed = endpoint(&receiver);
    keyed.secret = Some(Secret::Text(SECRET.into()));
    let webhooks = start(&stage, vec![keyed]);
    webhooks.offer(&stopped("e-1"));
    let status = until(&webhooks, "it is delivered", |s| s.delivered == 1);
    let requests = receiver.requests();
    assert_eq!((requests.len(), status.attempts, status.queued), (5, 5, 0));
    for request in &requests {
        assert_eq!(request.header("webhook-id"), Some("e-1"));
        assert_eq!(request.body, requests[0].body);
        assert_signed(request, SECRET.as_bytes(), SECRET);
    }
    let mut times: Vec<_> = requests.iter().filter_map(|r| r.header("webhook-timestamp")).collect();
    times.dedup();
    assert_eq!(times.len(), 5, "each try has its own time");
    eventually("it is settled", || (stage.settled.all() == ["e-1"]).then_some(()));
    assert_eq!((status.failed, status.dropped), (0, 0));
    assert!(status.last_success_at > status.last_error_at);
    let said = stage.said.all();
    assert_eq!(said.len(), 2, "the first failure and the recovery: {said:?}");
}

#[test]
fn an_event_is_delivered_after_any_failure_of_the_receiver() {
    for manner in [
        Manner::Hang,
        Manner::Drip,
        Manner::EndlessHeaders,
        Manner::Rubbish,
        Manner::Deaf,
        Manner::HangUp,
        Manner::Status(103),
        Manner::Status(304),
        Manner::Status(429),
        Manner::Status(503),
        Manner::With(503, "Retry-After: 999999999999999999999".into()),
        Manner::With(500, "Content-Length: 99999999999".into()),
    ] {
        let (stage, receiver) = (stage(), Receiver::start([manner.clone()]));
        let mut brief = endpoint(&receiver);
        brief.timeout = Duration::from_millis(300);
        let webhooks = start(&stage, vec![brief]);
        webhooks.offer(&stopped("e-1"));
        let status = until(&webhooks, &format!("{manner:?} is over"), |s| s.delivered == 1);
        assert!(status.attempts >= 2 && status.last_error.is_some(), "{manner:?}: {status:?}");
    }
}

#[test]
fn an_endless_response_body_is_cut() {
    let (stage, receiver) = (stage(), Receiver::always(Manner::Endless));
    let webhooks = start(&stage, vec![endpoint(&receiver)]);
    webhooks.offer(&stopped("e-1"));
    let status = until(&webhooks, "it is delivered", |s| s.delivered == 1);
    assert_eq!(status.attempts, 1);
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::start([]);
    for status in [301, 302, 303, 307, 308] {
        let stage = stage();
        let to = format!("Location: http://127.0.0.1:{}/trap", elsewhere.port);
        let receiver = Receiver::always(Manner::With(status, to));
        let webhooks = start(&stage, vec![endpoint(&receiver)]);
        webhooks.offer(&stopped("e-1"));
        let told = until(&webhooks, "it was tried twice", |s| s.attempts >= 2);
        let expected = format!("it answered {status}, and redirects are not followed");
        assert_eq!((told.last_error, told.delivered), (Some(expected), 0));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn a_queue_is_bounded_and_dropped_events_stay_unsettled() {
    let (mut stage, receiver) = (stage(), Receiver::always(Manner::Hang));
    stage.world.queue = 10;
    let mut slow = endpoint(&receiver);
    // All events are offered before the first try fails.
    slow.timeout = Duration::from_secs(10);
    let webhooks = start(&stage, vec![slow]);
    webhooks.offer(&stopped("first"));
    let _taken = receiver.until(1);
    for number in 0..100 {
        webhooks.offer(&stopped(&format!("e-{number}")));
    }
    let status = webhooks.status().remove(0);
    assert_eq!((status.queued, status.dropped), (11, 90), "ten wait, one is being sent");
    receiver.from_now_on(Manner::Status(200));
    // The first event is the oldest: its retry is dropped, because the queue is full.
    until(&webhooks, "the rest is delivered", |s| s.delivered == 10 && s.dropped == 91);
    let newest: Vec<String> = (90..100).map(|n| format!("e-{n}")).collect();
    eventually("they are settled", || (stage.settled.all() == newest).then_some(()));
    assert!(stage.said.all().iter().any(|s| s.contains("its queue is full")));
}

#[test]
fn a_hanging_endpoint_delays_no_other() {
    let (stage, mute, receiver) = (stage(), Receiver::always(Manner::Hang), Receiver::start([]));
    let mut slow = endpoint(&mute);
    slow.timeout = Duration::from_mins(1);
    let webhooks = start(&stage, vec![slow, endpoint(&receiver)]);
    let ids: Vec<String> = (0..50).map(|n| format!("e-{n}")).collect();
    for id in &ids {
        webhooks.offer(&stopped(id));
    }
    let requests = receiver.until(50);
    let sent: Vec<_> = requests.iter().filter_map(|r| r.header("webhook-id")).collect();
    assert_eq!(sent, ids, "in order");
    let status =
        eventually("all are counted", || Some(webhooks.status()).filter(|s| s[1].delivered == 50));
    assert_eq!((status[0].queued, status[0].delivered), (50, 0));
    assert!(stage.settled.all().is_empty(), "one endpoint has taken none of them");
}

#[test]
fn a_refused_event_delays_no_other_event() {
    let (mut stage, receiver) = (stage(), Receiver::start([Manner::Status(500)]));
    stage.world.retry = RetryPolicy { first_interval: NEVER, max_interval: NEVER, span: NEVER };
    let webhooks = start(&stage, vec![endpoint(&receiver)]);
    for id in ["poison", "e-1", "e-2"] {
        webhooks.offer(&stopped(id));
    }
    let status = until(&webhooks, "the others are delivered", |s| s.delivered == 2);
    assert_eq!((status.queued, status.failed), (1, 0));
    eventually("they are settled", || (stage.settled.all() == ["e-1", "e-2"]).then_some(()));
}

#[test]
fn an_unreachable_endpoint_gets_one_backoff_for_all_events() {
    let mut stage = stage();
    stage.world.retry = RetryPolicy { first_interval: NEVER, max_interval: NEVER, span: NEVER };
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/x", gone.local_addr().expect("an address"));
    drop(gone);
    let busy = Receiver::always(Manner::Status(503));
    let webhooks = start(&stage, vec![local(&url), endpoint(&busy)]);
    for number in 0..5 {
        webhooks.offer(&stopped(&format!("e-{number}")));
    }
    // It is logged after the pause has begun.
    eventually("both were tried", || (stage.said.all().len() == 2).then_some(()));
    // Stopping wakes both threads; neither tries again.
    webhooks.stop(Duration::from_mins(5));
    for status in webhooks.status() {
        assert_eq!((status.attempts, status.queued), (1, 5), "{status:?}");
    }
    assert!(stage.settled.all().is_empty());
}

#[test]
fn an_event_is_given_up_and_settled_after_the_retry_span() {
    let (mut stage, receiver) = (stage(), Receiver::always(Manner::Status(500)));
    stage.world.retry.span = Duration::ZERO;
    let webhooks = start(&stage, vec![endpoint(&receiver)]);
    webhooks.offer(&stopped("e-1"));
    let status = until(&webhooks, "it is given up", |s| s.failed == 1);
    assert_eq!((status.attempts, status.delivered), (1, 0));
    eventually("it is settled", || (stage.settled.all() == ["e-1"]).then_some(()));
    assert!(stage.said.all().iter().any(|s| s.contains("event e-1 is given up")));
}

#[test]
fn endpoints_named_by_fuses_are_limited_in_number() {
    let mut stage = stage();
    // These names do not resolve.
    stage.world.lookup = Arc::new(|_, _| Ok(Vec::new()));
    let webhooks = start(&stage, Vec::new());
    let post = |number: usize| {
        webhooks.post_to(&format!("https://{number}.example/hook"), &stopped("e-1"))
    };
    (0..MAX_FUSE_ENDPOINTS).for_each(|number| post(number).expect("taken"));
    let refused = post(MAX_FUSE_ENDPOINTS).expect_err("all of them are still tried");
    assert!(refused.contains("still being tried"), "{refused}");
    post(0).expect("one that is known");
    drop(webhooks);
    stage.world.retry.span = Duration::ZERO;
    let webhooks = start(&stage, Vec::new());
    for number in 0..3 * MAX_FUSE_ENDPOINTS {
        let url = format!("https://{number}.example/hook");
        eventually("there is room", || webhooks.post_to(&url, &stopped("e-1")).ok());
        assert!(webhooks.status().len() <= MAX_FUSE_ENDPOINTS);
    }
}

#[test]
fn an_event_answered_with_gone_is_not_retried() {
    let (stage, receiver) = (stage(), Receiver::always(Manner::Status(410)));
    let webhooks = start(&stage, vec![endpoint(&receiver)]);
    webhooks.offer(&stopped("e-1"));
    let status = until(&webhooks, "it is given up", |s| s.failed == 1);
    assert_eq!(status.attempts, 1);
}

#[test]
fn each_endpoint_gets_the_events_it_wants_and_an_event_is_settled_once() {
    let (stage, ends, demo, all) =
        (stage(), Receiver::start([]), Receiver::start([]), Receiver::start([Manner::Status(500)]));
    let (mut only_ends, mut only_codex) = (endpoint(&ends), endpoint(&demo));
    only_ends.kinds = vec![EventKind::Stopped, EventKind::Error];
    only_codex.adapters = vec!["codex".into()];
    let webhooks = start(&stage, vec![only_ends, only_codex]);
    webhooks.offer(&event(EventKind::Running, "unwanted", session()));
    assert_eq!(stage.settled.all(), ["unwanted"], "at once");
    let mut codex = session();
    codex.adapter = "codex";
    webhooks.offer(&event(EventKind::Running, "codex-only", codex));
    webhooks.offer(&stopped("end-only"));
    // An event without an adapter does not match the filter for codex.
    webhooks.offer(&Arc::new(Event::new(EventKind::LockAcquired, "lock".into(), at(0))));
    let ids = |r: &Receiver| -> Vec<String> {
        r.until(1).iter().filter_map(|r| r.header("webhook-id").map(str::to_owned)).collect()
    };
    assert_eq!((ids(&ends), ids(&demo)), (vec!["end-only".into()], vec!["codex-only".into()]));
    let both = start(&stage, vec![endpoint(&ends), endpoint(&all)]);
    both.offer(&stopped("both"));
    eventually("both have it", || both.status().iter().all(|s| s.delivered == 1).then_some(()));
    let times = || stage.settled.all().iter().filter(|id| *id == "both").count();
    eventually("it is settled", || (times() == 1).then_some(()));
}

#[test]
fn stopping_sends_untried_events_and_aborts_hanging_requests() {
    let (stage, receiver) = (stage(), Receiver::start([]));
    let webhooks = start(&stage, vec![endpoint(&receiver)]);
    for number in 0..20 {
        webhooks.offer(&stopped(&format!("e-{number}")));
    }
    webhooks.stop(Duration::from_mins(5));
    assert_eq!((webhooks.status()[0].delivered, receiver.requests().len()), (20, 20));
    webhooks.offer(&stopped("too late"));
    assert_eq!(webhooks.status()[0].queued, 1);

    // The retry span is over, and yet the event is not given up: `stop` aborted the request.
    let (mut stage, mute) = (stage, Receiver::always(Manner::Hang));
    stage.world.retry.span = Duration::ZERO;
    let mut slow = endpoint(&mute);
    slow.timeout = NEVER;
    let hanging = start(&stage, vec![slow]);
    hanging.offer(&stopped("hangs"));
    let _taken = mute.until(1);
    hanging.stop(Duration::from_millis(1));
    // The receiver sees the end of the connection: no request is left open.
    until(&hanging, "it is cut off", |s| s.attempts == 1);
    let status = hanging.status().remove(0);
    assert_eq!((status.delivered, status.failed, status.queued), (0, 0, 1));
    let settled = stage.settled.all();
    assert!(!settled.contains(&"hangs".to_owned()) && settled.len() == 20, "{settled:?}");
}
