//! The session, group or directory whose events an interface wants.

use agentctl_core::events::Event;
use agentctl_core::model::Target;

/// Only events about these; all events if nothing is set.
#[derive(Clone, Debug, Default)]
pub struct EventSubject {
    /// Only this session or process.
    pub session: Option<Target>,
    /// Only sessions of this group.
    pub group: Option<String>,
    /// Only sessions, locks and fuses of this directory, links resolved.
    pub cwd: Option<String>,
}

impl EventSubject {
    /// Says whether an event is about the subject.
    #[must_use]
    pub fn admits(&self, event: &Event) -> bool {
        let session = event.session.as_ref();
        self.session.as_ref().is_none_or(|target| is_about(event, target))
            && self.group.as_ref().is_none_or(|group| {
                session.and_then(|session| session.group.as_ref()) == Some(group)
            })
            && self.cwd.as_ref().is_none_or(|cwd| directories(event).any(|other| other == cwd))
    }
}

/// Returns the directories that an event names.
fn directories(event: &Event) -> impl Iterator<Item = &String> {
    let session = event.session.as_ref().and_then(|session| session.cwd.as_ref());
    let lock = event.lock.as_ref().map(|lock| &lock.directory);
    let fuse = event.fuse.as_ref().and_then(|fuse| fuse.directory.as_ref());
    session.into_iter().chain(lock).chain(fuse)
}

/// Says whether an event is about a session, or about a lock or a fuse of it.
fn is_about(event: &Event, target: &Target) -> bool {
    if let Some(session) = &event.session {
        let same_root = session.root == target.root && session.adapter == target.adapter;
        return same_root
            && match &target.session {
                Some(locator) => session.id.as_ref() == Some(&locator.id),
                None => target.pid.is_some() && session.pid == target.pid,
            };
    }
    let holder = event.lock.as_ref().map(|lock| &lock.holder);
    let Some(locator) = &target.session else {
        return holder.is_some_and(|holder| holder.pid.is_some() && holder.pid == target.pid);
    };
    let lock = holder.and_then(|holder| Some((holder.adapter?, holder.session.as_ref()?)));
    let fuse = event.fuse.as_ref();
    let fuse = fuse.and_then(|fuse| Some((fuse.adapter.as_deref()?, fuse.session.as_ref()?)));
    lock.or(fuse).is_some_and(|(adapter, id)| adapter == target.adapter && *id == locator.id)
}
