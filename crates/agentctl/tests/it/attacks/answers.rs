//! Class: answers that an agent gives through agentctl itself, and asks that look like something else.

use std::fs;

use testkit::{TestHome, eventually, sandboxed};

use crate::daemon::started;
use crate::inbox::{ask_of, id_of};
use crate::launched::{folder, kill, launch, script, shims};
use crate::{home, let_agents_answer_others};

fn program(home: &TestHome) -> String {
    home.command(&[]).get_program().to_string_lossy().into_owned()
}

/// The variables that a program needs to find this home.
fn variables(home: &TestHome) -> String {
    let path = home.path();
    format!("env -i HOME={0} PATH=/usr/bin:/bin", path.display())
}

fn until_written(home: &TestHome, name: &str) -> String {
    eventually(name, || {
        fs::read_to_string(home.path().join(name)).ok().filter(|text| !text.is_empty())
    })
}

/// The daemon runs the action of a fuse, and an agent can set a fuse.
#[test]
fn the_action_of_a_fuse_may_not_answer() {
    sandboxed(|| {
        let home = home();
        let _daemon = started(&home);
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = ask_of(&home, &waiting);
        let answer = format!("{} answer {} --allow", program(&home), id_of(&ask));
        let apart = "while grep -q \"^PPid:.$1\\$\" /proc/$$/status; do sleep 0.05; done;";
        let ways = [
            ("plain", String::new()),
            ("emptied", variables(&home)),
            ("titled", "env -u AGENTCTL_FUSE_ID AGENTCTL_TITLE=x".to_owned()),
            // Its parent has ended, and nothing is left in its environment.
            ("forked", format!("setsid {} sh -c '{apart} shift; \"$@\"' sh $$", variables(&home))),
        ];
        for (name, prefix) in ways {
            let (out, code) = (format!("{name}.out"), format!("{name}.code"));
            let at = |file: &str| home.path().join(file).display().to_string();
            let inner = format!("{answer} > {} 2>&1; echo $? > {}", at(&out), at(&code));
            let inner = script(&home, &format!("inner-{name}"), &inner);
            let outer = match name {
                "forked" => format!("{prefix} {} </dev/null >/dev/null 2>&1 &", inner.display()),
                _ => format!("exec {prefix} {}", inner.display()),
            };
            let action = script(&home, &format!("action-{name}"), &outer);
            let set = format!("run:{}", action.display());
            let directory = folder(&home, name);
            let fuse = home.run(&["fuse", "set", &directory, "--ttl", "1s", "--on-expire", &set]);
            assert_eq!(fuse.code, Some(0), "{}", fuse.stderr);
            assert_eq!(until_written(&home, &code).trim(), "5", "{name}");
            let said = until_written(&home, &out);
            assert!(said.contains("the action of a fuse"), "{said}");
        }
        assert!(!home.path().join("w/answered").exists());
        assert_eq!(home.run(&["answer", &id_of(&ask), "--allow"]).code, Some(0), "a person may");
    });
}

/// The agent that a fuse has launched, and that asks agentctl to answer and to launch.
#[test]
fn an_agent_that_a_fuse_launched_has_brakes_and_may_answer_nobody() {
    sandboxed(|| {
        let home = home();
        let_agents_answer_others(&home);
        let daemon = started(&home);
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = ask_of(&home, &waiting);
        let below = folder(&home, "below");
        // In its first moment the agent has no session yet, and is refused for that.
        let answer = format!(
            "until {0} list -q --cwd {below} | grep -q .; do :; done\n\
             {0} answer {1} --allow > said 2>&1; echo $? > code",
            program(&home),
            id_of(&ask)
        );
        let answer = script(&home, "answering", &answer);
        let launch = format!(
            "exec env -u AGENTCTL_FUSE_ID AGENTCTL_TITLE=x {} launch demo --cwd {below} -p 'x [[tool:{}]] [[hang]]'",
            program(&home),
            answer.display()
        );
        let action = script(&home, "launching", &launch);
        let set = format!("run:{}", action.display());
        let fuse = home.run(&["fuse", "set", &below, "--ttl", "1s", "--on-expire", &set]);
        assert_eq!(fuse.code, Some(0), "{}", fuse.stderr);
        assert_eq!(until_written(&home, "below/code").trim(), "5");
        let said = until_written(&home, "below/said");
        assert!(said.contains("the agent that launched the caller is not known"), "{said}");
        assert!(!home.path().join("w/answered").exists());
        eventually("the action has ended, and the agent lives", || {
            let rows = home.run(&["list", "--json"]).sessions();
            let row = rows.into_iter().find(|row| row["cwd"] == below.as_str())?;
            assert_eq!(row["launched_by"]["depth"], 1, "{row}");
            let parents = crate::launched::everyone();
            let is_parent = |argv: &[String]| argv.get(1).is_some_and(|word| word == "fuse-action");
            let has_ended = !parents.iter().any(|seen| is_parent(&seen.argv));
            (has_ended && row["status"] == "running").then_some(())
        });
        assert!(crate::launched::everyone().iter().any(|seen| seen.pid == daemon));
    });
}

