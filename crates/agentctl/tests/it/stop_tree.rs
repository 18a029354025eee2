//! Stopping every process that a session started, and no other.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{Agent, Echo, TestHome, eventually, sandboxed};

use crate::claude_code::{A, B, Claude, prompt, record};
use crate::launched::everyone;
use crate::stop::{demo, lives, written_pid};

const RUN: &str = "01a1de32-0000-7000-8000-00000000000a";

/// Evasive processes, each a script that writes its pid. `D` is the directory for that.
pub(crate) const AWKWARD: [(&str, &str); 8] = [
    ("child", "echo $$ > D/child; exec sleep 600"),
    ("group", "set -m; sh -c 'echo $$ > D/group; exec sleep 600' & wait"),
    ("session", "exec setsid sh -c 'echo $$ > D/session; exec sleep 600'"),
    ("orphan", "sh -c 'echo $$ > D/orphan; exec sleep 600' & exit"),
    ("daemon", "setsid sh -c 'echo $$ > D/daemon; exec sleep 600' & exit"),
    ("bare", "env -i PATH=/usr/bin:/bin setsid sh -c 'echo $$ > D/bare; exec sleep 600' & exit"),
    (
        "heir",
        "exec sh -c 'trap \"sh -c \\\"echo \\\\$\\\\$ > D/late; exec sleep 600\\\" & exit\" TERM; echo $$ > D/heir; sleep 600 & wait'",
    ),
    ("deaf", "trap '' TERM; echo $$ > D/deaf; exec sleep 600"),
];

pub(crate) struct Tree {
    pub(crate) directory: PathBuf,
}

impl Tree {
    pub(crate) fn new(home: &TestHome) -> Self {
        let directory = home.path().join("pids");
        std::fs::create_dir_all(&directory).expect("made");
        Self { directory }
    }

    fn script(&self) -> Vec<String> {
        let place = self.directory.to_string_lossy();
        let starts = AWKWARD.iter().flat_map(|(_, script)| {
            ["start".to_owned(), script.replace("D/", &format!("{place}/"))]
        });
        starts.collect()
    }

    pub(crate) fn pid(&self, name: &str) -> u32 {
        written_pid(&self.directory.join(name))
    }

    fn pids(&self) -> Vec<(&'static str, u32)> {
        AWKWARD.iter().map(|(name, _)| (*name, self.pid(name))).collect()
    }

    /// Returns the names of the scripts that are alive.
    pub(crate) fn living(&self) -> Vec<&'static str> {
        let all = self.pids().into_iter().chain(self.late().map(|pid| ("late", pid)));
        all.filter(|(_, pid)| lives(*pid)).map(|(name, _)| name).collect()
    }

    /// Returns the pid of the script that starts in the middle of a stop. It may be killed before it writes
    /// its pid, so wait only while its writer is alive.
    fn late(&self) -> Option<u32> {
        let path = self.directory.join("late");
        let name = path.to_str().expect("a name");
        path.exists().then_some(())?;
        eventually("the late one is named or gone", || {
            let writers = everyone().into_iter().any(|p| p.argv.iter().any(|a| a.contains(name)));
            let told = std::fs::read_to_string(&path).unwrap_or_default();
            let pid = told.strip_suffix('\n').and_then(|pid| pid.parse().ok());
            (pid.is_some() || !writers).then_some(pid)
        })
    }
}

/// A fake Claude Code whose tools carry its marks.
pub(crate) fn adopted(claude: &Claude, id: &str, script: &[String]) -> Agent {
    let record = record(id, &claude.cwd, &json!({"status": "busy"}));
    let mut all = vec!["env", "CLAUDE_PID", "{pid}", "env", "CLAUDE_CODE_SESSION_ID", id];
    all.extend(script.iter().map(String::as_str));
    all.extend(["write", &claude.record_path, &record]);
    let mut agent = claude.home.agent("claude", "ws", &all);
    agent.ready();
    claude.transcript(id, &[prompt("x")]);
    agent
}

fn stop(claude: &Claude, id: &str) -> (Option<i32>, Value) {
    let told = claude.home.run(&["stop", id, "--json"]);
    (told.code, told.json())
}

