//! `attach`: an ended session is opened by its agent, a live one is found in tmux, and any other terminal is named.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::launched::{folder, kill, launch, script, status, until_asked, until_stopped};
use crate::terminal::Terminal;
use crate::{configure, home};

const ID: &str = "5cb3e615-ed0f-403b-a73f-02e7529a64f0";

/// Writes an ended Claude Code session that worked in `w`, below this home.
fn claude_session(home: &TestHome, root: &str) {
    let cwd = folder(home, "w");
    let line = |kind: &str, message: serde_json::Value| {
        let line = json!({
            "type": kind, "uuid": kind, "sessionId": ID, "cwd": cwd, "version": "2.1.325",
            "timestamp": "2026-11-15T07:55:12.000Z", "message": message,
        });
        format!("{line}\n")
    };
    let text = json!([{"type": "text", "text": "done"}]);
    let answer = json!({
        "id": "m", "role": "assistant", "model": "m-1", "content": text, "stop_reason": "end_turn",
    });
    let prompt = json!({"role": "user", "content": "fix it"});
    let lines = line("user", prompt) + &line("assistant", answer);
    home.write(&format!("{root}/projects/-w/{ID}.jsonl"), lines);
}

/// Runs the program on a terminal: stdin, stdout and stderr.
fn on_terminal(home: &TestHome, args: &[&str], more: &[(&str, &str)]) -> (Option<i32>, Terminal) {
    let terminal = Terminal::open(100);
    let mut command = home.command(args);
    let status = terminal.stream(command.envs(more.iter().copied())).status().expect("runs");
    (status.code(), terminal)
}

/// A script that writes its directory, arguments and a variable to `ran`.
fn recorder(home: &TestHome, name: &str, variable: &str) {
    let ran = home.path().join("ran");
    let text = format!("printf '%s|' \"$PWD\" \"$@\" \"${variable}\" > '{}'", ran.display());
    let _program = script(home, name, &text);
}

fn ran(home: &TestHome) -> Option<String> {
    fs::read_to_string(home.path().join("ran")).ok()
}

#[test]
fn an_ended_session_is_opened_by_its_agent_in_its_directory_and_home() {
    sandboxed(|| {
        let home = home();
        claude_session(&home, "second");
        let root = folder(&home, "second");
        configure(&home, &[], &format!("[roots]\nclaude-code = [\"{root}\"]"));
        recorder(&home, "claude", "CLAUDE_CONFIG_DIR");
        // Without a terminal nothing is started.
        let refused = home.run(&["attach", ID]);
        assert_eq!((refused.code, ran(&home)), (Some(5), None), "{refused:?}");
        assert!(refused.stderr.contains("needs a terminal"), "{refused:?}");
        // Nor with a broken setting of launches, which `resume` refuses too.
        let roots = format!("[roots]\nclaude-code = [\"{root}\"]");
        configure(&home, &[], &format!("permissions = \"everything\"\n{roots}"));
        let (code, _terminal) = on_terminal(&home, &["attach", ID], &[]);
        assert_eq!((code, ran(&home)), (Some(1), None));
        configure(&home, &[], &roots);
        let (code, _terminal) = on_terminal(&home, &["attach", ID], &[]);
        assert_eq!(code, Some(0));
        let w = folder(&home, "w");
        assert_eq!(ran(&home), Some(format!("{w}|--resume|{ID}|{root}|")));
    });
}

#[test]
fn an_ended_codex_session_is_opened_by_codex_resume() {
    sandboxed(|| {
        let home = home();
        let cwd = folder(&home, "w");
        let line = |kind: &str, payload: serde_json::Value| {
            let at = "2026-11-15T07:55:12.000Z";
            format!("{}\n", json!({"timestamp": at, "type": kind, "payload": payload}))
        };
        let lines = line("session_meta", json!({"id": ID, "cwd": cwd}))
            + &line("event_msg", json!({"type": "task_complete", "last_agent_message": "x"}));
        home.write(
            &format!(".codex/sessions/2026/11/15/rollout-2026-11-15T07-55-12-{ID}.jsonl"),
            lines,
        );
        recorder(&home, "codex", "CODEX_HOME");
        let (code, _terminal) = on_terminal(&home, &["attach", ID], &[]);
        assert_eq!((code, ran(&home)), (Some(0), Some(format!("{cwd}|resume|{ID}||"))));
    });
}

/// A demo agent in a terminal of its own, ended with this value.
struct OnTerminal {
    child: Child,
    terminal: Terminal,
}

