//! The rules of a whole stream: no id is used twice, and `at` never runs backwards.

use std::collections::{HashMap, VecDeque};

use crate::events::Event;
use crate::model::Time;
use crate::model::identity;

/// Number of ids that are remembered.
const REMEMBERED: usize = 1024;

/// The events that were reported, as far as the next event is compared with them.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The latest `at` that was reported.
    floor: Option<Time>,
    /// The ids that were reported last, oldest first, and how often each was.
    ids: VecDeque<String>,
    times: HashMap<String, u32>,
}

impl Order {
    /// Records an event that another watcher reported.
    pub(super) fn suppose(&mut self, told: &Event) {
        if !told.late {
            self.floor = self.floor.max(Some(told.at));
        }
        self.remember(&told.id);
    }

    /// Sorts the events of one look by time. An event is dated neither before an event that was reported
    /// already nor after the end of the look: a record may be older than the last event, and a clock may be
    /// ahead or set back. The start and the end of a launch keep the time that their run has on disk,
    /// because every other watcher reports that time.
    pub(super) fn arrange(&mut self, events: &mut [Event], looked: Time) {
        let latest = self.floor.map_or(looked, |floor| floor.max(looked));
        for event in &mut *events {
            if event.run.is_none() {
                event.at = self.floor.map_or(event.at, |floor| event.at.max(floor)).min(latest);
            }
        }
        events.sort_by_key(|event| event.at);
        for event in events {
            self.floor = self.floor.max(Some(event.at.min(latest)));
            let told = self.remember(&event.id);
            if told > 0 {
                // A further edge with the same id: a session may come back without a new entry.
                event.id = identity(&[&event.id, &told.to_string()]);
            }
        }
    }

    /// Remembers an id and returns how often it was reported before.
    fn remember(&mut self, id: &str) -> u32 {
        let times = self.times.entry(id.to_owned()).or_default();
        *times += 1;
        if *times > 1 {
            return *times - 1;
        }
        self.ids.push_back(id.to_owned());
        if self.ids.len() > REMEMBERED
            && let Some(oldest) = self.ids.pop_front()
        {
            self.times.remove(&oldest);
        }
        0
    }
}
