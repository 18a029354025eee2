//! Gateways that demand a device: shown only then, by a key of our own, approved by a person there. And
//! runs that only the device that began them may end.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use testkit::gateway::{DEVICE_TOKEN, Demand, Gateway, TOKEN};
use testkit::{TestHome, sandboxed};

use crate::configure;
use crate::home;
use crate::openclaw::{A, all, beside, row, table};

const KEY: &str = ".config/agentctl/openclaw-device.key";

/// The devices of every connection so far, null where none was named.
fn devices(gateway: &Gateway) -> Vec<Value> {
    let world = gateway.world();
    let connects = world.asked.iter().filter(|(method, _)| method == "connect");
    connects.map(|(_, params)| params["device"]["id"].clone()).collect()
}

fn fault(home: &TestHome) -> (Option<i32>, Value, String) {
    let listed = all(home);
    let fault = listed.json()["faults"][0].clone();
    (listed.code, fault["code"].clone(), fault["message"].as_str().unwrap_or_default().to_owned())
}

/// Executes the approval command that a message names.
fn approve(gateway: &Gateway, message: &str) {
    let command = message.split('`').nth(1).expect("a command");
    let request = command.strip_prefix("openclaw devices approve ").expect("that command");
    gateway.world().devices.approve(request);
}

#[test]
fn a_gateway_that_demands_a_device_answers_after_approval() {
    sandboxed(|| {
        for demand in [Demand::Strips, Demand::Refuses] {
            let gateway = Gateway::start();
            let home = beside(&gateway, "");
            gateway.world().rows = vec![row(A, Some("running"), true)];
            gateway.world().abort_needs_admin = true;
            gateway.world().devices.demand = demand;
            let (exit, code, message) = fault(&home);
            assert_eq!((exit, &code), (Some(3), &"pairing".into()), "{message}");
            assert!(message.contains("does not know this device"), "{message}");
            let mode = std::fs::metadata(home.at(KEY)).expect("a key").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            let status = home.run(&["status", A]);
            assert_eq!(status.code, Some(3), "{}", status.stdout);
            // Not yet approved: the same device, the same request.
            assert_eq!(fault(&home).2, message);
            assert_eq!(gateway.world().devices.pending.len(), 1);
            approve(&gateway, &message);
            assert_eq!(all(&home).session(A)["status"], "running");
            // Approved for looking is not approved for acting.
            let refused = home.run(&["launch", "openclaw", "-p", "do it"]);
            assert_eq!(refused.code, Some(1), "{}", refused.stdout);
            assert!(refused.stderr.contains("for operator.write"), "{}", refused.stderr);
            assert!(!gateway.world().asked.iter().any(|(method, _)| method == "sessions.create"));
            assert_eq!(all(&home).session(A)["status"], "running");
            approve(&gateway, &refused.stderr);
            let launched = home.run(&["launch", "openclaw", "-p", "do it"]);
            assert_eq!(launched.code, Some(0), "{}", launched.stderr);
            let stopped = home.run(&["stop", launched.stdout.trim()]);
            assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
            // A run of another client belongs to that client.
            assert_eq!(home.run(&["stop", A]).code, Some(1));
            // Taken back.
            gateway.world().devices.revoke_all();
            let (exit, code, message) = fault(&home);
            assert_eq!((exit, &code), (Some(3), &"pairing".into()), "{message}");
            assert!(message.contains("no longer approves"), "{message}");
            let known: std::collections::BTreeSet<String> =
                devices(&gateway).iter().filter_map(Value::as_str).map(str::to_owned).collect();
            assert_eq!(known.len(), 1, "{known:?}");
            // The token that the gateway issues to the device is neither stored nor sent.
            let sent = format!("{:?}", gateway.world().asked);
            assert!(!sent.contains(DEVICE_TOKEN) && sent.contains(TOKEN));
            let kept = std::fs::read_to_string(home.at(KEY)).expect("read");
            assert!(!kept.contains(DEVICE_TOKEN) && !home.path().join(".local").exists());
        }
    });
}

#[test]
fn a_device_is_shown_to_an_undemanding_gateway_only_to_begin_a_run() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        gateway.world().rows = vec![row(A, Some("running"), true)];
        gateway.world().abort_needs_admin = true;
        for args in [&["list", "-a"][..], &["status", A], &["logs", A], &["doctor"]] {
            assert_eq!(home.run(args).code, Some(0), "{args:?}");
        }
        let refused = home.run(&["stop", A]);
        assert_eq!(refused.code, Some(1), "{}", refused.stdout);
        assert!(refused.stderr.contains("admin = true"), "{}", refused.stderr);
        assert!(devices(&gateway).iter().all(Value::is_null) && !home.at(KEY).exists());
        // A run that we began can be ended by us, without an administrator's rights.
        gateway.world().lost_answers = 2;
        let launched = home.run(&["launch", "openclaw", "-p", "do it"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        // The answer was lost twice, and it began once.
        assert_eq!(all(&home).sessions().len(), 2);
        let id = launched.stdout.trim();
        let stopped = home.run(&["stop", id]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert_eq!(home.run(&["resume", id, "go on"]).code, Some(0));
        assert_eq!(home.run(&["stop", id]).code, Some(0));
        assert_eq!(home.run(&["stop", A]).code, Some(1));
        assert!(!format!("{:?}", gateway.world().asked).contains("operator.admin"));
        let known = devices(&gateway).len();
        assert_eq!(home.run(&["list", "-a"]).code, Some(0));
        assert!(devices(&gateway)[known..].iter().all(Value::is_null));
        // If the configuration allows it, the admin scope ends runs of other clients; it is requested
        // only then.
        configure(&home, &[], &table(&gateway, "admin = true\n"));
        assert_eq!(home.run(&["stop", A]).code, Some(0));
    });
}

