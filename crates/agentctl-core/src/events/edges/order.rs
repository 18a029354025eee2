//! What holds for a whole stream: no id is told twice, and `at` never runs backwards.

use std::collections::{HashMap, VecDeque};

use crate::events::{Event, identity};
use crate::model::Time;

/// So many ids are remembered.
const REMEMBERED: usize = 1024;

/// What was told, as far as the next event must be compared with it.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The newest `at` that was told.
    floor: Option<Time>,
    /// The ids that were told last, oldest first, and how often each was.
    ids: VecDeque<String>,
    times: HashMap<String, u32>,
}

impl Order {
    /// Takes in what another watcher told.
    pub(super) fn suppose(&mut self, told: &Event) {
        if !told.late {
            self.floor = self.floor.max(Some(told.at));
        }
        self.remember(&told.id);
    }

    /// Puts the events of one look into the order of their times. An event is dated neither before one
    /// that was told already nor after the look that shows it was over: a record may be older than what was told
    /// since, and a clock may be ahead or set back. The beginning and the end of a launch keep the time
    /// that their run has on disk: that is what every other teller of them says.
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
                // Another edge that looks the same: a session may come back with nothing written.
                event.id = identity(&[&event.id, &told.to_string()]);
            }
        }
    }

    /// Remembers an id and returns how often it was told before.
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
