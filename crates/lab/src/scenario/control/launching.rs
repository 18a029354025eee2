//! From an order to a session, and the session after its launcher and shim are gone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    Kind, WORK, agents, at_work, finish, launch, marked, order, served, shims, stopped,
    until_ended, until_told, working,
};
use crate::process::{Held, all, command_line};
use crate::stage::{Stage, Trouble};

/// A word that is in the prompt and nowhere else.
const SECRET: &str = "velvet-4711";

pub(super) fn launched<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory("a")?;
    let prompt = format!("do {SECRET} [[tool:{WORK}]] [[say:over]]");
    let args = ["launch", K::NAME, "--permissions", "bypass", "-p", "-"];
    let order = stage.begin(&cwd, &K::env(stage, true), &args, prompt.as_bytes())?;
    let mut shown = Vec::new();
    stage.until("the model is asked", || {
        shown.extend(all().into_iter().map(command_line).filter(|l| l.contains(SECRET)));
        stage.model.requests().iter().any(|r| r.prompt == prompt).then_some(())
    })?;
    let told = order.told()?;
    let id = told.line()?;
    stage.expect_that("nothing else is said", told.stderr.is_empty(), told.all());
    let agent = served::<K>(stage, &cwd, &id)?;
    stage.expect_that("it is served under the id that was printed", true, "");
    let tool = K::until_working(stage, agent.pid, &id)?;
    shown.extend(all().into_iter().map(command_line).filter(|l| l.contains(SECRET)));
    stage.expect_that("the prompt stands in no argv", shown.is_empty(), shown.join("\n"));
    let open = readable(&stage.home.join(".local/state/agentctl"));
    stage.expect_that("nothing is readable by others", open.is_empty(), open.join("\n"));
    let run = agents().first().and_then(|a| marked(a.pid)).ok_or("no process is marked")?.0;
    let claim = working(&id, agent.pid).with("/cwd", cwd.to_string_lossy().into_owned());
    stage.expect("at work", &claim.with("/run", run.clone()).with("/exit", Value::Null))?;
    finish(stage, &agent, &tool)?;
    let said = K::record(stage, &id).map(|r| K::prompts(&r)).unwrap_or_default();
    let kept = said == [prompt.clone()];
    stage.expect_that("its own record holds the prompt as it was", kept, format!("{said:?}"));
    let claim = stopped(&id).ended("finished").with("/exit/code", 0).with("/run", run);
    stage.expect("after its end", &claim)
}

/// Lists the files below a folder that other users may read.
fn readable(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.permissions().mode() & 0o077 != 0 {
                found.push(entry.path().to_string_lossy().into_owned());
            }
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

pub(super) fn large<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory("a")?;
    let words: Vec<String> = (0..140_000).map(|n| format!("{n:06}")).collect();
    let prompt = format!("read {} to the end [[say:read]]", words.join("é"));
    if prompt.len() < 1_000_000 || prompt.chars().count() > 1_048_576 {
        return Err(format!("it has {} bytes: the scenario shows nothing", prompt.len()));
    }
    stage.write("prompt.txt", &prompt)?;
    let args = ["launch", K::NAME, "--permissions", "bypass", "--prompt-file", "../../prompt.txt"];
    let id = stage.order(&cwd, &K::env(stage, true), &args)?.line()?;
    until_told(stage, 1)?;
    let asked: Vec<String> =
        stage.model.requests().into_iter().filter(|r| !r.side).map(|r| r.prompt).collect();
    let lengths: Vec<usize> = asked.iter().map(String::len).collect();
    let whole = asked.contains(&prompt);
    stage.expect_that("the model has it as it was", whole, format!("{lengths:?}"));
    let said = K::record(stage, &id).map(|r| K::prompts(&r)).unwrap_or_default();
    stage.expect_that("the record has it too", said == [prompt], "it has something else");
    stage.expect("after its end", &stopped(&id).ended("finished").with("/exit/code", 0))
}

pub(super) fn orphaned<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    for (name, launcher, shim) in
        [("launcher", true, false), ("shim", false, true), ("both", true, true)]
    {
        let (id, agent, tool) = orphan::<K>(stage, name, launcher, shim)?;
        let moment = |what: &str| format!("{name} killed: {what}");
        stage.expect(&moment("at work"), &working(&id, agent.pid))?;
        tool.signal(Signal::TERM).map_err(|e| e.to_string())?;
        until_ended(&agent, "the agent")?;
        if !shim {
            until_told(stage, 1)?;
        }
        let exit = if shim { Value::Null } else { json!({"code": 0, "signal": null}) };
        let claim = stopped(&id).ended("finished").with("/exit", exit);
        stage.expect(&moment("after its end"), &claim)?;
    }
    Ok(())
}

