//! The mutex of a directory and the look under it, against real processes.
//!
//! Every test runs in a private pid namespace. Where a process of a certain kind is needed, this very
//! program plays it: see [`the_other_processes`].
#![cfg(target_os = "linux")]
// Tests start programs; helpers of tests panic as the tests themselves do.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agentctl_core::adapters::ALL;
use agentctl_core::fleet::{Adapters, Fleet};
use agentctl_core::host::Host;
use agentctl_core::kernel::{Kernel, Spawn};
use agentctl_core::locks::{self, EnterError, HeldMutex, Kind, LockError, Occupancy, enter};
use agentctl_core::model::{Fault, FaultCode, Time};
use testkit::{eventually, sandboxed};

const ROLE: &str = "AGENTCTL_TEST_ROLE";
const PLACE: &str = "AGENTCTL_TEST_PLACE";
const NOBODY: Adapters = &[];
const AT_ONCE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_mins(2);

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn host(&self) -> Arc<Host> {
        host(self.dir.path())
    }

    /// Returns a directory in which an agent may work.
    fn place(&self) -> PathBuf {
        let place = self.dir.path().join("place");
        std::fs::create_dir_all(&place).expect("made");
        std::fs::canonicalize(place).expect("resolved")
    }

    /// Returns the holders of the directory.
    fn occupancy(&self) -> Occupancy {
        locks::occupancy(&Fleet::new(self.host(), NOBODY), &self.place())
    }
}

fn host(home: &Path) -> Arc<Host> {
    Arc::new(Host::new(home, Kernel::open().expect("a kernel"), || Time(jiff::Timestamp::now())))
}

/// A child that does not outlive the test's interest in it.
struct Actor(Child);

impl Actor {
    fn says(&mut self, wanted: &str) -> String {
        let out = BufReader::new(self.0.stdout.as_mut().expect("piped"));
        let found = out.lines().map_while(Result::ok).find(|l| l.contains(wanted));
        found.unwrap_or_else(|| panic!("it ended without saying {wanted}"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("killed");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts a shell with this script in a directory.
fn shell(cwd: &Path, script: &str) -> Actor {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(cwd).stdin(Stdio::null()).stdout(Stdio::piped());
    Actor(command.spawn().expect("a shell"))
}

/// Starts this program again in one of the roles below.
fn role(role: &str, place: &Path) -> Actor {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "the_other_processes", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(PLACE, place).current_dir(place);
    Actor(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("started"))
}

/// Returns a shell script that marks its own process as an agent of ours and becomes this command.
fn marked(then: &str) -> String {
    format!("set -- $(cat /proc/$$/stat); AGENTCTL_RUN=v1:run:$$:${{22}} exec {then}")
}

fn busy(answer: Result<HeldMutex, EnterError>) -> bool {
    matches!(answer, Err(EnterError::Busy))
}

/// Not a test: the code of the other processes that tests start from this program.
#[test]
fn the_other_processes() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let place = PathBuf::from(std::env::var_os(PLACE).expect("a place"));
    let role = role.to_str().expect("a role");
    match role {
        // Takes the mutex, reports it, and becomes an agent: the exec alone releases the mutex. Then,
        // like a script, it becomes another program once more. The kernel copies arguments and
        // environment before any of it can be read: a large size makes that moment last.
        "many arguments" | "many variables" => {
            let file = File::open(&place).expect("open");
            file.lock().expect("locked");
            println!("held");
            let line = std::fs::read_to_string("/proc/self/stat").expect("a stat line");
            let start = line.rsplit(") ").next().and_then(|s| s.split(' ').nth(19));
            let marker = format!("v1:run:{}:{}", std::process::id(), start.expect("a start"));
            let mut agent = Command::new("env");
            agent.args(["sleep", "600"]).env("AGENTCTL_RUN", marker).stdout(Stdio::null());
            if role == "many arguments" {
                agent.args(std::iter::repeat_n("0", 100_000));
            } else {
                agent.envs((0..60_000).map(|n| (format!("V{n}"), "")));
            }
            panic!("{}", agent.exec());
        }
        // Reports the holders of the directory, seen from its place in the process tree.
        "observer" => {
            let seen = locks::occupancy(&Fleet::new(host(&place), NOBODY), &place);
            println!("holders {} exempt {}", seen.holders.len(), seen.exempt.len());
        }
        other => panic!("there is no role {other}"),
    }
}

#[test]
fn only_one_process_holds_the_mutex_of_a_directory() {
    sandboxed(|| {
        let world = World::new();
        let (host, place) = (world.host(), world.place());
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let entry = enter(&host, &place, LONG).expect("in turn");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two were inside");
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        entered.fetch_add(1, Ordering::SeqCst);
                        drop(entry);
                    }
                });
            }
        });
        assert_eq!(entered.load(Ordering::SeqCst), 400);
    });
}

