//! The newest look, for all pages at once. Each page remembers the number of the look that it has seen, and gets what
//! changed since then: a slow page costs no memory and delays no other.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentctl_core::fleet::Rows;
use agentctl_core::model::{Ask, Fault, Session, Time};
use axum::body::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::stream::event;
use crate::text::json_line;

/// Sessions that are gone and remembered. A page that missed more gets everything again.
const MAX_GONE: usize = 1024;

/// The newest look.
pub(super) struct Board {
    state: Mutex<State>,
    /// Counts the looks.
    looks: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Whether a look has been taken since the watch began.
    is_current: bool,
    /// Counts the looks that differ from the one before.
    version: u64,
    rows: HashMap<String, Row>,
    /// The keys of the rows in the order of `list`.
    sorted: Vec<String>,
    /// The same, for the page.
    order: Shown,
    asks: Shown,
    faults: Shown,
    /// The keys of sessions that are gone, with the version that lacks them first.
    gone: VecDeque<(u64, String)>,
    /// Counts the changes of the names and groups that a person gave.
    names: u64,
    /// Pages that have seen no later version than this one get everything.
    forgotten: u64,
    /// The events of this version, by the version that a page has seen.
    made: HashMap<Option<u64>, Bytes>,
}

struct Row {
    version: u64,
    hash: u64,
    json: Box<RawValue>,
}

/// A part of the look that is sent as a whole.
#[derive(Default)]
struct Shown {
    version: u64,
    hash: u64,
    json: Option<Box<RawValue>>,
}

/// The data of the event `look`: the changes since the last one.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LookData<'a> {
    /// It has everything, and replaces what was shown.
    full: bool,
    /// The sessions that are new or have changed.
    #[schemars(with = "Vec<Session>")]
    rows: Vec<&'a RawValue>,
    /// The keys of the sessions that are gone.
    gone: Vec<&'a str>,
    /// The keys of all sessions, `adapter:id@home` or `adapter:pid:N`, in the order of `list`; absent if it has not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    order: Option<&'a RawValue>,
    /// All open asks, longest waiting first.
    #[schemars(with = "Option<Vec<Ask>>")]
    asks: Option<&'a RawValue>,
    /// The sources that could not be read.
    #[schemars(with = "Option<Vec<Fault>>")]
    faults: Option<&'a RawValue>,
    /// Differs if a name or a group was given since: rows of ended sessions, which are in no look, may differ then.
    names: u64,
}

impl Board {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), looks: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that is told of every look.
    pub(super) fn looks(&self) -> watch::Receiver<u64> {
        self.looks.subscribe()
    }

    /// Takes note that nothing is watched any more: the next page waits for a fresh look.
    pub(super) fn set_stale(&self) {
        self.lock().is_current = false;
    }

    /// Takes a look, and how often names have changed.
    pub(super) fn take(&self, rows: &Rows, (asks, more_faults): (&[Ask], &[Fault]), names: u64) {
        let faults = [rows.faults.as_slice(), more_faults].concat();
        self.lock().take(rows.iter(), (asks, &faults), names);
        self.looks.send_modify(|count| *count += 1);
    }

    /// Returns the event for a page that has seen this version, and the version it has seen then; `None` if there is
    /// nothing new.
    pub(super) fn since(&self, version: Option<u64>) -> Option<(u64, Bytes)> {
        let mut state = self.lock();
        if !state.is_current || version == Some(state.version) {
            return None;
        }
        let from = version.filter(|version| *version >= state.forgotten);
        let now = state.version;
        if let Some(made) = state.made.get(&from) {
            return Some((now, made.clone()));
        }
        let made = state.event(from);
        state.made.insert(from, made.clone());
        Some((now, made))
    }
}

