//! Launchers race into one directory while they and their shims are killed at random.
//!
//! There must never be two agents or a directory that stays locked, and a refused launch names the
//! occupant. The oracle shares no code with the program: it reads `/proc` and holds its own pidfds. A
//! process counts from its exec of the agent until its exit; nothing is concluded about the time in
//! between.
//!
//! `AGENTCTL_RACE_ROUNDS` sets the number of rounds, `AGENTCTL_RACE_SEED` repeats the random choices of a
//! run (not the timing of the machine).

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal};
use testkit::{Dice, Output, TestHome, eventually, sandboxed};

use crate::home;

/// The role of a process in the race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Launcher,
    Shim,
    Starter,
    Agent,
    /// In the middle of an exec, or of unknown role.
    Forming,
}

/// A live process, as its `/proc` folder shows it.
#[derive(Debug)]
struct Player {
    pid: u32,
    parent: u32,
    part: Part,
    /// The session id among the agent's arguments.
    session: Option<String>,
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a pid")
}

/// Returns parent and state of a process; `None` when it is dead, reaped or not.
fn living(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.rsplit(") ").next()?.split(' ');
    let state = rest.next()?;
    (!matches!(state, "Z" | "X")).then(|| rest.next()?.parse().ok()).flatten()
}

fn player(pid: u32, place: &Path, runs: &Path) -> Option<Player> {
    let parent = living(pid)?;
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let argv: Vec<_> = bytes.split(|b| *b == 0).map(String::from_utf8_lossy).collect();
    let word = |index: usize| argv.get(index).map_or("", AsRef::as_ref);
    let part = match word(1) {
        "launch" => Part::Launcher,
        "shim" if Path::new(word(2)).starts_with(runs) => Part::Shim,
        "exec-agent" => Part::Starter,
        "demo-agent" => {
            // A process in another directory is no agent of this one.
            let stands = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
            assert_eq!(stands, place, "an agent stands where nobody sent it");
            Part::Agent
        }
        _ => Part::Forming,
    };
    let session = argv.iter().position(|a| a == "--session-id").map(|at| word(at + 1).to_owned());
    Some(Player { pid, parent, part, session })
}

/// One directory, and all processes that the launches into it started.
struct Stage {
    home: TestHome,
    place: PathBuf,
    runs: PathBuf,
    me: u32,
    dice: Dice,
}

/// The agents of one round, each held from the moment it was first seen.
#[derive(Default)]
struct Cast {
    agents: BTreeMap<u32, (OwnedFd, String)>,
}

impl Cast {
    /// Holds new agents, and returns the live ones. Each was an agent when it was held, so all live ones
    /// were agents at the same time.
    fn alive(&mut self, players: &[Player]) -> Vec<(u32, String)> {
        for agent in players.iter().filter(|p| p.part == Part::Agent) {
            if !self.agents.contains_key(&agent.pid)
                && let Ok(handle) = pidfd_open(raw(agent.pid), PidfdFlags::empty())
            {
                let session = agent.session.clone().unwrap_or_default();
                self.agents.insert(agent.pid, (handle, session));
            }
        }
        let handles: Vec<_> = self.agents.iter().collect();
        let mut fds: Vec<_> =
            handles.iter().map(|(_, (fd, _))| PollFd::new(fd, PollFlags::IN)).collect();
        poll(&mut fds, Some(&Timespec::default())).expect("polled");
        let lives = fds.iter().map(|fd| fd.revents().is_empty()).collect::<Vec<_>>();
        let alive = handles.iter().zip(lives).filter(|(_, lives)| *lives);
        alive.map(|((pid, (_, session)), _)| (**pid, session.clone())).collect()
    }
}

/// Counters over all rounds.
#[derive(Debug, Default)]
struct Tally {
    launchers: usize,
    won: usize,
    refused: usize,
    failed: usize,
    launchers_killed: usize,
    shims_killed: usize,
    starters_killed: usize,
    without_agent: usize,
}

