//! Class: a live record that names a process which is not proved to be its writer, as `list` shows it (S1).

use std::process::{Command, Stdio};

use serde_json::json;
use testkit::{Agent, sandboxed};

use crate::claude_code::{A, Claude, prompt, record, said};

/// Returns the tick at which a process began.
fn start_ticks(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let rest = stat.rsplit(')').next().expect("fields");
    rest.split_whitespace().nth(19).expect("field 22").to_owned()
}

/// Writes a record into a home that names a process, as an agent could that may write there.
fn forge(claude: &Claude, home: &str, name: &str, victim: u32) {
    let fields = json!({"status": "busy", "procStart": start_ticks(victim), "pidDomain": null});
    let text = record(A, &claude.cwd, &fields);
    claude.home.write(&format!("{home}/sessions/{name}.json"), text);
}

fn assert_victim_survives(claude: &Claude, victim: &mut Agent, what: &str) {
    for order in [&["stop", A][..], &["stop", A, "--force"]] {
        let _refused = claude.home.run(order);
        assert!(victim.child.try_wait().expect("asked").is_none(), "{what}: {order:?} killed it");
    }
}

/// S1: the record of Claude Code, in the default home and in a home that only a decoy names.
#[test]
fn a_claude_record_that_names_a_stranger_joins_nothing() {
    sandboxed(|| {
        for home in [".claude", "ws/.c"] {
            let mut claude = Claude::new();
            let mut victim = claude.home.agent("vim-important", "elsewhere", &[]);
            victim.ready();
            forge(&claude, home, &victim.pid().to_string(), victim.pid());
            let moved = claude.home.path().join(home).to_string_lossy().into_owned();
            claude.home.set("CLAUDE_CONFIG_DIR", moved);
            let mut decoy = claude.home.agent("claude", "decoy", &[]);
            decoy.ready();
            claude
                .home
                .set("CLAUDE_CONFIG_DIR", claude.home.path().join(".claude").to_string_lossy());
            let row = claude.row(A);
            assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &json!(null)), "{home}");
            let why = row["reason"]["detail"].as_str().unwrap_or_default();
            assert!(why.contains("not the agent's program"), "{why}");
            assert_victim_survives(&claude, &mut victim, home);
        }
    });
}

/// S1: a name that is not how the pid is written is no record.
#[test]
fn a_claude_record_counts_only_under_its_canonical_name() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut agent = claude.home.agent("claude", "elsewhere", &[]);
        agent.ready();
        let pid = agent.pid();
        for name in [format!("0{pid}"), format!("+{pid}"), format!("00{pid}")] {
            forge(&claude, ".claude", &name, pid);
        }
        let rows = claude.list().sessions();
        assert!(rows.iter().all(|row| row["id"].is_null()), "{rows:#?}");
    });
}

/// S1: a real Claude Code that uses another home is not the one of this record.
#[test]
fn a_claude_record_joins_no_claude_of_another_home() {
    sandboxed(|| {
        let mut claude = Claude::new();
        claude.home.set("CLAUDE_CONFIG_DIR", claude.home.path().join("other").to_string_lossy());
        let mut victim = claude.home.agent("claude", "elsewhere", &[]);
        victim.ready();
        claude.home.set("CLAUDE_CONFIG_DIR", claude.home.path().join(".claude").to_string_lossy());
        forge(&claude, ".claude", &victim.pid().to_string(), victim.pid());
        let row = claude.row(A);
        assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &json!(null)));
        let why = row["reason"]["detail"].as_str().unwrap_or_default();
        assert!(why.contains("names the home"), "{why}");
        assert_victim_survives(&claude, &mut victim, "another home");
    });
}

/// S1: `argv[0]` makes no process an agent.
#[test]
fn a_process_that_only_calls_itself_claude_is_not_joined() {
    use std::os::unix::process::CommandExt;
    sandboxed(|| {
        let claude = Claude::new();
        drop(claude.home.agent("editor", "ws", &[]));
        let mut command = Command::new(claude.home.path().join("bin/editor"));
        command.arg0("claude").env_clear().env("HOME", claude.home.path()).current_dir(&claude.cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut victim = Agent { child: command.spawn().expect("started") };
        victim.ready();
        forge(&claude, ".claude", &victim.pid().to_string(), victim.pid());
        assert_eq!(claude.row(A)["pid"], json!(null));
        assert_victim_survives(&claude, &mut victim, "argv[0]");
    });
}

/// S1: another user's Claude Code.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_claude_record_that_names_another_users_process_joins_nothing() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        drop(claude.home.agent("claude", "ws", &[]));
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(claude.home.path(), open).expect("opened");
        let mut command = Command::new(claude.home.path().join("bin/claude"));
        command.uid(65_534).env_clear().env("HOME", claude.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut victim = Agent { child: command.spawn().expect("root may") };
        victim.ready();
        forge(&claude, ".claude", &victim.pid().to_string(), victim.pid());
        let row = claude.row(A);
        assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &json!(null)));
        assert_victim_survives(&claude, &mut victim, "another user");
    });
}