impl State {
    fn take(
        &mut self,
        sessions: impl Iterator<Item = Session>,
        (asks, faults): (&[Ask], &[Fault]),
        names: u64,
    ) {
        let version = self.version + 1;
        let mut has_changed = !self.is_current || self.names != names;
        self.names = names;
        let mut now: HashMap<String, Row> = HashMap::new();
        let mut sorted = Vec::new();
        for session in sessions {
            let key = key(&session);
            sorted.push(key.clone());
            let hash = hash_of(&timeless(session.clone()));
            match self.rows.remove(&key) {
                Some(row) if row.hash == hash => drop(now.insert(key, row)),
                _ => {
                    has_changed = true;
                    let Some(json) = raw(&session) else { continue };
                    now.insert(key, Row { version, hash, json });
                }
            }
        }
        let left = self.rows.drain().map(|(key, _)| key);
        let gone: Vec<String> = left.filter(|key| !now.contains_key(key)).collect();
        has_changed |= !gone.is_empty();
        self.gone.extend(gone.into_iter().map(|key| (version, key)));
        while self.gone.len() > MAX_GONE {
            let first = self.gone.pop_front();
            self.forgotten = first.map_or(self.forgotten, |(version, _)| version);
        }
        has_changed |= self.order.set(version, &sorted, &sorted);
        (self.rows, self.sorted) = (now, sorted);
        let timeless_asks: Vec<Ask> = asks.iter().cloned().map(timeless_ask).collect();
        has_changed |= self.asks.set(version, &asks, &timeless_asks);
        has_changed |= self.faults.set(version, &faults, &faults);
        self.is_current = true;
        if has_changed {
            self.version = version;
            self.made.clear();
        }
    }

    fn event(&self, from: Option<u64>) -> Bytes {
        let is_new = |version: u64| from.is_none_or(|from| version > from);
        let rows = self.sorted.iter().filter_map(|key| self.rows.get(key));
        let rows = rows.filter(|row| is_new(row.version));
        let gone = self.gone.iter().filter(|(version, _)| from.is_some_and(|from| *version > from));
        // A session that came back is not gone.
        let gone = gone.map(|(_, key)| key.as_str());
        let gone = gone.filter(|key| !self.rows.contains_key(*key)).collect();
        let data = LookData {
            full: from.is_none(),
            rows: rows.map(|row| row.json.as_ref()).collect(),
            gone,
            order: self.order.json.as_deref().filter(|_| is_new(self.order.version)),
            asks: self.asks.json.as_deref(),
            faults: self.faults.json.as_deref(),
            names: self.names,
        };
        event("look", &data)
    }
}

impl Shown {
    /// Replaces the value if it differs, apart from what is left out of `compared`; says whether it did.
    fn set(&mut self, version: u64, value: &impl Serialize, compared: &impl Serialize) -> bool {
        let hash = hash_of(compared);
        if self.json.is_some() && self.hash == hash {
            return false;
        }
        *self = Self { version, hash, json: raw(value) };
        true
    }
}

/// Returns the key of a row on the page: `adapter:id@home`, because two homes may hold sessions of the same id, or
/// `adapter:pid:N` for a process without a session. The page makes the same keys (`keyOf` in `list.js`).
fn key(session: &Session) -> String {
    match (&session.id, session.pid) {
        (Some(id), _) => format!("{}:{id}@{}", session.adapter, session.root),
        (None, Some(pid)) => format!("{}:pid:{pid}", session.adapter),
        (None, None) => format!("{}:", session.adapter),
    }
}

/// Leaves out the times of evidence: most are the moment of the look.
fn timeless(mut session: Session) -> Session {
    for evidence in &mut session.evidence {
        evidence.at = Time(jiff::Timestamp::UNIX_EPOCH);
    }
    session
}

fn timeless_ask(mut ask: Ask) -> Ask {
    for evidence in &mut ask.evidence {
        evidence.at = Time(jiff::Timestamp::UNIX_EPOCH);
    }
    ask
}

