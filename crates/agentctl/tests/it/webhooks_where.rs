//! The checks of a webhook's address, host name and certificate; and that no secret is shown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentctl::config::WebhookEndpoint;
use agentctl::daemon::webhooks::Lookup;
use agentctl_core::host::Secret;
use testkit::receiver::{Manner, Receiver};
use testkit::{eventually, sandboxed};

use crate::event_sinks::SECRET;
use crate::home;
use crate::webhooks::{endpoint, local, stage, start, stopped, until};

fn always(addresses: Vec<SocketAddr>) -> Lookup {
    Arc::new(move |_, _| Ok(addresses.clone()))
}

#[test]
fn a_name_with_one_forbidden_address_gets_nothing() {
    let receiver = Receiver::start([]);
    let here = SocketAddr::from(([127, 0, 0, 1], receiver.port));
    let public: SocketAddr = "93.184.216.34:443".parse().expect("an address");
    let mapped = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(), receiver.port));
    let cases = [
        (vec![here], "127.0.0.1 is a private address"),
        (vec![mapped], "127.0.0.1 is a private address"),
        (vec![public, here], "127.0.0.1 is a private address"),
        (vec![here, public], "127.0.0.1 is a private address"),
        ([vec![public; 20], vec![here]].concat(), "127.0.0.1 is a private address"),
        (vec!["169.254.169.254:80".parse().expect("one")], "to which no event is sent"),
        (vec!["[fe80::1]:80".parse().expect("one")], "to which no event is sent"),
        (vec!["[::1]:80".parse().expect("one")], "::1 is a private address"),
        (vec!["[fd12::1]:80".parse().expect("one")], "fd12::1 is a private address"),
        (vec!["100.64.0.1:80".parse().expect("one")], "100.64.0.1 is a private address"),
        (vec![], "its host name cannot be resolved"),
    ];
    for (addresses, expected) in cases {
        let mut stage = stage();
        stage.world.lookup = always(addresses.clone());
        let endpoint = WebhookEndpoint::parse("https://hook.example/x").expect("a URL");
        let webhooks = start(&stage, vec![endpoint]);
        webhooks.offer(&stopped("e-1"));
        let status = until(&webhooks, "it was tried", |s| s.attempts > 0);
        let error = status.last_error.expect("an error");
        assert!(error.contains(expected), "{addresses:?}: {error}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[test]
fn loopback_addresses_are_refused_in_every_notation() {
    let receiver = Receiver::start([]);
    for host in ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "[::ffff:7f00:1]"] {
        let stage = stage();
        let url = format!("https://{host}:{}/x", receiver.port);
        let webhooks = start(&stage, vec![WebhookEndpoint::parse(&url).expect("a URL")]);
        webhooks.offer(&stopped("e-1"));
        let status = until(&webhooks, "it was tried", |s| s.attempts > 0);
        assert!(status.last_error.is_some_and(|e| e.contains("private address")), "{host}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[test]
fn plain_http_is_refused_for_public_addresses() {
    let mut stage = stage();
    stage.world.lookup = always(vec!["93.184.216.34:80".parse().expect("an address")]);
    let webhooks = start(&stage, vec![local("http://hook.example/x")]);
    webhooks.offer(&stopped("e-1"));
    let status = until(&webhooks, "it was tried", |s| s.attempts > 0);
    assert!(status.last_error.is_some_and(|e| e.contains("plain http")));
}

#[test]
fn the_connection_goes_to_the_checked_address() {
    let (mut stage, receiver, trap) = (stage(), Receiver::start([]), Receiver::start([]));
    let lookups = Arc::new(AtomicUsize::new(0));
    let (count, ports) = (Arc::clone(&lookups), [receiver.port, trap.port]);
    // The name server gives another address each time.
    stage.world.lookup = Arc::new(move |name, _| {
        assert_eq!(name, "hook.lan");
        let at = count.fetch_add(1, Ordering::Relaxed).min(1);
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], ports[at]))])
    });
    let webhooks = start(&stage, vec![local("http://hook.lan/x")]);
    webhooks.offer(&stopped("e-1"));
    until(&webhooks, "it is delivered", |s| s.delivered == 1);
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
    assert_eq!((receiver.requests().len(), trap.connections()), (1, 0));
    assert_eq!(receiver.requests()[0].header("host"), Some("hook.lan"));
}

#[test]
fn certificates_are_checked() {
    let receiver = Receiver::start([]);
    let port = testkit::tls::front(receiver.port);
    let tries = [
        (format!("https://localhost:{port}/x"), None),
        (format!("https://127.0.0.2:{port}/x"), Some(testkit::tls::authority())),
        (format!("https://localhost:{port}/x"), Some("/nonexistent.pem".into())),
    ];
    for (url, ca_file) in tries {
        let stage = stage();
        let mut vouched = local(&url);
        vouched.ca_file = ca_file;
        let webhooks = start(&stage, vec![vouched]);
        webhooks.offer(&stopped("e-1"));
        let status = until(&webhooks, "it was tried", |s| s.attempts > 0);
        let error = status.last_error.expect("an error");
        assert!(error.contains("certificate"), "{url}: {error}");
    }
    assert!(receiver.requests().is_empty());
    let stage = stage();
    let url = format!("https://localhost:{port}/x");
    let mut vouched = local(&url);
    vouched.ca_file = Some(testkit::tls::authority());
    let webhooks = start(&stage, vec![vouched]);
    webhooks.offer(&stopped("e-1"));
    until(&webhooks, "it is delivered", |s| s.delivered == 1);
    assert_eq!(receiver.requests().len(), 1);
}