#[test]
fn without_a_demand_an_unavailable_device_is_left_out() {
    sandboxed(|| {
        let gateway = Gateway::start();
        // Nothing can be written below this.
        let mut home = home();
        home.set("XDG_CONFIG_HOME", "/proc/nowhere");
        home.set("OPENCLAW_GATEWAY_URL", gateway.url());
        home.set("OPENCLAW_GATEWAY_TOKEN", TOKEN);
        let launched = home.run(&["launch", "openclaw", "-p", "do it"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert!(devices(&gateway).iter().all(Value::is_null));
        gateway.world().devices.demand = Demand::Strips;
        let (exit, code, message) = fault(&home);
        assert_eq!((exit, &code), (Some(3), &"auth".into()), "{message}");
        assert!(message.contains("openclaw-device.key cannot be made"), "{message}");
        // The device would need approval, but the gateway does not demand one.
        let gateway = Gateway::start();
        gateway.world().devices.demand = Demand::NoAndUnapproving;
        let home = beside(&gateway, "");
        let launched = home.run(&["launch", "openclaw", "-p", "do it"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert!(devices(&gateway).last().is_some_and(Value::is_null));
    });
}

#[test]
fn an_exposed_or_invalid_key_is_neither_used_nor_replaced() {
    sandboxed(|| {
        let gateway = Gateway::start();
        gateway.world().rows = vec![row(A, Some("running"), true)];
        let good = format!("# a key\n{}\n", "5a".repeat(32));
        let cases: [(&str, &str, u32); 6] = [
            (&good, "mode 644", 0o644),
            (&good, "mode 640", 0o640),
            ("", "does not hold a key", 0o600),
            ("rubbish\n", "does not hold a key", 0o600),
            (&good.replace("5a5a", "5a"), "does not hold a key", 0o600),
            (&format!("{good}{good}"), "does not hold a key", 0o600),
        ];
        for (text, why, mode) in cases {
            let home = beside(&gateway, "");
            home.write(KEY, text);
            let path = home.at(KEY);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            gateway.world().devices.demand = Demand::No;
            assert_eq!(all(&home).code, Some(0), "it is not looked at unless it is wanted");
            gateway.world().devices.demand = Demand::Refuses;
            let (exit, code, message) = fault(&home);
            assert_eq!((exit, &code), (Some(3), &"auth".into()), "{message}");
            assert!(message.contains(why) && message.contains("openclaw-device.key"), "{message}");
            assert!(!message.contains("5a5a"), "{message}");
            assert_eq!(home.run(&["launch", "openclaw", "-p", "x"]).code, Some(1));
            assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
        }
        let home = beside(&gateway, "");
        home.write("elsewhere.key", &good);
        std::os::unix::fs::symlink(home.at("elsewhere.key"), home.at(KEY)).expect("linked");
        assert!(fault(&home).2.contains("symbolic link"), "{}", fault(&home).2);
        assert!(devices(&gateway).iter().all(Value::is_null));
        // A valid key is used unchanged.
        let home = beside(&gateway, "");
        home.write(KEY, &good);
        std::fs::set_permissions(home.at(KEY), std::fs::Permissions::from_mode(0o600))
            .expect("set");
        assert_eq!(fault(&home).1, "pairing");
    });
}

#[test]
fn a_device_is_created_once_differs_per_gateway_and_its_message_is_cleaned() {
    sandboxed(|| {
        let (gateway, other) = (Gateway::start(), Gateway::start());
        let home = beside(&gateway, "");
        for gateway in [&gateway, &other] {
            gateway.world().devices.demand = Demand::Strips;
        }
        // Several processes create the first key at the same time.
        let many: Vec<_> =
            (0..8).map(|_| home.command(&["list"]).spawn().expect("started")).collect();
        for mut one in many {
            one.wait().expect("it ends");
        }
        let mut known = devices(&gateway);
        known.retain(Value::is_string);
        known.dedup();
        assert_eq!(known.len(), 1, "{known:?}");
        let beside_it: Vec<_> =
            std::fs::read_dir(home.at(".config/agentctl")).expect("read").collect();
        assert_eq!(beside_it.len(), 2, "{beside_it:?}");
        configure(&home, &[], &table(&other, ""));
        assert_eq!(fault(&home).1, "pairing");
        let theirs = devices(&other);
        assert!(theirs.iter().any(Value::is_string) && !theirs.contains(&known[0]), "{theirs:?}");
        // The user will paste this command: only a valid id is put into it.
        other.world().devices.pending.clear();
        other.world().devices.request_id = Some("x`; rm -rf ~ #".into());
        let message = fault(&home).2;
        assert!(!message.contains("rm -rf"), "{message}");
        assert!(message.contains("`openclaw devices list`"), "{message}");
    });
}

#[test]
fn an_option_that_a_server_does_not_support_is_reported() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let mut home = beside(&gateway, "");
        gateway.world().rows = vec![row(A, Some("done"), false)];
        let launch: &[&str] = &["launch", "openclaw", "-p", "x"];
        let resume: &[&str] = &["resume", A, "x"];
        let cases = [
            (launch, &["--env", "A=b"][..], "--env"),
            (launch, &["--group", "g"], "--group"),
            (launch, &["--cwd", "/"], "--cwd"),
            (launch, &["--on-create", "x"], "hook"),
            (launch, &["--on-complete", "x"], "hook"),
            (resume, &["--cwd", "/"], "--cwd"),
            (resume, &["--env", "A=b"], "--env"),
            (resume, &["--model", "m"], "--model"),
            (resume, &["--permissions", "edits"], "--permissions"),
        ];
        for (command, flags, word) in cases {
            let refused = home.run(&[command, flags].concat());
            assert_eq!(refused.code, Some(2), "{flags:?}: {}", refused.stderr);
            let lines: Vec<&str> = refused.stderr.lines().collect();
            assert_eq!(lines.len(), 2, "{}", refused.stderr);
            assert!(lines[0].starts_with("error: ") && lines[0].contains(word), "{lines:?}");
            assert!(lines[1].starts_with("hint: leave "), "{lines:?}");
        }
        // May do everything: an administrator's right there, and asked for only with leave.
        let refused = home.run(&[launch, &["--permissions", "bypass"]].concat());
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("admin = true"), "{}", refused.stderr);
        let acted =
            |m: &str| gateway.world().asked.iter().filter(|(method, _)| method == m).count();
        assert_eq!((acted("sessions.create"), acted("sessions.send")), (0, 0));
        let stays = home.run(&[resume, &["--", "--agent", "other"]].concat());
        assert!(stays.stderr.contains("is not supported"), "{}", stays.stderr);
        configure(&home, &[], &table(&gateway, "admin = true\n"));
        assert_eq!(home.run(&[launch, &["--permissions", "bypass"]].concat()).code, Some(0));
        let world = gateway.world();
        let made = world.asked.iter().find(|(method, _)| method == "sessions.create");
        assert_eq!(made.expect("made").1["permissionMode"], "full");
        drop(world);
        // Defaults for launches do not change a session that continues.
        let table = format!(
            "model = \"m\"\npermissions = \"edits\"\n[[openclaw.gateways]]\nurl = \"{}\"\ntoken = \"{TOKEN}\"\n",
            gateway.url()
        );
        configure(&home, &[], &table);
        home.set("LANG", "C");
        assert_eq!(home.run(resume).code, Some(0));
        let world = gateway.world();
        let sent = world.asked.iter().rfind(|(method, _)| method == "sessions.send");
        let mut params = sent.expect("sent").1.clone();
        params["idempotencyKey"] = Value::Null;
        let key = format!("agent:main:dashboard:{A}");
        assert_eq!(params, json!({"key": key, "message": "x", "idempotencyKey": null}));
    });
}

