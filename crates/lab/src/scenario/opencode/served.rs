//! `opencode serve` and `opencode acp`: many sessions, one process.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{TOOL_RUNS, WORK, database, ended, env, query, recorded, settings, with};
use crate::judge::Claim;
use crate::process::{Held, Started};
use crate::stage::{PATIENCE, Stage, Trouble};

/// A password that must show nowhere.
const PASSWORD: &str = "open-sesame";

/// A server, and how the scenario itself talks to it.
struct Server {
    started: Started,
    address: String,
}

fn serve(stage: &Stage, more: &[(&str, &str)]) -> Result<Server, Trouble> {
    settings(stage)?;
    let mut all = vec![("OPENCODE_SERVER_PASSWORD", PASSWORD)];
    all.extend(more);
    let cwd = stage.directory("srv")?;
    let started = stage.start(&cwd, &with(&all), &["opencode", "serve", "--port", "0"])?;
    let address = stage.until("it listens", || {
        let said = std::fs::read_to_string(stage.home.join("said.log")).ok()?;
        let line = said.lines().find(|l| l.contains("listening on http://"))?;
        Some(line.split("http://").nth(1)?.trim().to_owned())
    })?;
    Ok(Server { started, address })
}

impl Server {
    fn pid(&self) -> u32 {
        self.started.pid()
    }

    fn ask(&self, method: &str, path: &str, cwd: &Path, body: &Value) -> Result<Value, Trouble> {
        let body = body.to_string();
        let folder = cwd.to_string_lossy();
        let request = format!(
            "{method} {path}?directory={folder} HTTP/1.0\r\nAuthorization: Basic b3BlbmNvZGU6b3Blbi1zZXNhbWU=\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).map_err(|e| e.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        if !head.contains(" 20") {
            return Err(format!("{method} {path}: {answer}"));
        }
        let begin = body.find(['{', '[', 't', 'f']).unwrap_or(body.len());
        Ok(serde_json::from_str(body[begin..].trim()).unwrap_or_default())
    }

    /// Makes a session and gives it a prompt.
    fn prompt(&self, stage: &Stage, cwd: &Path, text: &str) -> Result<String, Trouble> {
        let title = text.split(' ').next().unwrap_or_default();
        let _made = self.ask("POST", "/session", cwd, &json!({"title": title}))?;
        let id = stage.until("its session is in the database", || {
            query(&database(stage), "select id from session where title = ?1", title)
        })?;
        let parts = json!({"parts": [{"type": "text", "text": text}]});
        self.ask("POST", &format!("/session/{id}/prompt_async"), cwd, &parts)?;
        stage.until_asked(title, |r| !r.side && r.prompt.contains(title))?;
        recorded(stage, &database(stage), &id, "\"assistant\"")?;
        Ok(id)
    }

    fn is(&self, id: &str, status: &'static str) -> Claim {
        Claim::of(id, status).served_by(&[self.pid()]).hosted(true)
    }

    fn in_tool(&self, stage: &Stage, id: &str) -> Result<Held, Trouble> {
        let tool = stage.until_below(self.pid(), WORK)?;
        recorded(stage, &database(stage), id, TOOL_RUNS)?;
        Ok(tool)
    }
}

pub(super) fn two(stage: &mut Stage) -> Result<(), Trouble> {
    let server = serve(stage, &[])?;
    let (a, b) = (stage.directory("a")?, stage.directory("b")?);
    let working = server.prompt(stage, &a, &format!("working [[tool:{WORK}]]"))?;
    let thinking = server.prompt(stage, &b, "thinking [[hang]]")?;
    let tool = server.in_tool(stage, &working)?;
    let in_tool = server.is(&working, "running").because(Some("tool")).about_what(WORK);
    stage.expect("the one in a tool", &in_tool)?;
    stage.expect("the other", &server.is(&thinking, "running").because(None))?;
    let (code, stdout, stderr) = stage.ask(&["stop", &working])?;
    stage.expect_that("`stop`", code == Some(0), format!("{stdout}{stderr}"));
    let secret = format!("{stdout}{stderr}").contains(PASSWORD);
    stage.expect_that("the password is nowhere", !secret, format!("{stdout}{stderr}"));
    stage.expect_that("the server lives", server.started.held.lives(), stderr.clone());
    stage.expect_that("the tool is gone", tool.ended_within(PATIENCE), stderr);
    stage.expect("the stopped one", &server.is(&working, "idle").because(None))?;
    stage.expect("the other, still", &server.is(&thinking, "running").because(None))
}

