//! The rows of a list, each in one small piece of memory.
//!
//! A [`Session`] is a large struct with a dozen texts of its own: a hundred thousand of them take more than
//! 150 MB. A packed row is its fields one after another, and becomes a session again when it is shown.

mod encoding;
mod short_list;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use self::short_list::{short_cow, short_list};
use super::order::Placed;
use super::short_ids::Typed;
use super::verdict;
use crate::model::{
    EndedBy, Evidence, Exit, Fault, InternedName, Join, LaunchedBy, Listing, Outcome, ProcId,
    Reason, SCHEMA_VERSION, ServingProcess, Session, Status, Time, Tokens,
};

/// One row, packed.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    adapter: InternedName,
    pub(super) status: Status,
    /// Its newest entry, or its beginning: rows are ordered by it.
    newest: Option<Time>,
    pid: Option<u32>,
    pub(super) is_child: bool,
    /// The session that launched it, if the rows are a tree.
    pub(super) launcher: Option<Box<str>>,
    /// How many bytes of its id a table shows.
    id_bytes: u8,
    /// The last piece of evidence, where the row packed before has the same.
    shared: Option<Arc<Evidence>>,
    /// A [`Flat`].
    bytes: Box<[u8]>,
}

/// The first part of a packed row, which is read without unpacking the rest.
#[derive(Default, Deserialize, Serialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a str>,
    #[serde(borrow)]
    parent: Option<&'a str>,
}

/// The fields of a session that do not stand beside its bytes.
#[derive(Default, Deserialize, Serialize)]
struct Flat<'a> {
    #[serde(borrow)]
    head: Head<'a>,
    root: &'a str,
    foreign_home: bool,
    native_key: Option<&'a str>,
    reason: Cow<'a, Option<Reason>>,
    outcome: Option<Outcome>,
    #[serde(deserialize_with = "short_list")]
    processes: Vec<FlatProcess<'a>>,
    hosted: bool,
    cwd: Option<&'a str>,
    model: Option<&'a str>,
    title: Option<&'a str>,
    name: Option<&'a str>,
    prompt: Option<&'a str>,
    started_at: Option<Time>,
    last_activity_at: Option<Time>,
    ended_at: Option<Time>,
    exit: Option<Exit>,
    ended_by: Cow<'a, Option<EndedBy>>,
    tokens: Option<Tokens>,
    cost_usd: Option<f64>,
    group: Option<&'a str>,
    run: Option<&'a str>,
    launched_by: Cow<'a, Option<LaunchedBy>>,
    #[serde(deserialize_with = "short_cow")]
    notes: Cow<'a, [String]>,
    #[serde(deserialize_with = "short_cow")]
    evidence: Cow<'a, [Evidence]>,
    open_call: Option<&'a str>,
}

/// A serving process; its own form in JSON cannot be read back from bytes.
#[derive(Deserialize, Serialize)]
struct FlatProcess<'a> {
    pid: u32,
    start_ticks: u64,
    inode: Option<u64>,
    boot_id: &'a str,
    join: Join,
}

impl<'a> FlatProcess<'a> {
    fn of(process: &'a ServingProcess) -> Self {
        let ServingProcess { id: ProcId { pid, start_ticks, inode, boot_id }, join } = process;
        Self { pid: *pid, start_ticks: *start_ticks, inode: *inode, boot_id, join: *join }
    }

    fn into_serving(self) -> ServingProcess {
        let Self { pid, start_ticks, inode, boot_id, join } = self;
        ServingProcess { id: ProcId { pid, start_ticks, inode, boot_id: boot_id.to_owned() }, join }
    }
}

/// Packs rows. Rows that follow each other often rest on the same last piece of evidence: it is kept once.
#[derive(Debug, Default)]
pub(super) struct Packer {
    last: Option<Arc<Evidence>>,
}

impl Packer {
    pub(super) fn pack(&mut self, session: &Session) -> Packed {
        let (shared, own) = match session.evidence.split_last() {
            Some((last, others)) => (Some(self.shared(last)), others),
            None => (None, &[][..]),
        };
        Packed {
            adapter: session.adapter,
            status: session.status,
            newest: session.last_activity_at.or(session.started_at),
            pid: session.pid,
            is_child: session.parent.is_some(),
            launcher: None,
            id_bytes: u8::MAX,
            shared,
            bytes: flat_bytes(session, own).into_boxed_slice(),
        }
    }

    fn shared(&mut self, evidence: &Evidence) -> Arc<Evidence> {
        match &self.last {
            Some(last) if **last == *evidence => Arc::clone(last),
            _ => {
                let kept = Arc::new(evidence.clone());
                self.last = Some(Arc::clone(&kept));
                kept
            }
        }
    }
}

