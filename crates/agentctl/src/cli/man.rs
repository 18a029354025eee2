//! `agentctl man`: one manual page for every command, made from the command tree and the tables of the help pages.

mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentctl_core::native::private;
use clap::{Args, Command};

use self::page::page;
use crate::failure::{Failure, Kind, Outcome};
use crate::text::nearest;
use crate::ui::Ui;

/// Print a manual page, or install all of them
///
/// Without a command the page of agentctl itself is printed. `man -l -` shows a page: `agentctl man list | man -l -`.
#[derive(Args)]
pub(super) struct ManArgs {
    /// Print the page of this command: `list`, `fuse set` or `fuse-set`
    #[arg(value_name = "COMMAND", conflicts_with = "install")]
    command: Vec<String>,
    /// Write all pages into this directory: agentctl.1, agentctl-list.1, agentctl-fuse-set.1, …
    #[arg(long, value_name = "DIR")]
    install: Option<PathBuf>,
}

pub(super) fn cmd_man(ui: &mut Ui, args: &ManArgs) -> Outcome {
    let root = tree(super::command());
    if let Some(directory) = &args.install {
        let pages = pages(&root);
        install(directory, &pages).map_err(|error| {
            let message =
                format!("the pages cannot be written to {}: {error}", directory.display());
            Failure::new(Kind::Failed, message)
                .hint("name a directory you may write to, such as ~/.local/share/man/man1")
        })?;
        ui.line(&format!("installed {} pages in {}", pages.len(), directory.display()))?;
    } else {
        let command = find(&root, &args.command)?;
        ui.raw(&page(&root, command)?)?;
        ui.flush()?;
        if ui.is_terminal() {
            let words = [&["agentctl".to_owned(), "man".to_owned()], args.command.as_slice()];
            ui.hint(&format!("`{} | man -l -` shows the page formatted", words.concat().join(" ")));
        }
    }
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command tree with the full name of each command, without the subcommands `help`.
fn tree(root: Command) -> Command {
    let mut root = without_help(root);
    root.build();
    root
}

fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Returns the visible subcommands.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

/// Returns the file name of a page without its suffix: `agentctl-fuse-set`.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Returns the command that the words name: `fuse set`, or as its page is called, `fuse-set`.
fn find<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    let mut command = root;
    for word in words {
        command = below(command, word).ok_or_else(|| {
            let message = format!("there is no manual page for `{}`", words.join(" "));
            let near = nearest(word, shown(command).map(Command::get_name));
            Failure::new(Kind::Usage, message).hint(match near {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`agentctl --help` lists the commands".to_owned(),
            })
        })?;
    }
    Ok(command)
}

/// Returns the subcommand that a word names, of any depth: the names of a command and its subcommand may be joined by
/// `-`.
fn below<'a>(command: &'a Command, word: &str) -> Option<&'a Command> {
    let shown_sub = |name: &str| command.find_subcommand(name).filter(|sub| !sub.is_hide_set());
    shown_sub(word).or_else(|| {
        let mut splits = word.match_indices('-');
        splits.find_map(|(at, _)| below(shown_sub(&word[..at])?, &word[at + 1..]))
    })
}

/// A page and the name of its file.
struct PageFile {
    name: String,
    text: Vec<u8>,
}

/// Returns the pages of all visible commands.
fn pages(root: &Command) -> Vec<PageFile> {
    let mut files = Vec::new();
    let mut pending = vec![root];
    while let Some(command) = pending.pop() {
        // Writing to memory cannot fail.
        let text = page(root, command).unwrap_or_default();
        files.push(PageFile { name: format!("{}.1", page_name(command)), text });
        pending.extend(shown(command));
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// Manual pages are for all users.
const PAGE_MODE: u32 = 0o644;

/// Writes all pages beside their places, then renames them. An error before the first rename changes no page.
fn install(directory: &Path, pages: &[PageFile]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut beside = Vec::new();
    let installed = pages
        .iter()
        .try_for_each(|file| {
            beside.push(private::write_beside(directory, &file.text, PAGE_MODE)?);
            Ok(())
        })
        .and_then(|()| {
            let mut both = beside.iter().zip(pages);
            both.try_for_each(|(from, file)| fs::rename(from, directory.join(&file.name)))
        });
    if installed.is_err() {
        for path in beside {
            // Those that were renamed are not there.
            let _left = fs::remove_file(path);
        }
    }
    installed
}
