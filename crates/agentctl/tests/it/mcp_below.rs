//! Agents that use `agentctl` on agents: who they are, what they may touch, and how deep and how many they may
//! launch. Every agent here is a real process whose tool runs the program.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::launched::{folder, launch, marked, script, shims, status, until_stopped};
use crate::mcp_client::{initialize, tool_call};
use crate::{configure, home, let_agents_answer_others};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agentctl");

/// Makes a script that sends these calls to an MCP server and writes its answers to a file.
fn calls(home: &TestHome, name: &str, calls: &[(&str, Value)]) -> String {
    let numbered = calls.iter().zip(2..).map(|((tool, arguments), id)| {
        let call = tool_call(id, tool, arguments.clone());
        format!("{call}\n")
    });
    let requests = format!("{}\n{}", initialize(1), numbered.collect::<String>());
    let requests = home.write(&format!("{name}.requests"), requests);
    let answers = home.path().join(format!("{name}.answers"));
    let text = format!(
        "{PROGRAM} mcp --allow-control < {} > {1}.part; mv {1}.part {1}",
        requests.display(),
        answers.display()
    );
    script(home, name, &text).to_string_lossy().into_owned()
}

/// Waits for the answers of such a script, and returns them in the order of the calls.
fn answers(home: &TestHome, name: &str) -> Vec<Value> {
    let path = home.path().join(format!("{name}.answers"));
    let text = eventually("the server has answered", || fs::read_to_string(&path).ok());
    let mut answers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("protocol")).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers.drain(1..).map(|answer| answer["result"].clone()).collect()
}

fn error(result: &Value) -> (String, String) {
    assert_eq!(result["isError"], true, "{result}");
    let error = &result["structuredContent"]["error"];
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    (text("code"), text("message"))
}

#[test]
fn an_agent_finds_itself_and_may_not_act_on_itself() {
    sandboxed(|| {
        let home = home();
        let other = launch(&home, "other", "x [[hang]]", &[]);
        let me = calls(
            &home,
            "me",
            &[
                ("get_session", json!({"id": "self"})),
                ("stop", json!({"ids": ["self"]})),
                ("send", json!({"id": "self", "text": "x"})),
                ("stop", json!({"ids": [other, "self"]})),
                ("list_sessions", json!({})),
            ],
        );
        let id = launch(&home, "mine", &format!("x [[tool:{me}]] [[hang]]"), &[]);
        let answers = answers(&home, "me");
        assert_eq!(answers[0]["structuredContent"]["id"], id.as_str());
        for answer in &answers[1..=3] {
            let (code, message) = error(answer);
            assert_eq!(code, "refused", "{message}");
            assert!(message.contains(&id), "{message}");
        }
        assert_eq!(answers[4]["structuredContent"]["sessions"].as_array().map(Vec::len), Some(2));
        for id in [&id, &other] {
            assert_eq!(status(&home, id)["status"], "running");
        }
        let stop = calls(&home, "stop", &[("stop", json!({"ids": [other]}))]);
        launch(&home, "third", &format!("x [[tool:{stop}]] [[hang]]"), &[]);
        assert_eq!(self::answers(&home, "stop")[0]["isError"], false, "others may be stopped");
        until_stopped(&home, &other);
    });
}

#[test]
fn an_agent_may_not_stop_its_own_run_by_the_id_of_the_run() {
    sandboxed(|| {
        let home = home();
        let requests = home.path().join("run.requests");
        let stop = calls(&home, "run", &[("stop", json!({"ids": ["OWN-RUN"]}))]);
        // The mark in the environment of every process of a run names the run.
        let fill = format!(
            "R=$(echo $AGENTCTL_RUN | cut -d: -f2); sed -i \"s/OWN-RUN/$R/\" {}; exec {stop}",
            requests.display()
        );
        let fill = script(&home, "fill", &fill);
        let id = launch(&home, "mine", &format!("x [[tool:{}]] [[hang]]", fill.display()), &[]);
        let (code, message) = error(&answers(&home, "run")[0]);
        assert_eq!(code, "refused", "{message}");
        assert!(message.contains("run"), "{message}");
        assert_eq!(status(&home, &id)["status"], "running");
    });
}

