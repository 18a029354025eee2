//! The kernel room against the real kernel: recycled pids, zombies, paused and foreign processes.
//!
//! Every test runs in a private pid namespace of its own, in which this very test process is pid 1. The
//! oracle is the test's own actions on the processes it started, never the code under test.
#![cfg(target_os = "linux")]
// Tests start programs; helpers of tests panic as the tests themselves do.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentctl_core::kernel::{Brief, ExitWatch, Kernel, Liveness, Mechanism, Spawn};
use agentctl_core::model::ProcId;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use testkit::{Dice, Echo, TestHome, after_tick, eventually, next_pid, rounds, sandboxed};

/// Signals that end or stop a process which has not prepared for them.
const SIGNALS: [Signal; 7] = [
    Signal::TERM,
    Signal::KILL,
    Signal::STOP,
    Signal::INT,
    Signal::HUP,
    Signal::USR1,
    Signal::ALARM,
];
const ALIVE: Liveness = Liveness::Alive { paused: false };

fn kernel() -> Kernel {
    Kernel::open().expect("a kernel")
}

/// All the time a table needs.
fn soon() -> Instant {
    Instant::now() + Duration::from_mins(5)
}

/// The kernel by both of its mechanisms.
fn kernels() -> [Kernel; 2] {
    [kernel(), kernel().without_pidfs()]
}

fn id_of(kernel: &Kernel, pid: u32) -> ProcId {
    kernel.process(pid).expect("readable").expect("alive").id
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not 0")
}

/// The state letter, read without the code under test.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a stat line");
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state")
}

/// Starts a program whose parent ends at once: its new parent is this test, which is pid 1.
fn orphan(script: &str) -> u32 {
    let script = format!("{script} >/dev/null 2>&1 & echo $!");
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a pid")
}

/// When a new process gets the pid of one that has just died.
#[derive(Clone, Copy)]
enum Gap {
    /// At once, as a rule within the same clock tick; or a tick later: as the dice fall.
    Chance,
    /// Always a tick later: the smallest difference of start times.
    Tick,
}

/// Gives a pid to new processes again and again, and asks for the previous owner.
fn recycle(kernel: &Kernel, gap: Gap) {
    let (rounds, mut dice) = (rounds(300), Dice::new());
    let (mut false_running, mut misdelivered, mut same_tick) = (0, 0, 0);
    let mut old = Echo::start("cat", None);
    let pid = old.pid();
    for round in 0..rounds {
        let id = id_of(kernel, pid);
        assert_eq!(kernel.liveness(&id), ALIVE, "round {round}, seed {}", dice.seed);
        let handle = rustix::process::pidfd_open(raw(pid), rustix::process::PidfdFlags::empty());
        let handle = handle.expect("a pidfd");
        old.end();
        if matches!(gap, Gap::Tick) || dice.below(4) == 0 {
            after_tick(id.start_ticks);
        }
        let mut newcomer = Echo::start("cat", Some(pid));
        // The oracle: the old one's own pidfd says that nothing can reach it any more.
        let reach = rustix::process::pidfd_send_signal(&handle, Signal::CONT);
        assert_eq!(reach, Err(rustix::io::Errno::SRCH), "the oracle's own pidfd");

        false_running += u32::from(kernel.liveness(&id) != Liveness::Gone);
        false_running += u32::from(ExitWatch::default().add(kernel, &id).expect("asked"));
        false_running += u32::from(kernel.environ(&id, &["PATH"]).is_ok());
        let signal = dice.pick(&SIGNALS);
        let reached = kernel.signal(&id, signal).expect("asked");
        misdelivered += u32::from(reached || !newcomer.answers());

        let now = kernel.process(pid).expect("readable").map(|p| p.id);
        same_tick += u32::from(now.as_ref().is_some_and(|n| n.start_ticks == id.start_ticks));
        assert_eq!(
            (false_running, misdelivered),
            (0, 0),
            "round {round}, {signal:?}, {id:?} taken for {now:?}, seed {}",
            dice.seed
        );
        old = newcomer;
    }
    println!(
        "{rounds} rounds, {false_running} false running, {misdelivered} misdelivered, seed {} \
         ({}; {same_tick} within one tick)",
        dice.seed,
        kernel.mechanism().word(),
    );
}

