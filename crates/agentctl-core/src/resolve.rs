//! Finds the session that the user typed: by `@last`, the user's own name for it, exact id, pid, path, prefix or the
//! agent's name for it.
//!
//! The first form with a match decides. A live session wins over ended ones, and of several ended ones that a name or a
//! directory fits, the newest is meant. Names that agents gave are tried after everything that a user can mean without
//! them, and only if they keep to the rules for names: an agent must not redirect an order by calling itself like
//! another session's id, pid or directory. Names that only transcripts hold are searched last, because that reads all
//! history. `ID@HOME` is a form and a home, and then only that home is asked. It is tried first where the home is a path
//! or an address, else behind everything that the text can mean as a whole.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::adapters::Found;
use crate::fleet::{self, Fleet, Launches, Query, each_adapter, list};
use crate::model::{Fault, Locator, Session, Target};
use crate::names::{Names, can_be_typed};
use crate::native::file;
use crate::runs::{Run, Runs};

/// Shortest prefix of an id that is accepted.
pub const PREFIX_CHARS: usize = 4;
/// The only session of the current directory: what a command means that is given no session at all.
pub const HERE: &str = "@here";
/// The newest launch.
const LAST: &str = "@last";
/// An ended session of a directory is looked for among those of this time (a week) first.
const RECENT_MS: i64 = 7 * 24 * 3_600_000;

/// The sessions that match a text.
#[derive(Debug)]
pub struct Resolved {
    /// Every match; one is an answer, several are an ambiguity.
    pub targets: Vec<Target>,
    /// The sources that failed. If there are any, "no such session" is not proved.
    pub faults: Vec<Fault>,
}

/// Finds the sessions that `text` names.
#[must_use]
pub fn resolve(fleet: &Fleet, text: &str) -> Resolved {
    let narrowed = text.split_once(':').and_then(|(adapter, rest)| {
        let adapter = fleet.adapter(adapter)?;
        Some((adapter.name(), rest))
    });
    let (only, text) = match narrowed {
        Some((adapter, rest)) => (Some(adapter), rest),
        None => (None, text),
    };
    let mut search = Search { fleet, only, home: None, faults: Vec::new() };
    // As a whole, such a text would be looked for as a directory, in all history.
    let exact = exact_home(text);
    let mut targets = exact.map(|named| search.at_home(named)).unwrap_or_default();
    if targets.is_empty() {
        targets = search.run(text);
    }
    if targets.is_empty()
        && exact.is_none()
        && let Some(named) = text.split_once('@').filter(|(text, _)| !text.is_empty())
    {
        targets = search.at_home(named);
    }
    targets.sort_by(|a, b| (a.adapter, &a.session, &a.root).cmp(&(b.adapter, &b.session, &b.root)));
    let mut faults = search.faults;
    faults.sort();
    faults.dedup();
    Resolved { targets, faults }
}

/// Splits `ID@HOME` where the home is a path from the root or the user's own directory, or an address. An id may hold
/// an `@` of its own.
fn exact_home(text: &str) -> Option<(&str, &str)> {
    let is_address = |home: &str| {
        let scheme = home.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| scheme.bytes().all(|b| b.is_ascii_alphabetic()))
    };
    let splits = text.match_indices('@').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let mut fitting = splits.filter(|(_, home)| home.starts_with(['/', '~']) || is_address(home));
    fitting.next().filter(|(id, _)| !id.is_empty() && !id.contains('/'))
}

/// Finds the sessions, live or ended, whose id begins with this text.
#[must_use]
pub fn begin_with(fleet: &Fleet, text: &str) -> Vec<Target> {
    let mut search = Search { fleet, only: None, home: None, faults: Vec::new() };
    let mut found = search.by_prefix(text);
    found.extend(pick(&search.live(), |s| s.id.as_deref().is_some_and(|id| id.starts_with(text))));
    found
}

