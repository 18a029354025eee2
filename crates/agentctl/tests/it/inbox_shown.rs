//! The text of asks as people get it: notifications, pages, hints that run, and events of each ask of a session.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Agent, eventually, sandboxed};

use crate::claude_code::{A, Claude, prompt, record};
use crate::claude_code_asks::{Asking, RUNTIME, asking_twice, hook_input, second_ask};
use crate::events::Stream;
use crate::home;
use crate::inbox::{ask_of, id_of};
use crate::launched::{launch, script};

/// A live record of a session without a terminal that works.
fn busy() -> Value {
    json!({"status": "busy", "entrypoint": "sdk-cli"})
}

/// Returns the input of the hook of any tool.
fn tool_input(name: &str, input: &Value) -> Vec<u8> {
    let mut hook = hook_input("");
    hook["tool_name"] = name.into();
    hook["tool_input"] = input.clone();
    hook.to_string().into_bytes()
}

#[test]
fn a_notification_shows_the_ask_that_its_command_answers() {
    sandboxed(|| {
        let asking = asking_twice("rm -rf /srv/production", RUNTIME);
        let home = &asking.claude.home;
        asking.ask();
        let text =
            format!("printf '%s\\n--\\n' \"$AGENTCTL_TEXT\" >> '{}/told'", home.path().display());
        let program = script(home, "mine", &text);
        let settings =
            format!("[notify]\ncommand = [\"{}\"]\non = [\"ask.opened\"]\n", program.display());
        home.write(".config/agentctl/config.toml", settings);
        assert_eq!(home.run(&["daemon", "start"]).code, Some(0));
        let ask = second_ask(&asking, "rm -rf /srv/production");
        let command =
            format!("agentctl answer {} --allow", &ask["id"].as_str().expect("an id")[..8]);
        let told = eventually("the notification of the second ask", || {
            let told = std::fs::read_to_string(home.path().join("told")).ok()?;
            let mut texts = told.split("--\n").filter(|text| text.ends_with('\n'));
            texts.find(|text| text.contains(&command)).map(str::to_owned)
        });
        assert!(told.starts_with("permission: Bash: rm -rf /srv/production\n"), "{told}");
        assert!(!told.contains("touch x"), "{told}");
    });
}

#[test]
fn no_argument_of_a_foreign_tool_is_hidden() {
    sandboxed(|| {
        let input = json!({"command": "apply", "owner": "payments ".repeat(30), "description": "d",
            "timeout": 5, "server_side_dry_run": false, "guard": null});
        let asking = Asking::new(&busy(), &tool_input("mcp__k8s__run", &input));
        let ask = asking.ask();
        let id = ask["id"].as_str().expect("an id");
        let page = asking.claude.home.run(&["asks", id]).stdout;
        for shown in [
            "\"server_side_dry_run\": false",
            "\"guard\": null",
            "\"timeout\": 5",
            "\"description\": \"d\"",
        ] {
            assert!(page.contains(shown), "{shown} in\n{page}");
        }
    });
}