fn flat_bytes(session: &Session, own_evidence: &[Evidence]) -> Vec<u8> {
    // Named one by one, so that a new field cannot be forgotten.
    let Session {
        id,
        adapter: _,
        root,
        foreign_home,
        native_key,
        status: _,
        reason,
        outcome,
        pid: _,
        processes,
        hosted,
        cwd,
        model,
        title,
        name,
        prompt,
        started_at,
        last_activity_at,
        ended_at,
        exit,
        ended_by,
        tokens,
        cost_usd,
        group,
        run,
        launched_by,
        parent,
        notes,
        evidence: _,
        open_call,
    } = session;
    let flat = Flat {
        head: Head { id: id.as_deref(), parent: parent.as_deref() },
        root,
        foreign_home: *foreign_home,
        native_key: native_key.as_deref(),
        reason: Cow::Borrowed(reason),
        outcome: *outcome,
        processes: processes.iter().map(FlatProcess::of).collect(),
        hosted: *hosted,
        cwd: cwd.as_deref(),
        model: model.as_deref(),
        title: title.as_deref(),
        name: name.as_deref(),
        prompt: prompt.as_deref(),
        started_at: *started_at,
        last_activity_at: *last_activity_at,
        ended_at: *ended_at,
        exit: *exit,
        ended_by: Cow::Borrowed(ended_by),
        tokens: *tokens,
        cost_usd: *cost_usd,
        group: group.as_deref(),
        run: run.as_deref(),
        launched_by: Cow::Borrowed(launched_by),
        notes: Cow::Borrowed(notes),
        evidence: Cow::Borrowed(own_evidence),
        open_call: open_call.as_deref(),
    };
    // A row that could not be written is unknown when it is unpacked.
    postcard::to_stdvec(&flat).unwrap_or_default()
}

impl Packed {
    fn head(&self) -> Head<'_> {
        postcard::take_from_bytes(&self.bytes).map(|(head, _)| head).unwrap_or_default()
    }

    /// Says why its bytes cannot be unpacked, if so.
    fn check(&self) -> Result<(), postcard::Error> {
        let (_, behind) = postcard::take_from_bytes::<Flat<'_>>(&self.bytes)?;
        if behind.is_empty() { Ok(()) } else { Err(postcard::Error::SerdeDeCustom) }
    }

    pub(super) fn unpack(&self) -> Session {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let packed = verdict::packed_row(self.adapter, self.status);
        let flat = match postcard::from_bytes::<Flat<'_>>(&self.bytes) {
            Ok(flat) => flat,
            Err(error) => return self.unreadable(packed, &error),
        };
        let mut evidence = flat.evidence.into_owned();
        evidence.extend(self.shared.as_deref().cloned());
        Session {
            id: text(flat.head.id),
            root: flat.root.to_owned(),
            foreign_home: flat.foreign_home,
            native_key: text(flat.native_key),
            reason: flat.reason.into_owned(),
            outcome: flat.outcome,
            pid: self.pid,
            processes: flat.processes.into_iter().map(FlatProcess::into_serving).collect(),
            hosted: flat.hosted,
            cwd: text(flat.cwd),
            model: text(flat.model),
            title: text(flat.title),
            name: text(flat.name),
            prompt: text(flat.prompt),
            started_at: flat.started_at,
            last_activity_at: flat.last_activity_at,
            ended_at: flat.ended_at,
            exit: flat.exit,
            ended_by: flat.ended_by.into_owned(),
            tokens: flat.tokens,
            cost_usd: flat.cost_usd,
            group: text(flat.group),
            run: text(flat.run),
            launched_by: flat.launched_by.into_owned(),
            parent: text(flat.head.parent),
            notes: flat.notes.into_owned(),
            evidence,
            open_call: text(flat.open_call),
            ..packed
        }
    }

    /// Returns what is left of a row whose bytes cannot be read: the fields beside the bytes, and the head.
    fn unreadable(&self, mut session: Session, error: &postcard::Error) -> Session {
        let head = self.head();
        (session.id, session.parent) = (head.id.map(str::to_owned), head.parent.map(str::to_owned));
        session.pid = self.pid;
        session.evidence.extend(self.shared.as_deref().cloned());
        verdict::unreadable_row(&mut session, format!("its row could not be unpacked: {error}"));
        session
    }
}

impl Placed for Packed {
    fn id(&self) -> Option<&str> {
        self.head().id
    }

