//! The terminal program as it comes: the sessions of all terminals live in one shared server.
//!
//! Codex copies itself (about 400 MB) into its home to start that server.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use super::settings;
use super::terminal::{FORBIDDEN, Tui, forbidden, open, shows, threads_of};
use crate::judge::Claim;
use crate::process::Held;
use crate::stage::{PATIENCE, Stage, Trouble};

/// The shared server, and the Codex home it serves.
pub(super) struct Server {
    pub(super) held: Held,
    home: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // They end with the namespace; their sockets, outside the home, would outlive that.
        for name in
            ["app-server-control/app-server-control.sock", "app-server-daemon/daemon-updater.sock"]
        {
            if let Ok(socket) = std::fs::read_link(self.home.join(name)) {
                let _gone = std::fs::remove_file(&socket);
                let _gone = std::fs::remove_file(socket.with_extension("lock"));
            }
        }
    }
}

/// Starts the first terminal, and with it the server.
pub(super) fn first(stage: &mut Stage) -> Result<(Server, Tui), Trouble> {
    settings(stage, ".codex", true)?;
    let (terminal, native) = open(stage, "a", &[])?;
    let home = stage.home.join(".codex");
    let held = stage.until("the server runs", || {
        let record = std::fs::read(home.join("app-server-daemon/daemon.pid")).ok()?;
        let record: Value = serde_json::from_slice(&record).ok()?;
        Held::of(u32::try_from(record["pid"].as_u64()?).ok()?).ok()
    })?;
    let server = Server { held, home };
    let id = thread(stage, &server, &[])?;
    Ok((server, Tui { terminal, native, id }))
}

/// Starts one more terminal.
pub(super) fn second(stage: &mut Stage, server: &Server, first: &Tui) -> Result<Tui, Trouble> {
    let (terminal, native) = open(stage, "b", &[])?;
    let id = thread(stage, server, &[&first.id])?;
    Ok(Tui { terminal, native, id })
}

/// Waits for a thread of the server that is none of these.
fn thread(stage: &Stage, server: &Server, known: &[&str]) -> Result<String, Trouble> {
    stage.until("the server has its thread", || {
        threads_of(server.held.pid).into_iter().find(|id| !known.contains(&id.as_str()))
    })
}

pub(super) fn is(tui: &Tui, server: &Server, status: &'static str) -> Claim {
    Claim::of(&tui.id, status).served_by(&[server.held.pid]).hosted(true)
}

pub(super) fn approval(stage: &mut Stage) -> Result<(), Trouble> {
    let (server, tui) = first(stage)?;
    tui.enter(&forbidden("asking"))?;
    tui.asked(stage, "asking")?;
    shows(stage, &tui.terminal, "Yes, proceed")?;
    tui.recorded(stage, "\"function_call\"")?;
    let waiting = is(&tui, &server, "waiting").because(Some("permission")).about_what(FORBIDDEN);
    stage.expect("while it asks", &waiting)?;
    tui.press("Escape")?;
    tui.recorded(stage, "\"turn_aborted\"")?;
    stage.expect("after the refusal", &is(&tui, &server, "idle").because(None))
}

pub(super) fn two(stage: &mut Stage) -> Result<(), Trouble> {
    let (server, a) = first(stage)?;
    let b = second(stage, &server, &a)?;
    a.enter("thinking-a [[hang]]")?;
    a.asked(stage, "thinking-a")?;
    b.enter("thinking-b [[hang]]")?;
    b.asked(stage, "thinking-b")?;
    stage.expect("the first", &is(&a, &server, "running").because(None))?;
    stage.expect("the second", &is(&b, &server, "running").because(None))?;
    let rows = stage.rows(&[])?;
    stage.expect_that("there are two sessions", rows.len() == 2, format!("{rows:?}"));
    b.press("Escape")?;
    b.recorded(stage, "\"turn_aborted\"")?;
    stage.expect("the second after Esc", &is(&b, &server, "idle").because(None))?;
    stage.expect("the first meanwhile", &is(&a, &server, "running").because(None))
}

pub(super) fn terminal_killed(stage: &mut Stage) -> Result<(), Trouble> {
    let (server, tui) = first(stage)?;
    tui.enter("thinking [[hang]]")?;
    tui.asked(stage, "thinking")?;
    let running = is(&tui, &server, "running").because(None);
    stage.expect("while the model thinks", &running)?;
    tui.native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    if !tui.native.ended_within(PATIENCE) {
        return Err("SIGKILL did not end it".into());
    }
    stage.expect("after the terminal's end", &running)?;
    server.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    if !server.held.ended_within(PATIENCE) {
        return Err("SIGKILL did not end the server".into());
    }
    let ended = Claim::of(&tui.id, "stopped").ended("killed").served_by(&[]);
    stage.expect("after the server's end", &ended)
}
