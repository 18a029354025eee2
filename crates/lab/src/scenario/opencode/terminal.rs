//! The terminal program: its process, its session, its questions.

use std::io::{Read, Write};

use serde_json::json;

use super::{
    TOOL_RUNS, WORK, database, ended, native, query, recorded, settings, turn_ended, with,
};
use crate::judge::Claim;
use crate::process::Held;
use crate::stage::{PATIENCE, Stage, Trouble};
use crate::terminal::Terminal;

/// An OpenCode in a terminal.
pub(super) struct Tui {
    pub(super) terminal: Terminal,
    pub(super) native: Held,
}

pub(super) fn open(
    stage: &mut Stage,
    name: &str,
    env: &[(&str, &str)],
    words: &[&str],
) -> Result<Tui, Trouble> {
    settings(stage)?;
    let cwd = stage.directory(name)?;
    let argv: Vec<&str> = ["opencode"].into_iter().chain(words.iter().copied()).collect();
    let program = stage.agent.bin.join(argv[0]).to_string_lossy().into_owned();
    let argv: Vec<&str> =
        std::iter::once(program.as_str()).chain(argv.into_iter().skip(1)).collect();
    let terminal = stage.terminal(&cwd, &with(env), &argv)?;
    let pane = terminal.process().map_err(|e| e.to_string())?;
    shows(stage, &terminal, "fake-1")?;
    let native = native(stage, pane.pid)?;
    Ok(Tui { terminal, native })
}

pub(super) fn shows(stage: &Stage, terminal: &Terminal, text: &str) -> Result<(), Trouble> {
    let shown = stage.until(&format!("the screen shows `{text}`"), || {
        terminal.screen().ok()?.contains(text).then_some(())
    });
    shown.map_err(|e| format!("{e}:\n{}", terminal.screen().unwrap_or_default()))
}

/// The session that works in this directory, once its first answer is recorded.
pub(super) fn session(stage: &Stage, name: &str) -> Result<String, Trouble> {
    let folder = stage.directory(name)?.to_string_lossy().into_owned();
    let sql = "select id from session where directory = ?1";
    let id =
        stage.until("its session is in the database", || query(&database(stage), sql, &folder))?;
    recorded(stage, &database(stage), &id, "\"assistant\"")?;
    Ok(id)
}

impl Tui {
    /// Types a prompt until it is taken: keys before the program listens are lost.
    pub(super) fn enter(&self, stage: &Stage, text: &str) -> Result<(), Trouble> {
        let word = text.split(' ').next().unwrap_or_default();
        stage.until("the prompt is taken", || {
            if self.terminal.screen().ok()?.contains(word) {
                self.terminal.press("Enter").ok()?;
            } else {
                // A long text that is pasted is shown as a mark.
                self.terminal.type_line(text).ok()?;
            }
            let asked = |requests: &[crate::model::Request]| {
                requests.iter().any(|r| !r.side && r.prompt.contains(word))
            };
            stage.model.wait_for(std::time::Duration::from_secs(5), asked).then_some(())
        })
    }

    pub(super) fn is(&self, id: &str, status: &'static str) -> Claim {
        Claim::of(id, status).served_by(&[self.native.pid]).hosted(false)
    }

    fn press(&self, key: &str) -> Result<(), Trouble> {
        self.terminal.press(key).map_err(|e| e.to_string())
    }

    pub(super) fn in_tool(&self, stage: &Stage, id: &str) -> Result<Held, Trouble> {
        let tool = stage.until_below(self.native.pid, WORK)?;
        recorded(stage, &database(stage), id, TOOL_RUNS)?;
        Ok(tool)
    }
}

/// Waits until the log has this text.
fn logged(stage: &Stage, text: &str) -> Result<(), Trouble> {
    let log = stage.home.join(".local/share/opencode/log/opencode.log");
    stage.until(&format!("the log holds `{text}`"), || {
        std::fs::read_to_string(&log).ok()?.contains(text).then_some(())
    })
}

pub(super) fn idle(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = open(stage, "a", &[], &[])?;
    logged(stage, "message=init")?;
    stage.expect(
        "before its first prompt",
        &Claim::of_process(tui.native.pid, "idle").because(None),
    )?;
    tui.enter(stage, "hello [[say:hi]]")?;
    let id = session(stage, "a")?;
    turn_ended(stage, &id)?;
    stage.expect("after a turn", &tui.is(&id, "idle").because(None))?;
    tui.native.signal(rustix::process::Signal::TERM).map_err(|e| e.to_string())?;
    if !tui.native.ended_within(PATIENCE) {
        return Err("SIGTERM did not end it".into());
    }
    stage.expect("after its end", &ended(&id, "finished"))
}