#[test]
fn an_agent_below_another_may_not_act_on_its_launcher() {
    sandboxed(|| {
        let home = home();
        let_agents_answer_others(&home);
        let parent = home.path().join("parent.id");
        let ask = home.path().join("ask.id");
        // The child waits until its launcher asks, and then tries to answer and to stop it.
        let child = script(
            &home,
            "child",
            &format!(
                "while ! test -s {ask}; do sleep 0.05; done\n\
                 P=$(cat {parent}); A=$(cat {ask})\n\
                 sed -e \"s/PARENT/$P/g; s/ASK/$A/g\" {requests} > {requests}.now\n\
                 {PROGRAM} mcp --allow-control < {requests}.now > {out}.part; mv {out}.part {out}",
                ask = ask.display(),
                parent = parent.display(),
                requests = home.path().join("child.requests").display(),
                out = home.path().join("child.answers").display(),
            ),
        );
        let requests = [
            initialize(1),
            tool_call(2, "answer", json!({"ask": "ASK", "reply": "allow"})),
            tool_call(3, "stop", json!({"ids": ["PARENT"]})),
            tool_call(4, "send", json!({"id": "PARENT", "text": "x"})),
        ];
        let requests: Vec<String> = requests.iter().map(|request| format!("{request}\n")).collect();
        home.write("child.requests", requests.concat());
        let below = folder(&home, "below");
        let prompt = home.write("child.prompt", format!("x [[tool:{}]] [[hang]]", child.display()));
        let start = script(
            &home,
            "start",
            &format!("{PROGRAM} launch demo --prompt-file {} --cwd {below}", prompt.display()),
        );
        let id = launch(
            &home,
            "above",
            &format!("x [[tool:{}]] [[permit:touch allowed]]", start.display()),
            &[],
        );
        fs::write(&parent, &id).expect("written");
        let open = eventually("the launcher asks", || {
            let asks = home.run(&["asks", &id, "--json"]);
            asks.json()["asks"][0]["id"].as_str().map(str::to_owned)
        });
        fs::write(&ask, &open).expect("written");
        for answer in answers(&home, "child") {
            assert_eq!(error(&answer).0, "refused", "{answer}");
        }
        assert!(!home.path().join("above/allowed").exists());
        assert_eq!(status(&home, &id)["status"], "waiting");
    });
}

/// The shim of a launcher that has ended stays while its hook runs, and is above everything that it launched.
#[test]
fn an_agent_whose_launcher_has_ended_may_act_on_others_and_not_on_the_launcher() {
    sandboxed(|| {
        let home = home();
        let other = launch(&home, "other", "x [[hang]]", &[]);
        let at = home.path().display().to_string();
        let child = calls(
            &home,
            "child",
            &[("stop", json!({"ids": [other]})), ("send", json!({"id": "LAUNCHER", "text": "x"}))],
        );
        let child = script(
            &home,
            "later",
            &format!(
                "until test -e {at}/hook-runs; do sleep 0.05; done\n\
                 sed -i \"s/LAUNCHER/$(cat {at}/launcher)/\" {at}/child.requests; exec {child}"
            ),
        );
        let below = folder(&home, "below");
        let prompt = home.write("child.prompt", format!("x [[tool:{}]] [[hang]]", child.display()));
        let start = script(
            &home,
            "start",
            &format!("{PROGRAM} launch demo --prompt-file {} --cwd {below}", prompt.display()),
        );
        let hook = format!("touch {at}/hook-runs; until test -e {at}/done; do sleep 0.05; done");
        let hook = script(&home, "hook", &hook);
        let wait = format!("until test -e {at}/launcher; do sleep 0.05; done");
        let above = format!("x [[tool:{}]] [[tool:{wait}]]", start.display());
        let launcher =
            launch(&home, "above", &above, &["--on-complete", &hook.display().to_string()]);
        home.write("launcher", &launcher);
        let answers = answers(&home, "child");
        assert_eq!(answers[0]["isError"], false, "{}", answers[0]);
        let (code, message) = error(&answers[1]);
        assert_eq!(code, "refused", "{message}");
        assert!(message.contains("runs below it"), "{message}");
        home.write("done", "");
        until_stopped(&home, &other);
    });
}

