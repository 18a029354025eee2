//! Class: descendants that hide from a stop, and bystanders that a stop must not reach (S7, S8).

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Echo, TestHome, eventually, sandboxed};

use crate::claude_code::{A, Claude, prompt};
use crate::home;
use crate::launched::{everyone, folder, kill, launch, shims, status};
use crate::stop::{lives, written_pid};
use crate::stop_tree::adopted;

const OTHER_RUN: &str = "01a1de32-0000-7000-8000-0000000000ff";

/// Launches a demo agent whose tool runs this script, and returns the session id and the run id.
fn launched(home: &TestHome, script: &str) -> (String, String) {
    let script = home.write("parts/tool.sh", script);
    let id = launch(home, "launched", &format!("x [[tool:sh {}]]", script.display()), &[]);
    let run = status(home, &id)["run"].as_str().expect("a run").to_owned();
    (id, run)
}

/// The folder in which the processes of a test write down their pids.
fn pids(home: &TestHome) -> PathBuf {
    home.at("pids/x").parent().expect("a parent").to_owned()
}

fn survivors(told: &Value) -> Vec<u64> {
    let list = told["survivors"].as_array().expect("a list");
    list.iter().filter_map(|s| s["pid"].as_u64()).collect()
}

/// Starts a process outside of every session, with these variables.
fn bystander(home: &TestHome, variables: &[(&str, String)]) -> Echo {
    let mut command = Command::new("cat");
    command.env_clear().env("PATH", "/usr/bin:/bin").envs(variables.iter().cloned());
    command.current_dir(home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    Echo { child: command.spawn().expect("started") }
}

/// S7: no variable and no argument that a descendant of the shim chose keeps it alive.
#[test]
fn a_descendant_that_forged_a_text_is_ended() {
    sandboxed(|| {
        let claude = Claude::new();
        let home = &claude.home;
        claude.transcript(A, &[prompt("x")]);
        let other = claude.live(A, &json!({"status": "busy"}));
        let place = pids(home);
        let place = place.display();
        let fake = testkit::fake_agent();
        let text = "AGENTCTL_RUN=v1:another-run:1:1";
        let hook = "AGENTCTL_HOOK=x AGENTCTL_RUN_ID=$OWN";
        let marks =
            format!("CLAUDE_PID={} CLAUDE_CODE_SESSION_ID={A} PI_SESSION_ID=x", other.pid());
        let mut script = String::from("OWN=$(echo $AGENTCTL_RUN | cut -d: -f2)\n");
        let mut names = Vec::new();
        for (name, variables) in [
            ("run", text),
            ("hook", hook),
            ("daemon", "AGENTCTL_DAEMON=1"),
            ("marks", &marks),
            ("bare", "env -i PATH=/usr/bin:/bin"),
        ] {
            for (kind, before, after) in
                [("child", "", " &"), ("session", "setsid ", " &"), ("orphan", "(setsid ", " &)")]
            {
                let name = format!("{name}-{kind}");
                let vars = if variables.starts_with("env") {
                    variables.to_owned()
                } else {
                    format!("env {variables}")
                };
                script.push_str(&format!(
                    "{before}{vars} sh -c 'echo $$ > {place}/{name}; exec sleep 600'{after}\n"
                ));
                names.push(name);
            }
        }
        for (name, after) in [("argv-child", " &"), ("argv-orphan", " &)")] {
            let before = if after == " &)" { "(setsid " } else { "" };
            script.push_str(&format!(
                "{before}{} shim /x/runs/another-run stay write {place}/{name} '{{pid}}\n'{after}\n",
                fake.display()
            ));
            names.push(name.to_owned());
        }
        script.push_str("wait\n");
        let (id, _) = launched(home, &script);
        let all: Vec<(&String, u32)> =
            names.iter().map(|n| (n, written_pid(&pids(home).join(n)))).collect();
        let told = home.run(&["stop", &id, "--json"]);
        let living: Vec<&&String> =
            all.iter().filter(|(_, pid)| lives(*pid)).map(|(n, _)| n).collect();
        assert_eq!(living, Vec::<&&String>::new(), "{told:?}");
        assert_eq!((told.code, &told.json()["survivors"]), (Some(0), &json!([])), "{told:?}");
        assert!(lives(other.pid()), "another session is not touched");
    });
}

/// S7: a run that was launched from inside is spared because its own folder proves it; it is named, and
/// the exit code says that something lives on.
#[test]
fn a_launch_from_inside_is_spared_named_and_not_exit_0() {
    sandboxed(|| {
        let home = home();
        let (inner, cwd) = (home.at("pids/inner"), folder(&home, "inside"));
        let script = format!(
            "{} launch demo -p 'x [[hang]]' --cwd {cwd} > {}\nexec sleep 600\n",
            env!("CARGO_BIN_EXE_agentctl"),
            inner.display()
        );
        let (outer, _) = launched(&home, &script);
        let inner = eventually("the inner one is launched", || {
            Some(std::fs::read_to_string(&inner).ok()?.strip_suffix('\n')?.to_owned())
        });
        let row = status(&home, &inner);
        let told = home.run(&["stop", &outer, "--json"]);
        assert_eq!(status(&home, &inner)["status"], "running", "{told:?}");
        assert_eq!(told.code, Some(1), "{told:?}");
        let told = told.json();
        assert_eq!(told["stopped"][0]["left"][0]["session"], inner.as_str(), "{told:#}");
        assert_eq!(survivors(&told), [row["pid"].as_u64().expect("a pid")], "{told:#}");
        assert_eq!(home.run(&["stop", &inner]).code, Some(0));
        eventually("both shims are gone", || shims().is_empty().then_some(()));
    });
}

/// S7: both are named on the command line: the first stop spares the process, the second ends it.
#[test]
fn a_process_spared_and_then_stopped_by_one_command_is_no_survivor() {
    sandboxed(|| {
        let home = home();
        let (inner, cwd) = (home.at("pids/inner"), folder(&home, "inside"));
        let script = format!(
            "{} launch demo -p 'x [[hang]]' --cwd {cwd} > {}\nexec sleep 600\n",
            env!("CARGO_BIN_EXE_agentctl"),
            inner.display()
        );
        let (outer, _) = launched(&home, &script);
        let inner = eventually("the inner one is launched", || {
            Some(std::fs::read_to_string(&inner).ok()?.strip_suffix('\n')?.to_owned())
        });
        let told = home.run(&["stop", &outer, &inner, "--json"]);
        assert_eq!((told.code, &told.json()["survivors"]), (Some(0), &json!([])), "{told:?}");
    });
}

/// S7: the folder of a run that exists proves nothing about a process that it does not name.
#[test]
fn the_folder_of_another_run_saves_only_the_processes_it_names() {
    sandboxed(|| {
        let home = home();
        let victim = launch(&home, "victim", "x [[hang]]", &[]);
        let row = status(&home, &victim);
        let run = row["run"].as_str().expect("a run");
        let directory = home.at(&format!(".local/state/agentctl/runs/{run}"));
        assert!(directory.is_dir());
        let process = &row["processes"][0];
        let whole = format!("v1:{run}:{}:{}", process["pid"], process["start_ticks"]);
        let place = pids(&home);
        let script = format!(
            "(AGENTCTL_RUN={whole} setsid sh -c 'echo $$ > {0}/text; exec sleep 600' &)\n\
             ({1} shim {2} stay write {0}/argv '{{pid}}\n' &)\nexec sleep 600\n",
            place.display(),
            testkit::fake_agent().display(),
            directory.display()
        );
        let (id, _) = launched(&home, &script);
        let two = ["text", "argv"].map(|n| written_pid(&place.join(n)));
        let told = home.run(&["stop", &id, "--json"]);
        assert!(two.iter().all(|pid| !lives(*pid)), "{told:?}");
        assert_eq!(told.code, Some(0), "{told:?}");
        assert_eq!(status(&home, &victim)["status"], "running");
    });
}

/// S8: a process that is no descendant and carries the run's text lives on and is named.
#[test]
fn a_bystander_that_carries_a_text_lives_on_and_is_named() {
    sandboxed(|| {
        let home = home();
        let (id, run) = launched(&home, "exec sleep 600\n");
        let row = status(&home, &id);
        let (pid, ticks) = (&row["processes"][0]["pid"], &row["processes"][0]["start_ticks"]);
        let text = |t: String| vec![("AGENTCTL_RUN", t)];
        let mut all = [
            bystander(&home, &text(format!("v1:{run}:1:1"))),
            bystander(&home, &text(format!("v1:{run}:{pid}:1"))),
            bystander(&home, &text(format!("v1:{run}:{pid}:{ticks}"))),
        ];
        let mut unrelated = bystander(&home, &text(format!("v1:{OTHER_RUN}:{pid}:{ticks}")));
        let told = home.run(&["stop", &id, "--json"]);
        for one in &mut all {
            assert!(one.answers(), "{told:?}");
        }
        assert!(unrelated.answers());
        assert_eq!(told.code, Some(1), "{told:?}");
        let told = told.json();
        let mut named = survivors(&told);
        named.sort_unstable();
        let mut wanted: Vec<u64> = all.iter().map(|e| u64::from(e.pid())).collect();
        wanted.sort_unstable();
        assert_eq!(named, wanted, "{told:#}");
        let why = told["survivors"][0]["why"].as_str().expect("a reason");
        assert!(why.contains("AGENTCTL_RUN"), "{why}");
        let row = &told["stopped"][0];
        assert_eq!(row["status"], "stopped", "{told:#}");
        assert!(row["ended"].as_array().is_some_and(|e| !e.is_empty()));
    });
}

/// S8: `--force` ends a process linked by text only if the whole text names this very agent and the
/// process began after it.
#[test]
fn force_ends_a_bystander_only_if_the_whole_mark_names_the_agent() {
    sandboxed(|| {
        let home = home();
        let ticks = |pid: u32| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a stat line");
            let tick = line.rsplit(") ").next().and_then(|s| s.split(' ').nth(19)).map(str::parse);
            tick.and_then(Result::ok).expect("a tick")
        };
        // Started before the agent; it becomes another program with the text later.
        let fifo = home.at("pids/go");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
        let mut elder = Command::new("sh");
        elder.args(["-c", &format!("read text < {}; AGENTCTL_RUN=$text exec cat", fifo.display())]);
        elder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut elder = Echo { child: elder.spawn().expect("started") };
        testkit::after_tick(ticks(elder.pid()));
        let (id, run) = launched(&home, "exec sleep 600\n");
        let row = status(&home, &id);
        let (pid, ticks) = (&row["processes"][0]["pid"], &row["processes"][0]["start_ticks"]);
        let whole = format!("v1:{run}:{pid}:{ticks}");
        std::fs::write(&fifo, format!("{whole}\n")).expect("told");
        assert!(elder.answers());
        let text = |t: String| vec![("AGENTCTL_RUN", t)];
        let mut wrong = [
            bystander(&home, &text(format!("v1:{run}:1:1"))),
            bystander(&home, &text(format!("v1:{run}:{pid}:1"))),
            bystander(&home, &text(format!("v1:{OTHER_RUN}:{pid}:{ticks}"))),
        ];
        let right = bystander(&home, &text(whole));
        let told = home.run(&["stop", &id, "--force", "--json"]);
        for one in &mut wrong {
            assert!(one.answers(), "{told:?}");
        }
        assert!(elder.answers(), "it is older than the agent: {told:?}");
        assert!(!lives(right.pid()), "{told:?}");
        assert_eq!(told.code, Some(1), "{told:?}");
        let mut named = survivors(&told.json());
        named.sort_unstable();
        let mut wanted = [elder.pid(), wrong[0].pid(), wrong[1].pid()].map(u64::from);
        wanted.sort_unstable();
        assert_eq!(named, wanted, "{told:?}");
    });
}

