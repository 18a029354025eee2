//! The arguments of `launch` that open slots. Each `--adapter` opens one; `--model` and `--permissions` belong to the
//! last one that was opened, so the order of the arguments counts.

use std::path::PathBuf;

use agentctl_core::launch::slots::SlotRequest;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::flags::{PermissionsArg, not_empty};
use crate::failure::{Failure, Kind};

/// The slots of a launch.
#[derive(Debug, Default)]
pub(super) struct SlotFlags {
    /// The model and permissions before the first `--adapter`.
    pub(super) first: SlotRequest,
    /// The slots that `--adapter` opened.
    pub(super) opened: Vec<SlotRequest>,
    pub(super) times: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) matrix: Option<PathBuf>,
    pub(super) dry_run: bool,
    /// The option that was given twice for one slot, and the slot.
    twice: Option<(&'static str, Option<String>)>,
}

const HEADING: &str = "Several agents";

/// The same arguments as the parser sees them.
#[derive(Args)]
struct Typed {
    /// The agent as an option; each further one starts another agent, and each gets a git worktree of its own
    #[arg(long = "adapter", value_name = "ADAPTER", value_parser = not_empty, help_heading = HEADING)]
    adapters: Vec<String>,
    /// Model, by the name the agent uses for it; behind an --adapter, for that one
    #[arg(long = "model", value_name = "MODEL", value_parser = not_empty)]
    models: Vec<String>,
    /// Actions that the agent may take without asking [default: the agent's own setting]; behind an --adapter, for
    /// that one
    #[arg(long = "permissions", value_name = "MODE", value_enum)]
    modes: Vec<PermissionsArg>,
    /// Start each agent this many times
    #[arg(long, value_name = "N", help_heading = HEADING)]
    times: Option<usize>,
    /// Allow this many agents, up to 64 [default: 16]
    #[arg(long, value_name = "N", help_heading = HEADING)]
    max: Option<usize>,
    /// Read agents, models, prompts and more from a TOML file (docs/MANY.md)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["adapters", "models", "modes"],
        help_heading = HEADING
    )]
    matrix: Option<PathBuf>,
    /// Print the agents, branches, commands and the exact prompt; start nothing
    #[arg(long)]
    dry_run: bool,
}

/// An argument that belongs to a slot.
enum SlotArgument {
    Adapter(String),
    Model(String),
    Mode(PermissionsArg),
}

impl SlotFlags {
    fn of(typed: Typed, matches: &ArgMatches) -> Self {
        let at = |id: &str| matches.indices_of(id).into_iter().flatten();
        let adapters = at("adapters").zip(typed.adapters.into_iter().map(SlotArgument::Adapter));
        let models = at("models").zip(typed.models.into_iter().map(SlotArgument::Model));
        let modes = at("modes").zip(typed.modes.into_iter().map(SlotArgument::Mode));
        let mut arguments: Vec<(usize, SlotArgument)> =
            adapters.chain(models).chain(modes).collect();
        arguments.sort_by_key(|(index, _)| *index);
        let Typed { times, max, matrix, dry_run, .. } = typed;
        let mut flags = Self { times, max, matrix, dry_run, ..Self::default() };
        for (_, argument) in arguments {
            flags.take(argument);
        }
        flags
    }

    fn take(&mut self, argument: SlotArgument) {
        let slot = self.opened.last_mut().unwrap_or(&mut self.first);
        let twice = match argument {
            SlotArgument::Adapter(name) => {
                self.opened.push(SlotRequest { adapter: Some(name), ..SlotRequest::default() });
                return;
            }
            SlotArgument::Model(model) => slot.model.replace(model).is_some().then_some("--model"),
            SlotArgument::Mode(mode) => {
                slot.permissions.replace(mode.into()).is_some().then_some("--permissions")
            }
        };
        let adapter = slot.adapter.clone();
        self.twice = self.twice.take().or_else(|| twice.map(|option| (option, adapter)));
    }