/// Returns those of these sessions, each an adapter and an id, that no source knows: a launch that failed has
/// chosen an id that never became a session. Sessions of an adapter that could not be read are not among them.
#[must_use]
pub fn unknown_sessions(fleet: &Fleet, sessions: &[(&str, &str)]) -> HashSet<(String, String)> {
    let mut search = Search { fleet, only: None, home: None, faults: Vec::new() };
    let ids = sessions.iter().map(|(_, id)| (*id).to_owned()).collect();
    let found = search.exact(&ids);
    let is_known = |adapter: &str, id: &str| {
        let is_it = |t: &Target| t.session.as_ref().is_some_and(|l| l.id == id);
        found.iter().any(|target| target.adapter == adapter && is_it(target))
            || search.faults.iter().any(|fault| fault.adapter == adapter)
    };
    let unknown = sessions.iter().filter(|(adapter, id)| !is_known(adapter, id));
    unknown.map(|(adapter, id)| ((*adapter).to_owned(), (*id).to_owned())).collect()
}

/// Returns the id of the newest launch, where `@last` means a launch and not a session: the id of its session, or
/// of its run if it has none. `None` if the text is not `@last` or nothing was launched.
pub(crate) fn newest_launch(fleet: &Fleet, text: &str) -> Option<String> {
    let (only, text) = match text.split_once(':') {
        Some((adapter, rest)) => (Some(fleet.adapter(adapter)?.name()), rest),
        None => (None, text),
    };
    let runs = (text == LAST).then(|| Runs::of(&fleet.host).all().unwrap_or_default())?;
    runs.into_iter().find_map(|run| {
        let spec = run.spec().filter(|s| only.is_none_or(|only| only == s.adapter))?;
        Some(fleet::session_of(fleet, &run, &spec).unwrap_or(run.id))
    })
}

/// Returns the adapter and the session of a run, if it is of the named adapter.
fn launched_session(
    fleet: &Fleet,
    only: Option<&str>,
    run: &Run,
) -> Option<(&'static str, String)> {
    let spec = run.spec().filter(|s| only.is_none_or(|only| only == s.adapter))?;
    let session = fleet::session_of(fleet, run, &spec)?;
    let adapter = fleet.adapters.iter().find(|a| a.name() == spec.adapter)?;
    Some((adapter.name(), session))
}

struct Search<'a> {
    fleet: &'a Fleet,
    only: Option<&'a str>,
    /// The label of the only home that is asked.
    home: Option<String>,
    faults: Vec<Fault>,
}

