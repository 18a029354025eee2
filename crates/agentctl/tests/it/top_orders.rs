//! Orders of `agentctl top` on a pseudo-terminal: their keys, and what became of them in the agents' own records.

use rustix::process::Signal;
use testkit::{TestHome, eventually, sandboxed};

use crate::daemon::signal;
use crate::home;
use crate::launched::{folder, script};
use crate::top::Eye;

/// Plants an ended session whose agent begins only when the file `go` is there, and then fails.
fn failing(home: &mut TestHome) -> String {
    home.set("ANTHROPIC_API_KEY", "k");
    let id = "0c2f8f8e-1111-4222-8333-123456789abc".to_owned();
    let cwd = folder(home, "w");
    let slug: String =
        cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let at = format!("{:.3}", jiff::Timestamp::now());
    let line = serde_json::json!({
        "type": "user", "message": {"role": "user", "content": "first"}, "uuid": "u",
        "timestamp": at, "cwd": cwd, "sessionId": id,
    });
    home.write(&format!(".claude/projects/{slug}/{id}.jsonl"), format!("{line}\n"));
    let go = home.path().join("go");
    script(home, "claude", &format!("until rm {} 2>&-; do sleep 0.02; done; exit 1", go.display()));
    id
}

#[test]
fn each_order_is_waited_for_also_after_one_that_failed() {
    sandboxed(|| {
        let mut home = home();
        let id = failing(&mut home);
        let mut eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the list is shown", |text| text.contains("nothing is running"));
        eye.press("H");
        eye.until("the session is listed", |text| text.contains(&id[..8]));
        eye.press("sagain\r");
        for round in 0..3 {
            eye.until("it is on its way", |text| text.contains("is being sent"));
            signal(eye.child.id(), Signal::INT);
            eventually("it waits for the order", || {
                let left = eye.child.try_wait().expect("asked");
                assert!(left.is_none(), "round {round}: {left:?}, and the result was lost");
                eye.text().contains("top leaves once it is done").then_some(())
            });
            home.write("go", "");
            eye.until("its failure is shown", |text| text.contains("error:"));
            // The text of the refused message stands there again.
            eye.until("it is typed again", |text| text.trim_end().ends_with(": again"));
            eye.press("\r");
        }
        eye.until("it is on its way", |text| text.contains("is being sent"));
        signal(eye.child.id(), Signal::INT);
        eye.until("it waits for the order", |text| text.contains("top leaves once it is done"));
        signal(eye.child.id(), Signal::INT);
        assert!(eye.child.wait().expect("ends").success(), "the second one leaves at once");
        eye.is_given_back();
        home.write("go", "");
    });
}
