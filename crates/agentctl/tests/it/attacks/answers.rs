//! Class: answers that an agent gives through agentctl itself, and asks that look like something else.

use std::fs;

use testkit::{TestHome, eventually, sandboxed};

use crate::daemon::started;
use crate::inbox::{ask_of, id_of};
use crate::launched::{folder, launch, script};
use crate::{configure, home};

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
        let ways = [("plain", String::new()), ("emptied", variables(&home))];
        for (name, prefix) in ways {
            let (out, code) = (format!("{name}.out"), format!("{name}.code"));
            let at = |file: &str| home.path().join(file).display().to_string();
            let inner = format!("{answer} > {} 2>&1; echo $? > {}", at(&out), at(&code));
            let inner = script(&home, &format!("inner-{name}"), &inner);
            let outer = format!("exec {prefix} {}", inner.display());
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

/// With `agents = "others"` an agent answers for others, and still not for itself.
#[test]
fn an_agent_that_may_answer_others_may_not_answer_itself() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "[answers]\nagents = \"others\"\n");
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
        assert!(said.contains("agents may not answer"), "{said}");
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
