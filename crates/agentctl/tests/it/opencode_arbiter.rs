//! Which of two replies counted: newer servers of OpenCode refuse the second one, 1.14.41 says yes to both.

use serde_json::{Value, json};
use testkit::{Agent, Output, TestHome, sandboxed};

use crate::inbox::ask_of;
use crate::opencode::{A, Store};
use crate::opencode_hosted::{hosted, says};

/// A session whose server asks for a permission; `reply` is the file in which the server's answer to a reply stands.
struct Asking {
    home: TestHome,
    _store: Store,
    _agent: Agent,
    id: String,
}

impl Asking {
    fn new(reply: &str) -> Self {
        let (home, store, agent) = hosted();
        let permission = json!({"id": "per_1", "sessionID": A, "permission": "bash",
            "patterns": ["make"], "metadata": {"command": "make"},
            "tool": {"messageID": "msg_1", "callID": "call_1"}});
        says(&home, "permission", &json!([permission]));
        says(&home, reply, &json!(true));
        let id = ask_of(&home, A)["id"].as_str().expect("an id").to_owned();
        Self { home, _store: store, _agent: agent, id }
    }

    /// The state of the tool call, as the server tells it.
    fn call_is(&self, state: Value) {
        let part = json!({"type": "tool", "callID": "call_1", "state": state});
        says(&self.home, &format!("session.{A}.message.msg_1"), &json!({"parts": [part]}));
    }

    fn answer(&self, decision: &str) -> Output {
        self.home.run(&["answer", &self.id, decision])
    }
}

fn denied() -> Value {
    json!({"status": "error", "error": "The user rejected permission to use this specific tool call."})
}

#[test]
fn a_reply_that_a_server_refuses_when_it_is_repeated_has_counted() {
    sandboxed(|| {
        let asking = Asking::new("permission.per_1.reply.once");
        asking.call_is(denied());
        let taken = asking.answer("--allow");
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        let late = asking.answer("--deny");
        assert_eq!(late.code, Some(5), "{}", late.stderr);
        assert!(late.stderr.contains("settled meanwhile"), "{}", late.stderr);
    });
}

#[test]
fn the_state_of_the_call_decides_where_a_server_says_yes_to_every_reply() {
    sandboxed(|| {
        let asking = Asking::new("permission.per_1.reply");
        asking.call_is(json!({"status": "running"}));
        assert_eq!(asking.answer("--allow").code, Some(0), "nothing contradicts it");
        let unclear = asking.answer("--deny");
        assert_eq!(unclear.code, Some(1), "{}", unclear.stderr);
        assert!(unclear.stderr.contains("it may have been allowed"), "{}", unclear.stderr);
        asking.call_is(denied());
        assert_eq!(asking.answer("--deny").code, Some(0));
        let late = asking.answer("--allow");
        assert_eq!(late.code, Some(5), "{}", late.stderr);
        assert!(late.stderr.contains("denied it"), "{}", late.stderr);
        asking.call_is(json!({"status": "completed", "output": ""}));
        let late = asking.answer("--deny");
        assert_eq!(late.code, Some(5), "{}", late.stderr);
        assert!(late.stderr.contains("allowed it"), "{}", late.stderr);
    });
}
