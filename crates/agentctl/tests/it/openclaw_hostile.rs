//! Gateways that fail, lie, stall or belong to another user: a fault with its reason, exit 3, and the
//! secret is sent to no other server.

use std::io::Read;
use std::net::TcpListener;

use serde_json::{Value, json};
use testkit::gateway::{Gateway, Manner, TOKEN};
use testkit::{TestHome, sandboxed};

use crate::openclaw::{A, all, beside, row, table};
use crate::{configure, fixtures_dir, home};

fn fault(home: &TestHome) -> (Option<i32>, String, String, usize) {
    let listed = all(home);
    let document = listed.json();
    let fault = &document["faults"][0];
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let theirs = listed.sessions().iter().filter(|s| s["adapter"] == "openclaw").count();
    (listed.code, text(&fault["code"]), text(&fault["message"]), theirs)
}

#[test]
fn every_failure_is_a_fault_with_its_reason_and_nothing_is_called_stopped() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        home.plant(&fixtures_dir().join("demo/0.1.0"), ".");
        let others = |home: &TestHome| -> Vec<(Value, Value)> {
            let rows = all(home).sessions();
            let demo = rows.iter().filter(|s| s["adapter"] == "demo");
            demo.map(|s| (s["id"].clone(), s["status"].clone())).collect()
        };
        let undisturbed = others(&home);
        assert!(!undisturbed.is_empty());
        {
            let mut world = gateway.world();
            world.rows =
                vec![row(A, Some("running"), true), row(&A.replace('a', "c"), Some("done"), false)];
            world.page = 1;
        }
        let cases = [
            (Manner::Mute, "timeout", "did not answer in time"),
            (Manner::NoChallenge, "timeout", "did not answer in time"),
            (Manner::NoAnswer, "timeout", "did not answer in time"),
            (Manner::Drip(1_000), "timeout", "did not answer in time"),
            (Manner::HugeFrame, "protocol", "sent an invalid answer"),
            (Manner::Rubbish, "protocol", "sent an invalid answer"),
            (Manner::Shapeless, "protocol", "sent an invalid answer"),
            (Manner::CutAfter(1), "unreachable", "closed the connection"),
            (Manner::HangUp, "unreachable", "closed the connection"),
            (Manner::SamePage, "partial", "does not add up"),
            (Manner::NoNextPage, "protocol", "do not advance"),
            (Manner::OldProtocol, "protocol", "speaks protocol 5; this build speaks 4"),
            (Manner::NoScopes, "auth", "without operator.read"),
            (Manner::NoList, "refused", "refused sessions.list"),
            (Manner::HalfTheTruth, "partial", "does not add up"),
            (Manner::Redirect(9), "protocol", "302"),
        ];
        for (manner, code, message) in cases {
            gateway.behaves(manner);
            // A test of silence is short; a gateway that answers gets more time.
            let limit = if code == "timeout" { "600ms" } else { "30s" };
            configure(&home, &[("gateway", limit)], &table(&gateway, ""));
            let (exit, said, why, rows) = fault(&home);
            assert_eq!((exit, said.as_str(), rows), (Some(3), code, 0), "{manner:?}: {why}");
            assert!(why.contains(message), "{manner:?}: {why}");
            assert_eq!(others(&home), undisturbed, "{manner:?}");
            let status = home.run(&["status", A]);
            assert_eq!(status.code, Some(3), "{manner:?}: {}{}", status.stdout, status.stderr);
            assert!(!status.stdout.contains("stopped"), "{manner:?}: {}", status.stdout);
        }
        gateway.behaves(Manner::EndlessPages);
        configure(&home, &[("gateway", "600ms")], &table(&gateway, ""));
        assert_eq!(fault(&home).0, Some(3));
        configure(&home, &[], &table(&gateway, ""));
        // It comes back, and so do its sessions.
        gateway.behaves(Manner::Starting(3));
        let back = all(&home);
        assert_eq!(back.session(A)["status"], "running", "{}", back.stderr);
        gateway.end();
        let (exit, code, why, rows) = fault(&home);
        assert_eq!((exit, code.as_str(), rows), (Some(3), "unreachable", 0));
        assert_eq!(why, "the gateway refused the connection");
        let again = gateway.again();
        assert_eq!(all(&home).session(A)["status"], "running");
        drop(again);
    });
}