    fn parent(&self) -> Option<&str> {
        if self.is_child { self.head().parent } else { self.launcher.as_deref() }
    }

    fn rank(&self) -> (Status, Reverse<Option<Time>>) {
        (self.status, Reverse(self.newest))
    }

    fn pid(&self) -> Option<u32> {
        self.pid
    }
}

/// The answer to `list`, its rows packed. It is the same JSON as a [`Listing`].
#[derive(Debug)]
pub struct Rows {
    pub(super) packed: Vec<Packed>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl Rows {
    /// Packs these sessions, in this order.
    #[must_use]
    pub fn of(sessions: &[Session]) -> Self {
        let mut packer = Packer::default();
        let packed = sessions.iter().map(|session| packer.pack(session)).collect();
        let mut rows = Self { packed, faults: Vec::new() };
        rows.shorten_ids(&[], &[]);
        rows
    }

    /// Decides how much of each id a table shows. `others` are further ids that a prefix is compared with: those
    /// of all history, or of adapters that were left out. A subagent that is not among them is shown with its
    /// whole id.
    pub(super) fn shorten_ids(&mut self, others: &[Box<str>], names: &[String]) {
        let own: Vec<&str> = self.packed.iter().map(|row| row.id().unwrap_or_default()).collect();
        let others = || others.iter().map(|id| &**id);
        let shown = own.iter().copied().filter(|id| !id.is_empty());
        let typed = Typed::new(shown.chain(others()), names.iter().map(String::as_str).collect());
        let listed: HashSet<&str> = if self.packed.iter().any(|row| row.is_child) {
            others().collect()
        } else {
            HashSet::new()
        };
        let bytes = |(row, id): (&Packed, &&str)| {
            let is_whole = row.is_child && !listed.contains(id);
            if is_whole { u8::MAX } else { u8::try_from(typed.length(id)).unwrap_or(u8::MAX) }
        };
        let lengths: Vec<u8> = self.packed.iter().zip(&own).map(bytes).collect();
        for (row, length) in self.packed.iter_mut().zip(lengths) {
            row.id_bytes = length;
        }
    }

    /// Returns how many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Says whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Returns one row.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Session> {
        self.packed.get(at).map(Packed::unpack)
    }

    /// Returns the rows at these places, in this order; a place that does not exist is left out.
    #[must_use]
    pub fn at(self, places: &[usize]) -> Self {
        let mut rows: Vec<Option<Packed>> = self.packed.into_iter().map(Some).collect();
        let taken = places.iter().filter_map(|at| rows.get_mut(*at)?.take());
        Self { packed: taken.collect(), faults: self.faults }
    }

    /// Returns copies of the rows at these places, in this order, without faults.
    #[must_use]
    pub fn picked(&self, places: &[usize]) -> Self {
        let picked = places.iter().filter_map(|at| self.packed.get(*at).cloned());
        Self { packed: picked.collect(), faults: Vec::new() }
    }

    /// Returns the session id of one row.
    #[must_use]
    pub fn id(&self, at: usize) -> Option<&str> {
        self.packed.get(at)?.id()
    }

    /// Returns the part of the session id that a table shows: every command accepts it.
    #[must_use]
    pub fn short_id(&self, at: usize) -> Option<&str> {
        let row = self.packed.get(at)?;
        let id = row.id()?;
        Some(id.get(..usize::from(row.id_bytes)).unwrap_or(id))
    }

    /// Returns the parent of one row: of a subagent, and in a tree also of a launched session.
    #[must_use]
    pub fn parent(&self, at: usize) -> Option<&str> {
        self.packed.get(at)?.parent()
    }

    /// Returns the rows, one after another.
    pub fn iter(&self) -> impl Iterator<Item = Session> {
        self.packed.iter().map(Packed::unpack)
    }

    /// Returns the rows of live sessions. No other row is unpacked.
    pub fn live(&self) -> impl Iterator<Item = Session> {
        self.packed.iter().filter(|row| row.status.is_live()).map(Packed::unpack)
    }

    /// Unpacks all rows.
    #[must_use]
    pub fn into_listing(self) -> Listing {
        let sessions = self.iter().collect();
        Listing { schema_version: SCHEMA_VERSION, sessions, faults: self.faults }
    }