/// A directory of another user is no place for a key: that user can read it, or put another one there.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_key_in_another_users_directory_is_neither_made_nor_used() {
    sandboxed(|| {
        let other = testkit::another_user();
        let gateway = Gateway::start();
        gateway.world().devices.demand = Demand::Strips;
        let mut home = home();
        let theirs = home.at("theirs/agentctl");
        std::fs::create_dir_all(&theirs).expect("made");
        let config = theirs.parent().expect("a parent");
        std::os::unix::fs::chown(config, Some(other.uid), Some(other.uid)).expect("given");
        home.set("XDG_CONFIG_HOME", config.to_string_lossy());
        home.set("OPENCLAW_GATEWAY_URL", gateway.url());
        home.set("OPENCLAW_GATEWAY_TOKEN", TOKEN);
        let key = theirs.join("openclaw-device.key");
        let (exit, code, message) = fault(&home);
        assert_eq!((exit, &code), (Some(3), &"auth".into()), "{message}");
        assert!(message.contains("belongs to another user"), "{message}");
        assert!(!key.exists(), "it was made");
        std::fs::write(&key, format!("{}\n", "5a".repeat(32))).expect("written");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("set");
        let (exit, _, message) = fault(&home);
        assert_eq!(exit, Some(3), "{message}");
        assert!(devices(&gateway).iter().all(Value::is_null), "it was used");
    });
}