/// Launches, and kills the given processes as soon as there is an agent.
fn orphan<K: Kind>(
    stage: &Stage,
    name: &str,
    launcher: bool,
    shim: bool,
) -> Result<(String, Held, Held), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory(name)?;
    let prompt = format!("work for {name} [[tool:{WORK}]] [[say:over]]");
    let args = ["launch", K::NAME, "--permissions", "bypass", "-p", &prompt];
    let order = stage.begin(&cwd, &K::env(stage, true), &args, b"")?;
    stage.until("there is an agent", || (!agents().is_empty()).then_some(()))?;
    if shim {
        let found = shims();
        let [shim] = found.as_slice() else { return Err(format!("{} shims", found.len())) };
        shim.signal(Signal::KILL).map_err(|e| e.to_string())?;
        until_ended(shim, "the shim")?;
    }
    if launcher {
        order.started.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
        until_ended(&order.started.held, "the launcher")?;
    }
    let told = order.told()?;
    let (id, pid) = stage
        .until("it is served", || K::serving(stage, &cwd).into_iter().next())
        .map_err(|e| format!("{e}; the launcher: {}", told.all()))?;
    if !launcher && told.line()? != id {
        return Err(format!("not the real id, {id}: {}", told.all()));
    }
    let agent = Held::of(pid).map_err(|e| e.to_string())?;
    let tool = K::until_working(stage, pid, &id)?;
    Ok((id, agent, tool))
}

pub(super) fn forgotten<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let (launched, _tool) = at_work::<K>(stage, "a", &["--group", "g", "--name", "fine"])?;
    let (id, pid) = (&launched.id, launched.agent.pid);
    let before = (stage.rows(&[])?, stage.ask(&["logs", id])?);
    for shim in shims() {
        shim.signal(Signal::KILL).map_err(|e| e.to_string())?;
        until_ended(&shim, "the shim")?;
    }
    for folder in [".local/state", ".config", ".cache", ".local/share"] {
        let folder = stage.home.join(folder).join("agentctl");
        match std::fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.to_string()),
            _ => {}
        }
    }
    stage.expect("after the wipe", &working(id, pid))?;
    let after = (stage.rows(&[])?, stage.ask(&["logs", id])?);
    let same = bare(&before.0) == bare(&after.0) && before.1 == after.1;
    stage.expect_that("list and logs say the same", same, format!("{before:?}\n{after:?}"));
    let refused = order::<K>(stage, &launched.cwd, "no [[say:no]]", &[])?;
    let named = refused.stderr.contains(id.as_str()) && refused.stderr.contains(&pid.to_string());
    stage.expect_that("occupied", refused.fails(5) && named, refused.all());
    let told = stage.order(&stage.home, &K::env(stage, true), &["stop", id])?;
    let gone = !launched.agent.lives();
    stage.expect_that("stopped", told.code == Some(0) && gone, told.all());
    stage.expect("after the stop", &stopped(id))?;
    let again = ["resume", id, "again [[say:yes]]", "--permissions", "bypass"];
    let told = stage.order(&stage.home, &K::env(stage, true), &again)?;
    stage.expect_that("resumed", told.line().is_ok_and(|l| l == *id), told.all());
    until_told(stage, 1)?;
    stage.expect("after its end", &stopped(id).ended("finished").with("/exit/code", 0))
}

/// Returns rows without facts of a launch, and without fields that differ from look to look.
fn bare(rows: &[Value]) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for row in &mut rows {
        for field in ["group", "run", "evidence", "exit"] {
            row[field] = Value::Null;
        }
        // A name that the agent itself does not keep is the launch's own.
        if row["adapter"] != "claude-code" {
            row["name"] = Value::Null;
        }
    }
    rows
}

pub(super) fn permissions<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    for (n, word) in ["edits", "bypass"].into_iter().enumerate() {
        let cwd = stage.directory(word)?;
        std::fs::create_dir_all(cwd.join(".git")).map_err(|e| e.to_string())?;
        std::fs::write(cwd.join(".git/HEAD"), "ref: refs/heads/main\n")
            .map_err(|e| e.to_string())?;
        K::settle(stage)?;
        let name = format!("fine {word}");
        let prompt = format!("be {word} [[say:done]]");
        let args = ["launch", K::NAME, "--permissions", word, "--name", &name, "-p", &prompt];
        let id = stage.order(&cwd, &K::env(stage, true), &args)?.line()?;
        until_told(stage, n + 1)?;
        let said = K::permissions(stage, &id);
        let right = said.as_deref() == Some(K::PERMITTED[n]);
        stage.expect_that(&format!("{word}: what the agent says"), right, format!("{said:?}"));
        let claim = stopped(&id).ended("finished").with("/name", name).with("/exit/code", 0);
        stage.expect(&format!("{word}: after its end"), &claim)?;
    }
    Ok(())
}

