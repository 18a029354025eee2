//! Class: a server that is not the one a secret is meant for (S6).

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use testkit::gateway::{Gateway, TOKEN};
use testkit::{Agent, TestHome, sandboxed};

use crate::openclaw::{all, beside};
use crate::{configure, home};

/// A user that is neither us nor root, and has no account.
const OTHER: &str = "4242";

/// Starts a fake agent as another user, in a folder that user may write to.
fn as_another_user(folder: &std::path::Path, script: &[&str]) -> Agent {
    let program = folder.join("stranger");
    std::fs::copy(testkit::fake_agent(), &program).expect("copied");
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).expect("opened");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups"]).arg(program).args(script);
    command.env_clear().current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    let mut agent = Agent { child: command.spawn().expect("setpriv of util-linux") };
    agent.ready();
    agent
}

fn gateway_at(home: &TestHome, url: &str) {
    let table = format!("[[openclaw.gateways]]\nurl = \"{url}\"\ntoken = \"{TOKEN}\"\n");
    configure(home, &[], &table);
}

/// S6: another user listens on the gateway's port and speaks like a gateway: no secret is sent.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_gateway_of_another_user_gets_no_secret() {
    sandboxed(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let heard = folder.path().join("heard");
        let path = heard.to_string_lossy().into_owned();
        let mut stranger = as_another_user(folder.path(), &["be-gateway", &path]);
        let url = std::fs::read_to_string(format!("{path}.url")).expect("it listens");
        let home = home();
        gateway_at(&home, &url);
        let listed = all(&home);
        assert_eq!(listed.code, Some(3), "{}", listed.stderr);
        assert_eq!(listed.json()["faults"][0]["code"], "foreign", "{}", listed.stdout);
        assert!(listed.stderr.contains(&format!("uid {OTHER}")), "{}", listed.stderr);
        // It writes down everything it was asked when its input is closed.
        drop(stranger.child.stdin.take());
        stranger.child.wait().expect("ended");
        let heard = std::fs::read_to_string(heard).expect("written down");
        assert!(!heard.contains(TOKEN), "{heard}");
        assert!(!heard.contains("connect"), "{heard}");
    });
}

/// S6: our own gateway gets the secret, on every loopback address.
#[test]
fn a_gateway_of_our_own_gets_its_secret() {
    sandboxed(|| {
        let gateway = Gateway::start();
        let home = beside(&gateway, "");
        let listed = all(&home);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        let world = gateway.world();
        assert!(world.asked.iter().any(|(_, params)| params["auth"]["token"] == TOKEN));
    });
}