#[test]
fn answering_through_the_server_from_below_an_agent_is_refused() {
    sandboxed(|| {
        let home = home();
        let asking = launch(&home, "asking", "x [[permit:touch allowed]]", &[]);
        assert_eq!(home.run(&["wait", &asking, "--for", "waiting"]).code, Some(0));
        let asks = home.run(&["asks", "--json"]).json();
        let ask = asks["asks"][0]["id"].as_str().expect("an ask").to_owned();
        let answer = calls(&home, "answer", &[("answer", json!({"ask": ask, "reply": "allow"}))]);
        launch(&home, "below", &format!("x [[tool:{answer}]]"), &[]);
        assert_eq!(error(&answers(&home, "answer")[0]).0, "refused");
        // A configuration of its own does not help the agent.
        let other = home.write("other.toml", "[answers]\nagents = \"others\"\n");
        let with = script(&home, "with", &format!("AGENTCTL_CONFIG={} {answer}", other.display()));
        fs::remove_file(home.path().join("answer.answers")).expect("removed");
        launch(&home, "again", &format!("x [[tool:{}]]", with.display()), &[]);
        let (code, message) = error(&answers(&home, "answer")[0]);
        assert_eq!(code, "refused", "{message}");
        assert!(!home.path().join("asking/allowed").exists());
        assert_eq!(home.run(&["asks", "--json"]).json()["asks"].as_array().map(Vec::len), Some(1));
    });
}

/// Writes a script that launches a demo agent which runs the script again, one level deeper. `how` is put in front
/// of the program.
fn nest(home: &TestHome, how: &str) -> String {
    let at = home.path();
    let at = at.display();
    let text = format!(
        "n=$1; mkdir -p {at}/level$n\n\
         echo \"x [[tool:{at}/bin/nest $((n + 1))]]\" > {at}/prompt$n\n\
         {how} {PROGRAM} launch demo --prompt-file {at}/prompt$n --cwd {at}/level$n > {at}/said$n 2>&1\n\
         echo $? > {at}/code$n.part; mv {at}/code$n.part {at}/code$n"
    );
    script(home, "nest", &text).to_string_lossy().into_owned()
}

fn code(home: &TestHome, level: u32) -> i32 {
    let path = home.path().join(format!("code{level}"));
    eventually("the launch has ended", || fs::read_to_string(&path).ok()?.trim().parse().ok())
}

fn said(home: &TestHome, level: u32) -> String {
    fs::read_to_string(home.path().join(format!("said{level}"))).unwrap_or_default()
}

fn assert_stops_below(home: &TestHome, depth: u32) {
    let mut nest = std::process::Command::new(home.path().join("bin/nest"));
    let env = home.command(&[]);
    nest.arg("0").env_clear().envs(env.get_envs().filter_map(|(k, v)| Some((k, v?))));
    nest.status().expect("run");
    for level in 0..=depth {
        assert_eq!(code(home, level), 0, "{}", said(home, level));
    }
    assert_eq!(code(home, depth + 1), 5, "{}", said(home, depth + 1));
    assert!(said(home, depth + 1).contains("depth"), "{}", said(home, depth + 1));
    assert!(!home.path().join(format!("code{}", depth + 2)).exists());
}

#[test]
fn an_agent_that_launches_itself_ends_at_depth_two() {
    sandboxed(|| {
        let home = home();
        nest(&home, "");
        assert_stops_below(&home, 2);
        let rows = home.run(&["list", "-a", "--json"]).json();
        let rows = rows["sessions"].as_array().expect("sessions").clone();
        let mut depths: Vec<Value> =
            rows.iter().map(|row| row["launched_by"]["depth"].clone()).collect();
        depths.sort_by_key(Value::as_u64);
        assert_eq!(depths, [Value::Null, json!(1), json!(2)]);
        let child = rows.iter().find(|row| row["launched_by"]["depth"] == 1).expect("a child");
        let first = rows.iter().find(|row| row["launched_by"].is_null()).expect("the first");
        assert_eq!(child["launched_by"]["id"], first["id"]);
        assert_eq!(child["launched_by"]["adapter"], "demo");
        let tree = home.run(&["list", "-a", "--tree", "--json"]).json();
        let tree = tree["sessions"].as_array().expect("sessions").clone();
        let depths: Vec<Value> =
            tree.iter().map(|row| row["launched_by"]["depth"].clone()).collect();
        assert_eq!(depths, [Value::Null, json!(1), json!(2)], "each below its launcher");
        let drawn = home.run(&["list", "-a", "--tree"]).stdout;
        assert!(drawn.contains(" └ ") && drawn.contains("   └ "), "{drawn}");
        assert!(!home.run(&["list", "-a"]).stdout.contains('└'));
        let id = tree[1]["id"].as_str().expect("an id");
        let shown = home.run(&["status", id]).stdout;
        assert!(shown.contains("launched by") && shown.contains("(depth 1)"), "{shown}");
    });
}