/// S8: the marks that agents themselves give to their tools prove nothing either; they hold no start
/// time, so that not even `--force` ends a process by them.
#[test]
fn an_agents_own_mark_on_a_bystander_only_names_it() {
    sandboxed(|| {
        for haste in [None, Some("--force")] {
            let claude = Claude::new();
            claude.transcript(A, &[prompt("x")]);
            let agent = claude.live(A, &json!({"status": "busy"}));
            let mut all = [
                bystander(&claude.home, &[("CLAUDE_PID", agent.pid().to_string())]),
                bystander(&claude.home, &[("CLAUDE_CODE_SESSION_ID", A.to_owned())]),
            ];
            let mut args = vec!["stop", A, "--json"];
            args.extend(haste);
            let told = claude.home.run(&args);
            assert!(!lives(agent.pid()), "{told:?}");
            for one in &mut all {
                assert!(one.answers(), "{told:?}");
            }
            assert_eq!(told.code, Some(1), "{told:?}");
            assert_eq!(survivors(&told.json()).len(), 2, "{told:?}");
        }
    });
}

/// S8: an agent that names itself the agent of another run does not take that run along.
#[test]
fn an_agent_that_claims_another_run_does_not_take_it_along() {
    sandboxed(|| {
        let mut claude = Claude::new();
        let place = pids(&claude.home);
        let script = format!(
            "(setsid sh -c 'echo $$ > {}/tool; exec sleep 600' &)\nexec sleep 600\n",
            place.display()
        );
        let (victim, run) = launched(&claude.home, &script);
        let tool = written_pid(&place.join("tool"));
        claude.transcript(A, &[prompt("x")]);
        claude.home.set("RUN", run.as_str());
        let record = crate::claude_code::record(A, &claude.cwd, &json!({"status": "busy"}));
        let program = claude.home.at("bin/claude");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        let text = format!(
            "export AGENTCTL_RUN=v1:$RUN:$$:$(cut -d' ' -f22 /proc/$$/stat)\n\
             exec {} stay write '{}' '{record}'\n",
            program.display(),
            claude.record_path
        );
        let file = claude.home.write("liar.sh", text);
        let mut liar =
            claude.home.agent("starter", "ws", &["start", &format!("exec sh {}", file.display())]);
        liar.ready();
        let row = eventually("it lives", || {
            claude.list().sessions().into_iter().find(|s| s["id"] == A && s["pid"].is_u64())
        });
        let pid = u32::try_from(row["pid"].as_u64().expect("a pid")).expect("a pid");
        let told = claude.home.run(&["stop", &pid.to_string(), "--json"]);
        assert!(!lives(pid), "{told:?}");
        assert!(lives(tool), "{told:?}");
        assert_eq!(status(&claude.home, &victim)["status"], "running", "{told:?}");
    });
}

