//! The newest look at the sessions, until the thread that draws takes it. A terminal that takes no output keeps that
//! thread waiting, so looks replace each other here and do not queue.

use std::sync::{Arc, Mutex, PoisonError};

use agentctl_core::model::Ask;

use super::app::{Look, Message};

/// A place for one look.
#[derive(Clone, Default)]
pub(crate) struct NewestLook(Arc<Mutex<Option<Message>>>);

impl NewestLook {
    /// Puts a new list; says whether the place was empty, so that the taker must be woken.
    pub(crate) fn put_look(&self, look: Look) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.replace(Message::Look(Box::new(look))).is_none()
    }

    /// Puts new asks; a list that was not taken yet keeps its rows. Says whether the place was empty.
    pub(crate) fn put_asks(&self, asks: Vec<Ask>) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Message::Look(look)) = place.as_mut() {
            look.asks = asks;
            return false;
        }
        place.replace(Message::Asks(asks)).is_none()
    }

    /// Takes the newest look.
    #[must_use]
    pub(crate) fn take(&self) -> Option<Message> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::{OTHER, WAITING, ask, look, session};

    #[test]
    fn looks_that_are_not_taken_replace_each_other_and_wake_once() {
        let newest = NewestLook::default();
        let sessions = [session(WAITING, "waiting", 1, "x"), session(OTHER, "idle", 1, "y")];
        let wakes = (0..1_000).filter(|_| newest.put_look(look(&sessions, Vec::new()))).count();
        assert_eq!(wakes, 1);
        assert!(!newest.put_look(look(&sessions[..1], Vec::new())));
        assert!(!newest.put_asks(vec![ask("a", WAITING, "npm test")]));
        let Some(Message::Look(taken)) = newest.take() else { panic!("a look") };
        assert_eq!((taken.rows.len(), taken.asks.len()), (1, 1), "the newest rows and asks");
        assert!(newest.take().is_none(), "one look is kept");
        assert!(newest.put_asks(Vec::new()), "the place is empty again");
    }
}
