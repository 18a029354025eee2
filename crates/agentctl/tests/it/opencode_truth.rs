//! OpenCode where its home is not the one seen here, where clocks moved, and where a terminal has switched.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::opencode::{
    A, B, C, DATA, Store, agent, answered, later_line, line, list, log, said, working, works_on,
    world,
};
use crate::{assert_list_equals_status, home};

fn pair(status: &str, kind: &str) -> (String, String) {
    (status.to_owned(), kind.to_owned())
}

/// Returns the row of a process that has no session.
fn row_of(home: &TestHome, pid: u32) -> Value {
    let rows = list(home).sessions();
    rows.into_iter().find(|row| row["pid"] == pid).unwrap_or_default()
}

/// Starts a program of the test in the directory `ws`.
fn spawn(home: &TestHome, program: &str, args: &[&str]) -> Agent {
    std::fs::create_dir_all(home.path().join("ws")).expect("made");
    let mut command = Command::new(program);
    command.args(args).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    command.current_dir(home.path().join("ws"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Agent { child: command.spawn().expect("started") }
}

/// Installs OpenCode with its package beside it.
fn install(home: &TestHome, place: &str) -> String {
    let program = namesake(home, place);
    let package = json!({"name": "opencode-ai", "version": "1.18.33"});
    let folder = place.rsplit_once('/').map_or("", |(folder, _)| folder);
    home.write(&format!("{folder}/package.json"), package.to_string());
    program
}

/// Makes a program that has only a name in common with OpenCode.
fn namesake(home: &TestHome, place: &str) -> String {
    let program = home.at(place);
    std::fs::copy(testkit::fake_agent(), &program).expect("copied");
    program.to_string_lossy().into_owned()
}

/// W6: a process whose data folder is another one here is not starting for ever.
#[test]
fn a_process_with_mounts_of_its_own_is_unknown() {
    sandboxed(|| {
        let (home, _store, _) = world();
        let program = install(&home, "bin/opencode");
        let mut apart = spawn(&home, "unshare", &["--mount", &program]);
        apart.ready();
        let row = row_of(&home, apart.pid());
        assert_eq!(said(&row), pair("unknown", "elsewhere"), "{row}");
        assert!(row["reason"]["detail"].to_string().contains("mounts"), "{row}");
        // With the same mounts it is starting: it has not opened its database.
        let mut starts = spawn(&home, &program, &[]);
        starts.ready();
        assert_eq!(said(&row_of(&home, starts.pid())), pair("running", "starting"));
    });
}

/// W6: a process that has a database open which is not the one of this home.
#[test]
fn a_process_with_another_database_open_is_unknown() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        let program = install(&home, "bin/opencode");
        let other = home.write("other/opencode/opencode.db", "");
        let mut agent = spawn(&home, &program, &["open", other.to_str().expect("a path")]);
        agent.ready();
        let row = row_of(&home, agent.pid());
        assert_eq!(said(&row), pair("unknown", "elsewhere"), "{row}");
        assert!(row["reason"]["detail"].to_string().contains("other/opencode"), "{row}");
        assert_eq!(list(&home).session(A)["status"], "stopped", "it serves none of this home");
    });
}

/// W6: a process that can never open its database, because nothing can be written where that would be.
#[test]
fn a_process_whose_data_folder_is_full_or_read_only_is_unknown() {
    sandboxed(|| {
        for options in ["size=4k", "ro"] {
            let home = home();
            let data = home.at(".local/share/opencode/x");
            let data = data.parent().expect("a parent").to_string_lossy().into_owned();
            let mount = Command::new("mount")
                .args(["-t", "tmpfs", "-o", options, "none", &data])
                .output()
                .expect("mount runs");
            assert!(mount.status.success(), "{}", String::from_utf8_lossy(&mount.stderr));
            let _full = std::fs::write(format!("{data}/full"), vec![0; 64 << 10]);
            let program = install(&home, "bin/opencode");
            let mut agent = spawn(&home, &program, &[]);
            agent.ready();
            let row = row_of(&home, agent.pid());
            assert_eq!(said(&row), pair("unknown", "unreadable"), "{options}: {row}");
            drop(agent);
            let _left = Command::new("umount").arg(&data).output();
        }
    });
}

/// Starts a program in `ws` with nothing but these variables in its environment.
fn spawn_with_only(
    home: &TestHome,
    program: &str,
    args: &[&str],
    environment: &[(&str, &str)],
) -> Agent {
    let directory = home.path().join("ws");
    std::fs::create_dir_all(&directory).expect("made");
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(environment.iter().copied()).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent { child: command.spawn().expect("started") };
    agent.ready();
    agent
}