#[test]
fn a_recycled_pid_is_a_stranger_by_inode() {
    sandboxed(|| {
        let kernel = kernel();
        // Where there is no pidfs, start times are all there is.
        let gap = if kernel.mechanism() == Mechanism::Pidfs { Gap::Chance } else { Gap::Tick };
        recycle(&kernel, gap);
    });
}

#[test]
fn a_recycled_pid_is_a_stranger_by_start_time() {
    sandboxed(|| {
        recycle(&kernel().without_pidfs(), Gap::Tick);
    });
}

#[test]
fn a_pid_that_became_a_thread_is_no_process() {
    sandboxed(|| {
        for kernel in kernels() {
            let old = Echo::start("cat", None);
            let (pid, id) = (old.pid(), id_of(&kernel, old.pid()));
            old.end();
            after_tick(id.start_ticks);
            next_pid(pid);
            let (leave, stay) = std::sync::mpsc::channel::<()>();
            let thread = std::thread::spawn(move || stay.recv().is_err());
            assert!(Path::new(&format!("/proc/self/task/{pid}")).exists());
            assert_eq!(kernel.liveness(&id), Liveness::Gone);
            assert!(!kernel.signal(&id, Signal::KILL).expect("asked"));
            assert!(!ExitWatch::default().add(&kernel, &id).expect("asked"));
            assert!(kernel.process(pid).expect("readable").is_none());
            drop(leave);
            assert!(thread.join().expect("ends"));
        }
    });
}

#[test]
fn a_process_of_another_boot_is_gone() {
    sandboxed(|| {
        for kernel in kernels() {
            let mut echo = Echo::start("cat", None);
            let mut id = id_of(&kernel, echo.pid());
            "the boot before".clone_into(&mut id.boot_id);
            assert_eq!(kernel.liveness(&id), Liveness::Gone);
            assert!(!kernel.signal(&id, Signal::KILL).expect("asked"));
            assert!(kernel.environ(&id, &["PATH"]).is_err());
            assert!(echo.answers());
        }
    });
}

#[test]
fn a_zombie_that_is_never_reaped_is_gone_at_once() {
    sandboxed(|| {
        assert_eq!(std::process::id(), 1, "the init that never reaps is this test");
        let pid = orphan("sleep 600");
        let ids = kernels().map(|kernel| (id_of(&kernel, pid), kernel));
        kill_process(raw(pid), Signal::KILL).expect("killed");
        eventually("it is a zombie", || (state(pid) == 'Z').then_some(()));
        assert!(test_kill_process(raw(pid)).is_ok(), "kill(pid, 0) is fooled by a zombie");
        for (id, kernel) in ids {
            assert_eq!(kernel.liveness(&id), Liveness::Gone);
            assert!(kernel.process(pid).expect("readable").is_none());
            assert!(!kernel.signal(&id, Signal::TERM).expect("asked"));
            assert!(!ExitWatch::default().add(&kernel, &id).expect("asked"));
            let table = kernel.table(soon(), |_| true);
            assert!(table.processes.iter().all(|p| p.id.pid != pid), "{table:?}");
            assert!(table.gaps.is_empty(), "{table:?}");
        }
    });
}