#[test]
fn without_a_shim_proved_processes_are_ended_and_the_rest_is_named() {
    sandboxed(|| {
        let claude = Claude::new();
        let tree = Tree::new(&claude.home);
        let _agent = adopted(&claude, A, &tree.script());
        assert_eq!(tree.living().len(), 8);
        let (code, told) = stop(&claude, A);
        // Orphans do not descend from the agent any more, and there is no shim.
        let orphans = ["orphan", "daemon", "bare", "late"];
        assert_eq!(tree.living(), orphans, "{told:#}");
        assert_eq!(code, Some(1), "{told:#}");
        let survivors = told["survivors"].as_array().expect("a list");
        assert_eq!(survivors.len(), orphans.len(), "{told:#}");
        let why = |name: &str| {
            let pid = if name == "late" { tree.late().expect("told") } else { tree.pid(name) };
            survivors.iter().find(|s| s["pid"] == pid).map(|s| s["why"].clone())
        };
        let linked = json!("only CLAUDE_CODE_SESSION_ID in its environment links it; not ended");
        for name in ["orphan", "daemon", "late"] {
            assert_eq!(why(name).as_ref(), Some(&linked), "{name}: {told:#}");
        }
        assert_eq!(why("bare"), Some("may have been started by it; not ended".into()));
        // The script writes its pid a moment before its exec.
        let command = survivors[0]["command"].as_str().expect("words");
        assert!(command.ends_with("sleep 600"), "{command}");
        let row = &told["stopped"][0];
        assert_eq!(row["status"], "stopped");
        let how = |name: &str| {
            let ended = row["ended"].as_array().expect("a list");
            ended.iter().find(|e| e["pid"] == tree.pid(name)).map(|e| e["how"].clone())
        };
        assert_eq!((how("session"), how("deaf")), (Some("asked".into()), Some("killed".into())));
        assert!(how("heir").is_some(), "{told:#}");
        let again = claude.home.run(&["stop", A, "--json"]);
        assert_eq!(again.code, Some(1), "{again:?}");
        let named = again.json()["survivors"].as_array().map(Vec::len);
        assert_eq!(named, Some(3), "what is only suspected is named once: {again:?}");
    });
}

