//! The keys: one table from a key to a command. The help page is drawn from the same table.

/// A key of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character.
    Char(char),
    /// A character with the control key.
    Ctrl(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Tab.
    Tab,
    /// Tab with the shift key.
    BackTab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow to the left.
    Left,
    /// Arrow to the right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
}

/// The part of the screen that keys go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    /// The list of sessions.
    List,
    /// The detail of the selected session.
    Detail,
    /// The ask of the selected session.
    Ask,
}

/// The command that a key gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The next row or line.
    Down,
    /// The row or line before.
    Up,
    /// The first row or line.
    First,
    /// The last row or line.
    Last,
    /// A page forward.
    PageDown,
    /// A page back.
    PageUp,
    /// The ask of a waiting session, else the detail on the whole screen.
    Open,
    /// Back: from the whole screen, from the ask, from the filter.
    Back,
    /// The next pane.
    NextPane,
    /// The pane before.
    PreviousPane,
    /// The detail with this number.
    Detail(usize),
    /// The detail before.
    PreviousDetail,
    /// The next detail.
    NextDetail,
    /// Allow the ask once.
    Allow,
    /// Deny the ask.
    Deny,
    /// Deny the ask with words, or answer a question in words.
    Words,
    /// Allow the ask and store its rule.
    Always,
    /// Choose the option or rule with this number.
    Choose(usize),
    /// The question before, whose answer was not delivered yet.
    PreviousQuestion,
    /// The next ask.
    NextAsk,
    /// The ask before.
    PreviousAsk,
    /// Type a filter.
    Filter,
    /// Show subagents.
    Tree,
    /// Show ended sessions.
    History,
    /// Follow the conversation.
    Follow,
    /// Send a message.
    Send,
    /// Stop the session.
    Stop,
    /// End its turn.
    EndTurn,
    /// The mouse on or off.
    Mouse,
    /// Draw everything again.
    Redraw,
    /// The help page.
    Help,
    /// Leave.
    Quit,
}

/// The panes in which a key has its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everywhere.
    Everywhere,
    /// While the ask has the focus.
    InAsk,
    /// While the ask does not have the focus.
    OutsideAsk,
}

/// One line of the table.
pub(crate) struct Binding {
    /// The keys.
    pub(crate) keys: &'static [Key],
    /// The keys as the help page shows them.
    pub(crate) shown: &'static str,
    /// Their effect, for the help page.
    pub(crate) what: &'static str,
    scope: Scope,
    command: Command,
}

const fn bind(
    (keys, shown): (&'static [Key], &'static str),
    scope: Scope,
    command: Command,
    what: &'static str,
) -> Binding {
    Binding { keys, shown, what, scope, command }
}

