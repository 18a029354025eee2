//! The rows of an OpenClaw gateway: no file, only its list.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::sheet::words;
use super::{Agent, Draft, Made, Outcome};

/// Makes a session and the rows its gateway lists for it, its subagent's among them.
pub(super) fn session(mut draft: Draft, rows: &mut Vec<Value>) -> Made {
    let id = draft.chance.uuid4();
    // A gateway knows of every killed run: its status is `killed`, which is an interruption.
    let (status, outcome) = match draft.outcome {
        Outcome::Finished => ("done", Outcome::Finished),
        Outcome::Failed if draft.chance.percent(30) => ("timeout", Outcome::Failed),
        Outcome::Failed => ("failed", Outcome::Failed),
        Outcome::Interrupted | Outcome::Killed => ("killed", Outcome::Interrupted),
    };
    let kind = if draft.chance.percent(15) { "cron" } else { "direct" };
    let key = match kind {
        "cron" => format!("agent:main:cron:{id}"),
        _ => format!("agent:main:dashboard:{id}"),
    };
    let label = words(&mut draft.chance, 4);
    let lasted = i64::try_from(draft.chance.between(500, 900_000)).expect("minutes");
    let (start, end) = (draft.start_ms, draft.start_ms + lasted);
    let row = |key: &str, id: &str, kind: &str, via: &str, status: &str| {
        json!({
            "key": key, "visibility": "shared", "spawnDepth": 0, "createdVia": via, "createdAt": start,
            "kind": "direct", "label": label, "classification": kind, "agentId": "main", "isMain": false,
            "isBackground": kind != "direct", "displayName": label, "derivedTitle": label, "chatType": "direct",
            "updatedAt": end, "archived": false, "pinned": false, "unread": true, "lastInteractionAt": end,
            "sessionId": id, "systemSent": true, "abortedLastRun": status == "killed", "inputTokens": 222,
            "outputTokens": 44, "totalTokens": 111, "totalTokensFresh": true, "estimatedCostUsd": 0.001_326,
            "status": status, "startedAt": start, "endedAt": end, "runtimeMs": lasted,
            "lastRunId": id, "parentSessionKey": "agent:main:main", "modelProvider": "anthropic",
            "model": "claude-opus-5-5", "contextTokens": 200_000, "snapshotAt": end, "hasActiveRun": false,
            "activeRunIds": [],
        })
    };
    rows.push(row(&key, &id, kind, if kind == "cron" { "cron" } else { "operator" }, status));
    if draft.chance.percent(10) {
        let child = draft.chance.uuid4();
        let mut below =
            row(&format!("agent:main:subagent:{child}"), &child, "subagent", "spawn", "done");
        below["spawnedBy"] = key.into();
        rows.push(below);
    }
    Made {
        adapter: Agent::OpenClaw.name().into(),
        id,
        path: PathBuf::new(),
        cwd: String::new(),
        bytes: 0,
        outcome,
        output_tokens: 0,
        total_bytes: 0,
    }
}
