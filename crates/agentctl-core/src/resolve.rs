//! Finds the session that the user typed: by exact id, name, pid, path, `@last` or prefix.
//!
//! The forms are tried in the order of the contract, and the first one with a match decides. Names that
//! only transcripts hold are searched last, because that reads all history. A text without a match that
//! holds an `@` is tried as a form and a home: `ID@HOME`.

use std::path::PathBuf;
use std::sync::Arc;

use crate::adapters::Found;
use crate::fleet::{self, Fleet, Query, each_adapter, list};
use crate::model::{Fault, Locator, Session, Target};
use crate::native::file;
use crate::runs::Runs;

/// Shortest prefix of an id that is accepted.
pub const PREFIX_CHARS: usize = 4;

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
    let (only, text) = match text.split_once(':') {
        Some((adapter, rest)) if fleet.adapters.iter().any(|a| a.name() == adapter) => {
            (Some(adapter), rest)
        }
        _ => (None, text),
    };
    let mut search = Search { fleet, only, faults: Vec::new() };
    let mut targets = search.run(text);
    if targets.is_empty()
        && let Some((text, home)) = text.split_once('@').filter(|(text, _)| !text.is_empty())
    {
        let home = search.home(home);
        targets = search.run(text);
        targets.retain(|target| target.root == home);
    }
    targets.sort_by(|a, b| (a.adapter, &a.session, &a.root).cmp(&(b.adapter, &b.session, &b.root)));
    let mut faults = search.faults;
    faults.sort();
    faults.dedup();
    Resolved { targets, faults }
}

struct Search<'a> {
    fleet: &'a Fleet,
    only: Option<&'a str>,
    faults: Vec<Fault>,
}

impl Search<'_> {
    fn run(&mut self, text: &str) -> Vec<Target> {
        if text.is_empty() {
            return Vec::new();
        }
        if text == "@last" {
            return self.last();
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
        let looks_like_path = text.starts_with(['/', '.', '~']);
        let by_name = self.by_prefix(text);
        let exact: Vec<Target> = by_name
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
        let named = pick(&live, |s| s.name.as_deref() == Some(text));
        let named = if named.is_empty() { self.by_index(text) } else { named };
        if !named.is_empty() {
            return named;
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
        if looks_like_path {
            return self.by_path(&live, text);
        }
        if text.chars().count() >= PREFIX_CHARS {
            let mut fitting = by_name;
            for target in pick(&live, |s| s.id.as_deref().is_some_and(|id| id.starts_with(text))) {
                if !fitting.iter().any(|t| same(t, &target)) {
                    fitting.push(target);
                }
            }
            if !fitting.is_empty() {
                return fitting;
            }
        }
        let query = Query { all: true, ..self.query() };
        let all = list(self.fleet, &query);
        self.faults.extend(all.faults);
        pick(&all.sessions, |s| s.name.as_deref() == Some(text))
    }

    /// Returns the newest launch, of the named adapter if there is one.
    fn last(&mut self) -> Vec<Target> {
        let runs = Runs::of(&self.fleet.host);
        let newest = runs.all().unwrap_or_default().into_iter().find_map(|run| {
            let spec = run.spec().filter(|s| self.only.is_none_or(|only| only == s.adapter))?;
            let session = fleet::session_of(self.fleet, &run, &spec)?;
            let adapter = self.fleet.adapters.iter().find(|a| a.name() == spec.adapter)?;
            Some((adapter.name(), session))
        });
        let Some((adapter, session)) = newest else { return Vec::new() };
        let only = self.only.replace(adapter);
        let found = self.run(&session);
        self.only = only;
        found
    }

    fn query(&self) -> Query {
        Query { adapter: self.only.map(str::to_owned), resting: true, ..Query::default() }
    }

    fn live(&mut self) -> Vec<Session> {
        let listing = list(self.fleet, &self.query());
        self.faults.extend(listing.faults);
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

    fn by_path(&self, live: &[Session], text: &str) -> Vec<Target> {
        let path = self.path(text);
        let wanted = std::fs::canonicalize(&path).unwrap_or(path);
        let wanted = wanted.to_string_lossy();
        pick(live, |s| s.cwd.as_deref() == Some(wanted.as_ref()))
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
        let only = self.only.map(str::to_owned);
        let question = Arc::new(question);
        let found =
            each_adapter(self.fleet, self.fleet.host.deadlines.all, move |adapter, look| {
                if only.as_deref().is_some_and(|o| o != adapter.name()) {
                    return Found::default();
                }
                let question = Arc::clone(&question);
                fleet::each_root(adapter, look, move |look, root| {
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

fn pick(sessions: &[Session], wanted: impl Fn(&Session) -> bool) -> Vec<Target> {
    sessions.iter().filter(|s| wanted(s)).map(Session::target).collect()
}