#[test]
fn processes_started_during_a_stop_are_ended_too() {
    sandboxed(|| {
        let claude = Claude::new();
        let tree = Tree::new(&claude.home);
        let place = tree.directory.display().to_string();
        let script = AWKWARD.iter().find(|(name, _)| *name == "heir").expect("there").1;
        let script = script.replace("D/", &format!("{place}/"));
        let (_shim, _) = launched(&claude, RUN, A, &["start".into(), script]);
        tree.pid("heir");
        let (code, told) = stop(&claude, A);
        assert_eq!(code, Some(0), "{told:#}");
        let mark = format!("AGENTCTL_RUN=v1:{RUN}:");
        let marked = crate::launched::everyone()
            .into_iter()
            .filter(|p| p.environ.iter().any(|v| v.starts_with(&mark)));
        let left: Vec<_> = marked.map(|p| (p.pid, p.argv)).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

/// Creates the folder of a run and returns the command line of its shim, which starts this script.
fn shim(claude: &Claude, run: &str, script: &std::path::Path) -> Vec<String> {
    let folder = format!(".local/state/agentctl/runs/{run}");
    claude.home.write(&format!("{folder}/prompt"), "x");
    let folder = claude.home.at(&format!("{folder}/x")).with_file_name("");
    let folder = folder.to_string_lossy().trim_end_matches('/').to_owned();
    let script = script.to_string_lossy().into_owned();
    let words = [env!("CARGO_BIN_EXE_agentctl"), "shim", &folder, "", "/bin/sh", &script];
    words.map(str::to_owned).to_vec()
}

/// Starts an agent below a shim of its own, as a launch does.
fn launched(claude: &Claude, run: &str, id: &str, script: &[String]) -> (Agent, u32) {
    let record = record(id, &claude.cwd, &json!({"status": "busy"}));
    let program = claude.home.at("bin/claude");
    if !program.exists() {
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
    }
    let mut words: Vec<String> = script.to_vec();
    words.extend(["write".into(), claude.record_path.clone(), record]);
    let quoted: Vec<String> =
        words.iter().map(|w| format!("'{}'", w.replace('\'', "'\\''"))).collect();
    let text = format!("exec {} stay {}\n", program.display(), quoted.join(" "));
    let file = claude.home.write(&format!("{run}.sh"), text);
    std::fs::create_dir_all(&claude.cwd).expect("made");
    let words = shim(claude, run, &file);
    let mut command =
        claude.home.command(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
    command.current_dir(&claude.cwd).stdout(Stdio::null());
    let shim = Agent { child: command.spawn().expect("the shim starts") };
    claude.transcript(id, &[prompt("x")]);
    let row = eventually("it lives", || {
        claude.list().sessions().into_iter().find(|s| s["id"] == id && s["pid"].is_u64())
    });
    (shim, u32::try_from(row["pid"].as_u64().expect("a pid")).expect("a pid"))
}

#[test]
fn no_process_below_a_shim_is_left() {
    sandboxed(|| {
        let claude = Claude::new();
        let tree = Tree::new(&claude.home);
        let (shim, agent) = launched(&claude, RUN, A, &tree.script());
        assert_eq!(tree.living().len(), 8);
        let (code, told) = stop(&claude, A);
        assert_eq!((code, &told["survivors"]), (Some(0), &json!([])), "{told:#}");
        assert_eq!(tree.living(), Vec::<&str>::new());
        assert!(!lives(agent));
        eventually("the shim ends by itself", || (!lives(shim.pid())).then_some(()));
    });
}

#[test]
fn no_process_is_left_with_force() {
    sandboxed(|| {
        let claude = Claude::new();
        let tree = Tree::new(&claude.home);
        let (_shim, _) = launched(&claude, RUN, A, &tree.script());
        tree.pids();
        let told = claude.home.run(&["stop", A, "--force", "--json"]);
        assert_eq!(told.code, Some(0), "{told:?}");
        assert_eq!(tree.living(), Vec::<&str>::new());
        let told = told.json();
        let ended = told["stopped"][0]["ended"].as_array().expect("a list");
        assert!(ended.iter().all(|e| e["how"] != "asked"), "{told:#}");
    });
}

#[test]
fn an_agent_launched_inside_another_is_a_session_of_its_own() {
    sandboxed(|| {
        let claude = Claude::new();
        let inner_run = "01a1de32-0000-7000-8000-00000000000b";
        let (outer_shim, outer) = launched(&claude, RUN, A, &[]);
        // As a launch from inside would: when its launcher exits, the inner shim becomes a child of the
        // outer one.
        let tree = Tree::new(&claude.home);
        let (inner_shim, inner) = launched(&claude, inner_run, B, &tree.script());
        drop(outer_shim);
        let (code, told) = stop(&claude, A);
        // Its shim was killed, so processes that left the agent cannot be found.
        assert_eq!((code, &told["survivors"]), (Some(1), &json!([])), "{told:#}");
        assert!(told["stopped"][0]["unseen"].is_string(), "{told:#}");
        assert!(!lives(outer) && lives(inner) && lives(inner_shim.pid()));
        assert_eq!(tree.living().len(), 8, "{told:#}");
        let (code, told) = stop(&claude, B);
        assert_eq!(code, Some(0), "{told:#}");
        assert_eq!(tree.living(), Vec::<&str>::new());
    });
}

#[test]
fn a_launched_agent_below_the_one_that_is_stopped_lives_on() {
    sandboxed(|| {
        let claude = Claude::new();
        let inner_run = "01a1de32-0000-7000-8000-00000000000b";
        let record = record(B, &claude.cwd, &json!({"status": "busy"}));
        let program = claude.home.at("bin/claude");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        claude.transcript(B, &[prompt("x")]);
        let agent = format!(
            "exec {} stay write '{}' '{record}' start 'echo $$ > {}; exec sleep 600'\n",
            program.display(),
            claude.record_path,
            claude.home.at("tool").display()
        );
        let agent = claude.home.write("inner.sh", agent);
        let nested_shim = claude.home.at("nested.pid");
        let words: Vec<String> =
            shim(&claude, inner_run, &agent).iter().map(|w| format!("'{w}'")).collect();
        let nested = format!("echo $$ > {}; exec {}", nested_shim.display(), words.join(" "));
        // Orphans of a third run, whose shim and agent are gone, below the outer shim: nothing proves their
        // run.
        let left = claude.home.at("left.pid");
        let third = format!(
            "AGENTCTL_RUN=v1:third:9:9 sh -c 'echo $$ > {}; exec sleep 600' & exit",
            left.display()
        );
        // The nested shim is a child of the outer agent, and all processes carry the marker of the outer
        // run or their own.
        let (_shim, outer) =
            launched(&claude, RUN, A, &["start", &nested, "start", &third].map(String::from));
        let inner = eventually("the inner one lives", || {
            claude.list().sessions().into_iter().find(|s| s["id"] == B && s["pid"].is_u64())
        });
        let inner = u32::try_from(inner["pid"].as_u64().expect("a pid")).expect("a pid");
        let tool = written_pid(&claude.home.path().join("tool"));
        let (nested_shim, left) = (written_pid(&nested_shim), written_pid(&left));
        let (code, told) = stop(&claude, A);
        assert_eq!(code, Some(1), "{told:#}");
        assert!(!lives(outer) && lives(inner) && lives(tool), "{told:#}");
        assert!(lives(nested_shim) && !lives(left), "{told:#}");
        let named = told["survivors"].as_array().expect("a list");
        assert_eq!((named.len(), &named[0]["pid"]), (1, &inner.into()), "{told:#}");
        assert_eq!(stop(&claude, B).0, Some(0));
        assert!(!lives(inner) && !lives(tool));
    });
}

#[test]
fn an_agent_started_by_hand_inside_another_is_left_alone_and_named() {
    sandboxed(|| {
        for inner_first in [false, true] {
            let claude = Claude::new();
            let record = record(B, &claude.cwd, &json!({"status": "busy"}));
            let program = claude.home.at("bin/claude");
            std::fs::copy(testkit::fake_agent(), &program).expect("copied");
            claude.transcript(B, &[prompt("x")]);
            let place = claude.home.at("pids/x").parent().expect("a parent").to_owned();
            // Its tool is an orphan and carries its mark and the run's marker.
            let inner = format!(
                "exec {} env CLAUDE_PID {{pid}} env CLAUDE_CODE_SESSION_ID {B} start 'sh -c \"echo \\$\\$ > {}/inner; exec sleep 600\" & exit' write '{}' '{record}' stay",
                program.display(),
                place.display(),
                claude.record_path
            );
            let inner = claude.home.write("inner.sh", inner);
            let script = [
                "env",
                "CLAUDE_PID",
                "{pid}",
                "env",
                "CLAUDE_CODE_SESSION_ID",
                A,
                "start",
                &format!("exec sh {}", inner.display()),
                "start",
                &format!("sh -c 'echo $$ > {}/outer; exec sleep 600' & exit", place.display()),
            ];
            let script: Vec<String> = script.iter().map(ToString::to_string).collect();
            let (_shim, outer) = launched(&claude, RUN, A, &script);
            let row = eventually("the inner one lives", || {
                claude.list().sessions().into_iter().find(|s| s["id"] == B && s["pid"].is_u64())
            });
            let (theirs, ours) =
                (written_pid(&place.join("inner")), written_pid(&place.join("outer")));
            if inner_first {
                // It carries the outer run's marker, but is not that run's agent. Its orphan is below the
                // outer shim, and only the marker links it.
                let (code, told) = stop(&claude, B);
                assert_eq!(code, Some(1), "{told:#}");
                assert!(lives(outer) && lives(ours) && lives(theirs), "{told:#}");
                assert_eq!(told["survivors"][0]["pid"], theirs, "{told:#}");
                assert_eq!(told["survivors"].as_array().map(Vec::len), Some(1), "{told:#}");
                continue;
            }
            let (code, told) = stop(&claude, A);
            assert_eq!(code, Some(1), "{told:#}");
            let named: Vec<&Value> =
                told["survivors"].as_array().expect("a list").iter().map(|s| &s["pid"]).collect();
            assert!(named.contains(&&row["pid"]) && named.contains(&&json!(theirs)), "{told:#}");
            assert_eq!(claude.row(B)["status"], "running");
            assert!(!lives(outer) && !lives(ours) && lives(theirs), "{told:#}");
            let left = &told["stopped"][0]["left"];
            assert_eq!(
                (&left[0]["session"], &left[0]["pid"]),
                (&B.into(), &row["pid"]),
                "{told:#}"
            );
            let (code, told) = stop(&claude, B);
            assert_eq!(code, Some(1), "{told:#}");
            assert!(lives(theirs), "only a text links it: {told:#}");
            crate::launched::kill(theirs);
        }
    });
}

/// Every process that the inner agent starts carries the marks of both.
#[test]
fn nested_sessions_are_stopped_separately() {
    sandboxed(|| {
        for stop_inner in [true, false] {
            let claude = Claude::new();
            let inner = "01a1de32-5fe1-74e1-aa0a-48f1eed298bf";
            let program = claude.home.at("bin/codex");
            std::fs::copy(testkit::fake_agent(), &program).expect("copied");
            let lock = claude.home.at(&format!(".codex/thread-writer-locks/{inner}.lock"));
            let tool = claude.home.at("pids/tool");
            let text = format!(
                "exec {} exec stay env CODEX_THREAD_ID {inner} start \
                 'sh -c \"echo \\$\\$ > {}; exec sleep 600\" & exit' lock {}",
                program.display(),
                tool.display(),
                lock.display()
            );
            let file = claude.home.write("inner.sh", text);
            // Not a child of the outer agent any more, so that only the marks link it.
            let start = format!("setsid sh {} & exit", file.display());
            let outer = adopted(&claude, A, &["start".into(), start]);
            let tool = written_pid(&tool);
            let row = eventually("the inner one lives", || {
                claude.list().sessions().into_iter().find(|s| s["id"] == inner && s["pid"].is_u64())
            });
            let pid = u32::try_from(row["pid"].as_u64().expect("a pid")).expect("a pid");
            let (code, told) = stop(&claude, if stop_inner { inner } else { A });
            // The tool is an orphan in the kernel session that the inner agent opened.
            assert_eq!(code, Some(0), "{told:#}");
            assert_eq!(lives(outer.pid()), stop_inner, "{told:#}");
            assert_eq!((lives(pid), lives(tool)), (!stop_inner, !stop_inner), "{told:#}");
        }
    });
}

#[test]
fn bystanders_are_left_alone() {
    sandboxed(|| {
        let claude = Claude::new();
        let tree = Tree::new(&claude.home);
        // A process older than the agent in the same directory; one of the same terminal session; another
        // session's.
        let mut old = Echo::start("cat", None);
        let other = claude.live(B, &json!({"status": "busy"}));
        claude.transcript(B, &[prompt("x")]);
        let agent = adopted(&claude, A, &tree.script());
        tree.pids();
        // A mark with the pid of an earlier process, and a variable that merely looks like a mark.
        let foreign = |name: &str, value: &str| {
            let mut command = std::process::Command::new("cat");
            command
                .env(name, value)
                .current_dir(&claude.cwd)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            Echo { child: command.spawn().expect("started") }
        };
        let mut strangers = [
            foreign("CLAUDE_PID", &format!("{}1", agent.pid())),
            foreign("CLAUDE_CODE_SESSION_ID", B),
            foreign("CLAUDE_CODE_SESSION", A),
            foreign("AGENTCTL_RUN", &format!("v1:{RUN}:{}:1", agent.pid())),
            foreign("PATH", "/usr/bin"),
        ];
        let worker = demo(&claude.home, "worker", "x [[hang]]");
        let (_, told) = stop(&claude, A);
        assert_eq!(tree.living(), ["orphan", "daemon", "bare", "late"], "{told:#}");
        for stranger in &mut strangers {
            assert!(stranger.answers(), "{told:#}");
        }
        assert!(old.answers() && lives(other.pid()) && lives(worker.pid()));
        assert_eq!(claude.row(B)["status"], "running");
    });
}

#[test]
fn a_mark_older_than_the_agent_does_not_count() {
    sandboxed(|| {
        let claude = Claude::new();
        let pid = 6000;
        let mut command = std::process::Command::new("cat");
        command.env("CLAUDE_PID", pid.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut older = Echo { child: command.spawn().expect("started") };
        let tick =
            std::fs::read_to_string(format!("/proc/{}/stat", older.pid())).expect("a stat line");
        let tick = tick.rsplit(") ").next().and_then(|s| s.split(' ').nth(19)?.parse().ok());
        testkit::after_tick(tick.expect("a tick"));
        testkit::next_pid(pid);
        let agent = adopted(&claude, A, &[]);
        assert_eq!(agent.pid(), pid);
        assert_eq!(stop(&claude, A).0, Some(0));
        assert!(older.answers());
    });
}

#[test]
fn a_process_above_another_session_is_not_ended() {
    sandboxed(|| {
        let claude = Claude::new();
        let record = record(B, &claude.cwd, &json!({"status": "idle"}));
        let program = claude.home.at("bin/claude");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        claude.transcript(B, &[prompt("x")]);
        let pid = claude.home.at("pids/multiplexer");
        // Like a terminal multiplexer that was started from a tool and holds another agent.
        let inner =
            format!("exec {} write '{}' '{record}' stay", program.display(), claude.record_path);
        let inner = claude.home.write("inner.sh", inner);
        let script = format!(
            "setsid sh -c 'echo $$ > {}; sh {} & wait' & exit",
            pid.display(),
            inner.display()
        );
        let agent = adopted(&claude, A, &["start".into(), script]);
        let carrier = written_pid(&pid);
        eventually("the inner one lives", || {
            claude.list().sessions().into_iter().find(|s| s["id"] == B && s["pid"].is_u64())
        });
        let (code, told) = stop(&claude, A);
        assert_eq!(code, Some(1), "{told:#}");
        assert!(!lives(agent.pid()) && lives(carrier), "{told:#}");
        assert_eq!(told["survivors"][0]["pid"], carrier, "{told:#}");
        assert_eq!(claude.row(B)["status"], "idle");
    });
}

#[test]
fn marked_processes_of_a_dead_agent_are_named() {
    sandboxed(|| {
        let claude = Claude::new();
        let tree = Tree::new(&claude.home);
        let mut agent = adopted(&claude, A, &tree.script());
        tree.pids();
        agent.kill();
        let (code, told) = stop(&claude, A);
        assert_eq!(code, Some(1), "{told:#}");
        assert_eq!(told["stopped"][0]["already"], true);
        assert_eq!(tree.living().len(), 8, "no line of parents proves whose they are");
        let named = told["survivors"].as_array().expect("a list");
        let named = |name: &str| named.iter().any(|s| s["pid"] == tree.pid(name));
        assert!(named("child") && named("daemon") && !named("bare"), "{told:#}");
    });
}

#[test]
fn stop_works_from_inside_the_session_it_stops() {
    sandboxed(|| {
        let claude = Claude::new();
        let out = claude.home.at("pids/out");
        let script = format!(
            "env -i HOME={} PATH=/usr/bin:/bin {} stop {A} > {}.part 2>&1; mv {}.part {}",
            claude.home.path().display(),
            env!("CARGO_BIN_EXE_agentctl"),
            out.display(),
            out.display(),
            out.display()
        );
        let go = claude.home.at("pids/go");
        let fifo = std::process::Command::new("mkfifo").arg(&go).status();
        assert!(fifo.expect("mkfifo").success());
        let start = format!("read go < {}; {script}", go.display());
        let agent = adopted(&claude, A, &["start".into(), start]);
        std::fs::write(&go, "go\n").expect("told");
        eventually("the agent has ended", || (!lives(agent.pid())).then_some(()));
        // The shell of this command was ended too, so its output is in a file.
        let part = out.with_extension("part");
        let said = eventually("it says so", || {
            std::fs::read_to_string(&part).ok().filter(|s| s.contains("stopped"))
        });
        assert!(
            said.starts_with(&format!("stopped claude-code {A} (pid {}", agent.pid())),
            "{said}"
        );
    });
}