    /// Changes the rows with these adapters and ids.
    pub(super) fn change(
        &mut self,
        is_changed: impl Fn(InternedName, &str) -> bool,
        change: impl Fn(&mut Session),
    ) {
        let mut packer = Packer::default();
        for row in &mut self.packed {
            if row.id().is_some_and(|id| is_changed(row.adapter, id)) {
                let mut session = row.unpack();
                change(&mut session);
                *row = Packed { id_bytes: row.id_bytes, ..packer.pack(&session) };
            }
        }
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Each row is unpacked when it is written, and dropped afterwards.
        struct Sessions<'a>(&'a Rows);
        impl Serialize for Sessions<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.packed.iter().map(Packed::unpack))
            }
        }
        let mut listing = serializer.serialize_struct("Listing", 3)?;
        listing.serialize_field("schema_version", &SCHEMA_VERSION)?;
        listing.serialize_field("sessions", &Sessions(self))?;
        listing.serialize_field("faults", &self.faults)?;
        listing.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{FaultCode, ReasonKind};

    /// A session of which every field says something.
    pub(super) fn full() -> Session {
        let time = "2026-11-15T08:00:00.123456789Z";
        let process = json!({
            "pid": 7, "start_ticks": 8, "inode": 9, "boot_id": "b", "join": "inferred"
        });
        let evidence = |says: &str| json!({"source": "any:file", "says": says, "at": time});
        let session = json!({
            "id": "one", "adapter": "any", "root": "/root", "foreign_home": true, "native_key": "key",
            "status": "waiting", "outcome": "killed", "pid": 7, "processes": [process], "hosted": true,
            "reason": {"kind": "limit", "detail": "much", "until": time}, "cwd": "/cwd",
            "model": "model", "title": "title", "name": "name", "prompt": "prompt",
            "started_at": time, "last_activity_at": "2026-11-15T09:00:00Z", "ended_at": time,
            "exit": {"code": 1, "signal": 2}, "cost_usd": 0.1,
            "ended_by": {"kind": "fuse", "detail": "ttl"},
            "tokens": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4},
            "group": "group", "run": "run", "launched_by": {"adapter": "any", "id": "two", "depth": 1}, "parent": "parent", "notes": ["a", "b"],
            "evidence": [evidence("first"), evidence("second")],
        });
        let session: Session = serde_json::from_value(session).unwrap();
        Session { open_call: Some("call".into()), ..session }
    }

    pub(super) fn empty() -> Session {
        let session = json!({
            "adapter": "any", "root": "", "status": "stopped", "processes": [], "hosted": false,
            "notes": [], "evidence": [],
        });
        serde_json::from_value(session).unwrap()
    }

    /// A field that is blank here could be lost on the way through a packed row without a failing test.
    #[test]
    fn the_full_session_leaves_no_field_blank() {
        let blank = serde_json::to_value(verdict::blank_session("none", String::new())).unwrap();
        for (field, value) in serde_json::to_value(full()).unwrap().as_object().unwrap() {
            assert_ne!(*value, blank[field], "{field}");
        }
    }

    #[test]
    fn a_session_is_unpacked_as_it_was_packed() {
        let sessions = [full(), empty(), Session { id: Some("two".into()), ..full() }];
        let rows = Rows::of(&sessions);
        assert_eq!(rows.iter().collect::<Vec<_>>(), sessions);
        assert_eq!(rows.id(2), Some("two"));
        assert_eq!(rows.short_id(2), Some("two"));
        assert_eq!((rows.parent(0), rows.parent(1)), (Some("parent"), None));
        for (packed, session) in rows.packed.iter().zip(&sessions) {
            assert_eq!(packed.id(), session.id());
            assert_eq!((packed.rank(), packed.pid()), (session.rank(), Placed::pid(session)));
        }
    }

    #[test]
    fn packed_rows_are_the_same_json_as_a_listing() {
        let mut rows = Rows::of(&[full(), empty()]);
        let message = "a fault".to_owned();
        rows.faults.push(Fault { adapter: "any", root: None, code: FaultCode::Timeout, message });
        let text = serde_json::to_string_pretty(&rows).unwrap();
        assert_eq!(text, serde_json::to_string_pretty(&rows.into_listing()).unwrap());
    }

    #[test]
    fn rows_that_follow_each_other_keep_equal_evidence_once() {
        let mut packer = Packer::default();
        let [first, second] = [packer.pack(&full()), packer.pack(&full())];
        assert!(Arc::ptr_eq(&first.shared.unwrap(), &second.shared.unwrap()));
    }

    #[test]
    fn a_row_that_cannot_be_unpacked_is_unknown() {
        let mut row = Packer::default().pack(&full());
        row.bytes = row.bytes[..row.bytes.len() - 8].into();
        let session = row.unpack();
        assert_eq!((session.id.as_deref(), session.status), (Some("one"), Status::Unknown));
        assert_eq!(session.reason.map(|reason| reason.kind), Some(ReasonKind::Unreadable));
    }
}
