//! Texts that complete a word: sessions, names, groups, asks and fuses, each with a description.
//!
//! A completion is a comfort: it only reads, its looks have short limits, and a source that fails or is late is
//! left out without a word. The texts are ones that every command accepts. Only texts of harmless characters are
//! offered, because agents choose names; descriptions have no control characters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_core::ask::{AsksRequest, Fleet};
use agentctl_core::fleet::{Launches, Query, Rows, unique_prefixes};
use agentctl_core::host::Host;
use agentctl_core::model::{Ask, Session, Status};
use agentctl_core::names::{Names, can_be_typed};
use agentctl_core::resolve::PREFIX_CHARS;
use agentctl_core::worktrees;

use super::{ask_summary, fuse_conditions, fuse_name, session_list, session_reason};
use crate::text::{fit, fit_path, one_line, with_tilde};

/// Time limit for a look at live sessions.
const LIVE_LIMIT: Duration = Duration::from_millis(300);
/// Time limit for a look at ended sessions. Without their answer in time only live ones are offered.
const HISTORY_LIMIT: Duration = Duration::from_millis(500);
/// Ended sessions that are offered before anything is typed: those of a week, and at most this many.
const RECENT_MS: i64 = 7 * 24 * 3_600_000;
const MAX_RECENT: usize = 20;
/// Ended sessions that are offered for a typed prefix.
const MAX_MATCHING: usize = 100;
/// Columns of a title, or of what a session waits for, in a description.
const TITLE_COLUMNS: usize = 50;
/// Columns of a directory in a description.
const DIRECTORY_COLUMNS: usize = 30;

/// A text that completes a word, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The text that is typed.
    pub text: String,
    /// Its meaning, in one line without control characters; may be empty.
    pub description: String,
}

impl Completion {
    /// Makes a completion.
    pub fn new(text: impl Into<String>, description: impl Into<String>) -> Self {
        Self { text: text.into(), description: description.into() }
    }
}

/// The sessions that a command can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionScope {
    /// Live sessions.
    Live,
    /// Live sessions, and those that have ended.
    LiveAndEnded,
    /// Sessions that have ended and were launched by this program.
    EndedRuns,
}

impl SessionScope {
    fn admits(self, session: &Session) -> bool {
        match self {
            Self::Live => session.status.is_live(),
            Self::LiveAndEnded => true,
            Self::EndedRuns => !session.status.is_live() && session.run.is_some(),
        }
    }
}

/// Returns the texts that name sessions: ids as `list` shows them, live ones first; names; `@last`; `.`. Of ended
/// sessions, those of the last week are offered, or those of all history that begin with the typed text.
#[must_use]
pub fn session_completions(fleet: &Fleet, scope: SessionScope, typed: &str) -> Vec<Completion> {
    let named = typed.split_once(':').filter(|(adapter, _)| fleet.adapter(adapter).is_some());
    let (adapter, typed) = named.map_or((None, typed), |(name, rest)| (Some(name), rest));
    let ended = scope != SessionScope::Live;
    let rows = rows(fleet, ended.then_some(typed), adapter);
    let ids = rows.iter().filter_map(|session| session.id).collect();
    let mut found =
        Found { fleet, typed, ids, live: Vec::new(), ended: Vec::new(), ended_sessions: 0 };
    let mut sessions = Vec::new();
    for at in 0..rows.len() {
        let Some(session) = rows.get(at).filter(|session| scope.admits(session)) else { continue };
        found.add(&session, rows.short_id(at));
        sessions.push(session);
    }
    let special = if adapter.is_none() { special(fleet, &sessions) } else { Vec::new() };
    let mut all: Vec<Completion> =
        found.live.into_iter().chain(special).chain(found.ended).collect();
    if let Some(adapter) = adapter {
        for one in &mut all {
            one.text.insert_str(0, &format!("{adapter}:"));
        }
    }
    all
}

/// The completions of a list, in the order of its rows.
struct Found<'a> {
    fleet: &'a Fleet,
    typed: &'a str,
    /// The ids of all rows.
    ids: Vec<String>,
    live: Vec<Completion>,
    ended: Vec<Completion>,
    ended_sessions: usize,
}