/// The launch runs in a process that an agent left behind, after the agent has ended and its shim was killed.
#[test]
fn a_process_that_outlives_its_agent_is_still_below_it() {
    sandboxed(|| {
        let home = home();
        let at = home.path();
        let at = at.display();
        let text = format!(
            "n=$1; mkdir -p {at}/level$n\n\
             echo \"x [[tool:{at}/bin/orphan $((n + 1))]]\" > {at}/prompt$n\n\
             lives() {{ [ $1 -gt 1 ] && grep -q '^State:[[:space:]]*[A-Ya-y]' /proc/$1/status 2> /dev/null; }}\n\
             a=0; p=$$; until tr '\\0' ' ' < /proc/$p/cmdline | grep -q ' shim '; do\n\
             a=$p; p=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status); [ $p -gt 1 ] || break; done\n\
             (if [ $p -gt 1 ]; then\n\
             while lives $a; do sleep 0.1; done; kill -9 $p; while lives $p; do sleep 0.1; done; fi\n\
             {PROGRAM} launch demo --prompt-file {at}/prompt$n --cwd {at}/level$n > {at}/said$n 2>&1\n\
             echo $? > {at}/code$n.part; mv {at}/code$n.part {at}/code$n) < /dev/null > /dev/null 2>&1 &"
        );
        script(&home, "orphan", &text);
        let mut orphan = std::process::Command::new(home.path().join("bin/orphan"));
        let env = home.command(&[]);
        orphan.arg("0").env_clear().envs(env.get_envs().filter_map(|(k, v)| Some((k, v?))));
        orphan.status().expect("run");
        for level in 0..=2 {
            assert_eq!(code(&home, level), 0, "{}", said(&home, level));
        }
        assert_eq!(code(&home, 3), 5, "{}", said(&home, 3));
        assert!(said(&home, 3).contains("depth"), "{}", said(&home, 3));
    });
}

#[test]
fn an_empty_environment_and_a_new_kernel_session_do_not_reset_the_depth() {
    sandboxed(|| {
        let home = home();
        let at = home.path();
        let keep: String = home
            .command(&[])
            .get_envs()
            .filter_map(|(k, v)| Some(format!("{}={} ", k.to_str()?, v?.to_str()?)))
            .collect();
        nest(&home, &format!("env -i {keep} setsid -w"));
        assert_stops_below(&home, 2);
        // An orphan of the deepest agent: its only agent above is the shim, which has adopted it.
        let orphan = script(
            &home,
            "orphan",
            &format!(
                "n=$1; mkdir -p {at}/o$n; (setsid env -i {keep} sh -c 'while kill -0 '$$' 2>/dev/null; do sleep 0.05; done; \
                 {PROGRAM} launch demo -p \"x [[tool:{at}/bin/orphan '$((n + 1))']] [[hang]]\" --cwd {at}/o'$n' \
                 > {at}/said'$n' 2>&1; echo $? > {at}/code'$n'' > /dev/null 2>&1 &)",
                at = at.display()
            ),
        );
        for level in 0..8 {
            let _old = fs::remove_file(at.join(format!("code{level}")));
        }
        launch(&home, "o-first", &format!("x [[tool:{} 0]] [[hang]]", orphan.display()), &[]);
        for level in 0..2 {
            assert_eq!(code(&home, level), 0, "{}", said(&home, level));
        }
        assert_eq!(code(&home, 2), 5, "{}", said(&home, 2));
        assert!(said(&home, 2).contains("depth"), "{}", said(&home, 2));
    });
}

#[test]
fn limits_are_those_of_the_configuration_of_the_first_agent() {
    sandboxed(|| {
        let home = home();
        // An agent below names another file: its limits do not count, and neither do they for its children.
        let other = home.write("other.toml", "[limits]\ndepth = 9\nchildren = 99\n");
        let nested = nest(&home, &format!("env AGENTCTL_CONFIG={}", other.display()));
        launch(&home, "first", &format!("x [[tool:{nested} 1]] [[hang]]"), &[]);
        for (level, expected) in [(1, 0), (2, 0), (3, 5)] {
            assert_eq!(code(&home, level), expected, "{}", said(&home, level));
        }
        let refused = home.run(&["launch", "demo", "-p", "x", "--depth", "9"]);
        assert_eq!(refused.code, Some(2), "there is no flag");
        configure(&home, &[], "[limits]\ndepth = \"many\"\n");
        let broken = home.run(&["launch", "demo", "-p", "x"]);
        assert_ne!(broken.code, Some(0));
        assert!(broken.stderr.contains("limits.depth"), "{}", broken.stderr);
    });
}