pub(super) fn permission(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = open(stage, "a", &[("OPENCODE_PERMISSION", "{\"bash\":\"ask\"}")], &[])?;
    tui.enter(stage, &format!("asking [[tool:{WORK}]]"))?;
    let id = session(stage, "a")?;
    logged(stage, "message=asking")?;
    shows(stage, &tui.terminal, "Permission required")?;
    recorded(stage, &database(stage), &id, "\"status\":\"running\"")?;
    let waiting = tui.is(&id, "waiting").because(Some("permission")).about_what(WORK);
    stage.expect("while it asks", &waiting)?;
    stage.until("the key is taken", || {
        tui.press("Enter").ok()?;
        let tool = crate::process::descendants(tui.native.pid);
        tool.iter().any(|p| crate::process::command_line(*p) == WORK).then_some(())
    })?;
    stage.expect("the moment it was allowed", &tui.is(&id, "running").because(Some("tool")))?;
    let tool = tui.in_tool(stage, &id)?;
    stage.expect("in the tool", &tui.is(&id, "running").because(Some("tool")))?;
    stage.until("the keys are taken", || {
        tui.press("Escape").ok()?;
        tool.ended_within(std::time::Duration::from_secs(1)).then_some(())
    })?;
    recorded(stage, &database(stage), &id, "MessageAbortedError")?;
    stage.expect("after Esc", &tui.is(&id, "idle").because(None))
}

/// A page that takes its time.
fn page() -> Result<(String, std::sync::mpsc::Receiver<()>), Trouble> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    let (sender, fetched) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _some = stream.read(&mut [0; 1024]);
            let _begun = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
            let _told = sender.send(());
            held.push(stream);
        }
    });
    Ok((format!("http://{address}/"), fetched))
}

pub(super) fn fetch(stage: &mut Stage) -> Result<(), Trouble> {
    let (url, fetched) = page()?;
    let tui = open(stage, "a", &[("OPENCODE_PERMISSION", "{\"webfetch\":\"ask\"}")], &[])?;
    let call = json!({"url": url, "format": "text"});
    tui.enter(stage, &format!("fetching [[call:webfetch {call} ]]"))?;
    let id = session(stage, "a")?;
    logged(stage, "message=asking")?;
    recorded(stage, &database(stage), &id, "\"status\":\"running\"")?;
    let note = "only its terminal shows";
    stage.expect("while it asks", &tui.is(&id, "running").because(Some("tool")).noting(note))?;
    shows(stage, &tui.terminal, "Permission required")?;
    stage.until("the key is taken", || {
        tui.press("Enter").ok()?;
        fetched.recv_timeout(std::time::Duration::from_secs(1)).ok()
    })?;
    stage.expect("while it fetches", &tui.is(&id, "running").because(Some("tool")).noting(note))
}

pub(super) fn question(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = open(stage, "a", &[], &[])?;
    let options =
        json!([{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]);
    let call = json!({"questions": [{"question": "Which colour?", "header": "Colour", "options": options}]});
    tui.enter(stage, &format!("asking [[call:question {call} ]]"))?;
    let id = session(stage, "a")?;
    shows(stage, &tui.terminal, "Which colour?")?;
    recorded(stage, &database(stage), &id, "\"status\":\"running\"")?;
    let waiting = tui.is(&id, "waiting").because(Some("question")).about_what("Which colour?");
    stage.expect("while it asks", &waiting)
}

pub(super) fn stopped(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = open(stage, "a", &[], &[])?;
    tui.enter(stage, &format!("working [[tool:{WORK}]]"))?;
    let id = session(stage, "a")?;
    let tool = tui.in_tool(stage, &id)?;
    stage.expect("in the tool", &tui.is(&id, "running").because(Some("tool")))?;
    let (code, stdout, stderr) = stage.ask(&["stop", &id])?;
    stage.expect_that("`stop`", code == Some(0), format!("{stdout}{stderr}"));
    let gone = tui.native.ended_within(PATIENCE) && tool.ended_within(PATIENCE);
    stage.expect_that("terminal and tool are gone", gone, format!("{stdout}{stderr}"));
    stage.expect("after the stop", &ended(&id, "interrupted"))
}

pub(super) fn twice(stage: &mut Stage) -> Result<(), Trouble> {
    let first = open(stage, "a", &[], &[])?;
    first.enter(stage, "hello [[say:hi]]")?;
    let id = session(stage, "a")?;
    turn_ended(stage, &id)?;
    let second = open(stage, "a", &[], &["--session", &id])?;
    shows(stage, &second.terminal, "hello")?;
    let both = Claim::of(&id, "idle").served_by(&[first.native.pid, second.native.pid]);
    stage.expect("both are in it", &both.hosted(false).noting("2 processes run this session"))?;
    let (code, _, stderr) = stage.ask(&["resume", &id, "third"])?;
    stage.expect_that("a third is refused", code == Some(5) || code == Some(1), stderr);
    Ok(())
}