/// N4: a daemon of another state folder is a descendant like any other, also with this user's lock file open;
/// this user's own daemon is spared, whichever session started it.
#[test]
fn only_the_process_that_serves_the_users_socket_is_spared_as_the_daemon() {
    sandboxed(|| {
        let home = home();
        let (place, program) = (pids(&home), env!("CARGO_BIN_EXE_agentctl"));
        let own = home.at("forged/run/x").with_file_name("");
        let script = format!(
            "{program} daemon start\n\
             exec 9<{lock}\n\
             export XDG_STATE_HOME={own}state XDG_RUNTIME_DIR={own} XDG_CONFIG_HOME={own}config\n\
             (setsid sh -c 'echo $$ > {place}/forged; exec {program} daemon run' &)\n\
             exec sleep 600\n",
            lock = home.at(".local/state/agentctl/daemon.lock").display(),
            own = own.display(),
            place = place.display(),
        );
        let (id, _) = launched(&home, &script);
        let forged = written_pid(&place.join("forged"));
        eventually("it serves", || own.join("agentctl/agentctl.sock").exists().then_some(()));
        let told = home.run(&["stop", &id, "--json"]);
        assert!(!lives(forged), "{told:?}");
        assert_eq!((told.code, &told.json()["survivors"]), (Some(0), &json!([])), "{told:?}");
        let daemon = home.run(&["daemon", "status"]);
        assert_eq!(daemon.code, Some(0), "the user's daemon lives: {daemon:?}");
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
    });
}