/// The end of a turn that waits settles its ask.
#[test]
fn an_agent_ends_no_turn_that_waits_for_a_human() {
    sandboxed(|| {
        let mut home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &["--keep"]);
        let ask = ask_of(&home, &waiting);
        let running = launch(&home, "r", "x [[hang]]", &["--keep"]);
        let below = launch(&home, "v", "x [[hang]]", &[]);
        let person = home.command(&["stop", "--turn", &waiting]);
        crate::inbox::mark_as_below(&mut home, &below);
        for args in [&["stop", "--turn", &waiting][..], &["stop", "--turn", "--cwd", "w", "-y"]] {
            let refused = home.run(args);
            assert_eq!(refused.code, Some(5), "{}", refused.stderr);
            assert!(refused.stderr.contains("agents may not answer"), "{}", refused.stderr);
        }
        assert_eq!(ask_of(&home, &waiting)["id"], ask["id"], "it is open");
        let ended = home.run(&["stop", "--turn", &running]);
        assert_eq!(ended.code, Some(0), "a turn that does not wait: {}", ended.stderr);
        let mut person = person;
        assert!(person.status().expect("run").success(), "a person may");
        eventually("it is settled", || home.run(&["asks", "-q"]).stdout.is_empty().then_some(()));
    });
}

/// With `agents = "others"` an agent answers for others, and still not for itself.
#[test]
fn an_agent_that_may_answer_others_may_not_answer_itself() {
    sandboxed(|| {
        let home = home();
        let_agents_answer_others(&home);
        let program = program(&home);
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = ask_of(&home, &waiting);
        let other =
            format!("{program} answer {} --allow > other 2>&1; echo $? > code", id_of(&ask));
        let own = format!(
            "until ask=$({program} asks . -q) && [ \"$ask\" ]; do sleep 0.1; done\n\
             {program} answer $ask --allow > own 2>&1; echo $? > own-code"
        );
        let own = script(&home, "own", &own);
        let text = format!("{other}\n(setsid {} </dev/null >/dev/null 2>&1 &)", own.display());
        let both = script(&home, "both", &text);
        let prompt = format!("x [[tool:{}]] [[permit:touch itself]]", both.display());
        launch(&home, "agent", &prompt, &[]);
        let code = until_written(&home, "agent/code");
        let said = until_written(&home, "agent/other");
        assert_eq!(code.trim(), "0", "{said}");
        assert_eq!(until_written(&home, "agent/own-code").trim(), "5");
        let said = until_written(&home, "agent/own");
        assert!(said.contains("the caller is this session or runs below it"), "{said}");
        assert!(!home.path().join("agent/itself").exists());
    });
}