/// All keys, by purpose.
pub(crate) static SECTIONS: &[(&str, &[Binding])] = &[
    (
        "Move",
        &[
            bind(
                (&[Key::Char('j'), Key::Down], "j ↓"),
                Scope::Everywhere,
                Command::Down,
                "next row or line",
            ),
            bind(
                (&[Key::Char('k'), Key::Up], "k ↑"),
                Scope::Everywhere,
                Command::Up,
                "row or line before",
            ),
            bind(
                (&[Key::Char('g'), Key::Home], "g Home"),
                Scope::Everywhere,
                Command::First,
                "first row or line",
            ),
            bind(
                (&[Key::Char('G'), Key::End], "G End"),
                Scope::Everywhere,
                Command::Last,
                "last row or line",
            ),
            bind(
                (&[Key::PageDown, Key::Char(' '), Key::Ctrl('f')], "PgDn"),
                Scope::Everywhere,
                Command::PageDown,
                "a page forward (also space)",
            ),
            bind(
                (&[Key::PageUp, Key::Ctrl('b')], "PgUp"),
                Scope::Everywhere,
                Command::PageUp,
                "a page back",
            ),
            bind(
                (&[Key::Tab], "Tab"),
                Scope::Everywhere,
                Command::NextPane,
                "next pane: the ask, the detail, the list",
            ),
            bind(
                (&[Key::BackTab], "S-Tab"),
                Scope::Everywhere,
                Command::PreviousPane,
                "pane before",
            ),
            bind(
                (&[Key::Enter], "Enter"),
                Scope::Everywhere,
                Command::Open,
                "the ask of a waiting row; else the whole screen",
            ),
            bind(
                (&[Key::Escape], "Esc"),
                Scope::Everywhere,
                Command::Back,
                "back; clear the filter",
            ),
        ],
    ),
    (
        "Show",
        &[
            bind(
                (&[Key::Char('1')], "1"),
                Scope::OutsideAsk,
                Command::Detail(0),
                "the conversation (talk)",
            ),
            bind((&[Key::Char('2')], "2"), Scope::OutsideAsk, Command::Detail(1), "the ask"),
            bind(
                (&[Key::Char('3')], "3"),
                Scope::OutsideAsk,
                Command::Detail(2),
                "why it has this status",
            ),
            bind((&[Key::Char('4')], "4"), Scope::OutsideAsk, Command::Detail(3), "all facts"),
            bind((&[Key::Char('5')], "5"), Scope::OutsideAsk, Command::Detail(4), "changed files"),
            bind(
                (&[Key::Char('['), Key::Left], "[ ←"),
                Scope::Everywhere,
                Command::PreviousDetail,
                "the detail before",
            ),
            bind(
                (&[Key::Char(']'), Key::Right], "] →"),
                Scope::Everywhere,
                Command::NextDetail,
                "the next detail",
            ),
            bind(
                (&[Key::Char('f')], "f"),
                Scope::Everywhere,
                Command::Follow,
                "follow the conversation, or hold it",
            ),
            bind(
                (&[Key::Char('/')], "/"),
                Scope::Everywhere,
                Command::Filter,
                "filter by words; ! is waiting only",
            ),
            bind(
                (&[Key::Char('t')], "t"),
                Scope::Everywhere,
                Command::Tree,
                "subagents and launchers on, off",
            ),
            bind(
                (&[Key::Char('H')], "H"),
                Scope::Everywhere,
                Command::History,
                "ended sessions of 7 days on, off",
            ),
        ],
    ),
    (
        "Answer (while the ask has the focus)",
        &[
            bind((&[Key::Char('a')], "a"), Scope::InAsk, Command::Allow, "allow once"),
            bind((&[Key::Char('d')], "d"), Scope::InAsk, Command::Deny, "deny"),
            bind(
                (&[Key::Char('m')], "m"),
                Scope::InAsk,
                Command::Words,
                "deny with words; answer a question in words",
            ),
            bind(
                (&[Key::Char('A')], "A"),
                Scope::InAsk,
                Command::Always,
                "allow always, by the rule that is shown",
            ),
            bind(
                (
                    &[
                        Key::Char('1'),
                        Key::Char('2'),
                        Key::Char('3'),
                        Key::Char('4'),
                        Key::Char('5'),
                        Key::Char('6'),
                        Key::Char('7'),
                        Key::Char('8'),
                        Key::Char('9'),
                    ],
                    "1-9",
                ),
                Scope::InAsk,
                Command::Choose(0),
                "choose an option or a rule",
            ),
            bind(
                (&[Key::Char('u')], "u"),
                Scope::InAsk,
                Command::PreviousQuestion,
                "the question before, to answer it again",
            ),
            bind(
                (&[Key::Char('n')], "n"),
                Scope::Everywhere,
                Command::NextAsk,
                "next ask (everywhere)",
            ),
            bind(
                (&[Key::Char('N')], "N"),
                Scope::Everywhere,
                Command::PreviousAsk,
                "ask before (everywhere)",
            ),
        ],
    ),
    (
        "Act",
        &[
            bind((&[Key::Char('s')], "s"), Scope::Everywhere, Command::Send, "send a message"),
            bind(
                (&[Key::Char('x')], "x"),
                Scope::Everywhere,
                Command::Stop,
                "stop the session (y)",
            ),
            bind((&[Key::Char('X')], "X"), Scope::Everywhere, Command::EndTurn, "end its turn (y)"),
        ],
    ),
    (
        "Screen",
        &[
            bind((&[Key::Char('M')], "M"), Scope::Everywhere, Command::Mouse, "mouse on, off"),
            bind((&[Key::Ctrl('l')], "Ctrl-L"), Scope::Everywhere, Command::Redraw, "draw anew"),
            bind((&[Key::Char('?')], "?"), Scope::Everywhere, Command::Help, "this page"),
            bind(
                (&[Key::Char('q')], "q"),
                Scope::Everywhere,
                Command::Quit,
                "leave (also Ctrl-C); Ctrl-Z suspends",
            ),
        ],
    ),
];

/// Returns the number of lines of the help page: its title, and for each section a blank line, its name and its keys.
#[must_use]
pub(crate) fn help_lines() -> usize {
    1 + SECTIONS.iter().map(|(_, bindings)| 2 + bindings.len()).sum::<usize>()
}

/// Returns the command of a key.
#[must_use]
pub(crate) fn command(key: Key, focus: Focus) -> Option<Command> {
    let is_in_ask = focus == Focus::Ask;
    let has_meaning = |binding: &&Binding| {
        let in_scope = match binding.scope {
            Scope::Everywhere => true,
            Scope::InAsk => is_in_ask,
            Scope::OutsideAsk => !is_in_ask,
        };
        in_scope && binding.keys.contains(&key)
    };
    let bindings = SECTIONS.iter().flat_map(|(_, bindings)| bindings.iter());
    let command = bindings.into_iter().find(has_meaning)?.command;
    Some(match (command, key) {
        (Command::Choose(_), Key::Char(digit)) => {
            Command::Choose(digit.to_digit(10).map_or(0, |digit| digit as usize))
        }
        (command, _) => command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings_in_one_focus() {
        for focus in [Focus::List, Focus::Detail, Focus::Ask] {
            let mut seen: Vec<Key> = Vec::new();
            for binding in SECTIONS.iter().flat_map(|(_, bindings)| bindings.iter()) {
                let in_scope = match binding.scope {
                    Scope::Everywhere => true,
                    Scope::InAsk => focus == Focus::Ask,
                    Scope::OutsideAsk => focus != Focus::Ask,
                };
                for key in binding.keys.iter().filter(|_| in_scope) {
                    assert!(!seen.contains(key), "{key:?} twice in {focus:?}");
                    seen.push(*key);
                }
            }
        }
    }

    #[test]
    fn answer_keys_mean_nothing_outside_the_ask() {
        for key in ['a', 'd', 'm', 'A', '6', '7', '8', '9'] {
            for focus in [Focus::List, Focus::Detail] {
                assert_eq!(command(Key::Char(key), focus), None, "{key}");
            }
        }
        assert_eq!(command(Key::Char('3'), Focus::Ask), Some(Command::Choose(3)));
        assert_eq!(command(Key::Char('3'), Focus::List), Some(Command::Detail(2)));
    }
}
