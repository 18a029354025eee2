//! The flags of `logs` that choose messages.

use std::str::FromStr;

use agentctl_core::host::Host;
use agentctl_core::model::Role;
use agentctl_core::transcript::{Beyond, Limit, Selection};
use clap::ValueEnum;

use super::{Form, LogsArgs};
use crate::failure::Failure;
use crate::ui::Ui;

/// Messages that are shown if no flag says how many.
pub(super) const DEFAULT_COUNT: usize = 20;

/// A number of messages, or `all`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count(pub(super) usize);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(usize::MAX));
        }
        text.parse().map(Self).map_err(|_| format!("`{text}` is neither a number nor `all`"))
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum RoleArg {
    User,
    Assistant,
    Tool,
    System,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::User => Self::User,
            RoleArg::Assistant => Self::Assistant,
            RoleArg::Tool => Self::Tool,
            RoleArg::System => Self::System,
        }
    }
}

pub(super) fn selection(
    ui: &Ui,
    host: &Host,
    args: &LogsArgs,
    form: Form,
) -> Result<Selection, Failure> {
    let since = match &args.since {
        Some(text) => super::super::list::since(host, text)?,
        None => None,
    };
    let for_people = form == Form::Human && ui.is_terminal();
    let limit = match (args.count, args.turns) {
        (Some(Count(count)), _) => Limit::Messages(count),
        (None, Some(turns)) => Limit::Turns(turns),
        (None, None) if args.since.is_some() => Limit::None,
        (None, None) if for_people => Limit::Turns(1),
        (None, None) => Limit::Messages(DEFAULT_COUNT),
    };
    let beyond = match form {
        Form::Human if ui.is_terminal() => Beyond::Count,
        Form::Human => Beyond::Calls,
        Form::Json | Form::Raw => Beyond::Nothing,
    };
    let roles = args.roles.iter().map(|role| Role::from(*role)).collect();
    Ok(Selection { limit, since, roles, without_tools: args.no_tools, beyond })
}