    /// Refuses an option that is given twice for one slot.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some((option, adapter)) = &self.twice else { return Ok(()) };
        let failure = match adapter {
            Some(adapter) => {
                let message = format!("{option} is given more than once for the slot `{adapter}`");
                Failure::new(Kind::Usage, message)
            }
            None => Failure::new(Kind::Usage, format!("{option} is given more than once")),
        };
        Err(failure.hint("for another agent, write another --adapter in front of it"))
    }

    /// Refuses options of a group in a launch of one agent.
    pub(super) fn check_one(&self) -> Result<(), Failure> {
        if self.max.is_none() {
            return Ok(());
        }
        let message = "--max needs --times, --matrix or a second --adapter";
        Err(Failure::new(Kind::Usage, message).hint("leave --max out, or launch several agents"))
    }

    /// Says whether the agents are launched as a group, each in a worktree of its own. `--times 1` asks for that, too.
    pub(super) fn is_group(&self, has_adapter: bool) -> bool {
        let slots = self.opened.len() + usize::from(has_adapter);
        self.matrix.is_some() || self.times.is_some() || slots > 1
    }

    /// Returns the slots. An adapter without an option is the first one. An option before the first `--adapter`
    /// counts for that one, else for every slot that has none of its own.
    pub(super) fn slots(&self, adapter: Option<String>) -> Vec<SlotRequest> {
        let mut slots = self.opened.clone();
        if adapter.is_some() || slots.is_empty() {
            slots.insert(0, SlotRequest { adapter, ..self.first.clone() });
            return slots;
        }
        for slot in &mut slots {
            slot.model = slot.model.take().or_else(|| self.first.model.clone());
            slot.permissions = slot.permissions.or(self.first.permissions);
        }
        slots
    }
}

impl FromArgMatches for SlotFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::of(Typed::from_arg_matches(matches)?, matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SlotFlags {
    fn augment_args(command: Command) -> Command {
        Typed::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Typed::augment_args_for_update(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> SlotFlags {
        let command = SlotFlags::augment_args(Command::new("launch").no_binary_name(true));
        let matches = command.try_get_matches_from(words).expect("parsed");
        SlotFlags::from_arg_matches(&matches).expect("read")
    }

    fn shown(slots: &[SlotRequest]) -> Vec<String> {
        let slot = |slot: &SlotRequest| {
            let adapter = slot.adapter.as_deref().unwrap_or("-");
            let model = slot.model.as_deref().unwrap_or("-");
            let mode = slot.permissions.map_or("-".to_owned(), |mode| format!("{mode:?}"));
            format!("{adapter} {model} {mode}")
        };
        slots.iter().map(slot).collect()
    }

    #[test]
    fn options_belong_to_the_slot_before_them() {
        let typed = flags(&[
            "--adapter",
            "a",
            "--model=opus",
            "--adapter",
            "b",
            "--permissions",
            "edits",
            "--adapter",
            "c",
            "--permissions",
            "bypass",
            "--model",
            "x",
        ]);
        let expected = ["a opus -", "b - Edits", "c x Bypass"];
        assert_eq!(shown(&typed.slots(None)), expected);
        assert!(typed.check().is_ok() && typed.is_group(false));
    }

    #[test]
    fn options_before_the_first_slot_count_for_all_without_their_own() {
        let words = ["--model", "m", "--adapter", "a", "--adapter", "b", "--model", "x"];
        assert_eq!(shown(&flags(&words).slots(None)), ["a m -", "b x -"]);
        let named = flags(&words).slots(Some("demo".into()));
        assert_eq!(shown(&named), ["demo m -", "a - -", "b x -"]);
        let alone = flags(&["--model", "m", "--permissions", "edits"]);
        assert_eq!(shown(&alone.slots(Some("demo".into()))), ["demo m Edits"]);
        assert_eq!(shown(&alone.slots(None)), ["- m Edits"]);
        assert!(!alone.is_group(true));
    }

    #[test]
    fn an_option_twice_for_one_slot_is_refused() {
        let twice = |words: &[&str]| flags(words).check().expect_err("refused").to_string();
        let slot = twice(&["--adapter", "a", "--model", "x", "--model", "y", "--adapter", "b"]);
        assert_eq!(slot, "--model is given more than once for the slot `a`");
        let first = twice(&["--permissions", "edits", "--permissions", "bypass"]);
        assert_eq!(first, "--permissions is given more than once");
        assert!(flags(&["--times", "3"]).is_group(true) && flags(&["--times", "1"]).is_group(true));
        assert!(
            flags(&["--matrix", "x"]).is_group(false) && flags(&["--adapter", "a"]).is_group(true)
        );
        assert!(!flags(&["--adapter", "a"]).is_group(false));
    }
}