impl Found<'_> {
    /// Says whether a text means a session by its id.
    fn is_id(&self, text: &str) -> bool {
        text.chars().count() >= PREFIX_CHARS && self.ids.iter().any(|id| id.starts_with(text))
    }

    fn add(&mut self, session: &Session, short_id: Option<&str>) {
        let is_live = session.status.is_live();
        let most = if self.typed.is_empty() { MAX_RECENT } else { MAX_MATCHING };
        if !is_live && self.ended_sessions >= most {
            return;
        }
        let description = description(&self.fleet.host, session);
        let pid = session.pid.map(|pid| pid.to_string());
        // A typed text may be longer than the part of the id that a table shows.
        let whole = session.id.as_deref().filter(|id| id.starts_with(self.typed));
        let shown = short_id.filter(|id| id.starts_with(self.typed)).or(whole).or(short_id);
        let id = shown.map(str::to_owned).or(pid);
        // A name that an agent gave to itself may look like a pid, a path or another session's id.
        let name = session.name.clone().filter(|name| can_be_typed(name) && !self.is_id(name));
        let shown = id.clone().unwrap_or_default();
        let texts = [
            id.map(|id| Completion::new(id, description.clone())),
            name.map(|name| Completion::new(name, format!("{} · {description}", one_line(&shown)))),
        ];
        let fits = |one: &Completion| is_live || one.text.starts_with(self.typed);
        let texts = texts.into_iter().flatten().filter(|one| is_harmless(&one.text));
        let texts: Vec<Completion> = texts.filter(|one| fits(one)).collect();
        self.ended_sessions += usize::from(!is_live && !texts.is_empty());
        let list = if is_live { &mut self.live } else { &mut self.ended };
        list.extend(texts);
    }
}

/// Returns `@last` and `.`, if they name one of these sessions.
fn special(fleet: &Fleet, sessions: &[Session]) -> Vec<Completion> {
    let mut launches = Launches::default();
    launches.read(fleet);
    let last = launches.newest().find_map(|launch| launch.session.clone());
    let last = last.and_then(|id| sessions.iter().find(|s| s.id.as_ref() == Some(&id)));
    let cwd = fleet.host.cwd.to_string_lossy();
    let here = sessions.iter().find(|session| session.cwd.as_deref() == Some(&*cwd));
    let both = [("@last", "newest launch", last), (".", "this directory", here)];
    let completion = |(text, what, session): (&str, &str, Option<&Session>)| {
        let description = description(&fleet.host, session?);
        Some(Completion::new(text, format!("{what} · {description}")))
    };
    both.into_iter().filter_map(completion).collect()
}

/// Returns the groups: those of the sessions that are found, and those that a person gave.
#[must_use]
pub fn group_completions(fleet: &Fleet) -> Vec<Completion> {
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for group in Names::of(&fleet.host).groups() {
        groups.entry(group.to_owned()).or_default();
    }
    for session in rows(fleet, Some(""), None).iter() {
        let Some(group) = session.group else { continue };
        *groups.entry(group).or_default() += usize::from(session.status.is_live());
    }
    let harmless = groups.into_iter().filter(|(group, _)| is_harmless(group));
    let described = harmless.map(|(group, live)| match live {
        0 => Completion::new(group, "no live session"),
        1 => Completion::new(group, "1 live session"),
        many => Completion::new(group, format!("{many} live sessions")),
    });
    described.collect()
}

/// Returns the names of agentctl's worktrees and branches in the repository of the current directory.
#[must_use]
pub fn worktree_completions(host: &Host, prefix: &str) -> Vec<Completion> {
    let names = worktrees::names(host, &host.cwd, prefix).unwrap_or_default();
    let harmless = names.into_iter().filter(|(name, _)| is_harmless(name));
    harmless
        .map(|(name, subject)| Completion::new(name, fit(&one_line(&subject), TITLE_COLUMNS)))
        .collect()
}

/// Returns the ids of the fuses that are set.
#[must_use]
pub fn fuse_completions(fleet: &Fleet) -> Vec<Completion> {
    let fuses = fleet.fuses().fuses;
    let ids: Vec<&str> = fuses.iter().map(|fuse| fuse.id.as_str()).collect();
    let described = fuses.iter().map(|fuse| {
        let name = fuse_name(&fleet.host, fuse);
        one_line(&format!("{} · {name}", fuse_conditions(fuse)))
    });
    let all = unique_prefixes(&ids).into_iter().zip(described);
    all.map(|(id, description)| Completion::new(id, description)).collect()
}