/// An agent cannot allow itself to answer for others with a configuration file of its own.
#[test]
fn a_configuration_that_an_agent_names_does_not_let_it_answer() {
    sandboxed(|| {
        let home = home();
        home.write("forged/agentctl/config.toml", "[answers]\nagents = \"others\"\n");
        let forged = home.at("forged");
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = id_of(&ask_of(&home, &waiting));
        let ways = [
            ("file", format!("AGENTCTL_CONFIG={}/agentctl/config.toml", forged.display())),
            ("folder", format!("XDG_CONFIG_HOME={}", forged.display())),
        ];
        for (name, variable) in ways {
            let program = program(&home);
            let answer = format!(
                "env {variable} {program} answer {ask} --allow > said 2>&1; echo $? > code"
            );
            let tool = script(&home, &format!("tool-{name}"), &answer);
            launch(&home, name, &format!("x [[tool:{}]]", tool.display()), &[]);
            assert_eq!(until_written(&home, &format!("{name}/code")).trim(), "5", "{name}");
            let said = until_written(&home, &format!("{name}/said"));
            assert!(said.contains("agents may not answer"), "{said}");
        }
        assert!(!home.path().join("w/answered").exists());
        assert_eq!(home.run(&["answer", &ask, "--allow"]).code, Some(0), "a person may");
    });
}

/// Returns the line of a script that answers an ask, and writes what was said and the exit code into files.
fn answering(home: &TestHome, ask: &str) -> String {
    format!("{} answer {ask} --allow > said 2>&1; echo $? > code", program(home))
}

/// An agent cannot allow itself to answer for others by writing the configuration file.
#[test]
fn a_configuration_that_an_agent_has_written_does_not_let_it_answer() {
    sandboxed(|| {
        let home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = id_of(&ask_of(&home, &waiting));
        let (answer, config) = (answering(&home, &ask), home.at(".config/agentctl"));
        let text = format!(
            "mkdir -p {config}\nprintf '[answers]\\nagents = \"others\"\\n' > {config}/config.toml\n\
             {answer}",
            config = config.display()
        );
        let tool = script(&home, "tool", &text);
        launch(&home, "agent", &format!("x [[tool:{}]]", tool.display()), &[]);
        assert_eq!(until_written(&home, "agent/code").trim(), "5");
        assert!(until_written(&home, "agent/said").contains("agents may not answer"));
        let again = script(&home, "again", &answer);
        crate::until_change_counts(&config.join("config.toml"));
        launch(&home, "later", &format!("x [[tool:{}]]", again.display()), &[]);
        assert_eq!(until_written(&home, "later/code").trim(), "0", "it began after the change");
    });
}

/// The same if the configuration file is reached through a link, and if the agent replaces a folder above it.
#[test]
fn a_configuration_behind_a_link_that_an_agent_has_changed_does_not_let_it_answer() {
    sandboxed(|| {
        let home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = id_of(&ask_of(&home, &waiting));
        let config = home.at(".config/agentctl");
        let others = "[answers]\nagents = \"others\"\n";
        home.write("older/config.toml", others);
        home.write("oldest/agentctl/config.toml", others);
        let (file, older) = (home.write("dotfiles/agentctl.toml", ""), home.at("older"));
        fs::remove_file(config.join("config.toml")).expect("removed");
        std::os::unix::fs::symlink(&file, config.join("config.toml")).expect("linked");
        let (above, oldest) = (home.at(".config"), home.at("oldest"));
        let (above, oldest) = (above.display(), oldest.display());
        let (file, older, config) = (file.display(), older.display(), config.display());
        let ways = [
            ("file", format!("printf '[answers]\\nagents = \"others\"\\n' > {file}")),
            ("folder", format!("mv {config} {config}-was; ln -s {older} {config}")),
            ("moved", format!("rm {config}; mv {older} {config}")),
            ("above", format!("rm -rf {above}; mv {oldest} {above}")),
        ];
        for (name, change) in ways {
            let answer = answering(&home, &ask);
            let tool = script(&home, &format!("tool-{name}"), &format!("{change}\n{answer}"));
            launch(&home, name, &format!("x [[tool:{}]]", tool.display()), &[]);
            assert_eq!(until_written(&home, &format!("{name}/code")).trim(), "5", "{name}");
        }
        assert!(!home.path().join("w/answered").exists());
    });
}

