//! Runs of a gateway: they are begun, continued and aborted, each by its beginner.

use serde_json::{Value, json};

use super::{Manner, World};

/// Returns the client that connected last.
fn asker(world: &World) -> Value {
    let connects = world.asked.iter().rev().find(|(method, _)| method == "connect");
    connects.map(|(_, params)| params.clone()).unwrap_or_default()
}

/// A run is its beginner's, unless an administrator asks.
pub(super) fn aborted(world: &mut World, params: &Value) -> Result<Value, Value> {
    let asker = asker(world);
    let admin = asker["scopes"].to_string().contains("operator.admin");
    let owner = world.owners.get(params["key"].as_str().unwrap_or_default());
    let own = owner.is_some_and(|owner| owner.is_string() && *owner == asker["device"]["id"]);
    if world.abort_needs_admin && !admin && !own {
        return Err(json!({"code": "INVALID_REQUEST", "message": "unauthorized"}));
    }
    if world.mute_after_abort {
        world.manner = Manner::NoAnswer;
    }
    let idle = world.abort_is_idle_talk;
    if let Some(row) = world.rows.iter_mut().find(|r| r["key"] == params["key"] && !idle) {
        row["hasActiveRun"] = false.into();
        row["status"] = "killed".into();
    }
    Ok(json!({"ok": true, "status": "aborted"}))
}

pub(super) fn created(world: &mut World, params: &Value) -> Result<Value, String> {
    let device = asker(world)["device"]["id"].clone();
    let once = params["idempotencyKey"].as_str().map(str::to_owned);
    if once.is_some() && device.is_null() {
        return Err("idempotent session creation requires a device identity".into());
    }
    if let Some(made) = once.as_ref().and_then(|once| world.made.get(once)) {
        return Ok(made.clone());
    }
    let count = world.rows.len() + world.asked.len();
    let (id, key) = (
        format!("{count:08}-0000-4000-8000-000000000000"),
        format!("agent:main:dashboard:{count}"),
    );
    let row = json!({
        "key": key, "sessionId": id, "classification": "direct", "createdVia": "operator",
        "label": params["label"], "displayName": params["label"], "hasActiveRun": true,
        "status": "running", "createdAt": 1_794_728_786_726_i64, "updatedAt": 1_794_728_786_726_i64,
    });
    world.rows.insert(0, row);
    let message = json!({"role": "user", "content": params["message"], "__openclaw": {"id": "m1"}});
    world.histories.insert(key.clone(), json!({"messages": [message]}));
    world.owners.insert(key.clone(), device);
    let made = json!({"ok": true, "key": key, "sessionId": id, "runStarted": true, "runId": "r1"});
    if let Some(once) = once {
        world.made.insert(once, made.clone());
    }
    Ok(made)
}

pub(super) fn sent(world: &mut World, params: &Value) -> Result<Value, String> {
    let key = params["key"].as_str().unwrap_or_default().to_owned();
    let row = world.rows.iter_mut().find(|r| r["key"] == *key).ok_or("session not found")?;
    row["hasActiveRun"] = true.into();
    row["status"] = "running".into();
    let owner = asker(world)["device"]["id"].clone();
    world.owners.insert(key.clone(), owner);
    let once = params["idempotencyKey"].as_str().ok_or("no key")?.to_owned();
    let history = world.histories.entry(key).or_insert(json!({"messages": []}));
    let messages = history["messages"].as_array_mut().ok_or("no messages")?;
    let known = messages.iter().any(|m| m["idempotencyKey"] == *once);
    if !known {
        let id = format!("m{}", messages.len() + 1);
        messages.push(json!({"role": "user", "content": params["message"], "idempotencyKey": once, "__openclaw": {"id": id}}));
    }
    Ok(json!({"runId": once, "status": if known { "in_flight" } else { "started" }}))
}