/// Returns the ids of the open asks. For a command that decides, only asks that it can answer are offered, and a
/// single one only after a character is typed: a shell would insert it, and it would be answered unread.
#[must_use]
pub fn ask_completions(fleet: &Fleet, decides: bool, typed: &str) -> Vec<Completion> {
    let Ok(document) = hurried(fleet).asks(&AsksRequest::default()) else { return Vec::new() };
    let asks: Vec<Ask> =
        document.asks.into_iter().filter(|ask| !decides || ask.via.is_some()).collect();
    if decides && typed.is_empty() && asks.len() == 1 {
        return Vec::new();
    }
    let completion = |ask: &Ask| {
        // A typed text may be longer than the part of the id that a table shows.
        let id = if typed.len() > ask.short_id().len() { &ask.id } else { ask.short_id() };
        Completion::new(id, fit(&one_line(&ask_summary(ask)), TITLE_COLUMNS))
    };
    asks.iter().map(completion).collect()
}

/// Returns the same sessions with the time limit of a look for a completion.
fn hurried(fleet: &Fleet) -> Fleet {
    let mut host = Host::clone(&fleet.host);
    host.deadlines.live = host.deadlines.live.min(LIVE_LIMIT);
    Fleet::new(Arc::new(host), fleet.adapters)
}

/// Lists live sessions, and with a typed text also ended ones: all that are found in time.
fn rows(fleet: &Fleet, ended: Option<&str>, adapter: Option<&str>) -> Rows {
    let adapter = adapter.map(str::to_owned);
    let live = Query { adapter, for_table: true, short_ids: true, ..Query::default() };
    if let Some(typed) = ended {
        let since = fleet.host.now().millis() - RECENT_MS;
        let since_ms = typed.is_empty().then_some(since);
        let query = Query { all: true, since_ms, ..live.clone() };
        let (fleet, (sender, receiver)) = (fleet.clone(), channel());
        // A look that is late is left behind: the process ends soon.
        std::thread::spawn(move || sender.send(session_list(&fleet, &query).rows));
        if let Ok(rows) = receiver.recv_timeout(HISTORY_LIMIT) {
            return rows;
        }
    }
    hurried(fleet).rows(&live)
}

/// Describes a session: its status, what it waits for or its title, and its directory.
fn description(host: &Host, session: &Session) -> String {
    let reason = session_reason(session).filter(|_| session.status == Status::Waiting);
    // The texts of a home that only a process names may mislead.
    let title = session.title.clone().filter(|_| !session.foreign_home);
    let what = reason.or(title).map(|text| fit(&one_line(&text), TITLE_COLUMNS));
    let directory = session.cwd.as_deref().map(|cwd| with_tilde(&host.home, cwd));
    let directory = directory.map(|path| fit_path(&path, DIRECTORY_COLUMNS));
    let parts = [Some(session.status.word().to_owned()), what, directory];
    let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" · ")
}

/// Says whether a text can be put on a command line: no shell gives its characters a meaning. A blank is quoted by
/// the shell or by its script.
fn is_harmless(text: &str) -> bool {
    let harmless = |c: char| c.is_alphanumeric() || "-_.,+@%/=: ".contains(c);
    !text.is_empty() && !text.starts_with(['-', '=', ' ']) && text.chars().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_a_shell_could_act_on_are_not_offered() {
        for text in ["painter", "my task", "2a658488", "ses_1", "größer", "a.b/c@d"] {
            assert!(is_harmless(text), "{text}");
        }
        for text in [
            "",
            "$(reboot)",
            "`id`",
            "a;b",
            "a\nb",
            "-rf",
            "a\\",
            "a'b",
            "a\"b",
            "*",
            "~",
            "{a,b}",
            "!1",
            "a\u{1b}[2J",
            "#x",
            "a&b",
            "=ls",
        ] {
            assert!(!is_harmless(text), "{text}");
        }
    }
}