/// A process whose environment cannot be read, or names no home, may use the default home: no session
/// there is over while it lives, and nothing is signalled for it.
#[test]
fn a_process_whose_home_is_not_known_is_unknown_and_ends_no_session() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 0, &working());
        let program = install(&home, "bin/opencode");
        let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
        let hidden: &[&str] = &["open", &database, "hide"];
        let terminal: &[&str] = &["open", &database];
        let server: &[&str] = &["serve", "open", &database];
        for (args, has_home) in
            [(hidden, true), (terminal, false), (server, false), (&["hide"][..], true)]
        {
            let home_path = home.path().to_string_lossy().into_owned();
            let env = [("HOME", home_path.as_str())];
            let env = if has_home { &env[..] } else { &[] };
            let mut agent = spawn_with_only(&home, &program, args, env);
            store.message(A, 0, &working());
            let row = list(&home).session(A);
            assert_eq!(row["status"], "unknown", "{args:?}: {row}");
            let own = row_of(&home, agent.pid());
            assert_eq!(own["status"], "unknown", "{args:?}: {own}");
            for args in [&["stop", A][..], &["stop", A, "--force"]] {
                assert_ne!(home.run(args).code, Some(0), "{args:?}");
            }
            assert!(crate::stop::lives(agent.pid()), "{args:?}");
            agent.kill();
        }
        assert_eq!(list(&home).session(A)["status"], "stopped", "all of them have ended");
    });
}

/// The program file is also the runtime that installs plugins: in that role it is no agent, whatever
/// its environment contains.
#[test]
fn the_runtime_in_the_program_file_is_no_agent_without_a_home_either() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 0, &working());
        let program = install(&home, "bin/opencode");
        let _runtime = spawn_with_only(&home, &program, &[], &[("BUN_BE_BUN", "1")]);
        let listed = list(&home);
        assert_eq!(listed.session(A)["status"], "stopped", "{}", listed.stdout);
        assert_eq!(listed.sessions().len(), 1, "{}", listed.stdout);
    });
}

/// W8: the times of a message and of a process come from two clocks. Only the process's own log decides
/// whether an open turn is its own.
#[test]
fn an_open_turn_is_judged_by_the_log_of_the_process_and_not_by_clocks() {
    sandboxed(|| {
        let shell = json!({"status": "running", "input": {"command": "make"}, "metadata": {}});
        let run: &[&str] = &["run", "x"];
        let continued: &[&str] = &["run", "--session", A];
        for (args, expected) in [(&[][..], "tool"), (run, "tool"), (continued, "tool")] {
            let (home, store, directory) = world();
            store.session(A, &directory, None);
            // By the kernel's clock this is an hour older than the process.
            let message = store.message(A, 3_600_000, &working());
            store.part(A, &message, &json!({"type": "tool", "tool": "bash", "state": shell}));
            let mut agent = agent(&home, args, &[works_on("aaaa0001", A)]);
            let row = list(&home).session(A);
            assert_eq!(said(&row), pair("running", expected), "{args:?}: {row}");
            assert_eq!(row["pid"], agent.pid());
            assert_list_equals_status(&home);
            agent.kill();
        }
    });
}

/// W8: a process that says nothing of an open turn has either left it or not written of it yet.
#[test]
fn an_open_turn_that_no_log_explains_is_unknown_and_a_tool_of_the_process_decides() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 3_600_000, &working());
        // It has written nothing at all (`--log-level ERROR`).
        let mut silent = agent(&home, &["-s", A], &[]);
        let row = list(&home).session(A);
        assert_eq!(said(&row), pair("unknown", "ambiguous"), "{row}");
        assert_list_equals_status(&home);
        silent.kill();
        // It has written, and of no turn: the open one was left by a process that died.
        let mut rests = agent(&home, &["-s", A], &[later_line("aaaa0002", "message=init")]);
        assert_eq!(said(&list(&home).session(A)), pair("idle", "-"));
        rests.kill();
        // Its clock was set back, or its log is late: the turn is newer than its last line.
        let mut early = agent(&home, &["-s", A], &[line("aaaa0003", "message=init")]);
        assert_eq!(said(&list(&home).session(A)), pair("unknown", "ambiguous"));
        early.kill();
        let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
        let script = [
            "-s",
            A,
            "open",
            &database,
            "env",
            "OPENCODE_PID",
            "{pid}",
            "start",
            "exec sleep 1000",
        ];
        let mut works = home.agent("opencode", "ws", &script);
        works.ready();
        let row = eventually("its tool is seen", || {
            Some(list(&home).session(A)).filter(|row| row["status"] == "running")
        });
        assert_eq!(row["pid"], works.pid());
    });
}