pub(super) fn permission(stage: &mut Stage) -> Result<(), Trouble> {
    let server = serve(stage, &[("OPENCODE_PERMISSION", "{\"bash\":\"ask\"}")])?;
    let cwd = stage.directory("a")?;
    let id = server.prompt(stage, &cwd, &format!("asking [[tool:{WORK}]]"))?;
    let request = stage.until("it asks", || {
        let pending = server.ask("GET", "/permission", &cwd, &Value::Null).ok()?;
        pending[0]["id"].as_str().map(str::to_owned)
    })?;
    let waiting = server.is(&id, "waiting").because(Some("permission")).about_what(WORK);
    stage.expect("while it asks", &waiting)?;
    server.ask("POST", &format!("/permission/{request}/reply"), &cwd, &json!({"reply": "once"}))?;
    let tool = server.in_tool(stage, &id)?;
    stage.expect("when it was allowed", &server.is(&id, "running").because(Some("tool")))?;
    server.ask("POST", &format!("/session/{id}/abort"), &cwd, &json!({}))?;
    recorded(stage, &database(stage), &id, "MessageAbortedError")?;
    stage.expect_that("the tool is gone", tool.ended_within(PATIENCE), "it lives");
    stage.expect("after the abort", &server.is(&id, "idle").because(None))
}

/// Waits for the ask of a session.
fn ask_of(stage: &Stage, id: &str) -> Result<Value, Trouble> {
    stage.until("the ask is listed", || {
        let (_, stdout, _) = stage.ask(&["asks", "--json"]).ok()?;
        let document: Value = serde_json::from_str(&stdout).ok()?;
        document["asks"].as_array()?.iter().find(|ask| ask["session_id"] == id).cloned()
    })
}

