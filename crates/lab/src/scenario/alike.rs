//! Parts that several agents share, for sessions started by hand: claims, waits and whole bodies.
//! Orders through agentctl are in [`super::control`].

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::judge::Claim;
use crate::process::Held;
use crate::stage::{Stage, Trouble};

/// A tool that works until it is ended.
pub(super) const WORK: &str = "tail -f /dev/null";

/// Claims a turn in a model call.
pub(super) fn calling(id: &str, pid: u32) -> Claim {
    Claim::of(id, "running").because(None).served_by(&[pid]).hosted(false)
}

/// Claims a turn in [`WORK`].
pub(super) fn working(id: &str, pid: u32) -> Claim {
    let claim = Claim::of(id, "running").because(Some("tool")).about_what(WORK);
    claim.served_by(&[pid]).hosted(false)
}

/// Claims that the last turn came to its end, and its process too.
pub(super) fn finished(id: &str) -> Claim {
    Claim::of(id, "stopped").ended("finished").served_by(&[])
}

/// The tokens of this many answers: the model reports 1000 in, of which 7 were cached, and 50 out.
pub(super) fn spent(answers: u64) -> Value {
    let (input, output, cached) = (993 * answers, 50 * answers, 7 * answers);
    json!({"input": input, "output": output, "cache_read": cached, "cache_write": 0})
}

/// Waits until the kernel gives a process a state letter that fits.
pub(super) fn until_state(
    stage: &Stage,
    pid: u32,
    fits: impl Fn(char) -> bool,
) -> Result<(), Trouble> {
    stage.until(&format!("pid {pid} is in that state"), || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.starts_with(&fits).then_some(())
    })
}

/// Looks again and again until the model gets this request. The allowed answers are computed before
/// each look, from the facts that the agent has written by then.
pub(super) fn starting(
    stage: &mut Stage,
    word: &str,
    right: impl Fn() -> &'static [&'static [&'static str]],
) -> Result<(), Trouble> {
    let mut wrong = Vec::new();
    stage.until("the model is asked", || {
        let asked = stage.model.requests().iter().any(|r| !r.side && r.prompt.contains(word));
        for args in [&[][..], &["-a", "--since", "all"]] {
            let right = right();
            match stage.rows(args) {
                Ok(rows) => {
                    let said: Vec<&str> =
                        rows.iter().filter_map(|r| r["status"].as_str()).collect();
                    if !right.contains(&&*said) {
                        wrong.push(format!("{said:?}: {}", json!(rows)));
                    }
                }
                Err(trouble) => wrong.push(trouble),
            }
        }
        asked.then_some(())
    })?;
    stage.expect_that("in every look until the model is asked", wrong.is_empty(), wrong.join("\n"));
    Ok(())
}

/// Pauses a session in a model call and lets it go on.
pub(super) fn paused(stage: &mut Stage, id: &str, agent: &Held) -> Result<(), Trouble> {
    let signal = |signal| agent.signal(signal).map_err(|e| e.to_string());
    let running = Claim::of(id, "running").served_by(&[agent.pid]);
    signal(Signal::STOP)?;
    until_state(stage, agent.pid, |s| s == 'T')?;
    stage.expect("after SIGSTOP", &running.clone().because(Some("paused")))?;
    signal(Signal::CONT)?;
    until_state(stage, agent.pid, |s| s != 'T')?;
    stage.expect("after SIGCONT", &running.because(None))
}

/// The prompt of a session for [`logs`].
pub(super) const SPEAKING: &str = "speaking [[tool:echo heard-$((40+2))]] [[say:all said]]";

/// Compares `logs` of a session with its conversation: this prompt, one call of a tool of this name
/// with its command in this field, its result, and the last answer.
pub(super) fn logs(
    stage: &mut Stage,
    id: &str,
    prompt: &str,
    (tool, field): (&str, &str),
) -> Result<(), Trouble> {
    let (code, stdout, stderr) = stage.ask(&["logs", id, "--json", "-n", "100"])?;
    let lines: Result<Vec<Value>, _> = stdout.lines().map(serde_json::from_str).collect();
    let lines = lines.map_err(|e| format!("logs exited {code:?}: {e}: {stderr}"))?;
    let spoken = |role: &str| -> Vec<&str> {
        let said = lines.iter().filter(|l| l["role"] == role);
        said.filter_map(|l| l["text"].as_str()).filter(|t| !t.is_empty()).collect()
    };
    let all = |name: &str| -> Vec<&Value> {
        lines.iter().flat_map(|l| l[name].as_array().into_iter().flatten()).collect()
    };
    let (calls, results) = (all("tool_calls"), all("tool_results"));
    let called = matches!(calls[..], [call] if call["name"] == tool
        && call["input"][field] == "echo heard-$((40+2))");
    let heard = |r: &Value| r["text"].as_str().is_some_and(|t| t.contains("heard-42"));
    stage.expect_that("what the user said", spoken("user") == [prompt], &*stdout);
    stage.expect_that("what the model said", spoken("assistant") == ["all said"], &*stdout);
    stage.expect_that("which tool was called", called, &*stdout);
    stage.expect_that("what it gave", matches!(results[..], [r] if heard(r)), &*stdout);
    Ok(())
}
