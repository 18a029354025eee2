//! `/metrics`: its gauges equal `list`, and requests without the token or from web pages are refused. Real
//! daemon, raw HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use agentctl::daemon::metrics::TABLE;
use rustix::process::Signal;
use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::daemon::{signal, started};
use crate::launched::until_asked;
use crate::{configure, home};

const CONFIG: &str = ".config/agentctl/config.toml";
const TOKEN: &str = ".local/state/agentctl/metrics.token";
/// Timeout of a request, far longer than any request takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns a home whose daemon serves metrics on a port that the kernel chooses.
pub(crate) fn measured(more: &str) -> TestHome {
    let home = home();
    configure(&home, &[], &format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{more}"));
    home
}

fn status(home: &TestHome) -> Value {
    home.run(&["daemon", "status", "--json"]).json()["metrics"].clone()
}

pub(crate) fn port(home: &TestHome) -> u16 {
    let status = status(home);
    assert_eq!(status["trouble"], Value::Null, "{status}");
    let url = status["url"].as_str().expect("a URL");
    let rest = url.strip_prefix("http://127.0.0.1:").expect("loopback");
    rest.strip_suffix("/metrics").expect("the route").parse().expect("a port")
}

pub(crate) fn token(home: &TestHome) -> String {
    std::fs::read_to_string(home.path().join(TOKEN)).expect("a token").trim().to_owned()
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    head: String,
    body: String,
}

/// Sends these bytes and reads to the end.
fn exchange(port: u16, request: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("heard to the end");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a code");
    Answer { code, head: head.to_owned(), body: body.to_owned() }
}

/// Sends a request with these headers, each with its line end.
pub(crate) fn ask(port: u16, line: &str, headers: &str) -> Answer {
    exchange(port, &format!("{line} HTTP/1.1\r\n{headers}\r\n"))
}

fn scrape(home: &TestHome) -> String {
    let (port, token) = (port(home), token(home));
    let headers = format!("Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n");
    let answer = ask(port, "GET /metrics", &headers);
    assert_eq!(answer.code, 200, "{}", answer.body);
    answer.body
}

/// Returns the value of one sample, named as in a query.
fn value(text: &str, sample: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|number| number.parse().expect("a number"))
}

/// Returns all samples of a metric with their labels.
fn samples(text: &str, metric: &str) -> BTreeMap<String, f64> {
    let own = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
    let split = own.filter_map(|rest| rest.rsplit_once("} "));
    split.map(|(labels, n)| (labels.to_owned(), n.parse().expect("a number"))).collect()
}

/// Returns the counts of `list` as labels and values.
fn listed(home: &TestHome) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    for row in home.run(&["list", "--json"]).sessions() {
        let word = |key: &str| row[key].as_str().expect("a word").to_owned();
        let labels = format!("adapter=\"{}\",status=\"{}\"", word("adapter"), word("status"));
        *counts.entry(labels).or_default() += 1.0;
    }
    counts
}

fn counted(text: &str) -> BTreeMap<String, f64> {
    let mut counts = samples(text, "agentctl_sessions_live");
    counts.retain(|_, count| *count > 0.0);
    counts
}

fn agent(home: &TestHome, id: &str, directory: &str, prompt: &str) -> Child {
    let directory = home.path().join(directory);
    std::fs::create_dir_all(&directory).expect("made");
    let mut command = home.command(&["demo-agent", "--session-id", id, "-p", prompt]);
    command.current_dir(directory).stdout(Stdio::null()).spawn().expect("starts")
}