#[test]
fn a_wait_for_the_mutex_times_out_and_then_holds_nothing() {
    sandboxed(|| {
        let world = World::new();
        let (host, place) = (world.host(), world.place());
        let entry = enter(&host, &place, AT_ONCE).expect("free");
        let began = Instant::now();
        assert!(busy(enter(&host, &place, Duration::from_millis(50))));
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
        drop(entry);
        // The thread that waited may get the mutex now, and releases it at once.
        drop(enter(&host, &place, LONG).expect("free again"));
        assert!(matches!(
            enter(&host, &world.dir.path().join("none"), LONG),
            Err(EnterError::Io(_))
        ));
    });
}

#[test]
fn a_killed_holder_frees_the_directory() {
    sandboxed(|| {
        let world = World::new();
        let (host, place) = (world.host(), world.place());
        let entry = enter(&host, &place, AT_ONCE).expect("free");
        let mut child = spawn_with(entry.into_fds().collect(), "exec sleep 600");
        assert!(busy(enter(&host, &place, AT_ONCE)), "the child holds what it was handed");
        child.kill();
        // Not reaped: a zombie holds nothing.
        drop(enter(&host, &place, LONG).expect("free"));
    });
}

#[test]
fn an_inherited_mutex_is_released_with_its_last_descriptor() {
    sandboxed(|| {
        let world = World::new();
        let (host, place) = (world.host(), world.place());
        let entry = enter(&host, &place, AT_ONCE).expect("free");
        let copy = entry.try_clone().expect("a second descriptor");
        drop(entry);
        assert!(busy(enter(&host, &place, AT_ONCE)), "one of two descriptors is left");
        let fifo = world.dir.path().join("go");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("runs").success());
        let keep: Vec<OwnedFd> = copy.into_fds().collect();
        let closing: Vec<_> = keep.iter().map(|fd| format!("{}<&-", fd.as_raw_fd())).collect();
        let closing = closing.join(" ");
        let script = format!("read go < {}; exec sleep 600 {closing}", fifo.display());
        let child = spawn_with(keep, &script);
        assert!(busy(enter(&host, &place, AT_ONCE)), "the child has it, we have not");
        std::fs::write(&fifo, "go\n").expect("written");
        drop(enter(&host, &place, LONG).expect("free as soon as the child has become another"));
        assert!(host.kernel.process(child.0.id()).expect("readable").is_some(), "it lives");
    });
}

#[test]
fn waiting_for_a_replaced_directory_locks_the_new_one() {
    sandboxed(|| {
        let world = World::new();
        let (host, place) = (world.host(), world.place());
        let old = enter(&host, &place, AT_ONCE).expect("free");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| enter(&host, &place, LONG).expect("entered"));
            eventually("somebody waits", || {
                let locks = std::fs::read_to_string("/proc/locks").expect("readable");
                locks.contains("->").then_some(())
            });
            std::fs::rename(&place, world.dir.path().join("moved")).expect("moved");
            std::fs::create_dir(&place).expect("made anew");
            drop(old);
            let _entry = waiter.join().expect("no panic");
            assert!(busy(enter(&host, &place, AT_ONCE)), "what it holds keeps nobody out");
        });
    });
}

