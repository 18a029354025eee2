//! The global flag `--color`.

use std::ffi::OsString;

use clap::ValueEnum;

use crate::ui::ColourChoice;

/// When colour is used, as typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ColourArg {
    #[default]
    Auto,
    Always,
    Never,
}

/// Returns the choice of a command line. It is read before the other arguments, because messages about those are
/// coloured too. A value that does not exist is reported later, with the other arguments.
pub(super) fn asked(args: &[OsString]) -> Option<ColourChoice> {
    let mut args = args.iter().skip(1).filter_map(|arg| arg.to_str());
    let mut choice = None;
    while let Some(arg) = args.next().filter(|arg| *arg != "--") {
        let value = match arg.strip_prefix("--color") {
            Some("") => args.next(),
            Some(value) => value.strip_prefix('='),
            None => continue,
        };
        let value = value.and_then(|value| ColourArg::from_str(value, false).ok());
        choice = value.map(ColourChoice::from).or(choice);
    }
    choice
}

impl From<ColourArg> for ColourChoice {
    fn from(arg: ColourArg) -> Self {
        match arg {
            ColourArg::Auto => Self::Auto,
            ColourArg::Always => Self::Always,
            ColourArg::Never => Self::Never,
        }
    }
}

impl From<ColourChoice> for clap::ColorChoice {
    fn from(choice: ColourChoice) -> Self {
        match choice {
            ColourChoice::Auto => Self::Auto,
            ColourChoice::Always => Self::Always,
            ColourChoice::Never => Self::Never,
        }
    }
}