#[test]
fn gauges_equal_the_list_at_that_moment() {
    sandboxed(|| {
        let home = measured("");
        started(&home);
        assert_eq!(counted(&scrape(&home)), BTreeMap::new());
        assert_eq!(value(&scrape(&home), "agentctl_sessions_active"), Some(0.0));
        let mut agents = [
            agent(&home, "one", "a", "x [[hang]]"),
            agent(&home, "two", "b", "x [[hang]]"),
            agent(&home, "three", "c", "x [[ask:Which?]]"),
        ];
        let all = BTreeMap::from([
            ("adapter=\"demo\",status=\"running\"".to_owned(), 2.0),
            ("adapter=\"demo\",status=\"waiting\"".to_owned(), 1.0),
        ]);
        eventually("they work and wait", || (listed(&home) == all).then_some(()));
        for id in ["one", "two", "three"] {
            until_asked(&home, id);
        }
        std::fs::create_dir(home.path().join("d")).expect("made");
        assert_eq!(home.run(&["lock", "d"]).code, Some(0));
        let text = scrape(&home);
        assert_eq!(counted(&text), all);
        for (sample, count) in [
            ("agentctl_sessions_active", 3.0),
            ("agentctl_locks{kind=\"occupied\"}", 3.0),
            ("agentctl_locks{kind=\"manual\"}", 1.0),
            ("agentctl_locks_active{type=\"auto\"}", 3.0),
            ("agentctl_locks_active{type=\"manual\"}", 1.0),
            ("agentctl_fuses", 0.0),
            ("agentctl_sessions_live{adapter=\"codex\",status=\"idle\"}", 0.0),
        ] {
            assert_eq!(value(&text, sample), Some(count), "{sample}\n{text}");
        }
        // The daemon's snapshot is later than ours: it reports an end only after it has seen the start.
        let begun = "agentctl_events_total{type=\"session.started\"}";
        eventually("they are told", || (value(&scrape(&home), begun) == Some(3.0)).then_some(()));
        for agent in &mut agents {
            agent.kill().expect("killed");
            agent.wait().expect("reaped");
            let text = scrape(&home);
            assert_eq!(counted(&text), listed(&home), "the next scrape knows");
        }
        assert_eq!(value(&scrape(&home), "agentctl_sessions_active"), Some(0.0));
        let killed = "agentctl_session_ends_total{adapter=\"demo\",outcome=\"killed\"}";
        let text = eventually("their ends are told", || {
            let text = scrape(&home);
            (value(&text, killed) == Some(3.0)).then_some(text)
        });
        assert_eq!(value(&text, "agentctl_sessions_total{status=\"stopped\"}"), Some(3.0));
        assert_eq!(value(&text, "agentctl_session_duration_seconds_count"), Some(3.0));
        assert_eq!(value(&text, "agentctl_launches_total{adapter=\"demo\"}"), Some(0.0));
        assert_eq!(value(&text, begun), Some(3.0));
        assert!(value(&text, "agentctl_event_lag_seconds_count") >= Some(6.0), "{text}");
        let asked = value(&text, "agentctl_adapter_question_seconds_count{adapter=\"demo\"}");
        assert!(asked >= Some(2.0), "{text}");
    });
}

/// Returns the usage of a session from the agent's own files.
fn used(home: &TestHome, id: &str) -> BTreeMap<String, f64> {
    let status = home.run(&["status", id, "--json"]).json();
    let tokens = status["tokens"].as_object().expect("tokens");
    let model = status["model"].as_str().expect("a model");
    let labels = |kind| format!("adapter=\"demo\",model=\"{model}\",kind=\"{kind}\"");
    tokens.iter().map(|(kind, n)| (labels(kind), n.as_f64().expect("a number"))).collect()
}