pub(super) fn hooked<K: Kind>(stage: &mut Stage) -> Result<(), Trouble> {
    let folder = stage.directory("hooks")?;
    let file = |name: &str| folder.join(name);
    let hook = |name: &str| {
        let (words, facts) = (file(&format!("{name}.env")), file(&format!("{name}.json")));
        let place = file(&format!("{name}.pwd"));
        format!(
            "sh -c 'pwd > {}; cat > {}; env > {}.tmp; mv {}.tmp {}'",
            place.display(),
            facts.display(),
            words.display(),
            words.display(),
            words.display()
        )
    };
    let (create, complete) = (hook("create"), hook("complete"));
    let more = ["--group", "g", "--on-create", &create, "--on-complete", &complete];
    let (launched, tool) = at_work::<K>(stage, "a", &more)?;
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_default();
    let id = format!("AGENTCTL_SESSION_ID={}", launched.id);
    let said = read("create.env");
    let wanted = [&*id, "AGENTCTL_HOOK=on-create", "AGENTCTL_GROUP=g", "AGENTCTL_EXIT_CODE="];
    let right = wanted.iter().all(|w| said.lines().any(|l| l == *w));
    stage.expect_that("on-create has run when `launch` returns", right, said);
    let facts: Value = serde_json::from_str(&read("create.json")).unwrap_or_default();
    let right = facts["session_id"] == launched.id.as_str() && facts["exit"].is_null();
    stage.expect_that("on-create: stdin", right, facts.to_string());
    finish(stage, &launched.agent, &tool)?;
    stage.until("on-complete has run", || file("complete.env").exists().then_some(()))?;
    let said = read("complete.env");
    let mut wanted = vec![id, "AGENTCTL_HOOK=on-complete".into(), "AGENTCTL_EXIT_CODE=0".into()];
    wanted.push("AGENTCTL_STATUS=stopped".into());
    wanted.push("AGENTCTL_OUTCOME=finished".into());
    wanted.push(format!("AGENTCTL_CWD={}", launched.cwd.display()));
    wanted.extend(K::TOKENS.map(|(name, count)| format!("AGENTCTL_TOKENS_{name}={count}")));
    let lacks: Vec<&String> = wanted.iter().filter(|w| !said.lines().any(|l| l == **w)).collect();
    stage.expect_that("on-complete", lacks.is_empty(), format!("without {lacks:?}: {said}"));
    let there = read("complete.pwd").trim() == launched.cwd.to_string_lossy();
    stage.expect_that("on-complete: where", there, read("complete.pwd"));
    let facts: Value = serde_json::from_str(&read("complete.json")).unwrap_or_default();
    let exit = json!({"code": 0, "signal": null});
    let right = facts["exit"] == exit && facts["session"]["status"] == "stopped";
    stage.expect_that("on-complete: stdin", right, facts.to_string());
    killed_hook::<K>(stage, &complete, &folder)
}

/// The true end of an agent that was killed.
fn killed_hook<K: Kind>(stage: &mut Stage, hook: &str, folder: &Path) -> Result<(), Trouble> {
    std::fs::remove_file(folder.join("complete.env")).map_err(|e| e.to_string())?;
    let prompt = "think [[hang]]";
    let launched = launch::<K>(stage, "b", prompt, &["--on-complete", hook])?;
    K::until_calling(stage, launched.agent.pid, &launched.id, "think")?;
    launched.agent.signal(Signal::KILL).map_err(|e| e.to_string())?;
    until_ended(&launched.agent, "the agent")?;
    let file = folder.join("complete.env");
    stage.until("on-complete has run", || file.exists().then_some(()))?;
    let said = std::fs::read_to_string(file).unwrap_or_default();
    let wanted = ["AGENTCTL_EXIT_CODE=137", "AGENTCTL_SIGNAL=9", "AGENTCTL_OUTCOME=killed"];
    let lacks: Vec<&&str> = wanted.iter().filter(|w| !said.lines().any(|l| l == **w)).collect();
    let moment = "on-complete after SIGKILL";
    stage.expect_that(moment, lacks.is_empty(), format!("without {lacks:?}: {said}"));
    Ok(())
}