/// N5: with the shim killed, an orphan without a mark cannot be distinguished from another process: the
/// stop reports that.
#[test]
fn a_stop_after_the_shim_was_killed_does_not_claim_to_have_seen_everything() {
    sandboxed(|| {
        let home = home();
        let place = pids(&home);
        let script = format!(
            "(cd / && env -i PATH=/usr/bin:/bin setsid sh -c 'echo $$ > {}/left; exec sleep 600' &)\n\
             exec sleep 600\n",
            place.display()
        );
        let (id, _) = launched(&home, &script);
        let left = written_pid(&place.join("left"));
        kill(shims()[0].pid);
        eventually("the shim is gone", || shims().is_empty().then_some(()));
        let told = home.run(&["stop", &id, "--json"]);
        assert!(lives(left), "nothing proves that it belongs to the session: {told:?}");
        assert_eq!(told.code, Some(1), "{told:?}");
        let why = told.json()["stopped"][0]["unseen"].as_str().map(str::to_owned);
        let wanted = "processes which left the agent cannot be seen";
        assert!(why.is_some_and(|why| why.ends_with(wanted)), "{told:?}");
        assert_eq!(status(&home, &id)["status"], "stopped");
    });
}

/// With the shim killed and no process that may be an orphan of the agent, nothing of the session lives on.
#[test]
fn a_stop_after_the_shim_was_killed_succeeds_where_no_orphan_can_live() {
    sandboxed(|| {
        let home = home();
        let (id, _) = launched(&home, "sleep 600 &\nwait\n");
        kill(shims()[0].pid);
        eventually("the shim is gone", || shims().is_empty().then_some(()));
        let told = home.run(&["stop", &id, "--json"]);
        assert_eq!((told.code, &told.json()["survivors"]), (Some(0), &json!([])), "{told:?}");
        assert!(told.json()["stopped"][0]["unseen"].is_null(), "{told:?}");
        assert_eq!(status(&home, &id)["status"], "stopped");
    });
}