#[test]
fn a_list_that_changes_while_it_is_read_is_read_again() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let ids: Vec<String> =
            (0..5).map(|n| format!("{n:08}-0000-4000-8000-000000000000")).collect();
        {
            let mut world = gateway.world();
            world.rows = ids.iter().map(|id| row(id, Some("done"), false)).collect();
            world.page = 2;
        }
        assert_eq!(all(&home).sessions().len(), 5);
        // A row that moves to the front between two pages would be missed by one pass.
        gateway.behaves(Manner::Restless);
        let listed = all(&home);
        let known = listed.sessions().len();
        assert!(known == 5 || (known == 0 && listed.code == Some(3)), "{known}: {}", listed.stderr);
    });
}

#[test]
fn a_row_removed_while_the_list_is_read_hides_no_other() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let ids: Vec<String> =
            (0..4).map(|n| format!("{n:08}-0000-4000-8000-000000000000")).collect();
        {
            let mut world = gateway.world();
            world.rows = ids.iter().map(|id| row(id, Some("done"), false)).collect();
            world.page = 2;
            world.manner = Manner::Shrinking;
        }
        let listed = all(&home);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        let mut shown: Vec<String> =
            listed.sessions().iter().map(|s| s["id"].as_str().unwrap_or("-").to_owned()).collect();
        shown.sort();
        assert_eq!(shown, ids[1..]);
    });
}

#[test]
fn nothing_is_sent_to_a_server_that_does_not_begin_like_a_gateway() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        gateway.behaves(Manner::Chatty);
        let listed = all(&home);
        assert_eq!(listed.code, Some(3), "{}", listed.stderr);
        assert_eq!(gateway.world().asked, [], "no word, and no secret");
    });
}

#[test]
fn a_secret_is_sent_to_no_other_gateway() {
    sandboxed(|| {
        let (gateway, other) = (Gateway::start(), Gateway::start());
        // A redirect is a failure: the other server is never contacted.
        gateway.behaves(Manner::Redirect(other.port));
        let home = beside(&gateway, "");
        assert_eq!(fault(&home).0, Some(3));
        assert_eq!(other.world().connections, 0);
        // The secret in the environment is for the gateway of OpenClaw's own settings, not for ours.
        gateway.behaves(Manner::Well);
        let mut home = home_of(&[], &format!("[[openclaw.gateways]]\nurl = \"{}\"\n", other.url()));
        home.write(
            ".openclaw/openclaw.json",
            format!("// mine\n{{gateway: {{port: {},}},}}", gateway.port),
        );
        home.set("OPENCLAW_GATEWAY_TOKEN", TOKEN);
        gateway.world().rows = vec![row(A, Some("running"), true)];
        let listed = all(&home);
        assert_eq!(listed.session(A)["root"], gateway.url());
        assert_eq!(listed.json()["faults"][0]["code"], "auth");
        let told = other.world().asked.iter().any(|(_, params)| params.to_string().contains(TOKEN));
        assert!(!told, "{:?}", other.world().asked);
        // A server that is not a gateway gets nothing at all.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a guest");
            let mut heard = Vec::new();
            let _end = stream.read_to_end(&mut heard);
            String::from_utf8_lossy(&heard).into_owned()
        });
        let stranger = format!(
            "[[openclaw.gateways]]\nurl = \"ws://127.0.0.1:{port}\"\ntoken = \"{TOKEN}\"\n"
        );
        let home = home_of(&[("gateway", "10s")], &stranger);
        assert_eq!(home.run(&["list"]).code, Some(3));
        let heard = heard.join().expect("heard");
        assert!(heard.contains("Upgrade: websocket"), "{heard}");
        assert!(!heard.contains(TOKEN) && !heard.to_lowercase().contains("origin:"), "{heard}");
    });
}

fn home_of(short: &[(&str, &str)], more: &str) -> TestHome {
    let home = home();
    configure(&home, short, more);
    home
}

#[test]
fn plain_text_stays_on_this_machine_and_certificates_are_checked() {
    sandboxed(|| {
        let far =
            format!("[[openclaw.gateways]]\nurl = \"ws://192.0.2.1:9\"\ntoken = \"{TOKEN}\"\n");
        let home = home_of(&[], &far);
        let (exit, code, why, _) = fault(&home);
        assert_eq!((exit, code.as_str()), (Some(3), "insecure"), "{why}");
        assert!(why.contains("wss://") && why.contains("insecure = true"), "{why}");
        // With leave it is tried, and takes no longer than it may.
        let home = home_of(&[("gateway", "500ms")], &format!("{far}insecure = true\n"));
        assert_ne!(fault(&home).1, "insecure");
        // A server without a valid certificate gets nothing: this one does not even speak TLS.
        let gateway = Gateway::start();
        let secure = format!(
            "[[openclaw.gateways]]\nurl = \"wss://127.0.0.1:{}\"\ntoken = \"{TOKEN}\"\n",
            gateway.port
        );
        let (exit, code, why, _) = fault(&home_of(&[], &secure));
        assert_eq!(exit, Some(3), "{code}: {why}");
        assert!(gateway.world().asked.is_empty());
    });
}