/// A server that another program started: its asks are answered where they are.
pub(super) fn answered(stage: &mut Stage) -> Result<(), Trouble> {
    let server = serve(stage, &[("OPENCODE_PERMISSION", "{\"bash\":\"ask\"}")])?;
    let cwd = stage.directory("a")?;
    let id = server.prompt(stage, &cwd, "asking [[tool:touch made]] [[say:done]]")?;
    let ask = ask_of(stage, &id)?;
    let is_shown =
        ask["title"] == "bash: touch made" && ask["choices"][2]["rule"] == "bash: touch *";
    stage.expect_that("command and rule are shown", is_shown, ask.to_string());
    let secret = ask.to_string().contains(PASSWORD);
    stage.expect_that("the password is nowhere", !secret, ask.to_string());
    let name = ask["id"].as_str().unwrap_or_default();
    let (code, stdout, stderr) = stage.ask(&["answer", name, "--allow"])?;
    stage.expect_that("`answer --allow`", code == Some(0), format!("{stdout}{stderr}"));
    stage.until("the command has run", || cwd.join("made").exists().then_some(()))?;
    let questions = json!({"questions": [
        {"question": "Which colour?", "header": "Colour", "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}] },
        {"question": "Which sizes?", "header": "Size", "multiple": true, "options": [{"label": "S", "description": "s"}, {"label": "L", "description": "l"}] },
    ] });
    let questions = questions.to_string().replace("]}", "] }").replace("]]", "] ]");
    let id = server.prompt(
        stage,
        &cwd,
        &format!("wondering [[call:question {questions}]] [[say:done]]"),
    )?;
    let ask = ask_of(stage, &id)?;
    let name = ask["id"].as_str().unwrap_or_default();
    let (code, stdout, stderr) = stage.ask(&["answer", name, "--allow"])?;
    stage.expect_that("a question is not allowed", code == Some(2), format!("{stdout}{stderr}"));
    let words = ["answer", name, "--field", "1=Blue", "--field", "2=1"];
    let (code, stdout, stderr) = stage.ask(&words)?;
    stage.expect_that("`answer --field`", code == Some(0), format!("{stdout}{stderr}"));
    recorded(stage, &database(stage), &id, "Blue")?;
    super::turn_ended(stage, &id)
}

pub(super) fn retrying(stage: &mut Stage) -> Result<(), Trouble> {
    let server = serve(stage, &[])?;
    let cwd = stage.directory("a")?;
    let id = server.prompt(stage, &cwd, "limited [[error:429]]")?;
    stage.until("the server says that it tries again", || {
        let status = server.ask("GET", "/session/status", &cwd, &Value::Null).ok()?;
        (status[&id]["type"] == "retry").then_some(())
    })?;
    stage.until("it is seen as one that is tried again", || {
        let row = stage.rows(&[]).ok()?.into_iter().find(|r| r["id"] == id.as_str())?;
        (row["reason"]["kind"] == "retrying").then_some(())
    })?;
    stage.expect("while it tries again", &server.is(&id, "running"))
}

pub(super) fn client_killed(stage: &mut Stage) -> Result<(), Trouble> {
    let server = serve(stage, &[])?;
    let cwd = stage.directory("a")?;
    let url = format!("http://{}", server.address);
    let env = with(&[("OPENCODE_SERVER_PASSWORD", PASSWORD)]);
    let argv = ["opencode", "run", "--attach", &url, "--title", "t", "--dir"];
    let folder = cwd.to_string_lossy().into_owned();
    let argv: Vec<&str> = argv.into_iter().chain([&*folder, "thinking [[hang]]"]).collect();
    let mut client = stage.start(&cwd, &env, &argv)?;
    stage.until_asked("thinking", |r| !r.side && r.prompt.contains("thinking"))?;
    let id = query(&database(stage), "select id from session where title = ?1", "t");
    let id = id.ok_or("no session")?;
    recorded(stage, &database(stage), &id, "\"assistant\"")?;
    stage.expect("with its client", &server.is(&id, "running").because(None))?;
    client.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    client.wait(PATIENCE).map_err(|e| e.to_string())?;
    stage.expect("after its client's end", &server.is(&id, "running").because(None))
}

pub(super) fn killed(stage: &mut Stage) -> Result<(), Trouble> {
    let mut server = serve(stage, &[])?;
    let cwd = stage.directory("a")?;
    let id = server.prompt(stage, &cwd, "thinking [[hang]]")?;
    stage.expect("while the model thinks", &server.is(&id, "running").because(None))?;
    server.started.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    server.started.wait(PATIENCE).map_err(|e| e.to_string())?;
    stage.expect("after the server's end", &ended(&id, "killed"))
}

/// An editor's side: JSON-RPC on the agent's stdin.
pub(super) fn acp(stage: &mut Stage) -> Result<(), Trouble> {
    settings(stage)?;
    let cwd: PathBuf = stage.directory("a")?;
    let mut command = Command::new(stage.agent.bin.join("opencode"));
    command.arg("acp").env_clear().envs(stage.environment()).envs(env()).current_dir(&cwd);
    let said = std::fs::File::create(stage.home.join("acp.log")).map_err(|e| e.to_string())?;
    command.stdin(Stdio::piped()).stdout(said.try_clone().map_err(|e| e.to_string())?).stderr(said);
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let mut editor = child.stdin.take().ok_or("no stdin")?;
    let started = Started::new(child).map_err(|e| e.to_string())?;
    let mut tell = |id: u32, method: &str, params: Value| {
        let text = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(editor, "{text}").map_err(|e| e.to_string())
    };
    let heard = |text: &str| {
        std::fs::read_to_string(stage.home.join("acp.log")).ok()?.contains(text).then_some(())
    };
    tell(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
    stage.until("it answers", || heard("\"id\":1"))?;
    tell(2, "session/new", json!({"cwd": cwd, "mcpServers": []}))?;
    let id = stage.until("its session is in the database", || {
        query(
            &database(stage),
            "select id from session where directory = ?1",
            &cwd.to_string_lossy(),
        )
    })?;
    stage.until("the editor hears of it", || heard("\"id\":2"))?;
    let prompt = json!([{"type": "text", "text": "thinking [[hang]]"}]);
    tell(3, "session/prompt", json!({"sessionId": id, "prompt": prompt}))?;
    stage.until_asked("thinking", |r| !r.side && r.prompt.contains("thinking"))?;
    recorded(stage, &database(stage), &id, "\"assistant\"")?;
    let running = Claim::of(&id, "running").because(None).served_by(&[started.pid()]).hosted(true);
    stage.expect("while the model thinks", &running)?;
    let (code, stdout, stderr) = stage.ask(&["stop", &id])?;
    stage.expect_that("`stop`", code == Some(0), format!("{stdout}{stderr}"));
    stage.expect_that("the editor's process lives", started.held.lives(), stderr);
    let idle = Claim::of(&id, "idle").because(None).served_by(&[started.pid()]).hosted(true);
    stage.expect("after the abort", &idle)
}