/// A child whose environment cannot be read may be a tool: the open turn is not known to be left.
#[test]
fn a_child_that_cannot_be_read_may_be_a_tool() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 3_600_000, &working());
        let program = install(&home, "bin/tool");
        let told = home.path().join("told");
        let start = format!("exec {program} hide > {}", told.display());
        let log = log(&home);
        let line = later_line("aaaa0001", "message=init");
        let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
        let script = ["-s", A, "keep", &log, &line, "open", &database, "start", &start];
        let mut terminal = home.agent("opencode", "ws", &script);
        terminal.ready();
        let tool = eventually("the tool has hidden", || {
            let text = std::fs::read_to_string(&told).ok()?;
            text.strip_prefix("ready ")?.strip_suffix('\n')?.parse::<i32>().ok()
        });
        let row = list(&home).session(A);
        assert_eq!(said(&row), pair("unknown", "ambiguous"), "{row}");
        let tool = rustix::process::Pid::from_raw(tool).expect("a pid");
        rustix::process::kill_process(tool, rustix::process::Signal::KILL).expect("killed");
        eventually("the turn is known to be left", || {
            (said(&list(&home).session(A)) == pair("idle", "-")).then_some(())
        });
    });
}

/// W9: a terminal that has written of two sessions may be back in the older one.
#[test]
fn a_session_that_a_terminal_has_left_may_be_open_there_again() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let run = "aaaa0001";
        let over =
            |run: &str, id: &str| line(run, &format!("message=\"exiting loop\" session.id={id}"));
        for id in [A, B, C] {
            store.session(id, &directory, None);
            store.message(id, 1_000, &answered("stop"));
        }
        let lines = [works_on(run, A), over(run, A), works_on(run, B), over(run, B)];
        let mut terminal = agent(&home, &[], &lines);
        let listed = list(&home);
        let (left, last) = (listed.session(A), listed.session(B));
        assert_eq!(said(&left), pair("unknown", "ambiguous"), "{left}");
        assert_eq!(left["processes"], json!([]), "no signal may reach the terminal through it");
        assert_eq!((said(&last), &last["pid"]), (pair("idle", "-"), &terminal.pid().into()));
        assert!(last["notes"].to_string().contains("another session"), "{last}");
        assert_eq!(listed.session(C)["status"], "stopped", "it was never in that one");
        assert_list_equals_status(&home);
        terminal.kill();
        assert_eq!(list(&home).session(A)["status"], "stopped");
        // One session, nothing to doubt.
        let _one = agent(&home, &[], &[works_on("aaaa0002", C), over("aaaa0002", C)]);
        let row = list(&home).session(C);
        assert_eq!((said(&row), &row["notes"]), (pair("idle", "-"), &json!([])), "{row}");
    });
}

/// W12: a native program called `opencode` that waits for the agent is no session.
#[test]
fn a_native_launcher_of_opencode_has_no_row() {
    sandboxed(|| assert_launcher_has_no_row("exec ", ""));
}

/// W12: the same with another program in between, as the Node script of older packages is.
#[test]
fn a_native_launcher_above_another_program_has_no_row() {
    sandboxed(|| assert_launcher_has_no_row("", "; true"));
}

fn assert_launcher_has_no_row(before: &str, behind: &str) {
    let (home, store, directory) = world();
    store.session(A, &directory, None);
    store.message(A, 0, &answered("stop"));
    let (program, shim) = (install(&home, "bin/opencode"), namesake(&home, "shim/opencode"));
    let (database, log) = (home.at(&format!("{DATA}/opencode.db")), log(&home));
    let (database, begun) = (database.display(), line("aaaa0001", "message=init"));
    let inner =
        format!("{before}'{program}' keep '{log}' '{begun}' open '{database}' stay{behind}");
    let mut agent = spawn(&home, &shim, &["start", &inner]);
    agent.ready();
    let row = eventually("only the agent itself is seen", || {
        let rows = home.run(&["list", "--json"]).sessions();
        rows.first().filter(|row| rows.len() == 1 && row["status"] == "idle").cloned()
    });
    assert_ne!(row["pid"], agent.pid());
    assert_eq!(list(&home).session(A)["status"], "stopped");
}