#[test]
fn a_marked_process_occupies_its_directory_and_its_children_do_not() {
    sandboxed(|| {
        let world = World::new();
        let place = world.place();
        assert!(world.occupancy().holders.is_empty());
        // It has become `sleep`, which no adapter knows; a child of it runs in the directory too.
        let mut agent = shell(&place, &marked("sh -c 'sleep 601 & echo $!; exec sleep 600'"));
        let child: u32 = agent.says("").trim().parse().expect("a pid");
        let seen = world.occupancy();
        assert!(seen.faults.is_empty() && seen.exempt.is_empty(), "{seen:?}");
        let pids: Vec<_> = seen.holders.iter().map(|h| (h.kind, h.pid)).collect();
        assert_eq!(pids, [(Kind::Occupied, Some(agent.0.id()))]);
        // Elsewhere it occupies nothing, and after its death (not reaped yet) the directory is free.
        assert!(
            locks::occupancy(&Fleet::new(world.host(), NOBODY), world.dir.path())
                .holders
                .is_empty()
        );
        agent.kill();
        eventually("it is dead", || world.occupancy().holders.is_empty().then_some(()));
        let child = world.host().kernel.process(child).expect("readable");
        assert_eq!(child.expect("the child lives on").cwd, Some(place));
    });
}

#[test]
fn a_process_in_execve_is_not_missed() {
    sandboxed(|| {
        let world = World::new();
        let (host, place) = (world.host(), world.place());
        let mut looks = 0;
        for round in 0..30 {
            let kind = ["many arguments", "many variables"][round % 2];
            let mut agent = role(kind, &place);
            agent.says("held");
            let _entry = enter(&host, &place, LONG).expect("free after its exec");
            let pid = agent.0.id();
            let mut settled = false;
            while !settled {
                settled = std::fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|comm| comm.trim() == "sleep");
                let seen = world.occupancy();
                let pids: Vec<_> = seen.holders.iter().map(|h| h.pid).collect();
                assert_eq!(pids, [Some(pid)], "round {round}: {kind}");
                looks += 1;
            }
        }
        println!("{looks} looks");
    });
}

#[test]
fn a_process_without_environment_is_retried_briefly() {
    sandboxed(|| {
        let world = World::new();
        let mut bare = shell(&world.place(), "exec env -i sh -c 'echo up; sleep 600; :'");
        bare.says("up");
        // It never gets an environment. Waiting for it would never end.
        assert!(world.occupancy().holders.is_empty());
    });
}

#[test]
fn a_starter_that_went_without_the_mutex_counts() {
    sandboxed(|| {
        let world = World::new();
        // As if it had been stopped right before its exec: it waits for a script that is never written.
        let fifo = world.place().join("exec-agent");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("runs").success());
        let mut command = Command::new("sh");
        command.arg("exec-agent").current_dir(world.place());
        let starter = Actor(command.spawn().expect("a shell that waits for its script"));
        let seen = world.occupancy();
        let pids: Vec<_> = seen.holders.iter().map(|h| h.pid).collect();
        assert_eq!(pids, [Some(starter.0.id())], "{seen:?}");
    });
}

#[test]
fn an_ancestor_is_exempt_and_named() {
    sandboxed(|| {
        let world = World::new();
        let place = world.place();
        let program = std::env::current_exe().expect("this program");
        let observe = format!(
            "{ROLE}=observer {PLACE}={} {} --exact the_other_processes --nocapture; sleep 600",
            place.display(),
            program.display()
        );
        let mut agent = shell(&place, &marked(&format!("sh -c '{observe}'")));
        // On a single core, output of the test runner may precede it.
        let said = agent.says("holders");
        assert!(said.ends_with("holders 0 exempt 1"), "{said}");
        assert_eq!(world.occupancy().holders.len(), 1, "to others it is none of theirs");
    });
}