fn hash_of(value: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    json_line(value).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn raw(value: &impl Serialize) -> Option<Box<RawValue>> {
    RawValue::from_string(json_line(value).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use agentctl_core::fleet::blank_session;
    use serde_json::{Value, json};

    use super::*;

    fn session(id: &str, title: &str) -> Session {
        let mut session = blank_session("demo", "/home/ada".into());
        (session.id, session.title) = (Some(id.to_owned()), Some(title.to_owned()));
        session
    }

    fn take(board: &Board, sessions: &[Session]) {
        board.lock().take(sessions.iter().cloned(), (&[], &[]), 0);
    }

    fn look(board: &Board, seen: &mut Option<u64>) -> Option<Value> {
        let (version, event) = board.since(*seen)?;
        *seen = Some(version);
        let text = String::from_utf8(event.to_vec()).expect("UTF-8");
        let data = text.strip_prefix("event: look\ndata: ").expect("a look");
        Some(serde_json::from_str(data.trim_end()).expect("JSON"))
    }

    fn titles(look: &Value) -> Vec<&str> {
        let rows = look["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["title"].as_str().expect("a title")).collect()
    }

    #[test]
    fn a_page_gets_what_changed_since_the_look_it_has_seen() {
        let board = Board::new();
        let (mut page, mut slow) = (None, None);
        assert_eq!(look(&board, &mut page), None, "nothing was looked at");
        take(&board, &[session("a", "one"), session("b", "two")]);
        let first = look(&board, &mut page).expect("everything");
        assert_eq!((&first["full"], titles(&first)), (&json!(true), vec!["one", "two"]));
        assert_eq!(first["order"], json!(["demo:a@/home/ada", "demo:b@/home/ada"]));
        look(&board, &mut slow).expect("everything");
        take(&board, &[session("a", "one"), session("b", "two")]);
        assert_eq!(look(&board, &mut page), None, "nothing has changed");
        take(&board, &[session("a", "one"), session("b", "three")]);
        let second = look(&board, &mut page).expect("a change");
        assert_eq!((&second["full"], titles(&second)), (&json!(false), vec!["three"]));
        assert_eq!((second.get("order"), &second["gone"]), (None, &json!([])));
        take(&board, &[session("c", "four"), session("b", "three")]);
        let third = look(&board, &mut page).expect("a change");
        assert_eq!((&third["gone"], titles(&third)), (&json!(["demo:a@/home/ada"]), vec!["four"]));
        let at_once = look(&board, &mut slow).expect("two changes");
        assert_eq!(
            (&at_once["gone"], titles(&at_once)),
            (&json!(["demo:a@/home/ada"]), vec!["four", "three"])
        );
        take(&board, &[session("a", "back")]);
        take(&board, &[session("a", "back"), session("b", "again")]);
        let both = look(&board, &mut page).expect("changes");
        assert_eq!(both["gone"], json!(["demo:c@/home/ada"]), "what came back is not gone");
        board.set_stale();
        assert_eq!(look(&board, &mut None), None, "a new page waits for a look");
    }

    #[test]
    fn sessions_of_two_homes_with_the_same_id_are_two_rows() {
        let board = Board::new();
        let (one, mut two) = (session("a", "one"), session("a", "two"));
        two.root = "/copy".into();
        let mut page = None;
        take(&board, &[one.clone(), two]);
        let first = look(&board, &mut page).expect("everything");
        assert_eq!(titles(&first), ["one", "two"]);
        assert_eq!(first["order"], json!(["demo:a@/home/ada", "demo:a@/copy"]));
        take(&board, &[one]);
        let second = look(&board, &mut page).expect("a change");
        assert_eq!(second["gone"], json!(["demo:a@/copy"]), "the other home still has its own");
    }

    #[test]
    fn a_page_that_missed_too_much_gets_everything() {
        let board = Board::new();
        let mut page = None;
        take(&board, &[session("first", "first")]);
        look(&board, &mut page).expect("everything");
        for round in 0..=MAX_GONE {
            take(&board, &[session(&format!("s{round}"), "x")]);
        }
        let all = look(&board, &mut page).expect("everything");
        assert_eq!((&all["full"], titles(&all).len()), (&json!(true), 1));
        assert!(board.lock().gone.len() <= MAX_GONE);
    }
}
