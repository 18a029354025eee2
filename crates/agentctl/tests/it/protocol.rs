//! The protocol of the daemon's socket: its codes, its methods and the page that describes them.

use serde_json::json;
use testkit::sandboxed;

use crate::cli::planted;
use crate::daemon::{Wire, started};

#[test]
fn no_match_and_several_matches_have_different_codes() {
    sandboxed(|| {
        let home = planted();
        started(&home);
        let mut wire = Wire::greeted(&home);
        let none = wire.ask("session.status", &json!({"id": "nosuchsession"}));
        assert_eq!(none["error"]["code"], -32004, "{none}");
        let several = wire.ask("session.status", &json!({"id": "01a1de2c"}));
        assert_eq!(several["error"]["code"], -32005, "{several}");
        assert_eq!(several["error"]["message"], "`01a1de2c` fits 7 sessions");
    });
}

#[test]
fn a_session_behind_a_failed_source_is_null_beside_the_fault() {
    sandboxed(|| {
        let home = planted();
        std::fs::remove_dir_all(home.path().join(".claude/projects")).expect("removed");
        home.write(".claude/projects", "a file in the directory's place");
        started(&home);
        let mut wire = Wire::greeted(&home);
        let hidden = wire.ask("session.status", &json!({"id": "45454545"}));
        assert!(hidden["result"]["session"].is_null(), "{hidden}");
        assert_eq!(hidden["result"]["faults"][0]["adapter"], "claude-code", "{hidden}");
    });
}