impl OnTerminal {
    fn start(home: &TestHome) -> (Self, String) {
        let terminal = Terminal::open(100);
        let mut agent = Command::new("setsid");
        agent.arg("--ctty").arg(env!("CARGO_BIN_EXE_agentctl"));
        agent.args(["demo-agent", "-p", "x [[hang]]"]).env_clear();
        agent.envs(home.command(&[]).get_envs().filter_map(|(k, v)| Some((k, v?))));
        let child = terminal.stream(agent.current_dir(home.path())).spawn().expect("starts");
        let id = eventually("it is listed", || {
            let listed = home.run(&["list", "--json"]).json();
            listed["sessions"][0]["id"].as_str().map(str::to_owned)
        });
        until_asked(home, &id);
        (Self { child, terminal }, id)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A scripted tmux whose only pane has this terminal; it writes every other command to `tmux.log`.
fn scripted_tmux(home: &TestHome, tty: &str) {
    let log = home.path().join("tmux.log");
    let text = format!(
        "if [ \"$1\" = list-panes ]; then echo '/dev/pts/none %1 @1 $1'; echo '{tty} %7 @5 $2'; \
         else echo \"$@\" >> '{}'; fi",
        log.display()
    );
    let _program = script(home, "tmux", &text);
}

#[test]
fn a_live_session_in_tmux_has_its_pane_selected() {
    sandboxed(|| {
        let home = home();
        let (agent, id) = OnTerminal::start(&home);
        scripted_tmux(&home, agent.terminal.name());
        let inside = home.command(&["attach", &id]).env("TMUX", "/tmp/tmux-0/default,1,0").output();
        let inside = Output::from(inside);
        assert_eq!(inside.code, Some(0), "{inside:?}");
        let (code, _terminal) = on_terminal(&home, &["attach", &id], &[]);
        assert_eq!(code, Some(0));
        let log = fs::read_to_string(home.path().join("tmux.log")).expect("a log");
        let select = "select-window -t @5 ; select-pane -t %7 ;";
        assert_eq!(log, format!("{select} switch-client -t $2\n{select} attach-session -t $2\n"));
        // Neither a terminal nor a client of tmux: the pane is named.
        let refused = home.run(&["attach", &id]);
        assert_eq!(refused.code, Some(5));
        assert!(refused.stderr.contains("tmux pane %7"), "{refused:?}");
    });
}

#[test]
fn the_terminal_of_a_live_session_elsewhere_is_named() {
    sandboxed(|| {
        let home = home();
        let (agent, id) = OnTerminal::start(&home);
        scripted_tmux(&home, "/dev/pts/another");
        let (code, _terminal) = on_terminal(&home, &["attach", &id], &[]);
        assert_eq!(code, Some(5));
        let refused = home.run(&["attach", &id]);
        assert_eq!(refused.code, Some(5));
        let pid = status(&home, &id)["pid"].as_u64().expect("a pid");
        let terminal = agent.terminal.name();
        assert!(refused.stderr.contains(&format!("{terminal} (pid {pid}")), "{refused:?}");
    });
}

#[test]
fn a_session_without_a_terminal_names_its_log() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &id);
        let refused = home.run(&["attach", &id]);
        assert_eq!(refused.code, Some(5));
        assert!(refused.stderr.contains("launched without a terminal"), "{refused:?}");
        assert!(refused.stderr.contains(&format!("agentctl logs -f {id}")), "{refused:?}");
        // Without an id the only session of the directory is meant.
        let here = |directory: &str| {
            let cwd = folder(&home, directory);
            Output::from(home.command(&["attach"]).stdin(Stdio::null()).current_dir(cwd).output())
        };
        assert_eq!((here("w").code, &here("w").stderr), (Some(5), &refused.stderr));
        let none = here("empty");
        assert_eq!(none.code, Some(4), "{none:?}");
        assert!(none.stderr.contains("there is no session in this directory"), "{none:?}");
        let pid = status(&home, &id)["pid"].as_u64().expect("a pid");
        kill(u32::try_from(pid).expect("a pid"));
        until_stopped(&home, &id);
        let refused = home.run(&["attach", &id]);
        assert_eq!(refused.code, Some(5));
        assert!(refused.stderr.contains("demo has no interface in a terminal"), "{refused:?}");
        let missing = home.command(&["attach", "nothing"]).stdin(Stdio::null()).output();
        assert_eq!(Output::from(missing).code, Some(4));
    });
}
