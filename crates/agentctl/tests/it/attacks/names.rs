//! Class: names that an agent gave to itself. They must not redirect an order.

use rusqlite::Connection;
use testkit::{TestHome, eventually, sandboxed};

use crate::codex::rollout;
use crate::home;
use crate::launched::{launch, status, until_asked, until_stopped};

/// Writes ended Codex threads with these names.
fn threads(home: &TestHome, names: &[&str]) {
    let index = Connection::open(home.at(".codex/state_5.sqlite")).expect("opened");
    let table = "create table threads(id text primary key, cwd text, title text, name text, first_user_message text, model text, created_at_ms integer)";
    index.execute_batch(table).expect("a table");
    for (number, name) in names.iter().enumerate() {
        let id = thread(number);
        rollout(home, &id, &[]);
        let row = "insert into threads values(?1, '/srv', 'x', ?2, 'x', 'gpt-x', 1)";
        index.execute(row, [&id, *name]).expect("a row");
    }
}

fn thread(number: usize) -> String {
    format!("019a8a{number:02}-0000-7000-8000-000000000001")
}

/// An agent's name that looks like a short id, a pid, a path or a reserved word does not take its place.
#[test]
fn a_name_of_an_agent_does_not_replace_an_id_a_pid_or_a_path() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        let pid = status(&home, &id)["pid"].to_string();
        let directory = home.path().join("w").to_string_lossy().into_owned();
        let at_home = format!("{}@demo", &id[..8]);
        let forms = [&id[..8], &id[..4], &pid, &directory, "./w", "w/.", "@last", &at_home];
        let mut names = forms.to_vec();
        names.extend([".", "harmless name"]);
        threads(&home, &names);
        for text in &forms[..7] {
            assert_eq!(status(&home, text)["id"], id.as_str(), "{text}");
        }
        let here = home.command(&["status", ".", "--json"]).current_dir(&directory).output();
        let here = String::from_utf8(here.expect("runs").stdout).expect("text");
        assert!(here.contains(&format!("\"id\": \"{id}\"")), "{here}");
        // A name that can mean nothing else is accepted; one that can is never looked up.
        assert_eq!(status(&home, "harmless name")["id"], thread(9).as_str());
        assert_eq!(home.run(&["status", &at_home]).code, Some(4));
        let stopped = home.run(&["stop", &id[..8]]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        until_stopped(&home, &id);
    });
}

/// A name that a person gave is used before the name of an agent, and before an id that an agent chose.
#[test]
fn a_name_of_the_person_wins_over_agents_with_the_same_name_or_id() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--name", "deploy"]);
        until_stopped(&home, &id);
        threads(&home, &["deploy"]);
        let rollout = format!("rollout-2026-11-15T07-53-25-{}.jsonl", thread(0));
        let path = home.path().join(".codex/sessions/2026/11/15").join(rollout);
        let text = std::fs::read_to_string(&path).expect("read");
        std::fs::write(&path, text.replace("2026-11-15", "2036-11-15")).expect("written");
        assert_eq!(status(&home, "deploy")["id"], id.as_str(), "an agent's newer name");
        for forged in ["deploy", "deploy-2"] {
            let line = format!(
                r#"{{"type":"user","message":{{"role":"user","content":"x"}},"uuid":"u","timestamp":"2036-11-15T10:00:00.000Z","cwd":"/w","sessionId":"{forged}"}}"#
            );
            home.write(&format!(".claude/projects/-w/{forged}.jsonl"), format!("{line}\n"));
            assert_eq!(status(&home, "deploy")["id"], id.as_str(), "the id {forged}");
        }
    });
}

/// A name is offered to the shell only if it means this session and nothing else.
#[test]
fn names_that_mean_something_else_are_not_offered() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &["--name", "painter"]);
        until_asked(&home, &id);
        let pid = status(&home, &id)["pid"].to_string();
        let directory = home.path().join("w").to_string_lossy().into_owned();
        let names = [&pid, ".", &directory, "./w", "@here", "@last", "a/b", &id[..8], "harmless"];
        threads(&home, &names);
        let offered = eventually("a name is offered", || {
            let answer = home.run(&["__complete", "fish", "status", "ha"]);
            answer.stdout.contains("\nharmless\t").then_some(answer.stdout)
        });
        assert!(!offered.contains("/w\t"), "{offered}");
        for typed in names {
            let answer = home.run(&["__complete", "fish", "status", typed]).stdout;
            let of_agents = answer.lines().filter(|line| line.contains("019a8a"));
            let wrong: Vec<&str> =
                of_agents.filter(|line| line.starts_with(&format!("{typed}\t"))).collect();
            assert!(typed == "harmless" || wrong.is_empty(), "{typed}: {answer}");
        }
    });
}