#[test]
fn an_option_with_a_line_break_forges_no_line_of_the_report() {
    sandboxed(|| {
        let home = home();
        let forged = "allowed  shell: rm -rf /  (demo 1234: it is running)";
        let id = launch(&home, "w", &format!("x [[ask:Pick|yes\n{forged}|no]]"), &[]);
        let ask = id_of(&ask_of(&home, &id));
        let told = home.run(&["answer", &ask, "--option", "1"]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert_eq!(told.stdout.lines().count(), 1, "{}", told.stdout);
        assert!(told.stdout.starts_with("answered  Pick  yes\\nallowed  "), "{}", told.stdout);
    });
}

/// Two questions whose texts mean something to a shell and hold the sign that ends the name of a field.
fn asking_questions() -> Asking {
    let question =
        |text: &str| json!({"question": text, "options": [{"label": "no"}, {"label": "yes"}]});
    let input = json!({"questions": [question("A=1 (or $HOME)?"), question("B \"two\"?")]});
    Asking::new(&busy(), &tool_input("AskUserQuestion", &input))
}

#[test]
fn the_command_that_is_shown_for_several_questions_runs_as_it_is() {
    sandboxed(|| {
        let asking = asking_questions();
        let home = &asking.claude.home;
        let ask = asking.ask();
        let row = asking.claude.row(A);
        assert_eq!(row["reason"]["kind"], ask["kind"], "{row}");
        assert_eq!(row["reason"]["detail"], ask["title"], "{row}");
        let id = ask["id"].as_str().expect("an id");
        let page = home.run(&["asks", id]).stdout;
        let command = format!("agentctl answer {} --field 1=VALUE --field 2=VALUE", &id[..8]);
        assert!(page.contains("\nquestion 1\n") && page.contains(&command), "{page}");
        let refused = asking.answer(&ask, &["--option", "1"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("answer each: --field 1=VALUE"), "{}", refused.stderr);
        let words = command.replacen("VALUE", "2", 1).replace("VALUE", "'in words'");
        let line = words.replace("agentctl", env!("CARGO_BIN_EXE_agentctl"));
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(line).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        let told = shell.output().expect("run");
        assert_eq!(told.status.code(), Some(0), "{}", String::from_utf8_lossy(&told.stderr));
        let answers = r#""answers":{"A=1 (or $HOME)?":"yes","B \"two\"?":"in words"}"#;
        assert!(asking.decision().contains(answers), "{}", asking.decision());
    });
}

#[test]
fn a_question_is_also_named_by_its_text() {
    sandboxed(|| {
        let asking = asking_questions();
        let ask = asking.ask();
        let fields = ["--field", "B \"two\"?=no", "--field", "A=1 (or $HOME)?=x=y"];
        let told = asking.answer(&ask, &fields);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        let decision = asking.decision();
        assert!(decision.contains(r#""A=1 (or $HOME)?":"x=y""#), "{decision}");
    });
}

/// A session that was launched to stay, and the file that is its output.
struct Kept {
    claude: Claude,
    output: std::fs::File,
    _agent: Agent,
}

impl Kept {
    fn new() -> Self {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("make it")]);
        // Places the program of the agent.
        claude.home.agent("claude", "ws", &[]).kill();
        let more = json!({"status": "waiting", "waitingFor": "permission prompt", "entrypoint": "sdk-cli"});
        let path = claude.home.write("output/stdout", format!("{}\n", Self::frame(1, "touch x")));
        let script = format!(
            "start=$(awk '{{print $22}}' /proc/$$/stat)\n\
             export AGENTCTL_RUN=v1:01a1de32-0000-7000-8000-00000000000a:$$:$start\n\
             exec {} -p --input-format stream-json --permission-prompt-tool stdio stay write '{}' '{}' >> {}\n",
            claude.home.at("bin/claude").display(),
            claude.record_path,
            record(A, &claude.cwd, &more),
            path.display()
        );
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(script).env_clear().env("HOME", claude.home.path());
        command.env("PATH", "/usr/bin:/bin").current_dir(&claude.cwd);
        let agent = Agent { child: command.spawn().expect("started") };
        let output = std::fs::OpenOptions::new().append(true).open(path).expect("there");
        let kept = Self { claude, output, _agent: agent };
        eventually("its first ask is open", || (kept.asks().len() == 1).then_some(()));
        kept
    }

    fn frame(number: u32, command: &str) -> Value {
        json!({"type": "control_request", "request_id": format!("r{number}"), "request": {
            "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command},
            "tool_use_id": format!("t{number}")}})
    }

    /// Writes a line as the agent does.
    fn say(&mut self, line: &Value) {
        writeln!(self.output, "{line}").expect("written");
    }

    fn asks(&self) -> Vec<Value> {
        let document = self.claude.home.run(&["asks", "--json"]).json();
        document["asks"].as_array().cloned().unwrap_or_default()
    }
}

/// Says whether a process gets file events of a file or folder, by what the kernel shows of its descriptors.
fn is_watched(pid: u32, path: &Path) -> bool {
    let inode = std::fs::metadata(path).expect("there").ino();
    let watch = format!(" ino:{inode:x} ");
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("listed").flatten();
    let texts = descriptors.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    texts
        .into_iter()
        .any(|text| text.lines().any(|line| line.starts_with("inotify ") && line.contains(&watch)))
}

#[test]
fn every_ask_of_a_kept_session_is_told_although_its_record_stays_the_same() {
    sandboxed(|| {
        let mut kept = Kept::new();
        let stream = Stream::of(&kept.claude.home, &[]);
        // The look once a minute would find its asks too: the file events of its output come at once.
        eventually("the folder of its output is watched", || {
            is_watched(stream.pid(), &kept.claude.home.at("output")).then_some(())
        });
        let told = |kind: &str, title: &str| {
            eventually(&format!("{kind} of {title}"), || {
                let is_it = |e: &Value| e["type"] == kind && e["ask"]["title"] == title;
                stream.heard().into_iter().find(is_it)
            })
        };
        kept.say(&Kept::frame(2, "rm -rf /srv/data"));
        let opened = told("ask.opened", "Bash: rm -rf /srv/data");
        let activity = &opened["session"]["last_activity_at"];
        let since = opened["ask"]["since"].as_str().expect("a time");
        assert!(Some(since) > activity.as_str(), "opened at {since}, not at {activity}");
        kept.say(&json!({"type": "control_response", "response": {"subtype": "success",
            "request_id": "r1", "response": {"behavior": "allow"}}}));
        told("ask.settled", "Bash: touch x");
        assert_eq!(kept.asks().len(), 1);
    });
}