/// An agent that changes the configuration file has the limits of before, and so have the agents that it launches.
#[test]
fn limits_that_an_agent_has_raised_do_not_count() {
    sandboxed(|| {
        let home = home();
        let file = home.at(".config/agentctl/config.toml");
        let nested = nest(&home, "");
        let raising = format!(
            "printf '[limits]\\ndepth = 9\\nchildren = 99\\n' > {}\nexec {nested} 1",
            file.display()
        );
        let raising = script(&home, "raising", &raising);
        launch(&home, "first", &format!("x [[tool:{}]] [[hang]]", raising.display()), &[]);
        for (level, expected) in [(1, 0), (2, 0), (3, 5)] {
            assert_eq!(code(&home, level), expected, "{}", said(&home, level));
        }
    });
}

/// A launched agent may launch at once, in the moment in which the process that launched it ends.
#[test]
fn a_launch_is_not_refused_because_a_process_above_ends() {
    const ROUNDS: u32 = 20;
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "[limits]\nchildren = 99\n");
        crate::until_change_counts(&home.at(".config/agentctl/config.toml"));
        let at = home.path();
        let at = at.display();
        let launching = |round: u32, level: u32| {
            let cwd = folder(&home, &format!("level{level}-{round}"));
            format!(
                "{PROGRAM} launch demo --prompt-file {at}/prompt{level} --cwd {cwd} 2>> {at}/errors"
            )
        };
        home.write("prompt2", "x");
        let mut rounds = String::new();
        for round in 0..ROUNDS {
            let inner = script(&home, &format!("inner{round}"), &launching(round, 2));
            let prompt =
                home.write(&format!("prompt1-{round}"), format!("x [[tool:{}]]", inner.display()));
            let outer =
                launching(round, 1).replace(&format!("{at}/prompt1"), &prompt.to_string_lossy());
            rounds.push_str(&format!("{outer}\n"));
        }
        let rounds = script(&home, "rounds", &rounds);
        launch(&home, "first", &format!("x [[tool:{}]] [[hang]]", rounds.display()), &[]);
        let errors = home.path().join("errors");
        eventually("all launches have succeeded, or one has not", || {
            let errors = fs::read_to_string(&errors).unwrap_or_default();
            assert!(!errors.contains("error:"), "{errors}");
            let listed = home.run(&["list", "-a", "-q"]).stdout.lines().count();
            (listed == 1 + 2 * ROUNDS as usize).then_some(())
        });
    });
}

#[test]
fn a_smaller_limit_counts_for_the_first_agent() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "[limits]\ndepth = 1\n");
        nest(&home, "");
        assert_stops_below(&home, 1);
    });
}

#[test]
fn never_more_than_eight_children_live_however_many_are_launched_at_once() {
    sandboxed(|| {
        let home = home();
        let at = home.path();
        let fork = script(
            &home,
            "fork",
            &format!(
                "cd {at}\n\
                 for n in $(seq 32); do\n\
                 mkdir -p c$n\n\
                 ({PROGRAM} launch demo --group herd -p 'x [[hang]]' --cwd {at}/c$n > out$n 2> err$n; echo $? > rc$n) &\n\
                 done; wait; touch all",
                at = at.display()
            ),
        );
        let parent =
            launch(&home, "parent", &format!("x [[tool:{}]] [[hang]]", fork.display()), &[]);
        eventually("all launches have ended", || at.join("all").exists().then_some(()));
        let read = |name: String| fs::read_to_string(at.join(name)).unwrap_or_default();
        let codes: Vec<String> =
            (1..=32).map(|n| read(format!("rc{n}")).trim().to_owned()).collect();
        let errors: String = (1..=32).map(|n| read(format!("err{n}"))).collect();
        assert_eq!(codes.iter().filter(|code| *code == "0").count(), 8, "{codes:?}\n{errors}");
        assert_eq!(codes.iter().filter(|code| *code == "5").count(), 24, "{codes:?}\n{errors}");
        assert!(errors.contains("limit is 8"), "{errors}");
        let herd = home.run(&["list", "--group", "herd", "--json"]).sessions();
        assert_eq!(herd.len(), 8);
        assert!(herd.iter().all(|row| row["launched_by"]["id"] == parent.as_str()));
        // The places of stopped agents are free again.
        let stopped = home.run(&["stop", "--group", "herd", "-y", "--json"]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert_eq!(stopped.json()["survivors"], json!([]));
        eventually("only the parent is left", || (shims().len() == 1).then_some(()));
        let left: Vec<u32> = marked().iter().map(|process| process.pid).collect();
        let own = status(&home, &parent)["pid"].clone();
        assert_eq!(left.iter().map(|pid| json!(pid)).collect::<Vec<_>>(), [own]);
    });
}

#[test]
fn an_ended_child_that_left_a_process_behind_takes_no_place() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "[limits]\nchildren = 1\n");
        let at = home.path();
        let leave = script(&home, "leave", "setsid sleep 600 < /dev/null > /dev/null 2>&1 &");
        let (leave, at) = (leave.display(), at.display());
        let text = format!(
            "for n in 1 2 3; do\n\
             {PROGRAM} launch demo -p 'x [[tool:{leave}]]' --cwd {at}/c$n --wait > {at}/out$n 2> {at}/err$n\n\
             echo $? > {at}/code$n; done"
        );
        let nested = script(&home, "nested", &text);
        for n in 1..=3 {
            folder(&home, &format!("c{n}"));
        }
        launch(&home, "parent", &format!("x [[tool:{}]] [[hang]]", nested.display()), &[]);
        for n in 1..=3 {
            let said = fs::read_to_string(home.at(&format!("err{n}"))).unwrap_or_default();
            assert_eq!(code(&home, n), 0, "{said}");
        }
        assert_eq!(shims().len(), 4, "each shim stays above what its agent left behind");
    });
}

