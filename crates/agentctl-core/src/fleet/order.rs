//! The order of rows: what needs a person first, then the newest, subagents right below their parent. A parent stands
//! where the first of those below it would stand alone.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::model::{Session, Status, Time};

/// The fields that decide the position of a row.
pub(super) trait Placed {
    fn id(&self) -> Option<&str>;
    fn parent(&self) -> Option<&str>;
    /// Sessions that need a person come first, then the newest.
    fn rank(&self) -> (Status, Reverse<Option<Time>>);
    fn pid(&self) -> Option<u32>;
}

impl Placed for Session {
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    fn rank(&self) -> (Status, Reverse<Option<Time>>) {
        (self.status, Reverse(self.last_activity_at.or(self.started_at)))
    }

    fn pid(&self) -> Option<u32> {
        self.pid
    }
}

/// Orders rows as the contract says, subagents right after their parent. Rows are large and may be a hundred
/// thousand, so their places are ordered first, and then each row is moved once.
pub(super) fn sort<T: Placed>(sessions: &mut [T]) {
    let mut places: Vec<usize> = (0..sessions.len()).collect();
    places.sort_by(|a, b| order(&sessions[*a], &sessions[*b]));
    if sessions.iter().any(|s| s.parent().is_some()) {
        places = below_their_parents(sessions, &places);
    }
    put_in_order(sessions, places);
}

/// Puts the places of subagents right behind the place of their parent. The places are in order.
fn below_their_parents<T: Placed>(sessions: &[T], places: &[usize]) -> Vec<usize> {
    // A row whose parent is not listed keeps its place among the roots: it may wait for a person.
    let mut listed: HashMap<&str, usize> = HashMap::new();
    for place in places {
        if let Some(id) = sessions[*place].id() {
            listed.entry(id).or_insert(*place);
        }
    }
    let parent = |place: usize| sessions[place].parent().and_then(|id| listed.get_key_value(id));
    // For each row the first of those below it and itself. A row that has one, has it for all rows above it.
    let mut urgent: Vec<Option<usize>> = vec![None; sessions.len()];
    for (rank, place) in places.iter().enumerate() {
        let mut next = Some(*place);
        while let Some(at) = next.filter(|at| urgent[*at].is_none()) {
            urgent[at] = Some(rank);
            next = parent(at).map(|(_, place)| *place);
        }
    }
    let mut places = places.to_vec();
    places.sort_by_key(|place| urgent[*place]);
    // Subagents by their parent, last first: they are taken from the end.
    let mut below: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut pending = Vec::new();
    for place in places.iter().rev() {
        match parent(*place) {
            Some((parent, _)) => below.entry(parent).or_default().push(*place),
            None => pending.push(*place),
        }
    }
    // Subagents of subagents may be many generations: they are walked, never recursed into.
    let mut ordered = Vec::with_capacity(places.len());
    while let Some(place) = pending.pop() {
        ordered.push(place);
        let children = sessions[place].id().and_then(|id| below.remove(id));
        pending.extend(children.into_iter().flatten());
    }
    // Subagents that are their own ancestors are listed all the same.
    let mut rest: Vec<usize> = below.into_values().flatten().collect();
    rest.sort_by(|a, b| order(&sessions[*a], &sessions[*b]));
    ordered.extend(rest);
    ordered
}

/// Moves each row to its place: the first place in the list is that of the row which is to be first.
fn put_in_order<T>(sessions: &mut [T], mut places: Vec<usize>) {
    for first in 0..places.len() {
        let mut at = first;
        while places[at] != first {
            let from = places[at];
            sessions.swap(at, from);
            places[at] = at;
            at = from;
        }
        places[at] = at;
    }
}

/// The order of the contract: what needs a person first, then the newest. Ended sessions are ordered by time
/// alone: a failure of last week does not come before the end of today.
fn order<T: Placed>(a: &T, b: &T) -> std::cmp::Ordering {
    let rank = |row: &T| {
        let (status, newest) = row.rank();
        (if status.is_live() { status } else { Status::Stopped }, newest)
    };
    let by_rank = rank(a).cmp(&rank(b));
    by_rank.then_with(|| (a.id(), a.pid()).cmp(&(b.id(), b.pid())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::adapters::{Found, Record, Root};
    use crate::fleet::{Fleet, View, join, look};
    use crate::host::Host;
    use crate::model::Locator;

    fn session(view: &View, id: usize, parent: Option<usize>) -> Session {
        let parent = parent.map(|n| n.to_string());
        let locator = Locator { id: id.to_string(), path: None, parent };
        join(view, &locator, Record::default(), None)
    }

    fn view() -> View {
        let host = Host {
            program: "/".into(),
            ..Host::new("/", crate::kernel::Kernel::open().expect("a kernel"), || {
                crate::model::Time::from_millis(0).expect("a time")
            })
        };
        let look = look(&Fleet::new(Arc::new(host), &[]), Duration::from_secs(1));
        View::new("any", &Root::known("/".into()), &look, Found::default())
    }

    /// S12: a chain of any length is put in order, on a thread with a small stack.
    #[test]
    fn a_chain_of_a_hundred_thousand_subagents_is_ordered() {
        const LENGTH: usize = 100_000;
        let view = view();
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let ordered = small.spawn(move || {
            // The last first, so that every row has to be moved.
            let chain = (0..LENGTH).rev().map(|n| session(&view, n, n.checked_sub(1)));
            let mut sessions: Vec<Session> = chain.collect();
            sort(&mut sessions);
            sessions.into_iter().filter_map(|s| s.id?.parse().ok()).collect::<Vec<usize>>()
        });
        let ordered = ordered.expect("started").join().expect("no overflow");
        assert_eq!(ordered, (0..LENGTH).collect::<Vec<_>>());
    }

    #[test]
    fn subagents_stand_below_their_parent_and_a_circle_is_shown_once() {
        let view = view();
        let families =
            [(1, None), (2, Some(1)), (3, None), (4, Some(2)), (5, Some(1)), (6, Some(9))];
        let circle = [(7, Some(8)), (8, Some(7))];
        let all = families.into_iter().chain(circle).rev();
        let mut sessions: Vec<Session> =
            all.map(|(id, parent)| session(&view, id, parent)).collect();
        sort(&mut sessions);
        let ids: Vec<&str> = sessions.iter().filter_map(|s| s.id.as_deref()).collect();
        assert_eq!(ids, ["1", "2", "4", "5", "3", "6", "7", "8"]);
    }

    #[test]
    fn a_family_stands_where_its_most_urgent_member_would_stand() {
        use Status::{Idle, Running, Waiting};
        let view = view();
        let families = [
            (1, None, Running),
            (2, None, Idle),
            (3, None, Idle),
            (4, Some(3), Running),
            (5, Some(3), Idle),
            (6, Some(5), Waiting),
            (7, Some(2), Idle),
        ];
        let row = |(id, parent, status)| Session { status, ..session(&view, id, parent) };
        let mut sessions: Vec<Session> = families.into_iter().map(row).collect();
        sort(&mut sessions);
        let ids: Vec<&str> = sessions.iter().filter_map(|s| s.id.as_deref()).collect();
        assert_eq!(ids, ["3", "5", "6", "4", "1", "2", "7"]);
    }
}