#[test]
fn a_process_lives_as_long_as_any_of_its_threads() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        let source = home.write("headless.c", include_str!("headless.c"));
        let program = home.at("headless");
        let mut compiler = Command::new("cc");
        compiler.arg("-pthread").arg("-o").arg(&program).arg(source);
        assert!(compiler.status().expect("what linked this test").success());
        let mut child = Command::new(program).stdin(Stdio::piped()).spawn().expect("started");
        let pid = child.id();
        eventually("its first thread has ended", || (state(pid) == 'Z').then_some(()));
        for kernel in kernels() {
            let id = id_of(&kernel, pid);
            assert_eq!(kernel.liveness(&id), ALIVE);
            let mut watch = ExitWatch::default();
            assert!(watch.add(&kernel, &id).expect("asked"));
            assert_eq!(watch.wait(Some(Duration::ZERO)).expect("waited"), []);
            let table = kernel.table(soon(), |brief| brief.comm == "headless");
            assert_eq!(table.processes.len(), 1, "{table:?}");
        }
        let id = id_of(&kernel(), pid);
        assert!(kernel().signal(&id, Signal::KILL).expect("asked"));
        child.wait().expect("ends");
        assert_eq!(kernel().liveness(&id), Liveness::Gone);
    });
}

#[test]
fn a_stopped_process_is_alive_and_paused() {
    sandboxed(|| {
        for kernel in kernels() {
            let mut echo = Echo::start("cat", None);
            let id = id_of(&kernel, echo.pid());
            assert!(kernel.signal(&id, Signal::STOP).expect("asked"));
            eventually("it is stopped", || (state(echo.pid()) == 'T').then_some(()));
            assert_eq!(kernel.liveness(&id), Liveness::Alive { paused: true });
            assert!(kernel.process(echo.pid()).expect("readable").expect("alive").paused);
            assert!(kernel.signal(&id, Signal::CONT).expect("asked"));
            assert!(echo.answers());
            assert_eq!(kernel.liveness(&id), ALIVE);
        }
    });
}

#[test]
fn the_exit_of_a_process_that_is_not_our_child_is_reported() {
    sandboxed(|| {
        for kernel in kernels() {
            let ids = ["sleep 600", "sleep 601"].map(|s| id_of(&kernel, orphan(s)));
            let mut watch = ExitWatch::default();
            for id in &ids {
                assert!(watch.add(&kernel, id).expect("asked"));
            }
            assert_eq!(watch.wait(Some(Duration::ZERO)).expect("waited"), [], "both live");
            assert!(kernel.signal(&ids[0], Signal::KILL).expect("asked"));
            assert_eq!(watch.wait(None).expect("waited"), ids[..1]);
            assert_eq!(kernel.liveness(&ids[0]), Liveness::Gone);
            assert_eq!(watch.wait(Some(Duration::ZERO)).expect("waited"), [], "told once");
            assert!(kernel.signal(&ids[1], Signal::KILL).expect("asked"));
            assert_eq!(watch.wait(None).expect("waited"), ids[1..]);
        }
    });
}

#[test]
fn locks_open_files_and_environment_of_a_process_are_read() {
    sandboxed(|| {
        let mut home = TestHome::new("unused");
        home.set("MARK", "v1: a=b c");
        home.set("EMPTY", "");
        let lock = home.at("locks/agent.lock");
        let open = home.write("open.jsonl", "{}\n");
        let other = home.write("other.jsonl", "{}\n");
        let words = ["lock", lock.to_str().expect("utf-8"), "open", open.to_str().expect("utf-8")];
        let mut agent = home.agent("codex", "work", &words);
        agent.ready();
        let kernel = kernel();
        let process = kernel.process(agent.pid()).expect("readable").expect("alive");
        assert_eq!(process.comm, "codex");
        assert_eq!(process.exe, Some(home.path().join("bin/codex")));
        assert_eq!(process.cwd, Some(home.path().join("work")));
        assert_eq!((process.parent_pid, process.elsewhere), (1, false));
        assert_eq!(process.argv[1..], words.map(str::to_owned));

        let names = ["MARK", "MAR", "ARK", "EMPTY", "ABSENT"];
        let found = kernel.environ(&process.id, &names).expect("readable");
        assert_eq!(found, [Some("v1: a=b c".into()), None, None, Some(String::new()), None]);

        let has = |path: &Path| {
            let meta = std::fs::metadata(path).expect("there");
            kernel.has_open(agent.pid(), meta.dev(), meta.ino()).expect("readable")
        };
        assert_eq!((has(&lock), has(&open), has(&other)), (true, true, false));
        let holders = |path: &Path| {
            let inode = std::fs::metadata(path).expect("there").ino();
            let locks = kernel.file_locks(&|_| true).expect("readable").into_iter();
            locks.filter(|l| l.inode == inode).map(|l| (l.kind, l.pid)).collect::<Vec<_>>()
        };
        assert_eq!(holders(&lock), [("FLOCK".to_owned(), Some(agent.pid()))]);
        assert_eq!(holders(&open), []);
        agent.kill();
        assert_eq!(holders(&lock), [], "a lock ends with its holder");
        assert!(kernel.environ(&process.id, &names).is_err());
    });
}