impl Search<'_> {
    /// Finds the sessions that a text names in one home.
    fn at_home(&mut self, (text, home): (&str, &str)) -> Vec<Target> {
        let home = self.home(home);
        self.home = Some(home.clone());
        let mut targets = self.run(text);
        self.home = None;
        targets.retain(|target| target.root == home);
        targets
    }

    /// Says whether a home is asked.
    fn asks(&self, root: &str) -> bool {
        self.home.as_deref().is_none_or(|home| home == root)
    }

    fn run(&mut self, text: &str) -> Vec<Target> {
        if text.is_empty() {
            return Vec::new();
        }
        if text == LAST {
            return self.last();
        }
        if text == HERE {
            return self.only_here();
        }
        let named = self.by_own_name(text);
        if !named.is_empty() {
            return named;
        }
        // Try the path where the agent would store a complete id first: it answers most questions.
        let id = text.to_owned();
        let expected = self.ask(move |store| Found {
            rows: store.expected(&id).into_iter().collect(),
            ..Found::default()
        });
        if !expected.is_empty() {
            return expected;
        }
        let by_prefix = self.by_prefix(text);
        let exact: Vec<Target> = by_prefix
            .iter()
            .filter(|t| t.session.as_ref().is_some_and(|l| l.id == text))
            .cloned()
            .collect();
        if !exact.is_empty() {
            return exact;
        }
        let live = self.live();
        let exact = pick(&live, |s| s.id.as_deref() == Some(text));
        if !exact.is_empty() {
            return exact;
        }
        if let Ok(pid) = text.parse::<u32>() {
            let mut by_pid = pick(&live, |s| s.processes.iter().any(|p| p.id.pid == pid));
            for target in &mut by_pid {
                target.pid = Some(pid);
            }
            if !by_pid.is_empty() {
                return by_pid;
            }
        }
        if text.starts_with(['.', '~']) || text.contains('/') {
            return self.by_path(&live, text);
        }
        let fitting = fitting(by_prefix, &live, text);
        if !fitting.is_empty() {
            return fitting;
        }
        if !can_be_typed(text) {
            return Vec::new();
        }
        let named = self.by_agents_name(&live, text);
        if !named.is_empty() {
            return named;
        }
        let query = Query { all: true, ..self.query() };
        let all = list(self.fleet, &query);
        self.faults.extend(all.faults);
        let is_named = |s: &&Session| s.name.as_deref() == Some(text) && self.asks(&s.root);
        newest(all.sessions.iter().filter(is_named))
    }

    /// Finds the live sessions that the user gave this name, else the newest ended one.
    fn by_own_name(&mut self, name: &str) -> Vec<Target> {
        let names = Names::of(&self.fleet.host);
        self.faults.extend(names.fault().cloned());
        let mut targets = Vec::new();
        for subject in names.named(name) {
            let asked =
                self.only.is_none_or(|only| only == subject.adapter) && self.asks(&subject.root);
            let adapter = self.fleet.adapter(&subject.adapter).filter(|_| asked);
            targets.extend(adapter.map(|adapter| Target {
                adapter: adapter.name(),
                root: subject.root.clone(),
                session: Some(whole(&subject.session)),
                pid: None,
            }));
        }
        self.still_named(&targets, name)
    }

    /// Finds the sessions that a launch gave this name, else those whose agent did: the live ones, else the newest
    /// ended one, as far as the agents' indexes tell names.
    fn by_agents_name(&mut self, live: &[Session], name: &str) -> Vec<Target> {
        let launched = self.launched_as(name);
        let launched = self.still_named(&launched, name);
        if !launched.is_empty() {
            return launched;
        }
        let named = pick(live, |s| s.name.as_deref() == Some(name));
        if !named.is_empty() {
            return named;
        }
        let indexed = self.by_index(name);
        self.still_named(&indexed, name)
    }

    /// Looks at sessions that a file says have this name: a newer word of the user may be another one, or the session
    /// may be gone. Returns the live ones of this name, else the newest ended one.
    fn still_named(&mut self, targets: &[Target], name: &str) -> Vec<Target> {
        if targets.is_empty() {
            return Vec::new();
        }
        let seen = fleet::inspect_watched(self.fleet, targets, self.fleet.host.deadlines.all);
        self.faults.extend(seen.faults);
        let mut sessions: Vec<Session> = seen.seen.into_iter().filter_map(|o| o.session).collect();
        let _told = fleet::add_launches(self.fleet, &mut sessions);
        sessions.retain(|s| s.name.as_deref() == Some(name));
        let live = pick(&sessions, |s| s.status.is_live());
        if live.is_empty() { newest(sessions.iter()) } else { live }
    }

    /// Finds the sessions that a launch gave this name.
    fn launched_as(&mut self, name: &str) -> Vec<Target> {
        let mut launches = Launches::default();
        launches.read(self.fleet);
        let named = launches.newest().filter(|launch| launch.spec.name.as_deref() == Some(name));
        let ids: Vec<(String, String)> = named
            .filter_map(|launch| Some((launch.spec.adapter.clone(), launch.session.clone()?)))
            .filter(|(adapter, _)| self.only.is_none_or(|only| only == adapter))
            .collect();
        let mut found = Vec::new();
        for (adapter, id) in ids {
            let targets = self.by_prefix(&id).into_iter();
            let is_it = |l: &Locator| l.id == id;
            found.extend(
                targets.filter(|t| t.adapter == adapter && t.session.as_ref().is_some_and(is_it)),
            );
        }
        found
    }

    /// Finds the only session of the current directory: the live ones, else the ended ones.
    fn only_here(&mut self) -> Vec<Target> {
        let here = self.directory(".");
        let live = self.live();
        let found = pick(&live, |s| s.cwd.as_deref() == Some(here.as_str()));
        if !found.is_empty() {
            return found;
        }
        pick(&self.ended_in(&here, None), |_| true)
    }

    /// Returns the session of the newest launch that has one, of the named adapter if there is one. A launch
    /// that failed has none.
    fn last(&mut self) -> Vec<Target> {
        for run in Runs::of(&self.fleet.host).all().unwrap_or_default() {
            let Some((adapter, session)) = launched_session(self.fleet, self.only, &run) else {
                continue;
            };
            let faults = self.faults.len();
            let found = self.exact(&BTreeSet::from([session]));
            let found: Vec<Target> = found.into_iter().filter(|t| t.adapter == adapter).collect();
            // A session that could not be seen, or is only beginning, is not replaced by an older one.
            let may_exist = self.faults.len() > faults || run.over(&self.fleet.host).is_none();
            if !found.is_empty() || may_exist {
                return found;
            }
        }
        Vec::new()
    }

    /// Finds the sessions with these whole ids, live or ended.
    fn exact(&mut self, ids: &BTreeSet<String>) -> Vec<Target> {
        let is_found = |found: &[Target], id: &str| {
            found.iter().any(|target| target.session.as_ref().is_some_and(|l| l.id == id))
        };
        let missing = |found: &[Target]| -> BTreeSet<String> {
            ids.iter().filter(|id| !is_found(found, id)).cloned().collect()
        };
        let expected = ids.clone();
        let mut found = self.ask(move |store| Found {
            rows: expected.iter().filter_map(|id| store.expected(id)).collect(),
            ..Found::default()
        });
        let left = missing(&found);
        if left.is_empty() {
            return found;
        }
        found.extend(self.ask(move |store| {
            let mut all = Found::default();
            for id in &left {
                let mut some = store.find(id);
                some.rows.retain(|locator| locator.id == *id);
                all.rows.append(&mut some.rows);
                all.faults.append(&mut some.faults);
            }
            all
        }));
        let left = missing(&found);
        if !left.is_empty() {
            let live = self.live();
            found.extend(pick(&live, |s| s.id.as_ref().is_some_and(|id| left.contains(id))));
        }
        found
    }

    fn query(&self) -> Query {
        Query { adapter: self.only.map(str::to_owned), resting: true, ..Query::default() }
    }

    fn live(&mut self) -> Vec<Session> {
        let mut listing = list(self.fleet, &self.query());
        self.faults.extend(listing.faults);
        listing.sessions.retain(|session| self.asks(&session.root));
        listing.sessions
    }

    /// Expands a path that the user typed.
    fn path(&self, text: &str) -> PathBuf {
        match text.strip_prefix('~') {
            Some("") => self.fleet.host.home.clone(),
            Some(rest) if rest.starts_with('/') => self.fleet.host.home.join(&rest[1..]),
            _ => self.fleet.host.cwd.join(text),
        }
    }

    /// Returns the label of a home that the user typed: a directory, or the address of a server.
    fn home(&self, text: &str) -> String {
        if text.contains("://") {
            return text.to_owned();
        }
        file::resolve_root(&self.path(text)).to_string_lossy().into_owned()
    }

    /// Returns a directory as sessions name it, links resolved.
    fn directory(&self, text: &str) -> String {
        let path = self.path(text);
        let real = std::fs::canonicalize(&path).unwrap_or(path);
        real.to_string_lossy().into_owned()
    }

    /// Finds the newest session of a directory: a live one, else an ended one.
    fn by_path(&mut self, live: &[Session], text: &str) -> Vec<Target> {
        let wanted = self.directory(text);
        let found = newest(live.iter().filter(|s| s.cwd.as_deref() == Some(wanted.as_str())));
        if !found.is_empty() {
            return found;
        }
        let recently = self.fleet.host.now().millis() - RECENT_MS;
        let found = newest(self.ended_in(&wanted, Some(recently)).iter());
        if !found.is_empty() {
            return found;
        }
        newest(self.ended_in(&wanted, None).iter())
    }

    fn ended_in(&mut self, directory: &str, since_ms: Option<i64>) -> Vec<Session> {
        let cwd = Some(directory.to_owned());
        let mut listing = list(self.fleet, &Query { all: true, since_ms, cwd, ..self.query() });
        self.faults.extend(listing.faults);
        listing.sessions.retain(|session| self.asks(&session.root));
        listing.sessions
    }

    fn by_prefix(&mut self, prefix: &str) -> Vec<Target> {
        let prefix = prefix.to_owned();
        self.ask(move |store| store.find(&prefix))
    }

    fn by_index(&mut self, name: &str) -> Vec<Target> {
        let name = name.to_owned();
        self.ask(move |store| store.named(&name))
    }

    fn ask(
        &mut self,
        question: impl Fn(&dyn crate::adapters::Store) -> Found<Locator> + Send + Sync + 'static,
    ) -> Vec<Target> {
        let (only, home) = (self.only.map(str::to_owned), self.home.clone());
        let question = Arc::new(question);
        let found =
            each_adapter(self.fleet, self.fleet.host.deadlines.all, move |adapter, look| {
                if only.as_deref().is_some_and(|o| o != adapter.name()) {
                    return Found::default();
                }
                let (question, home) = (Arc::clone(&question), home.clone());
                fleet::each_root(adapter, look, move |look, root| {
                    if home.as_deref().is_some_and(|home| home != root.label()) {
                        return Found::default();
                    }
                    let found = question(adapter.store(look, root).as_ref());
                    let rows = found.rows.into_iter().map(|locator| Target {
                        adapter: adapter.name(),
                        root: root.label(),
                        session: Some(locator),
                        pid: None,
                    });
                    Found { rows: rows.collect(), faults: found.faults, whole: found.whole }
                })
            });
        self.faults.extend(found.faults);
        found.rows
    }
}

