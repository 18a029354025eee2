//! The dialogs that Claude Code shows before a session begins, read from its settings.

use serde::Deserialize;

use crate::adapters::{Look, Root};
use crate::kernel::Process;
use crate::model::{Reason, ReasonKind};
use crate::native::file;

/// Returns the dialog that must be answered before a session can begin, from Claude Code's settings.
pub(super) fn first_dialog(look: &Look, root: &Root, process: &Process) -> Option<Reason> {
    let beside = root.path().parent().map(|p| p.join(".claude.json"));
    let paths = [Some(root.path().join(".claude.json")), beside];
    let path = paths.into_iter().flatten().find(|p| p.exists())?;
    let bytes = file::read_small(&path, look.host.kernel.uid(), 16 << 20).ok()?;
    let settings: Settings = serde_json::from_slice(&bytes).ok()?;
    if !settings.has_completed_onboarding {
        return Some(Reason::of(ReasonKind::Login));
    }
    if settings.knows_not_the_key(look, process) {
        return Some(Reason::with(ReasonKind::Dialog, "use of the API key must be confirmed"));
    }
    let trusted = process.cwd.as_ref()?.ancestors().any(|dir| {
        let project = settings.projects.get(dir.to_string_lossy().as_ref());
        project.is_some_and(|p| p.has_trust_dialog_accepted)
    });
    if !trusted {
        return Some(Reason::of(ReasonKind::Trust));
    }
    let bypasses = process.argv.iter().any(|a| a == "--dangerously-skip-permissions");
    let warned = settings.bypass_permissions_mode_accepted || skips_warning(look, root);
    (bypasses && !warned)
        .then(|| Reason::with(ReasonKind::Dialog, "bypassing permissions must be confirmed"))
}

/// `.claude.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Settings {
    has_completed_onboarding: bool,
    bypass_permissions_mode_accepted: bool,
    custom_api_key_responses: KeyResponses,
    projects: std::collections::HashMap<String, Project>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyResponses {
    approved: Vec<String>,
    rejected: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Project {
    #[serde(default)]
    has_trust_dialog_accepted: bool,
}

impl Settings {
    /// Says whether a key is neither approved nor rejected; answers are stored by the key's last 20
    /// characters.
    fn knows_not_the_key(&self, look: &Look, process: &Process) -> bool {
        let values = look.host.kernel.environ(&process.id, &["ANTHROPIC_API_KEY"]);
        let key = values.ok().and_then(|mut v| v.pop()).flatten().filter(|k| !k.is_empty());
        let Some(key) = key else { return false };
        let tail: String = key.chars().skip(key.chars().count().saturating_sub(20)).collect();
        let answers = &self.custom_api_key_responses;
        !answers.approved.contains(&tail) && !answers.rejected.contains(&tail)
    }
}

fn skips_warning(look: &Look, root: &Root) -> bool {
    let path = root.path().join("settings.json");
    let bytes = file::read_small(&path, look.host.kernel.uid(), 1 << 20).unwrap_or_default();
    let settings: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    settings["skipDangerousModePermissionPrompt"] == true
}