#[test]
fn the_table_holds_exactly_the_wanted_processes() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    sandboxed(|| {
        let home = TestHome::new("unused");
        let mut agents = ["alpha", "beta", "alpha"].map(|name| home.agent(name, "work", &[]));
        for agent in &mut agents {
            agent.ready();
        }
        let nobody = kernel().table(soon(), |_| false);
        assert!(nobody.processes.is_empty() && nobody.gaps.is_empty(), "{nobody:?}");
        assert_eq!(nobody.seen, 1 + agents.len(), "this test and its agents");

        let alphas = kernel().table(soon(), |brief: Brief<'_>| {
            ASKED.fetch_add(1, Ordering::SeqCst);
            brief.comm == "alpha" && brief.exe_name == "alpha"
        });
        let mut pids = [agents[0].pid(), agents[2].pid()];
        pids.sort_unstable();
        assert_eq!(alphas.processes.iter().map(|p| p.id.pid).collect::<Vec<_>>(), pids);
        assert!(alphas.processes.iter().all(|p| p.comm == "alpha" && !p.elsewhere));
        assert_eq!(
            (alphas.seen, ASKED.load(Ordering::SeqCst)),
            (1 + agents.len(), 1 + agents.len())
        );
        assert!(alphas.gaps.is_empty(), "{alphas:?}");
    });
}

/// The start of a child returns when `execve` has replaced its memory: its new program file is visible, and its
/// arguments are not yet.
#[test]
fn the_table_waits_for_the_arguments_of_a_process_in_execve() {
    const WORDS: usize = 100_000;
    sandboxed(|| {
        let kernel = kernel();
        for round in 0..rounds(100) {
            let mut sleeper = Command::new("sleep");
            let mut child =
                sleeper.args(std::iter::repeat_n("9", WORDS)).spawn().expect("`sleep` starts");
            let table = kernel.table(soon(), |brief| brief.exe_name == "sleep");
            let seen = table.processes.iter().map(|p| (p.id.pid, p.argv[0].as_str()));
            assert_eq!(seen.collect::<Vec<_>>(), [(child.id(), "sleep")], "round {round}");
            let id = id_of(&kernel, child.id());
            let path = kernel.environ(&id, &["PATH"]).expect("readable");
            assert_eq!(path[0], std::env::var("PATH").ok(), "round {round}");
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    });
}

#[test]
fn a_line_is_complete_although_its_processes_end_while_it_is_read() {
    const NEST: &str =
        "n=$1\nif [ $n -gt 0 ]; then sh $0 $((n - 1)); else setsid sleep 600; fi\nexit $?\n";
    sandboxed(|| {
        let (kernel, home) = (kernel(), TestHome::new("unused"));
        home.write("nest.sh", NEST);
        for round in 0..rounds(10) {
            let mut nest = Command::new("setsid");
            nest.args(["sh", "nest.sh", "200"]).current_dir(home.path());
            let mut nest = nest.spawn().expect("`setsid` of util-linux");
            let sleeper = eventually("the innermost process", || {
                let table = kernel.table(soon(), |brief| brief.exe_name == "sleep");
                table.processes.into_iter().next()
            });
            let begun = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while begun.load(Ordering::SeqCst) == 0 {
                        std::hint::spin_loop();
                    }
                    kill_process_group(raw(nest.id()), Signal::KILL).expect("killed");
                });
                loop {
                    begun.store(1, Ordering::SeqCst);
                    let line = kernel.line(&sleeper).expect("complete");
                    let last = line.last().expect("a line").id.pid;
                    assert_eq!(last, 1, "round {round}: {} processes", line.len());
                    if line.len() == 2 {
                        break;
                    }
                }
            });
            kill_process(raw(sleeper.id.pid), Signal::KILL).expect("it lives");
            nest.wait().expect("reaped");
            eventually("its end", || {
                kernel.process(sleeper.id.pid).expect("read").is_none().then_some(())
            });
        }
    });
}