#[test]
fn no_secret_is_ever_shown() {
    let stage = stage();
    let refusing = Receiver::always(Manner::Status(500));
    let redirect = Manner::With(302, format!("Location: http://x/{SECRET}"));
    let (redirecting, mute) = (Receiver::always(redirect), Receiver::always(Manner::Hang));
    let rubbish = Receiver::always(Manner::Rubbish);
    let front = testkit::tls::front(refusing.port);
    let mut endpoints: Vec<_> =
        [&refusing, &redirecting, &mute, &rubbish].into_iter().map(endpoint).collect();
    for url in [
        format!("https://127.0.0.1:{front}/PATHSECRET?QUERYSECRET"),
        "https://nowhere.invalid/PATHSECRET?QUERYSECRET".into(),
        "https://10.0.0.1/PATHSECRET?QUERYSECRET".into(),
    ] {
        endpoints.push(WebhookEndpoint::parse(&url).expect("a URL"));
    }
    for endpoint in &mut endpoints {
        endpoint.timeout = Duration::from_millis(200);
        endpoint.secret = Some(Secret::Text(SECRET.into()));
    }
    let shown = format!("{endpoints:?} {:?}", endpoints[0].secret);
    let webhooks = start(&stage, endpoints);
    webhooks.offer(&stopped("e-1"));
    // A failure is counted before it is logged.
    eventually("all failures are logged", || {
        let told = stage.said.all().len() >= webhooks.status().len();
        (told && webhooks.status().iter().all(|s| s.attempts > 0)).then_some(())
    });
    let status = serde_json::to_string(&webhooks.status()).expect("JSON");
    let said = stage.said.all().join("\n");
    let everything = format!("{shown}\n{webhooks:?}\n{status}\n{:?}\n{said}", webhooks.status());
    assert!(said.lines().count() >= 7, "{said}");
    for secret in [SECRET, "PATHSECRET", "QUERYSECRET"] {
        assert!(!everything.contains(secret), "{everything}");
    }
}

#[test]
fn an_invalid_configuration_is_reported_with_file_and_key_and_without_secrets() {
    sandboxed(|| {
        let home = home();
        let config = |text: &str| {
            home.write(".config/agentctl/config.toml", text);
            home.run(&["config", "check"])
        };
        let hook = |rest: &str| {
            format!("[[webhooks]]\nurl = \"https://hook.example/TOPSECRET\"\n{rest}\n")
        };
        for (text, expected) in [
            (
                "[[webhooks]]\nurl = \"https://u:TOPSECRET@a/\"".into(),
                "[[webhooks]] 1: url: it must not hold a user",
            ),
            (
                "[[webhooks]]\nurl = \"ftp://a/TOPSECRET\"".into(),
                "[[webhooks]] 1: url: it does not begin with",
            ),
            (
                "[[webhooks]]\nurl = \"http://hook.example/TOPSECRET\"".into(),
                "1: url: plain http is allowed for private",
            ),
            (
                "[[webhooks]]\nurl = \"https://localhost/TOPSECRET\"".into(),
                "1: url: 127.0.0.1 is a private address",
            ),
            (
                "[[webhooks]]\nurl = \"https://[::ffff:127.0.0.1]/TOPSECRET\"".into(),
                "1: url: 127.0.0.1 is a private",
            ),
            (
                "[[webhooks]]\nurl = \"https://169.254.169.254/TOPSECRET\"\nallow_private = true"
                    .into(),
                "to which no event is sent",
            ),
            ("[[webhooks]]\nname = \"x\"".into(), "[[webhooks]] 1: url: it is missing"),
            (
                hook("secret = \"TOPSECRET\"\nsecret_env = \"X\""),
                "1: secret: there is more than one",
            ),
            (hook("secret = \"\""), "1: secret: it is empty"),
            (hook("secret = \"whsec_TOP SECRET\""), "1: secret: its secret begins with whsec_"),
            (hook("secret = 7070707"), "line 3: [[webhooks]] 1: secret: expected a text in quotes"),
            (hook("secret = TOPSECRET"), "line 3"),
            (hook("types = [\"session.gone\"]"), "1: types: `session.gone` is no type of event"),
            (hook("adapters = [\"emacs\"]"), "1: adapters: `emacs`: there is no such adapter"),
            (hook("timeout = \"2m\""), "1: timeout: it is not between"),
            (hook("colour = 1"), "line 3: [[webhooks]] 1: colour: unknown key"),
            (hook("") + &hook("timeout = \"0s\""), "[[webhooks]] 2: timeout"),
            ("[notify]\ncommand = []".into(), "notify.command: it is empty"),
            ("[notify]\ncommand = [\"./x\"]".into(), "notify.command: `./x` is a relative path"),
            ("[notify]\non = [\"lunch\"]".into(), "notify.on: `lunch` is no type of event"),
            ("[notify]\nsound = true".into(), "line 2: notify.sound: unknown key"),
        ] {
            let run = config(&text);
            assert_eq!(run.code, Some(1), "{text}\n{}", run.stderr);
            assert!(
                run.stderr.contains("config.toml") && run.stderr.contains(expected),
                "{text}\n{}",
                run.stderr
            );
            assert!(
                !run.stderr.contains("TOPSECRET") && !run.stderr.contains("7070707"),
                "{}",
                run.stderr
            );
        }
        let good = hook(
            "secret_file = \"~/key\"\ntypes = [\"stopped\", \"fuse.expired\"]\nadapters = [\"codex\"]\ntimeout = \"5s\"\nname = \"ops\"",
        ) + "[[webhooks]]\nurl = \"http://127.0.0.1:9/\"\nallow_private = true\nsecret = \"whsec_Zg==\"\n[notify]\non = [\"idle\"]\n";
        let run = config(&good);
        assert!(run.code == Some(0) && !run.stderr.contains("error"), "{}", run.stderr);
    });
}