#[test]
fn a_lock_that_cannot_be_read_still_locks_its_directory() {
    sandboxed(|| {
        let world = World::new();
        let (host, place) = (world.host(), world.place());
        locks::lock(&host, &place, None, None, None).expect("locked");
        let folder = host.state().join("locks");
        let files = std::fs::read_dir(&folder).expect("listed").flatten().map(|e| e.path());
        let mut files = files.filter(|p| p.extension().is_some_and(|e| e == "json"));
        let file = files.next().expect("a file");
        for rubbish in ["", "{", "{}", "[]", "\0\0\0", r#"{"directory":"here","since":"now"}"#] {
            std::fs::write(&file, rubbish).expect("written");
            let seen = world.occupancy();
            assert_eq!(seen.holders.iter().map(|h| h.kind).collect::<Vec<_>>(), [Kind::Manual]);
            assert_eq!(seen.faults.len(), 1, "{rubbish}");
            assert!(!seen.faults[0].hides_adapter(), "the other directories are as they were");
            let again = locks::lock(&host, &place, None, None, None);
            assert!(matches!(again, Err(LockError::Locked(_))), "{rubbish}: {again:?}");
            assert!(
                locks::all(&Fleet::new(Arc::clone(&host), NOBODY)).0.is_empty(),
                "what it says is not invented"
            );
        }
        locks::unlock(&host, &place).expect("a person's word takes it away");
        assert!(world.occupancy().holders.is_empty());
    });
}

#[test]
fn unreadable_locks_are_a_blind_fault_and_refuse_a_new_lock() {
    let fault = |root: Option<&str>, code| {
        let root = root.map(str::to_owned);
        Fault { adapter: "any", root, code, message: String::new() }
    };
    for code in [FaultCode::Timeout, FaultCode::Panicked, FaultCode::Failed] {
        assert!(fault(None, code).hides_adapter());
    }
    assert!(!fault(Some("/home"), FaultCode::Skipped).hides_adapter());
    assert!(!fault(Some("/home"), FaultCode::Unreadable).hides_adapter());
    sandboxed(|| {
        let world = World::new();
        let host = world.host();
        std::fs::create_dir_all(host.state()).expect("made");
        std::fs::write(host.state().join("locks"), "").expect("written");
        let seen = locks::occupancy(&Fleet::new(Arc::clone(&host), ALL), &world.place());
        assert!(seen.faults.iter().any(Fault::hides_adapter), "{seen:?}");
        let refused = locks::lock(&host, &world.place(), None, None, None);
        assert!(matches!(refused, Err(LockError::Unreadable(_))), "{refused:?}");
    });
}

#[test]
fn the_path_of_a_removed_directory_is_resolved() {
    let world = World::new();
    let (host, place) = (world.host(), world.place());
    let root = place.parent().expect("a parent").to_owned();
    std::os::unix::fs::symlink("place", root.join("link")).expect("linked");
    std::os::unix::fs::symlink("loop", root.join("loop")).expect("linked");
    for (path, real) in [
        ("link", "place"),
        ("link/gone", "place/gone"),
        ("./gone/../link/a/../b", "place/b"),
        ("loop", "loop"),
    ] {
        assert_eq!(locks::real_path(&host, Path::new(path)), root.join(real), "{path}");
    }
    std::fs::remove_dir(&place).expect("removed");
    assert_eq!(locks::real_path(&host, Path::new("link")), root.join("place"));
    assert_eq!(locks::real_path(&host, &root.join("link/x")), root.join("place/x"));
}

/// Hands a mutex to a child and keeps nothing of it.
fn spawn_with(keep: Vec<OwnedFd>, script: &str) -> Actor {
    let spawn = Spawn {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        set: Vec::new(),
        unset: Vec::new(),
        cwd: "/".into(),
        stdin: agentctl_core::kernel::Stdio::Null,
        stdout: agentctl_core::kernel::Stdio::Null,
        stderr: agentctl_core::kernel::Stdio::Null,
        keep,
    };
    Actor(spawn.detached().expect("started"))
}