/// W12: a wrapper before or after its agent, a copy of a shell: nothing proves that such a program is
/// OpenCode, so it is not at work, and the sessions of its directory are as they were.
#[test]
fn a_program_that_only_bears_the_name_of_opencode_is_unknown() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 0, &answered("stop"));
        let program = namesake(&home, "shim/opencode");
        let shell = home.at("shell/opencode");
        std::fs::copy("/bin/bash", &shell).expect("copied");
        let shell = shell.to_string_lossy().into_owned();
        let waits = ["-c", "echo ready; read -r line"];
        let as_run = ["run", "--session", A, "go"];
        let all: [(&str, &[&str]); 5] = [
            (&program, &[]),
            (&program, &["run", "go"]),
            (&program, &as_run),
            (&program, &["-s", A]),
            (&shell, &waits),
        ];
        for (program, args) in all {
            let mut agent = spawn(&home, program, args);
            agent.ready();
            let row = row_of(&home, agent.pid());
            assert_eq!(said(&row), pair("unknown", "ambiguous"), "{args:?}: {row}");
            let why = row["reason"]["detail"].to_string();
            assert!(why.contains("nothing proves") && why.contains(program), "{row}");
            assert_eq!(row["id"], Value::Null, "{args:?}: {row}");
            let ended = list(&home).session(A);
            assert_eq!(
                (&ended["status"], &ended["outcome"]),
                (&"stopped".into(), &"finished".into())
            );
            assert_list_equals_status(&home);
            let refused = home.run(&["stop", &agent.pid().to_string()]);
            assert_ne!(refused.code, Some(0), "{args:?}: {}", refused.stdout);
            assert!(agent.child.try_wait().expect("asked").is_none(), "{args:?}: it lives");
        }
    });
}

/// W14: a relative data folder lies below the directory of the process, or where its database is open.
#[test]
fn a_relative_data_folder_is_found() {
    sandboxed(|| {
        let mut home = home();
        let store = Store::new(&home, "ws/rel/opencode/opencode.db");
        store.session(A, &home.path().join("ws").to_string_lossy(), None);
        store.message(A, 0, &working());
        let log = home.at("ws/rel/opencode/log/opencode.log").to_string_lossy().into_owned();
        let database = home.at("ws/rel/opencode/opencode.db").to_string_lossy().into_owned();
        home.set("XDG_DATA_HOME", "rel");
        let text = works_on("aaaa0001", A);
        let script = ["run", "x", "keep", &log, &text, "open", &database];
        // One after the other: each is recognised by its position in the log.
        let mut here = home.agent("opencode", "ws", &script);
        here.ready();
        let mut moved = home.agent("opencode", "elsewhere", &script);
        moved.ready();
        home.set("XDG_DATA_HOME", "");
        let row = list(&home).session(A);
        let root = home.path().join("ws/rel/opencode");
        assert_eq!(row["root"], root.to_str().expect("a path"), "{row}");
        let pids: Vec<&Value> =
            row["processes"].as_array().expect("some").iter().map(|p| &p["pid"]).collect();
        assert_eq!(pids, [here.pid(), moved.pid()], "{row}");
    });
}

/// W16: a subcommand behind options is that subcommand; `run -i` is a terminal.
#[test]
fn a_subcommand_behind_options_is_no_session() {
    sandboxed(|| {
        let (home, _store, _) = world();
        let words: [&[&str]; 6] = [
            &["--print-logs", "serve"],
            &["--log-level", "DEBUG", "--pure", "models"],
            &["--log-level=DEBUG", "acp"],
            &["--pure", "--print-logs", "session", "list"],
            &["--cors", "a", "--port", "0", "web"],
            &["--hostname=127.0.0.1", "db", "path"],
        ];
        let lines = [line("aaaa0001", "message=init")];
        let agents: Vec<Agent> = words.iter().map(|args| agent(&home, args, &lines)).collect();
        assert_eq!(list(&home).sessions(), Vec::<Value>::new());
        drop(agents);
        let terminal = agent(&home, &["--pure", "run", "-i"], &lines);
        assert_eq!(said(&row_of(&home, terminal.pid())), pair("idle", "-"));
    });
}

/// S1: a process of another pid namespace that names a session is shown as a doubt and gets no signal.
#[test]
fn a_process_of_another_pid_namespace_is_not_joined() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 0, &working());
        let program = install(&home, "bin/opencode");
        let database = home.at(&format!("{DATA}/opencode.db"));
        let database = database.to_str().expect("a path");
        let words = ["run", "--session", A, "open", database];
        let args = [&["--pid", "--fork", "--kill-child", &program][..], &words].concat();
        let mut apart = spawn(&home, "unshare", &args);
        apart.ready();
        let row = list(&home).session(A);
        assert_eq!(said(&row), pair("unknown", "elsewhere"), "{row}");
        assert_eq!(row["processes"], json!([]), "{row}");
        assert!(row["reason"]["detail"].to_string().contains("pid namespace"), "{row}");
        assert_list_equals_status(&home);
        assert_ne!(home.run(&["stop", A]).code, Some(0));
        assert!(apart.child.try_wait().expect("asked").is_none(), "it was killed");
    });
}
