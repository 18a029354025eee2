//! The arguments that `launch` and `resume` have in common.

use std::ffi::OsString;

use agentctl_core::adapters::control::Permissions;
use agentctl_core::ask::{LaunchHooks, LaunchOptions};
use agentctl_core::model::Callback;
use clap::{Args, ValueEnum};

use crate::config::{Defaults, Span};

/// The flags of launches and resumes.
#[derive(Args)]
#[allow(clippy::option_option)] // a flag is absent, present, or present with a value
pub(in crate::cli) struct Flags {
    /// Put the session into a group (`list --group`, `stop --group`, `logs --group`)
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Set an environment variable for the agent (repeatable); export secrets instead, other users can see this
    /// command line
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Let the agent ask a human (`agentctl asks`), and wait this long for each answer [default: 24h]
    #[arg(long, value_name = "SPAN", num_args = 0..=1, require_equals = true, value_parser = Span::positive)]
    #[allow(clippy::option_option)] // an option whose value may be left out
    ask: Option<Option<Span>>,
    /// Keep the agent when its turn is over, for `agentctl send`; stop it when it was idle for this long
    #[arg(long, value_name = "IDLE", num_args = 0..=1, require_equals = true, value_parser = Span::positive)]
    #[allow(clippy::option_option)] // an option whose value may be left out
    pub(super) keep: Option<Option<Span>>,
    /// Start even if the directory is occupied or locked
    #[arg(long)]
    force: bool,
    /// Wait until the turn is over; exit codes as in `agentctl wait`
    #[arg(long)]
    pub(super) wait: bool,
    /// Print the conversation until the turn is over; exit codes as in `agentctl wait`
    #[arg(long)]
    pub(super) follow: bool,
    /// With --wait or --follow: stop waiting after this time (30s, 10m, 2h); the agent keeps running
    #[arg(long, value_name = "SPAN")]
    pub(super) timeout: Option<Span>,
    /// Run this command when the session has started (no shell; see docs/HOOKS.md)
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    on_create: Option<Words>,
    /// Run this command when the agent has ended
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    on_complete: Option<Words>,
    /// Opaque id copied into events, webhooks and hooks (agentctl itself does not contact it)
    #[arg(long, value_name = "ID", value_parser = callback)]
    callback_session: Option<String>,
    /// Opaque agent name copied along with --callback-session
    #[arg(long, value_name = "NAME", value_parser = callback)]
    callback_agent: Option<String>,
    /// Print the session as one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Further arguments for the agent, after `--`
    #[arg(last = true, value_name = "ARGS")]
    extra: Vec<OsString>,
}

/// The model and the permissions of a single agent.
#[derive(Args)]
pub(in crate::cli) struct ModelFlags {
    /// Model, by the name the agent uses for it
    #[arg(long, value_name = "MODEL", value_parser = not_empty)]
    pub(in crate::cli) model: Option<String>,
    /// Actions that the agent may take without asking [default: the agent's own setting]
    #[arg(long, value_name = "MODE", value_enum)]
    permissions: Option<PermissionsArg>,
}

impl ModelFlags {
    /// Returns the first given option.
    pub(in crate::cli) fn first_given(&self) -> Option<&'static str> {
        let model = self.model.as_ref().map(|_| "--model");
        model.or(self.permissions.map(|_| "--permissions"))
    }

    /// Returns the permissions, if they are given.
    pub(in crate::cli) fn permissions(&self) -> Option<Permissions> {
        self.permissions.map(Into::into)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PermissionsArg {
    /// The agent's own default
    Default,
    /// Change files without asking
    Edits,
    /// Do everything without asking
    Bypass,
}

impl From<PermissionsArg> for Permissions {
    fn from(arg: PermissionsArg) -> Self {
        match arg {
            PermissionsArg::Default => Self::Default,
            PermissionsArg::Edits => Self::Edits,
            PermissionsArg::Bypass => Self::Bypass,
        }
    }
}

/// A hook command, split by shell-word rules; no shell runs it.
#[derive(Clone)]
struct Words(Vec<String>);

fn words(text: &str) -> Result<Words, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(Words(words)),
        Some(_) => Err("it is empty".into()),
        None => Err("a quote in it does not end".into()),
    }
}

pub(super) fn not_empty(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".into()) } else { Ok(text.to_owned()) }
}

fn callback(text: &str) -> Result<String, String> {
    Callback::check(text).map(|()| text.to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it has no name; write it like NAME=VALUE".into()),
    }
}

impl Flags {
    /// Returns the option whose time was probably meant by a prompt of one word behind it, with that word.
    pub(super) fn may_be_span<'a>(&self, prompt: &'a str) -> Option<(&'static str, &'a str)> {
        let options = [(self.keep, "--keep"), (self.ask, "--ask")];
        let bare = options.into_iter().find(|(value, _)| *value == Some(None));
        let (_, option) = bare.filter(|_| Span::positive(prompt).is_ok())?;
        Some((option, prompt))
    }

    /// Returns the group.
    pub(in crate::cli) fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns the first given option that only a process that is started can take.
    pub(in crate::cli) fn only_for_start(&self) -> Option<&'static str> {
        let given = [
            (!self.env.is_empty(), "--env"),
            (self.ask.is_some(), "--ask"),
            (self.keep.is_some(), "--keep"),
            (self.on_create.is_some(), "--on-create"),
            (self.on_complete.is_some(), "--on-complete"),
            (self.callback_session.is_some(), "--callback-session"),
            (self.callback_agent.is_some(), "--callback-agent"),
            (!self.extra.is_empty(), "an argument after `--`"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
    }

    /// Returns the options of the order without model and permissions; the other flags say how its session is
    /// attended.
    pub(super) fn options(&mut self, defaults: &Defaults) -> LaunchOptions {
        let argv = |words: Option<Words>| words.map(|Words(argv)| argv);
        LaunchOptions {
            model: None,
            group: self.group.take(),
            env: std::mem::take(&mut self.env),
            permissions: None,
            force: self.force,
            ask_ms: self.ask.map(|span| span.unwrap_or(Span(defaults.ask)).millis()),
            keep: self.keep.is_some(),
            keep_idle_ms: self.keep.flatten().map(Span::millis),
            hooks: LaunchHooks {
                on_create: argv(self.on_create.take()),
                on_complete: argv(self.on_complete.take()),
            },
            callback: Callback::of(self.callback_session.take(), self.callback_agent.take()),
            extra: std::mem::take(&mut self.extra).into_iter().map(Into::into).collect(),
        }
    }
}