fn same(a: &Target, b: &Target) -> bool {
    a.adapter == b.adapter
        && a.root == b.root
        && a.session.as_ref().map(|l| &l.id) == b.session.as_ref().map(|l| &l.id)
}

/// Returns the sessions that a prefix fits. A single live session among them is meant; a subagent is meant only
/// where no session fits.
fn fitting(by_prefix: Vec<Target>, live: &[Session], text: &str) -> Vec<Target> {
    if text.chars().count() < PREFIX_CHARS {
        return Vec::new();
    }
    let alive = pick(live, |s| s.id.as_deref().is_some_and(|id| id.starts_with(text)));
    if alive.len() == 1 {
        return alive;
    }
    let mut fitting = by_prefix;
    for target in alive {
        if !fitting.iter().any(|t| same(t, &target)) {
            fitting.push(target);
        }
    }
    let is_child = |t: &Target| t.session.as_ref().is_some_and(|l| l.parent.is_some());
    if !fitting.iter().all(is_child) {
        fitting.retain(|target| !is_child(target));
    }
    fitting
}

/// Returns the session with the newest entry.
fn newest<'s>(sessions: impl Iterator<Item = &'s Session>) -> Vec<Target> {
    let at = |s: &&Session| (s.last_activity_at.or(s.started_at), s.id.clone());
    sessions.max_by_key(at).map(Session::target).into_iter().collect()
}

fn whole(id: &str) -> Locator {
    Locator { id: id.to_owned(), path: None, parent: None }
}

fn pick(sessions: &[Session], wanted: impl Fn(&Session) -> bool) -> Vec<Target> {
    sessions.iter().filter(|s| wanted(s)).map(Session::target).collect()
}

#[cfg(test)]
mod tests {
    use super::exact_home;

    #[test]
    fn a_home_is_split_off_an_id_that_has_an_at_sign_of_its_own() {
        for (text, split) in [
            ("a@/home/ada@work", Some(("a", "/home/ada@work"))),
            ("a@~/two", Some(("a", "~/two"))),
            ("dm:1@chat.example@ws://127.0.0.1:1", Some(("dm:1@chat.example", "ws://127.0.0.1:1"))),
            ("a@two", None),
            ("./a@/b", None),
            ("@/b", None),
            ("@last", None),
        ] {
            assert_eq!(exact_home(text), split, "{text}");
        }
    }
}