#[test]
fn over_tls_a_gateway_with_a_trusted_certificate_is_asked() {
    sandboxed(|| {
        let gateway = Gateway::start();
        gateway.world().rows = vec![row(A, Some("running"), true)];
        let port = testkit::tls::front(gateway.port);
        let at = |host: &str, more: &str| {
            format!(
                "[[openclaw.gateways]]\nurl = \"wss://{host}:{port}\"\ntoken = \"{TOKEN}\"\n{more}"
            )
        };
        let vouched = format!("ca_file = \"{}\"\n", testkit::tls::authority().display());
        let home = home_of(&[], &at("localhost", &vouched));
        let listed = all(&home);
        assert_eq!(listed.session(A)["status"], "running", "{}", listed.stderr);
        assert_eq!(listed.session(A)["root"], format!("wss://localhost:{port}"));
        let asked = gateway.world().asked.len();
        // The certificate has no trusted issuer, or another name.
        for (host, more) in [("localhost", ""), ("127.0.0.2", vouched.as_str())] {
            let (exit, code, why, rows) = fault(&home_of(&[], &at(host, more)));
            assert_eq!((exit, code.as_str(), rows), (Some(3), "certificate", 0), "{why}");
        }
        assert_eq!(gateway.world().asked.len(), asked, "somebody unproved was told something");
    });
}

#[test]
fn only_the_configured_certificate_is_trusted() {
    sandboxed(|| {
        let gateway = Gateway::start();
        gateway.world().rows = vec![row(A, Some("running"), true)];
        let port = testkit::tls::front(gateway.port);
        // The certificate has another name and no trusted issuer, but it is the configured one.
        let table = |file: &std::path::Path| {
            format!(
                "[[openclaw.gateways]]\nurl = \"wss://127.0.0.2:{port}\"\ntoken = \"{TOKEN}\"\nca_file = \"{}\"\n",
                file.display()
            )
        };
        let home = home_of(&[], &table(&testkit::tls::certificate()));
        assert_eq!(all(&home).session(A)["status"], "running");
        let known = gateway.world().asked.len();
        let (exit, code, why, _) = fault(&home_of(&[], &table(&testkit::tls::authority())));
        assert_eq!((exit, code.as_str()), (Some(3), "certificate"), "{why}");
        // As OpenClaw's own settings name it, by its fingerprint.
        let settings = |fingerprint: &str| {
            let home = home_of(&[], "");
            let remote = json!({"url": format!("wss://127.0.0.2:{port}"), "token": TOKEN, "tlsFingerprint": fingerprint});
            // A certificate that would do is named too: the fingerprint says more.
            let tls = json!({"certPath": testkit::tls::certificate()});
            let gateway = json!({"mode": "remote", "remote": remote, "tls": tls});
            let text = json!({ "gateway": gateway }).to_string();
            home.write(".openclaw/openclaw.json", text);
            home
        };
        let right = testkit::tls::fingerprint();
        let wrong = right.chars().rev().collect::<String>();
        for fingerprint in [wrong.as_str(), "rubbish", ""] {
            let (exit, code, why, _) = fault(&settings(fingerprint));
            assert_eq!((exit, code.as_str()), (Some(3), "certificate"), "{fingerprint}: {why}");
        }
        assert_eq!(gateway.world().asked.len(), known, "somebody unproved was told something");
        for fingerprint in
            [right.clone(), format!("sha256:{}", right.replace(':', "").to_lowercase())]
        {
            assert_eq!(
                all(&settings(&fingerprint)).session(A)["status"],
                "running",
                "{fingerprint}"
            );
        }
    });
}

