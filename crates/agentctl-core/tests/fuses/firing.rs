//! A fuse is fired once, whichever process is killed at whichever step, and however many processes try.

use agentctl_core::events::{EventKind, about_fuse};
use agentctl_core::fuses::{
    Action, Cause, Firing, FuseError, FuseState, cancel, claim, extend, seen, unfinished,
};

use super::{BEGIN, HOUR, NOW, World, nobody, now, ttl};

/// A process that fires fuses and is killed after a number of steps.
struct Worker {
    left: usize,
}

impl Worker {
    /// Returns false when the worker is killed here.
    fn lives(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

/// How often each action of a fuse was run.
#[derive(Debug, Default)]
struct Done {
    told: usize,
    stops: usize,
    posts: usize,
    commands: usize,
    /// Killed after an action was run and before that was recorded.
    unnoted: usize,
}

fn work(mut firing: Firing, worker: &mut Worker, done: &mut Done) -> bool {
    if !worker.lives() {
        return false;
    }
    done.told += 1;
    while let Some(action) = firing.action().cloned() {
        if !worker.lives() {
            return false;
        }
        if matches!(action, Action::Run { .. }) {
            firing.begin().expect("noted");
            if !worker.lives() {
                return false;
            }
        }
        match action {
            Action::Event => {}
            Action::Stop => done.stops += 1,
            Action::Run { .. } => done.commands += 1,
            Action::Webhook { .. } => done.posts += 1,
        }
        if !worker.lives() {
            done.unnoted += 1;
            return false;
        }
        firing.step().expect("noted");
    }
    if !worker.lives() {
        return false;
    }
    firing.finish().expect("finished");
    true
}

#[test]
fn a_fuse_is_fired_once_whichever_step_is_interrupted() {
    let steps = 16;
    // The first process is killed after some steps, its successor after some more, and the third one not at
    // all.
    for (first, second) in (1..steps).flat_map(|a| (1..steps).map(move |b| (a, b))) {
        let world = World::new();
        let actions = vec![
            Action::Stop,
            Action::Run { argv: vec!["first".into()] },
            Action::Event,
            Action::Run { argv: vec!["second".into()] },
            Action::Webhook { url: "https://example.org/x".into() },
        ];
        let fuse = world.set(ttl(HOUR), actions);
        NOW.set(BEGIN + HOUR);
        let mut done = Done::default();
        let mut worker = Worker { left: first };
        let due = world.due(&nobody(), BEGIN + HOUR);
        let firing = claim(&world.host, &due[0]).expect("claimed").expect("it is ours");
        let mut whole = work(firing, &mut worker, &mut done);
        for left in [second, usize::MAX] {
            // It is not claimed again, whatever the clock shows.
            assert!(world.due(&nobody(), BEGIN + 99 * HOUR).is_empty());
            assert!(matches!(claim(&world.host, &due[0]), Ok(None)));
            let mut left_over = unfinished(&world.host).expect("looked");
            if whole {
                assert!(left_over.is_empty());
                break;
            }
            let firing = left_over.pop().expect("it is taken up");
            assert!(firing.resumed && left_over.is_empty());
            assert_eq!((firing.at().millis(), firing.cause()), (BEGIN + HOUR, Cause::Ttl));
            let event = about_fuse(EventKind::FuseExpired, &firing.fuse, firing.at());
            assert_eq!(event.id, about_fuse(EventKind::FuseExpired, &fuse, now()).id);
            worker.left = left;
            whole = work(firing, &mut worker, &mut done);
        }
        let case = format!("killed at {first}, {second}: {done:?}");
        assert!(done.commands <= 2, "a command was repeated: {case}");
        assert!(done.told > 0 && done.stops > 0 && done.posts > 0, "{case}");
        assert!(done.stops + done.posts <= 2 + done.unnoted, "repeated for no reason: {case}");
        let left = world.fuses();
        if done.commands == 2 && left.is_empty() {
            world.sweep(HOUR / 60);
            assert_eq!(world.names().len(), 1, "for a while nobody takes it for cancelled");
            world.sweep(HOUR);
            assert!(world.names().is_empty());
            continue;
        }
        // An interrupted command is shown, and nothing is left to do.
        assert_eq!(left.len(), 1, "{case}");
        assert_eq!(left[0].state, FuseState::Interrupted);
        let note = left[0].note.clone().expect("a word about it");
        assert!(note.contains("it is not run again"), "{note}");
        assert!(unfinished(&world.host).expect("looked").is_empty());
        world.sweep(6 * 24 * HOUR);
        assert_eq!(world.names().len(), 1);
        world.sweep(8 * 24 * HOUR);
        assert!(world.names().is_empty(), "it was shown for long enough");
    }
}

#[test]
fn of_many_claims_one_wins_and_holds_the_fuse() {
    let world = World::new();
    for round in 0..20 {
        let fuse = world.set(ttl(HOUR), vec![Action::Stop]);
        let due = world.due(&nobody(), BEGIN + HOUR).pop().expect("due");
        let host = &world.host;
        let mut claimed: Vec<Firing> = std::thread::scope(|scope| {
            let all: Vec<_> =
                (0..6).map(|_| scope.spawn(|| claim(host, &due).expect("tried"))).collect();
            all.into_iter().filter_map(|t| t.join().expect("joined")).collect()
        });
        assert_eq!(claimed.len(), 1, "round {round}");
        assert_eq!(world.fuses()[0].state, FuseState::Firing);
        assert!(unfinished(host).expect("looked").is_empty(), "somebody is at it");
        for refused in
            [cancel(host, &fuse.id).map(|_| ()), extend(host, &fuse.id, ttl(1)).map(|_| ())]
        {
            assert!(matches!(refused, Err(FuseError::Firing)));
        }
        // A new fuse for the same target exists beside it.
        let next = world.set(ttl(HOUR), vec![]);
        let burning: Vec<String> = world.fuses().into_iter().map(|f| f.id).collect();
        assert!(burning.contains(&next.id) && burning.contains(&fuse.id), "{burning:?}");
        if round % 2 == 0 {
            claimed.remove(0).finish().expect("finished");
        } else {
            drop(claimed);
            let mut left = unfinished(host).expect("looked");
            assert_eq!(left.len(), 1, "its holder is gone");
            left.remove(0).finish().expect("finished");
        }
        cancel(host, &next.id).expect("cancelled");
        assert!(world.fuses().is_empty(), "{:?}", world.names());
        assert!(matches!(cancel(host, &fuse.id), Err(FuseError::Missing)), "it was fired");
    }
    world.sweep(HOUR);
    assert!(world.names().is_empty(), "{:?}", world.names());
}

#[test]
fn a_fuse_that_advances_during_a_read_is_never_missing() {
    let world = World::new();
    let actions = vec![Action::Run { argv: vec!["x".into()] }; 100];
    let fuse = world.set(ttl(HOUR), actions);
    let due = world.due(&nobody(), BEGIN + HOUR);
    let firing = claim(&world.host, &due[0]).expect("claimed").expect("it is ours");
    let (mut worker, mut done) = (Worker { left: usize::MAX }, Done::default());
    std::thread::scope(|scope| {
        let at_it = scope.spawn(|| work(firing, &mut worker, &mut done));
        let mut looks = 0;
        loop {
            // One more look at the end, so that the last file name is seen as well.
            let through = at_it.is_finished();
            let (fuses, faults) = seen(&world.host);
            assert!(faults.is_empty(), "{faults:?}");
            let ids: Vec<&String> = fuses.iter().map(|f| &f.id).collect();
            assert_eq!(ids, [&fuse.id], "look {looks}: who misses it tells that it was cancelled");
            looks += 1;
            if through {
                break;
            }
        }
    });
    assert_eq!(done.commands, 100);
}