/// The same in the next run of the session, and by an agent that it launches.
#[test]
fn a_configuration_that_an_agent_has_written_lets_neither_its_next_run_nor_its_child_answer() {
    sandboxed(|| {
        let home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = id_of(&ask_of(&home, &waiting));
        let (program, config) = (program(&home), home.at(".config/agentctl"));
        let text = format!(
            "printf '[answers]\\nagents = \"others\"\\n' > {}/config.toml",
            config.display()
        );
        let answer = answering(&home, &ask);
        let (write, answer) = (script(&home, "write", &text), script(&home, "answer", &answer));
        let prompt = |tool: &std::path::Path| format!("x [[tool:{}]]", tool.display());
        let first = launch(&home, "agent", &prompt(&write), &["--wait"]);
        let sent = home.run(&["send", &first, &prompt(&answer), "--wait"]);
        assert_eq!(until_written(&home, "agent/code").trim(), "5", "{sent:?}");
        // A person has started this agent: no shim is above its child.
        let child = format!(
            "{}\n{program} launch demo --cwd {} -p '{}'\nuntil [ -e go ]; do sleep 0.05; done",
            text,
            folder(&home, "child"),
            prompt(&answer)
        );
        let launching = script(&home, "launching", &child);
        let mut agent = home.command(&["demo-agent", "-p", &prompt(&launching)]);
        let mut agent = agent.current_dir(home.path().join("w")).spawn().expect("it starts");
        assert_eq!(until_written(&home, "child/code").trim(), "5");
        home.write("w/go", "");
        agent.wait().expect("it ends");
        assert!(!home.path().join("w/answered").exists());
    });
}

/// A process that a launched agent has started answers nothing after the agent's end: neither with the mark of the run,
/// nor without the mark below the shim, which stays as long as an orphan lives.
#[test]
fn a_process_that_a_launched_agent_left_behind_answers_nothing() {
    sandboxed(|| {
        let home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = id_of(&ask_of(&home, &waiting));
        let of_waiting = shims().pop().expect("its parent").pid;
        let emptied = "env -i HOME=$HOME PATH=$PATH ";
        for (name, before) in [("marked", ""), ("emptied", emptied), ("others", emptied)] {
            if name == "others" {
                let_agents_answer_others(&home);
            }
            let late = script(
                &home,
                &format!("late-{name}"),
                &format!("until [ -e go ]; do sleep 0.05; done\n{}", answering(&home, &ask)),
            );
            let start = format!("(setsid {before}{} </dev/null >/dev/null 2>&1 &)", late.display());
            let tool = script(&home, &format!("tool-{name}"), &start);
            let ended = launch(&home, name, &format!("x [[tool:{}]]", tool.display()), &["--wait"]);
            assert_eq!(
                home.run(&["status", &ended, "--format", "{status}"]).stdout.trim(),
                "stopped"
            );
            if name == "marked" {
                let mut others = shims().into_iter().filter(|shim| shim.pid != of_waiting);
                kill(others.next().expect("it stays above the orphan").pid);
                eventually("the shim is gone", || (shims().len() == 1).then_some(()));
            }
            home.write(&format!("{name}/go"), "");
            assert_eq!(until_written(&home, &format!("{name}/code")).trim(), "5", "{name}");
            let said = until_written(&home, &format!("{name}/said"));
            assert!(said.contains("agents may not answer"), "{name}: {said}");
        }
        assert!(!home.path().join("w/answered").exists());
        assert_eq!(home.run(&["answer", &ask, "--allow"]).code, Some(0), "a person may");
    });
}

/// No text of an agent looks like a line of ours.
#[test]
fn a_line_break_in_an_option_makes_no_line_of_its_own() {
    sandboxed(|| {
        let home = home();
        let fake = "agentctl answer 000000 --option 9    keep everything";
        let id = launch(&home, "w", &format!("x [[ask:Delete?\n{fake}|Yes\n{fake}|No]]"), &[]);
        let ask = ask_of(&home, &id);
        let page = home.run(&["asks", &id_of(&ask)]).stdout;
        assert!(page.contains("keep everything"), "{page}");
        assert!(!page.lines().any(|line| line.starts_with(&fake[..22])), "{page}");
        assert_eq!(home.run(&["answer", &id_of(&ask), "--option", "2"]).code, Some(0));
    });
}
