//! Finds what the word at the cursor is: a command, an option, or the value of an argument.

use clap::{Arg, ArgAction, Command};

/// The kinds of word that the cursor can be at.
pub(super) enum Wanted<'a> {
    /// A subcommand of this command.
    Subcommand(&'a Command),
    /// An option of the command.
    Option,
    /// The value of an argument, behind a text that belongs to the word: `--status=`.
    Value(&'a Arg, String),
}

/// The words before the cursor, as the command tree understands them.
pub(super) struct Position<'a> {
    /// The command.
    pub(super) command: &'a Command,
    /// The names of the command and those above it, without the program's name.
    pub(super) path: Vec<&'a str>,
    /// The positional values of the command.
    pub(super) values: Vec<&'a str>,
    /// The options that are given, by id.
    options: Vec<&'a str>,
    /// An option that still needs its value.
    open: Option<&'a Arg>,
    /// The number of positional arguments that are complete.
    complete: usize,
    /// `--` was given: no word is an option any more.
    pub(super) is_escaped: bool,
    /// The words name a command whose help is wanted: `agentctl help fuse`.
    is_help: bool,
}

impl<'a> Position<'a> {
    /// Reads the words before the cursor, without the program's name.
    pub(super) fn of(root: &'a Command, words: &'a [String]) -> Self {
        let mut position = Self {
            command: root,
            path: Vec::new(),
            values: Vec::new(),
            options: Vec::new(),
            open: None,
            complete: 0,
            is_escaped: false,
            is_help: false,
        };
        for word in words {
            position.take(word);
        }
        position
    }

    fn take(&mut self, word: &'a str) {
        if self.open.take().is_some() {
            return;
        }
        if !self.is_escaped && word == "--" {
            self.is_escaped = true;
        } else if let Some(long) = word.strip_prefix("--").filter(|_| !self.is_escaped) {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            if let Some(option) = self.long(name) {
                self.give(option, value.is_none());
            }
        } else if let Some(shorts) = self.shorts(word) {
            self.take_shorts(shorts);
        } else if self.values.is_empty() && self.command.has_subcommands() {
            self.descend(word);
        } else {
            self.values.push(word);
            self.complete += usize::from(self.positional().is_some_and(|arg| !is_repeated(arg)));
        }
    }

    fn descend(&mut self, word: &'a str) {
        if word == "help" {
            self.is_help = true;
            return;
        }
        match self.command.find_subcommand(word) {
            Some(command) => {
                self.command = command;
                self.path.push(command.get_name());
                self.options.clear();
            }
            // An unknown command has no arguments that could be completed.
            None => self.values.push(word),
        }
    }

    fn shorts(&self, word: &'a str) -> Option<&'a str> {
        word.strip_prefix('-').filter(|rest| !rest.is_empty() && !self.is_escaped)
    }

    /// Reads `-af`, `-n5` or `-n`.
    fn take_shorts(&mut self, shorts: &'a str) {
        for (at, short) in shorts.char_indices() {
            let options = || self.command.get_arguments();
            let Some(option) = options().find(|arg| arg.get_short() == Some(short)) else { return };
            let is_last = at + short.len_utf8() == shorts.len();
            self.give(option, is_last);
            if option.get_action().takes_values() {
                return;
            }
        }
    }

    fn give(&mut self, option: &'a Arg, needs_value: bool) {
        self.options.push(option.get_id().as_str());
        self.open = Some(option).filter(|arg| needs_value && arg.get_action().takes_values());
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let mut options = self.command.get_arguments();
        options.find(|arg| arg.get_long_and_visible_aliases().unwrap_or_default().contains(&name))
    }

    /// Returns the positional argument that the next value belongs to.
    fn positional(&self) -> Option<&'a Arg> {
        let mut last = self.command.get_positionals().filter(|arg| arg.is_last_set());
        let mut others = self.command.get_positionals().filter(|arg| !arg.is_last_set());
        let last = if self.is_escaped { last.next() } else { None };
        last.or_else(|| others.nth(self.complete))
    }

    /// Returns what the word at the cursor can be.
    pub(super) fn wanted(&self, current: &str) -> Wanted<'a> {
        if let Some(option) = self.open {
            return Wanted::Value(option, String::new());
        }
        if current.starts_with('-') && !self.is_escaped {
            let named = current.strip_prefix("--").and_then(|long| long.split_once('='));
            let option = named.and_then(|(name, _)| Some((self.long(name)?, name)));
            return match option {
                Some((option, name)) => Wanted::Value(option, format!("--{name}=")),
                None => Wanted::Option,
            };
        }
        if self.is_help || (self.values.is_empty() && self.command.has_subcommands()) {
            return Wanted::Subcommand(self.command);
        }
        match self.positional() {
            Some(argument) => Wanted::Value(argument, String::new()),
            None => Wanted::Option,
        }
    }

    /// Returns the options that can still be given.
    pub(super) fn further_options(&self) -> impl Iterator<Item = &'a Arg> {
        let options = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        options.filter(|arg| !self.options.contains(&arg.get_id().as_str()) || is_repeated(arg))
    }
}

fn is_repeated(arg: &Arg) -> bool {
    let many = arg.get_num_args().is_some_and(|number| number.max_values() > 1);
    many || matches!(arg.get_action(), ArgAction::Append | ArgAction::Count)
}
