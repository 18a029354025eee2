//! The checks of a launch that need neither its directory nor its worktree: nothing is made before they pass.

use std::time::Duration;

use super::{LaunchDefaults, LaunchHooks, LaunchOptions, NotStarted, is_remote};
use crate::adapters::Adapter;
use crate::adapters::answering::Answering;
use crate::adapters::control::{Permissions, Refusal};
use crate::hooks;
use crate::host::Host;
use crate::runs::HookMoment;

/// Checks the choices of a launch, before anything is made: hooks, permissions, what the agent can do, the model.
pub(in super::super) fn check_choices(
    host: &Host,
    adapter: &dyn Adapter,
    options: &LaunchOptions,
    defaults: &LaunchDefaults,
) -> Result<(), NotStarted> {
    if is_remote(adapter) && !options.hooks.is_empty() {
        return Err(NotStarted::HookOnServer(adapter.name()));
    }
    check_answering(adapter, options, defaults)?;
    check_model(options.model.as_ref(), defaults)?;
    check_hooks(host, &hooks_in_force(adapter, options, defaults))
}

/// Returns the hooks of a launch. No hook of ours runs for an agent on a server.
pub(super) fn hooks_in_force(
    adapter: &dyn Adapter,
    options: &LaunchOptions,
    defaults: &LaunchDefaults,
) -> LaunchHooks {
    if is_remote(adapter) { options.hooks.clone() } else { options.hooks.or(&defaults.hooks) }
}

/// Checks that the agent can ask a human, and can stay after its turn, if the order wants that.
fn check_answering(
    adapter: &dyn Adapter,
    options: &LaunchOptions,
    defaults: &LaunchDefaults,
) -> Result<(), NotStarted> {
    const UNKNOWN: &str = "no way to do it is known";
    let abilities = adapter.answering().map(Answering::abilities);
    let no_ask = abilities.map_or(Some(UNKNOWN), |abilities| abilities.no_ask);
    let no_keep = abilities.map_or(Some(UNKNOWN), |abilities| abilities.no_keep);
    let refused = |flag: &str, why: &str| {
        let message = format!("{} cannot be launched with {flag}: {why}", adapter.name());
        let hint =
            format!("leave {flag} out; `agentctl adapters -o wide` shows which agents take it");
        Err(NotStarted::CannotAskOrStay(Refusal::new(message, hint)))
    };
    let limit = options.ask_ms.map(Duration::from_millis).filter(|limit| *limit != defaults.ask);
    if limit.is_some() && adapter.answering().is_some_and(|answering| !answering.limits_asks()) {
        return Err(NotStarted::AskLimit(adapter.name()));
    }
    match (no_ask.filter(|_| options.ask_ms.is_some()), no_keep) {
        (Some(why), _) => refused("--ask", why),
        (None, Some(why)) if options.keep => refused("--keep", why),
        (None, _) if options.ask_ms.is_some() && !options.keep => {
            check_permissions_to_ask(options.permissions.unwrap_or(defaults.permissions))
        }
        _ => Ok(()),
    }
}

/// Checks that the model is no option of the agent, which would widen what it may do.
fn check_model(model: Option<&String>, defaults: &LaunchDefaults) -> Result<(), NotStarted> {
    match model.or(defaults.model.as_ref()) {
        Some(model) if model.starts_with('-') => Err(NotStarted::ModelIsOption(model.clone())),
        _ => Ok(()),
    }
}

/// Checks that an agent that is to ask has something to ask for.
fn check_permissions_to_ask(permissions: Permissions) -> Result<(), NotStarted> {
    if permissions != Permissions::Bypass {
        return Ok(());
    }
    let why = "nothing is asked with --permissions bypass, so --ask has no meaning";
    Err(NotStarted::CannotAskOrStay(Refusal::new(why, "leave one of the two out")))
}

/// Checks that the programs of hooks are there.
pub(in super::super) fn check_hooks(host: &Host, hooks: &LaunchHooks) -> Result<(), NotStarted> {
    let programs =
        [(HookMoment::Create, &hooks.on_create), (HookMoment::Complete, &hooks.on_complete)];
    for (moment, hook) in programs {
        let Some(hook) = hook else { continue };
        hooks::check(host, hook).map_err(|why| NotStarted::Hook { moment, why })?;
    }
    Ok(())
}
