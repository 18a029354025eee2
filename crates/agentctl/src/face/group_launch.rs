//! Launches of several agents in words: each slot as it begins or fails, and the plan of `--dry-run`.

use agentctl_core::adapters::control::Permissions;
use agentctl_core::ask::{Fleet, LaunchPlan, NoAdapter, NotStarted, PlannedSlot};
use agentctl_core::launch::LaunchError;
use agentctl_core::launch::context::ContextError;
use agentctl_core::launch::matrix::{MatrixError, MatrixOrigins};
use agentctl_core::launch::slots::SlotsError;
use agentctl_core::worktrees::MakeError;
use agentctl_core::worktrees::make::KeptWorktree;

use super::{kept_worktree_hint, not_started};
use crate::failure::{Failure, Kind};
use crate::text::with_tilde;

/// Says that an agent has begun in the worktree of this name. Agents begin in any order, so it has no number.
#[must_use]
pub fn slot_started_line(adapter: &str, id: &str, name: &str) -> String {
    format!("{name}: {adapter} {id}")
}

/// Says why a slot was not launched, what became of its worktree, and what to do about both.
#[must_use]
pub fn slot_failure(
    fleet: &Fleet,
    (slot, adapter): (usize, &str),
    why: NotStarted,
    kept: Option<&KeptWorktree>,
) -> (String, Vec<String>) {
    let failure = not_started(fleet, why);
    let mut message = format!("slot {slot} ({adapter}): {}", failure.message());
    let mut hints: Vec<String> = failure.first_hint().map(str::to_owned).into_iter().collect();
    if let Some(KeptWorktree { name, path, why }) = kept {
        let path = with_tilde(&fleet.host.home, &path.to_string_lossy());
        message += &format!("; its worktree {path} is kept: {why}");
        hints.push(kept_worktree_hint(name));
    }
    (message, hints)
}

/// Says why a group was not launched. A value of the matrix file is named with its file, line and key.
#[must_use]
pub fn group_not_started(fleet: &Fleet, origins: &MatrixOrigins, why: NotStarted) -> Failure {
    let reason = if let NotStarted::InSlot { why, .. } = &why { why.as_ref() } else { &why };
    let place = match reason {
        NotStarted::NoAdapter(NoAdapter::Unknown(name)) => origins.place_of(&["adapter"], name),
        NotStarted::Worktree(error) => match error.as_ref() {
            MakeError::NoSuchBase { revision, .. } => {
                origins.place_of(&["base", "base_branch"], revision)
            }
            _ => None,
        },
        NotStarted::Context(ContextError::File { path, .. }) => {
            origins.place_of(&["files", "spec"], path)
        }
        NotStarted::Slots(SlotsError::TooMany { max, .. }) => {
            origins.place_of(&["max"], &max.to_string())
        }
        NotStarted::Failed(LaunchError::Directory { .. }) => origins.place_of_only("cwd"),
        _ => None,
    };
    let Some(place) = place else { return not_started(fleet, why) };
    let why = if let NotStarted::InSlot { why, .. } = why { *why } else { why };
    not_started(fleet, why).within(&place).as_usage()
}

/// Says why a matrix file was refused.
#[must_use]
pub fn matrix_failure(error: &MatrixError) -> Failure {
    let failure = Failure::new(Kind::Usage, error.to_string());
    let usual = "docs/MANY.md describes the file";
    failure.hint(error.hint.as_deref().unwrap_or(usual))
}

/// Returns the plan of a launch, line by line. Equal prompts are shown once.
#[must_use]
pub fn plan_lines(plan: &LaunchPlan) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(group) = &plan.group {
        lines.push(format!("group     {group}"));
    }
    for slot in &plan.slots {
        lines.extend(slot_lines(slot));
    }
    let mut shown: Vec<(&PlannedSlot, Vec<String>)> = Vec::new();
    for slot in &plan.slots {
        match shown.iter_mut().find(|(first, _)| first.prompt == slot.prompt) {
            Some((_, numbers)) => numbers.push(slot.slot.to_string()),
            None => shown.push((slot, vec![slot.slot.to_string()])),
        }
    }
    for (slot, numbers) in shown {
        let word = if numbers.len() == 1 { "slot" } else { "slots" };
        lines.push(format!("prompt of {word} {}:", numbers.join(", ")));
        let prompt = slot.prompt.clone().into_bytes();
        lines.extend(String::from_utf8_lossy(&prompt).lines().map(str::to_owned));
    }
    lines
}

fn slot_lines(slot: &PlannedSlot) -> Vec<String> {
    let model = slot.model.as_ref().map(|model| format!(", model {model}")).unwrap_or_default();
    let permissions = match slot.permissions {
        Permissions::Default => "",
        Permissions::Edits => ", permissions edits",
        Permissions::Bypass => ", permissions bypass",
    };
    let mut lines = vec![format!("slot {}: {}{model}{permissions}", slot.slot, slot.adapter)];
    let mut field = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {name:<10}{value}")));
    };
    field("branch", slot.branch.clone());
    field("worktree", slot.worktree.as_ref().map(|path| path.display().to_string()));
    let in_place = slot.worktree.is_none().then(|| slot.cwd.display().to_string());
    field("directory", in_place);
    let command = slot.argv.as_ref().map(|argv| {
        let words = shlex::try_join(argv.iter().map(String::as_str));
        words.unwrap_or_else(|_| argv.join(" "))
    });
    field("command", command);
    field("variables", (!slot.env.is_empty()).then(|| slot.env.join(", ")));
    field("error", slot.error.clone());
    lines
}