impl Stage {
    fn new() -> Self {
        let home = home();
        let place = home.path().join("place");
        fs::create_dir(&place).expect("made");
        let runs = home.path().join(".local/state/agentctl/runs");
        let me = std::process::id();
        Self { home, place, runs, me, dice: Dice::from("AGENTCTL_RACE_SEED") }
    }

    /// Returns all processes of this namespace except the test.
    fn players(&self) -> Vec<Player> {
        let pids = fs::read_dir("/proc").expect("proc").flatten();
        let pids = pids.filter_map(|e| e.file_name().to_string_lossy().parse::<u32>().ok());
        let others = pids.filter(|pid| *pid != self.me);
        others.filter_map(|pid| player(pid, &self.place, &self.runs)).collect()
    }

    fn launcher(&self) -> Child {
        let mut command =
            self.home.command(&["launch", "demo", "-p", "x [[hang]]", "--cwd", "place"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    }

    /// Kills this process if it still has this role.
    fn kill(&self, victim: &Player) -> bool {
        let Ok(handle) = pidfd_open(raw(victim.pid), PidfdFlags::empty()) else { return false };
        let now = player(victim.pid, &self.place, &self.runs);
        now.is_some_and(|now| now.part == victim.part)
            && pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }

    /// Stops a process with SIGSTOP; `None` when its role had changed by then.
    fn pause(&self, who: &Player) -> Option<OwnedFd> {
        let handle = pidfd_open(raw(who.pid), PidfdFlags::empty()).ok()?;
        pidfd_send_signal(&handle, Signal::STOP).ok()?;
        let state = || fs::read_to_string(format!("/proc/{}/stat", who.pid)).ok();
        eventually("it stands still", || {
            state().is_none_or(|s| s.contains(") T ") || s.contains(") Z ")).then_some(())
        });
        let now = player(who.pid, &self.place, &self.runs);
        if now.is_some_and(|now| now.part == who.part) {
            return Some(handle);
        }
        let _gone = pidfd_send_signal(&handle, Signal::CONT);
        None
    }

    /// Launches, and stops the starter before its exec of the agent; `None` when the exec was quicker.
    fn catch_starter(&self, cast: &mut Cast) -> Option<(Child, Player, OwnedFd)> {
        let mut launcher = self.launcher();
        loop {
            let starter = self.players().into_iter().find(|p| p.part == Part::Starter);
            if let Some(starter) = starter
                && let Some(handle) = self.pause(&starter)
            {
                return Some((launcher, starter, handle));
            }
            if launcher.try_wait().expect("ours").is_some() {
                cast.alive(&self.players());
                self.clear(cast);
                return None;
            }
        }
    }

    /// Picks a random process to kill. Starters and shims are few and short-lived, so the role is picked
    /// first, with equal chances.
    fn victim(&mut self, players: &[Player], spare: bool) -> Option<usize> {
        let of = |part: Part| (0..players.len()).filter(move |i| players[*i].part == part);
        let all = [Part::Shim, Part::Starter, Part::Launcher];
        let parts = if spare { &all[..2] } else { &all[..] };
        let there: Vec<Part> = parts.iter().copied().filter(|p| of(*p).next().is_some()).collect();
        if there.is_empty() {
            return None;
        }
        let part = self.dice.pick(&there);
        Some(self.dice.pick(&of(part).collect::<Vec<_>>()))
    }

    fn round(&mut self, number: u32, tally: &mut Tally) {
        let seed = self.dice.seed;
        // Two to eight launchers, small numbers more often.
        let count = 2 + usize::try_from(self.dice.below(7).min(self.dice.below(7))).expect("few");
        // Nothing is killed in a quarter of the rounds: exactly one launch must win there.
        let mut kills = if self.dice.below(4) == 0 { 0 } else { 1 + self.dice.below(6) };
        let alone = kills == 0;
        // In some rounds only shims and starters are killed: then a launcher must have reported every live
        // agent.
        let spare = self.dice.below(3) == 0;
        let (mut tampered, mut bereft) = (false, false);
        // A starter may have exec'd the agent at the moment of the kill, and other launchers may have seen
        // that agent.
        let mut struck: Vec<u32> = Vec::new();
        let mut cast = Cast::default();
        let mut racing: Vec<Child> = (0..count).map(|_| self.launcher()).collect();
        let patience = Instant::now() + Duration::from_mins(2);
        let alive = loop {
            let players = self.players();
            let alive = cast.alive(&players);
            assert!(alive.len() <= 1, "round {number}, seed {seed}: two agents: {alive:?}");
            let over = racing.iter_mut().all(|c| c.try_wait().expect("ours").is_some());
            if over && settled(&players) {
                break alive;
            }
            assert!(Instant::now() < patience, "round {number}, seed {seed}: {players:?}");
            if kills > 0
                && self.dice.below(5) == 0
                && let Some(index) = self.victim(&players, spare)
                && self.kill(&players[index])
            {
                kills -= 1;
                struck.push(players[index].pid);
                // A forked child looks like its launcher until it execs the shim.
                let launcher = racing.iter().any(|c| c.id() == players[index].pid);
                tampered |= !launcher;
                bereft |= launcher;
                match players[index].part {
                    _ if launcher => tally.launchers_killed += 1,
                    Part::Starter => tally.starters_killed += 1,
                    _ => tally.shims_killed += 1,
                }
            }
            // Not a wait for a condition: it leaves the cores to the racing processes.
            std::thread::park_timeout(Duration::from_micros(self.dice.below(1500)));
        };
        // No starter is left, so the directory is unlocked. An exec closes the lock a moment after the new
        // program is visible.
        eventually(&format!("it is open (round {number}, seed {seed})"), || {
            let directory = fs::File::open(&self.place).expect("open");
            directory.try_lock().ok()
        });
        let answers: Vec<Output> =
            racing.into_iter().map(|c| c.wait_with_output().into()).collect();
        let mut winners = Vec::new();
        for answer in &answers {
            let said = format!("round {number}, seed {seed}: {answer:?}");
            match answer.code {
                None => {} // killed
                Some(0) => winners.push(answer.stdout.trim().to_owned()),
                Some(5) => {
                    tally.refused += 1;
                    let named = cast.agents.iter().any(|(pid, (_, session))| {
                        answer.stderr.contains(&format!("pid {pid},"))
                            && answer.stderr.contains(session)
                    });
                    let named = named
                        || struck.iter().any(|pid| answer.stderr.contains(&format!("pid {pid},")));
                    assert!(named, "it names none of {:?}, {struck:?}: {said}", cast.agents);
                }
                Some(1) if tampered => tally.failed += 1,
                _ => panic!("{said}"),
            }
        }
        let sessions: Vec<String> = alive.iter().map(|(_, session)| session.clone()).collect();
        assert!(winners.len() <= 1, "round {number}, seed {seed}: {winners:?}");
        // The winner is alive; and every live agent was reported, unless its launcher was killed.
        if !winners.is_empty() || !bereft {
            assert_eq!(winners, sessions, "round {number}, seed {seed}: {answers:?}");
        }
        if alone {
            assert_eq!(winners.len(), 1, "round {number}, seed {seed}: {answers:?}");
        }
        tally.launchers += count;
        tally.won += winners.len();
        tally.without_agent += usize::from(alive.is_empty());
        self.clear(&mut cast);
        // When every process has died, the directory is unlocked at once; the next round shows it too.
        if alive.is_empty() || number.is_multiple_of(10) {
            let answer: Output = self.launcher().wait_with_output().into();
            assert_eq!(answer.code, Some(0), "round {number}, seed {seed}: {}", answer.stderr);
            eventually("it has begun", || (!cast.alive(&self.players()).is_empty()).then_some(()));
            self.clear(&mut cast);
        }
    }

    /// Ends all remaining processes and removes their files, so that every round starts empty.
    fn clear(&self, cast: &mut Cast) {
        for (handle, _) in cast.agents.values() {
            let _dead = pidfd_send_signal(handle, Signal::KILL);
        }
        eventually("everyone has left", || self.players().is_empty().then_some(()));
        cast.agents.clear();
        // Orphans become children of this process, which is process 1 of its namespace.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        for kept in [".local/state/agentctl/runs", ".local/share/agentctl-demo"] {
            let _none = fs::remove_dir_all(self.home.path().join(kept));
        }
    }
}

/// Says whether no launch is in progress: all live processes are agents and their shims.
fn settled(players: &[Player]) -> bool {
    let parents: Vec<u32> =
        players.iter().filter(|p| p.part == Part::Agent).map(|p| p.parent).collect();
    players.iter().all(|p| match p.part {
        Part::Agent => true,
        Part::Shim => parents.contains(&p.pid),
        _ => false,
    })
}

#[test]
fn of_racing_launchers_at_most_one_gets_in_even_after_kills() {
    sandboxed(|| {
        let rounds = std::env::var("AGENTCTL_RACE_ROUNDS");
        let rounds: u32 = rounds.map_or(300, |n| n.parse().expect("a number"));
        let mut stage = Stage::new();
        let seed = stage.dice.seed;
        println!("seed {seed}: AGENTCTL_RACE_SEED={seed} throws the same dice");
        let (began, mut tally) = (Instant::now(), Tally::default());
        for number in 0..rounds {
            stage.round(number, &mut tally);
        }
        println!("{rounds} rounds in {} s: {tally:?}", began.elapsed().as_secs());
        assert!(rounds < 100 || tally.shims_killed > 0 && tally.launchers_killed > 0, "{tally:?}");
    });
}

#[test]
fn a_starter_that_outlives_its_shim_is_waited_for() {
    sandboxed(|| {
        let stage = Stage::new();
        let mut cast = Cast::default();
        for _ in 0..500 {
            let Some((mut launcher, starter, handle)) = stage.catch_starter(&mut cast) else {
                continue;
            };
            let players = stage.players();
            let shim = players.iter().find(|p| p.pid == starter.parent && p.part == Part::Shim);
            assert!(stage.kill(shim.expect("its parent")));
            // No other launch gets in meanwhile, and the launcher, which checks ten times a second, does
            // not report the end.
            let directory = fs::File::open(&stage.place).expect("open");
            assert!(directory.try_lock().is_err(), "the starter holds the directory");
            let looked = Instant::now() + Duration::from_millis(400);
            while Instant::now() < looked {
                assert!(launcher.try_wait().expect("ours").is_none(), "it waits for its agent");
                std::thread::park_timeout(Duration::from_millis(5));
            }
            pidfd_send_signal(&handle, Signal::CONT).expect("goes on");
            let answer: Output = launcher.wait_with_output().into();
            assert_eq!(answer.code, Some(0), "{}", answer.stderr);
            let alive = cast.alive(&stage.players());
            let ids: Vec<&str> = alive.iter().map(|(_, session)| session.as_str()).collect();
            assert_eq!(ids, [answer.stdout.trim()]);
            return;
        }
        panic!("no starter could be caught");
    });
}

#[test]
fn an_agent_that_execs_after_its_launch_timed_out_is_ended() {
    sandboxed(|| {
        let stage = Stage::new();
        crate::configure(&stage.home, &[("launch", "1s")], "");
        let mut cast = Cast::default();
        for _ in 0..500 {
            let Some((mut launcher, _, handle)) = stage.catch_starter(&mut cast) else { continue };
            // The launch times out without output; its starter must still be ended.
            let late = Instant::now() + Duration::from_secs(2);
            while Instant::now() < late {
                assert!(launcher.try_wait().expect("ours").is_none(), "it waits for its agent");
                std::thread::park_timeout(Duration::from_millis(5));
            }
            pidfd_send_signal(&handle, Signal::CONT).expect("goes on");
            let answer: Output = launcher.wait_with_output().into();
            assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{}", answer.stderr);
            eventually("nobody is left", || stage.players().is_empty().then_some(()));
            return;
        }
        panic!("no starter could be caught");
    });
}