#[test]
fn settings_of_openclaw_itself_are_read_and_followed() {
    sandboxed(|| {
        let gateway = Gateway::start();
        gateway.world().rows = vec![row(A, Some("running"), true)];
        let port = gateway.port;
        let sees = |home: &TestHome| all(home).sessions().len() == 1;
        let settings = |auth: &str| {
            format!(
                "{{\n  // people write comments\n  gateway: {{ port: {port}, auth: {auth}, }},\n}}\n"
            )
        };
        let plain = home();
        plain.write(
            ".openclaw/openclaw.json",
            settings(&format!("{{ mode: 'token', token: \"{TOKEN}\" }}")),
        );
        assert!(sees(&plain));
        let password = home();
        password.write(
            ".openclaw/openclaw.json",
            settings(&format!("{{ mode: 'password', password: '{TOKEN}', token: 'x' }}")),
        );
        assert!(sees(&password));
        let mut variable = home();
        variable.write(".openclaw/openclaw.json", settings("{ token: '${MY_TOKEN}' }"));
        assert_eq!(all(&variable).code, Some(3));
        variable.set("MY_TOKEN", TOKEN);
        assert!(sees(&variable));
        let mut reference = home();
        reference
            .write(".openclaw/openclaw.json", settings("{ token: {source: 'exec', id: 'x'} }"));
        let (exit, code, why, _) = fault(&reference);
        assert_eq!((exit, code.as_str()), (Some(3), "auth"));
        assert!(why.contains("OPENCLAW_GATEWAY_TOKEN"), "{why}");
        reference.set("OPENCLAW_GATEWAY_TOKEN", TOKEN);
        assert!(sees(&reference));
        let mut profile = home();
        profile.write(".openclaw-work/openclaw.json", settings(&format!("{{ token: '{TOKEN}' }}")));
        assert!(!sees(&profile) && all(&profile).code == Some(0));
        profile.set("OPENCLAW_PROFILE", "work");
        assert!(sees(&profile));
        let mut url = home();
        url.set("OPENCLAW_GATEWAY_URL", gateway.url());
        url.set("OPENCLAW_GATEWAY_TOKEN", TOKEN);
        assert!(sees(&url));
        // Settings that cannot be read are a fault, not an absence.
        for text in ["{ gateway: ", "\u{0}", "[[[["] {
            let torn = home();
            torn.write(".openclaw/openclaw.json", text);
            assert_eq!(all(&torn).code, Some(3), "{text}");
        }
        // No gateway is configured: no server is asked and nothing is printed.
        assert_eq!(all(&home()).code, Some(0));
    });
}

#[test]
fn a_hanging_gateway_does_not_delay_another() {
    sandboxed(|| {
        let (well, mute) = (Gateway::start(), Gateway::start());
        well.world().rows = vec![row(A, Some("running"), true)];
        mute.behaves(Manner::Mute);
        // Long enough for the gateway that answers.
        let both = table(&mute, "") + &table(&well, "");
        let home = home_of(&[("gateway", "10s")], &both);
        let listed = home.run(&["list", "--json"]);
        assert_eq!(listed.code, Some(3));
        assert_eq!(listed.session(A)["status"], "running");
        let faults = listed.json()["faults"].as_array().cloned().unwrap_or_default();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0]["root"], mute.url());
    });
}

#[test]
fn no_text_of_a_gateway_controls_the_terminal() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let nasty = "\u{1b}]52;c;aGk=\u{7}\u{202e}red\r\n\u{9b}31m";
        let mut poisoned = row(A, Some("failed"), false);
        for field in ["label", "displayName", "derivedTitle", "model", "lastRunError", "key"] {
            poisoned[field] = nasty.into();
        }
        let bad_ids = ["../../etc/passwd", "", "a b", "-x", &"x".repeat(200), "x\u{1b}[2J"];
        let mut rows: Vec<Value> = bad_ids
            .iter()
            .enumerate()
            .map(|(n, id)| {
                let mut row = row(A, Some("done"), false);
                row["key"] = format!("agent:main:{n}").into();
                row["sessionId"] = (*id).into();
                row
            })
            .collect();
        rows.push(poisoned);
        rows.push(
            json!({"key": "agent:main:none", "sessionId": 7, "hasActiveRun": {}, "updatedAt": "x"}),
        );
        gateway.world().rows = rows;
        let listed = all(&home);
        assert_eq!((listed.code, listed.sessions().len()), (Some(3), 1), "{}", listed.stderr);
        for args in [&["list", "-a"][..], &["status", A], &["why", A], &["list", "-a", "--json"]] {
            let shown = home.run(args);
            for text in [&shown.stdout, &shown.stderr] {
                let wild = text
                    .chars()
                    .find(|c| (c.is_control() && *c != '\n' && *c != '\t') || *c == '\u{202e}');
                assert_eq!(wild, None, "{args:?}: {text:?}");
                assert!(!text.contains(TOKEN));
            }
        }
    });
}