/// N6: a process that leaves an orphan behind on SIGTERM does not hide the orphan.
#[test]
fn an_orphan_that_is_born_during_the_stop_is_named_wherever_it_stands() {
    sandboxed(|| {
        let claude = Claude::new();
        let place = pids(&claude.home);
        let late = claude.home.write("late.sh", "exec sleep 5557\n");
        let outer =
            claude.home.write("outer.sh", format!("setsid sh {} &\nexit\n", late.display()));
        let text = format!(
            "trap 'setsid sh {}; exit' TERM\necho $$ > {}/heir\nsleep 600 &\nwait\n",
            outer.display(),
            place.display()
        );
        let heir = claude.home.write("heir.sh", text);
        let start = format!("cd / && exec env -i PATH=/usr/bin:/bin sh {}", heir.display());
        let _agent = adopted(&claude, A, &["start".to_owned(), start]);
        written_pid(&place.join("heir"));
        let told = claude.home.run(&["stop", A, "--json"]);
        // It is a fork of one script until it becomes the other.
        let names = [&outer, &late].map(|path| path.display().to_string());
        let is_late = |argv: &[String]| argv.iter().any(|a| names.contains(a) || a == "5557");
        let living: Vec<u64> =
            everyone().iter().filter(|p| is_late(&p.argv)).map(|p| u64::from(p.pid)).collect();
        assert_eq!(survivors(&told.json()), living, "{told:?}");
        assert_eq!(told.code, Some(u8::from(!living.is_empty()).into()), "{told:?}");
    });
}