#[test]
fn usage_is_counted_once_when_a_session_ends_several_times() {
    sandboxed(|| {
        let home = measured("");
        started(&home);
        let finished = "agentctl_session_ends_total{adapter=\"demo\",outcome=\"finished\"}";
        let launched = home.run(&["launch", "demo", "-p", "x [[say:one]] [[say:two]]"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let id = launched.stdout.trim().to_owned();
        for round in [1.0, 2.0] {
            let text = eventually("the end is counted", || {
                let text = scrape(&home);
                let told = value(&text, finished) == Some(round);
                let same = samples(&text, "agentctl_tokens_total") == used(&home, &id);
                (told && same).then_some(text)
            });
            assert!(used(&home, &id).values().sum::<f64>() > 0.0, "there is something to count");
            assert_eq!(value(&text, "agentctl_launches_total{adapter=\"demo\"}"), Some(round));
            assert_eq!(value(&text, "agentctl_sessions_total{status=\"completed\"}"), Some(round));
            assert_eq!(samples(&text, "agentctl_usage_unknown_total"), BTreeMap::new());
            if round < 2.0 {
                let resumed = home.run(&["resume", &id, "x [[say:three]]"]);
                assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
            }
        }
    });
}

#[test]
fn a_source_that_failed_is_missing_and_not_zero() {
    sandboxed(|| {
        // Bound and not listening: the port is reserved and refuses connections.
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let gateway = taken.local_addr().expect("an address");
        drop(taken);
        let home =
            measured(&format!("[[openclaw.gateways]]\nurl = \"ws://{gateway}\"\ntoken = \"t\"\n"));
        started(&home);
        let text = scrape(&home);
        let live = samples(&text, "agentctl_sessions_live");
        assert!(live.keys().all(|labels| !labels.contains("openclaw")), "{live:?}");
        assert!(live.contains_key("adapter=\"demo\",status=\"idle\""), "other adapters are zero");
        assert_eq!(value(&text, "agentctl_sessions_active"), None, "unknown");
        let faults = samples(&text, "agentctl_adapter_faults_active");
        assert!(faults.keys().any(|labels| labels.contains("openclaw")), "{text}");
        let appeared = || samples(&scrape(&home), "agentctl_adapter_faults_total");
        eventually("the daemon's snapshot has the fault", || {
            (!appeared().is_empty()).then_some(())
        });
        let before = appeared();
        scrape(&home);
        assert_eq!(appeared(), before, "a scrape does not count it again");
    });
}

#[test]
fn only_the_right_token_gets_metrics() {
    sandboxed(|| {
        let home = measured("");
        let pid = started(&home);
        let (port, token) = (port(&home), token(&home));
        assert!(token.len() >= 64, "256 bits");
        let file = std::fs::metadata(home.path().join(TOKEN)).expect("there");
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        let host = format!("Host: 127.0.0.1:{port}\r\n");
        let with = |line: &str, token: &str| {
            ask(port, line, &format!("{host}Authorization: Bearer {token}\r\n"))
        };
        let none = ask(port, "GET /metrics", &host);
        assert_eq!((none.code, none.head.contains("www-authenticate: Bearer")), (401, true));
        assert_eq!(ask(port, "GET /", &host).code, 401, "on every route");
        assert_eq!(ask(port, &format!("GET /metrics?token={token}"), &host).code, 401);
        assert_eq!(with("GET /metrics", "wrong").code, 401);
        assert_eq!(with("GET /metrics", &token[1..]).code, 401);
        assert_eq!(with("GET /metrics", &format!("{token}0")).code, 401);
        let right = with("GET /metrics", &token);
        assert_eq!(right.code, 200);
        let head = right.head.to_lowercase();
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(!head.contains("access-control"), "{head}");
        for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"] {
            let answer = with(&format!("{method} /metrics"), &token);
            assert_eq!((answer.code, answer.head.contains("allow: GET")), (405, true), "{method}");
        }
        for path in ["/", "/metrics/", "/metrics/x", "//metrics", "/Metrics", "/%6detrics"] {
            assert_eq!(with(&format!("GET {path}"), &token).code, 404, "{path}");
        }
        // Wrong tokens are rate limited, the right token is not.
        eventually("the rate limit applies", || {
            (with("GET /metrics", "guess").code == 429).then_some(())
        });
        assert_eq!(with("GET /metrics", &token).code, 200);
        let shown = home.run(&["daemon", "status", "--json"]).stdout;
        assert!(shown.contains("metrics.token") && !shown.contains(&token), "{shown}");
        let log = std::fs::read_to_string(home.path().join(".local/state/agentctl/daemon.log"));
        assert!(!log.expect("a log").contains(&token), "no secret in the log");
        let argv = std::fs::read(format!("/proc/{pid}/cmdline")).expect("readable");
        assert!(!String::from_utf8_lossy(&argv).contains(&token));
    });
}

#[test]
fn requests_of_web_pages_are_refused() {
    sandboxed(|| {
        let home = measured("");
        started(&home);
        let (port, token) = (port(&home), token(&home));
        let ask = |headers: &str| {
            let headers = headers.replace("PORT", &port.to_string());
            ask(port, "GET /metrics", &format!("{headers}Authorization: Bearer {token}\r\n")).code
        };
        for ours in ["127.0.0.1:PORT", "localhost:PORT", "LocalHost:PORT", "[::1]:PORT"] {
            assert_eq!(ask(&format!("Host: {ours}\r\n")), 200, "{ours}");
            assert_eq!(ask(&format!("Host: {ours}\r\nOrigin: http://{ours}\r\n")), 200, "{ours}");
        }
        for theirs in [
            "Host: evil.example:PORT\r\n",
            "Host: 127.0.0.1\r\n",
            "Host: localhost\r\n",
            "Host: 127.0.0.1:1\r\n",
            "Host: 127.0.0.1.evil.example:PORT\r\n",
            "Host: 10.0.0.1:PORT\r\n",
            "Host: \r\n",
            "",
            "Host: localhost:PORT\r\nHost: localhost:PORT\r\n",
            "Host: localhost:PORT\r\nOrigin: http://evil.example\r\n",
            "Host: localhost:PORT\r\nOrigin: null\r\n",
            "Host: localhost:PORT\r\nOrigin: https://localhost:PORT\r\n",
            "Host: localhost:PORT\r\nOrigin: http://localhost:1\r\n",
            "Host: localhost:PORT\r\nSec-Fetch-Site: cross-site\r\n",
            "Host: localhost:PORT\r\nSec-Fetch-Site: same-site\r\n",
        ] {
            assert!(matches!(ask(theirs), 400 | 403), "{theirs:?}");
        }
        assert_eq!(ask("Host: localhost:PORT\r\nSec-Fetch-Site: same-origin\r\n"), 200);
        let absolute = "GET http://evil.example/metrics";
        let headers = format!("Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n");
        assert_eq!(super::metrics::ask(port, absolute, &headers).code, 403);
    });
}

#[test]
fn a_port_in_use_is_reported_and_retried() {
    sandboxed(|| {
        let home = home();
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = taken.local_addr().expect("an address");
        configure(&home, &[], &format!("[metrics]\nlisten = \"{address}\"\n"));
        let mut shown = home.command(&["daemon", "run"]);
        let mut shown = shown.stderr(Stdio::piped()).spawn().expect("starts");
        let said = BufReader::new(shown.stderr.take().expect("piped")).lines();
        let said: Vec<String> = said.take(2).map(|line| line.expect("text")).collect();
        assert!(said[0].starts_with("serving on "), "{said:?}");
        assert!(said[1].contains(&format!("metrics are not served: {address}")), "{said:?}");
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        assert!(shown.wait().expect("ends").success());
        let output = home.run(&["daemon", "start"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let warned = output.stderr.contains("metrics are not served")
            && output.stderr.contains(&address.to_string());
        assert!(warned, "{}", output.stderr);
        let trouble = status(&home)["trouble"].as_str().expect("trouble").to_owned();
        assert!(trouble.contains("in use"), "{trouble}");
        assert!(home.run(&["daemon", "status"]).stdout.contains("not served"));
        assert!(home.run(&["daemon", "logs"]).stdout.contains("in use"));
        assert_eq!(home.run(&["list"]).code, Some(0), "everything else works");
        drop(taken);
        eventually("it is served", || status(&home)["trouble"].is_null().then_some(()));
        assert!(scrape(&home).contains("agentctl_build_info"));
    });
}

#[test]
fn invalid_settings_are_refused_with_file_and_key() {
    sandboxed(|| {
        let home = home();
        for (config, key) in [
            ("listen = \"0.0.0.0:9200\"", "metrics.listen"),
            ("listen = \"[::]:9200\"", "metrics.listen"),
            ("listen = \"192.168.1.2:9200\"\ntoken = \"0123456789abcdef\"", "metrics.listen"),
            ("listen = \"localhost\"", "metrics.listen"),
            ("token = \"short\"", "metrics.token"),
            ("token = false", "a text in quotes"),
            ("token = \"0123456789abcdef\"\ntoken_env = \"T\"", "metrics.token"),
            ("port = 9200", "port"),
        ] {
            home.write(CONFIG, format!("[metrics]\n{config}\n"));
            let output = home.run(&["daemon", "start"]);
            assert_eq!(output.code, Some(1), "{config}: {}", output.stderr);
            let named = output.stderr.contains("config.toml") && output.stderr.contains(key);
            assert!(named && !output.stderr.contains("0123456789abcdef"), "{}", output.stderr);
        }
        // With `allow_remote` any address is allowed, and any IP address or configured name as `Host`.
        let name = "metrics.example";
        let config = "listen = \"0.0.0.0:0\"\nallow_remote = true\ntoken_env = \"T\"\n";
        home.write(CONFIG, format!("[metrics]\n{config}hosts = [\"{name}\"]\n"));
        started(&home);
        let trouble = status(&home)["trouble"].to_string();
        assert!(trouble.contains("T is not set"), "{trouble}");
        let mut home = home;
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        home.set("T", "fedcba9876543210");
        started(&home);
        let status = status(&home);
        let url = status["url"].as_str().expect("a URL").to_owned();
        assert_eq!(status["token"], "in $T", "{status}");
        let port = url.trim_end_matches("/metrics").rsplit_once(':').expect("a port").1;
        let port: u16 = port.parse().expect("a number");
        for (host, code) in [
            (format!("10.9.8.7:{port}"), 200),
            (name.to_owned(), 200),
            (format!("evil.example:{port}"), 403),
            ("10.9.8.7:1".to_owned(), 403),
        ] {
            let headers = format!("Host: {host}\r\nAuthorization: Bearer fedcba9876543210\r\n");
            assert_eq!(ask(port, "GET /metrics", &headers).code, code, "{host}");
        }
        assert!(!home.path().join(TOKEN).exists(), "no token is generated when one is configured");
    });
}

#[test]
fn connections_are_limited_in_number_and_size() {
    sandboxed(|| {
        let home = measured("");
        started(&home);
        let (port, token) = (port(&home), token(&home));
        let headers = format!("Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n");
        let long = format!("{headers}X: {}\r\n", "x".repeat(20_000));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let sent = stream.write_all(format!("GET /metrics HTTP/1.1\r\n{long}\r\n").as_bytes());
        let mut heard = Vec::new();
        let _reset = stream.read_to_end(&mut heard);
        assert!(sent.is_err() || !heard.starts_with(b"HTTP/1.1 200"), "too long a request");
        let many = format!("{headers}{}", "X: x\r\n".repeat(500));
        assert_ne!(ask(port, "GET /metrics", &many).code, 200, "too many headers");
        // Idle connections beyond the limit do not keep out a request.
        let idle = (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("connected"));
        let mut idle: Vec<TcpStream> = idle.collect();
        idle[0].write_all(b"GET /metrics HTTP/1.1\r\nHost: local").expect("sent");
        drop(idle.split_off(40));
        assert_eq!(ask(port, "GET /metrics", &headers).code, 200);
        assert_eq!(home.run(&["daemon", "status"]).code, Some(0), "the socket still answers");
    });
}

#[test]
fn openmetrics_is_sent_when_it_is_accepted() {
    sandboxed(|| {
        let home = measured("");
        started(&home);
        let (port, token) = (port(&home), token(&home));
        let headers = format!(
            "Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3\r\n"
        );
        let answer = ask(port, "GET /metrics", &headers);
        let head = answer.head.to_lowercase();
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        assert!(answer.body.ends_with("\n# EOF\n"), "{}", answer.body);
        assert!(answer.body.contains("# TYPE agentctl_launches counter"), "{}", answer.body);
    });
}

#[test]
fn a_restarted_daemon_counts_from_zero() {
    sandboxed(|| {
        let home = measured("");
        let pid = started(&home);
        let first = token(&home);
        let mut agent = agent(&home, "alive", "a", "x [[hang]]");
        let begun = "agentctl_events_total{type=\"session.started\"}";
        eventually("it is told", || (value(&scrape(&home), begun) == Some(1.0)).then_some(()));
        signal(pid, Signal::KILL);
        eventually("it has gone", || {
            (home.run(&["daemon", "status"]).code == Some(1)).then_some(())
        });
        started(&home);
        let text = scrape(&home);
        assert_eq!(token(&home), first, "the token stays");
        assert_eq!(value(&text, begun), Some(0.0), "no event yet");
        assert_eq!(
            value(&text, "agentctl_sessions_active"),
            Some(1.0),
            "and the session is counted"
        );
        std::fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("wiped");
        started(&home);
        let text = scrape(&home);
        assert_ne!(token(&home), first, "a new token was generated");
        assert_eq!(value(&text, "agentctl_sessions_active"), Some(1.0), "{text}");
        agent.kill().expect("killed");
        agent.wait().expect("reaped");
        assert_eq!(value(&scrape(&home), "agentctl_sessions_active"), Some(0.0));
    });
}

fn repository(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_metrics_page_lists_every_metric() {
    let page = repository("docs/METRICS.md");
    let told: Vec<&str> = page.lines().filter(|line| line.starts_with("| `agentctl_")).collect();
    let real: Vec<String> = TABLE
        .iter()
        .map(|metric| {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (name, kind, help) = (metric.name, metric.kind.word(), metric.help);
            format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "))
        })
        .collect();
    assert_eq!(told, real, "docs/METRICS.md; this is how it should be:\n{}", real.join("\n"));
}

/// Collects all strings of a document.
fn texts<'a>(value: &'a Value, all: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => all.push(text),
        Value::Array(list) => list.iter().for_each(|value| texts(value, all)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, all)),
        _ => {}
    }
}

#[test]
fn the_dashboard_queries_only_existing_metrics() {
    let dashboard: Value =
        serde_json::from_str(&repository("examples/grafana/agentctl.json")).expect("JSON");
    let mut all = Vec::new();
    texts(&dashboard, &mut all);
    let mut asked = std::collections::BTreeSet::new();
    for text in all {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for word in words.filter(|word| word.starts_with("agentctl_")) {
            let parts = ["_bucket", "_sum", "_count"];
            let family = parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word);
            let there = |metric: &&&agentctl::daemon::metrics::Metric| metric.name == family;
            let metric = TABLE.iter().find(there);
            assert!(metric.is_some(), "{word} in {text}");
            asked.insert(family);
        }
    }
    assert!(asked.len() > 12, "it shows most metrics: {asked:?}");
}