#[test]
fn a_process_of_another_pid_namespace_is_elsewhere() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        drop(home.agent("gamma", "work", &[]));
        let mut child = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(home.path().join("bin/gamma"))
            .args(["say", "{pid}"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`unshare` of util-linux");
        let mut line = String::new();
        // Kept open to the end: a process that writes into a closed pipe dies.
        let mut said = std::io::BufReader::new(child.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut said, &mut line).expect("speaks");
        assert_eq!(line, "1\n", "it is pid 1 where it lives");
        for kernel in kernels() {
            let table = kernel.table(soon(), |brief| brief.comm == "gamma");
            assert_eq!(table.processes.len(), 1, "{table:?}");
            let gamma = &table.processes[0];
            assert!(gamma.elsewhere && gamma.id.pid != 1, "{gamma:?}");
            assert_eq!(gamma.parent_pid, child.id());
            assert_eq!(kernel.liveness(&gamma.id), ALIVE);
        }
        child.kill().expect("killed");
        child.wait().expect("reaped");
    });
}

#[test]
fn a_pid_without_a_process_gives_none() {
    sandboxed(|| {
        for kernel in kernels() {
            for pid in [0, 4_000_000, u32::MAX] {
                assert!(kernel.process(pid).expect("readable").is_none());
                let mut id = id_of(&kernel, std::process::id());
                id.pid = pid;
                assert_eq!(kernel.liveness(&id), Liveness::Gone);
                assert!(!kernel.signal(&id, Signal::KILL).expect("asked"));
            }
        }
    });
}

/// Runs a shell script to its end, or to the limit.
fn attended(script: &str, limit: Duration) -> agentctl_core::kernel::Attended {
    use agentctl_core::kernel::Stdio;
    let spawn = Spawn {
        program: "/bin/sh".into(),
        args: ["-c", script].map(Into::into).into(),
        set: Vec::new(),
        unset: Vec::new(),
        cwd: "/".into(),
        stdin: Stdio::Null,
        stdout: Stdio::Null,
        stderr: Stdio::Null,
        keep: Vec::new(),
    };
    spawn.attended(limit, 100).expect("it starts")
}

#[test]
fn an_attended_program_is_reaped_and_at_the_limit_its_group_is_killed() {
    sandboxed(|| {
        let done = attended("echo hi; exit 3", Duration::from_mins(1));
        let code = done.exit.expect("it ended").code;
        assert_eq!((code, done.said.as_slice()), (Some(3), &b"hi\n"[..]));
        let late = attended("sleep 600 & echo $! $$; wait", Duration::from_secs(10));
        assert!(late.exit.is_none());
        let said = String::from_utf8(late.said).expect("numbers");
        let pids: Vec<i32> = said.split_whitespace().filter_map(|p| p.parse().ok()).collect();
        assert_eq!(pids.len(), 2, "{said}");
        // Its child is an orphan now and this test's own, being the first process here.
        let orphan = Pid::from_raw(pids[0]).expect("a pid");
        let options = rustix::process::WaitOptions::empty();
        // It is so once the program has died of the same kill.
        let (_, status) = eventually("it is ours", || {
            rustix::process::waitpid(Some(orphan), options).ok().flatten()
        });
        assert_eq!(status.terminating_signal(), Some(9));
        eventually("the program is reaped", || {
            let leader = Pid::from_raw(pids[1]).expect("a pid");
            test_kill_process(leader).is_err().then_some(())
        });
    });
}