#[test]
fn a_group_launch_from_below_an_agent_obeys_the_limits_and_makes_nothing() {
    sandboxed(|| {
        let home = home();
        let repository = crate::launch_group::shop(&home);
        let at = home.path();
        let group = script(
            &home,
            "group",
            &format!(
                "cd {at}/shop && {PROGRAM} launch demo --times 9 -p 'x [[hang]]' > {at}/out 2> {at}/err; \
                 echo $? > {at}/code1",
                at = at.display()
            ),
        );
        let parent =
            launch(&home, "parent", &format!("x [[tool:{}]] [[hang]]", group.display()), &[]);
        assert_eq!(code(&home, 1), 5);
        let errors = fs::read_to_string(at.join("err")).expect("read");
        assert!(errors.contains("limit is 8"), "{errors}");
        assert_eq!(home.run(&["stop", &parent]).code, Some(0));
        let refs = repository.git(["for-each-ref", "--format=%(refname)"]);
        assert_eq!(refs, "refs/heads/main");
        assert!(!at.join("shop.worktrees").exists());
    });
}

/// No session names the process of a gateway: its title and the variable of its commands count.
#[test]
fn launches_by_commands_of_a_gateway_have_depth_one_and_a_number() {
    const LAUNCHES: usize = 10;
    sandboxed(|| {
        let home = home();
        let at = home.path().display().to_string();
        let emptied = format!(
            "mkdir -p {at}/emptied; env -i HOME={at} PATH=/usr/bin:/bin {PROGRAM} launch demo \
             --cwd {at}/emptied -p 'x [[hang]]'"
        );
        let forked = format!(
            "(setsid sh -c 'for n in $(seq {LAUNCHES}); do mkdir -p {at}/w$n; \
             {PROGRAM} launch demo --cwd {at}/w$n -p hang=[[hang]]; echo $? >> {at}/codes; done' \
             </dev/null >/dev/null 2>&1 &)"
        );
        let script = ["env", "OPENCLAW_SHELL", "exec", "start", &emptied, "start", &forked];
        let mut gateway = home.agent("openclaw-gateway", "ws", &script);
        gateway.ready();
        let codes = eventually("all launches have ended", || {
            let codes = fs::read_to_string(home.path().join("codes")).ok()?;
            (codes.lines().count() == LAUNCHES).then_some(codes)
        });
        assert_eq!(codes.lines().filter(|code| *code == "0").count(), 8, "{codes}");
        assert_eq!(codes.lines().filter(|code| *code == "5").count(), LAUNCHES - 8, "{codes}");
        let rows = eventually("all are listed", || {
            let rows = home.run(&["list", "--json"]).sessions();
            (rows.len() == 9).then_some(rows)
        });
        for row in rows {
            assert_eq!(row["launched_by"]["depth"], 1, "{row}");
        }
        assert_eq!(home.run(&["stop", "--all", "--yes"]).code, Some(0));
    });
}
