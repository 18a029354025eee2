//! Pi in RPC mode, kept: a double that reads commands and writes responses, events and its session file as the
//! real one does. The pipe, the commands and the checks are real.

use std::process::Stdio;

use serde_json::Value;
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::launched::{folder, status, until_said, until_stopped};
use crate::pi::install;
use crate::wait::Running;
use crate::{configure, home};

/// The double: `[[hang]]` leaves a turn open, `[[lost]]` is taken and never recorded, `[[once]]` the same from the second
/// message on, `[[fail]]` fails the model call, `[[retry]]` announces another attempt after that, `[[ask]]` runs a tool for
/// which an extension asks. A variable `late` delays its file to the first answer.
const BODY: &str = r#"
id=01a1de32-5fe1-74e1-aa0a-48f1eed29000; file=; mode=
now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
while [ $# -gt 0 ]; do
  case "$1" in
    --mode) mode=$2; shift;;
    --session-id) id=$2; shift;;
    --session) file=$2; shift;;
  esac
  shift
done
[ "$mode" = rpc ] || exit 9
if [ -n "$file" ]; then
  id=${file##*_}; id=${id%.jsonl}
else
  folder="$HOME/.pi/agent/sessions/--$(pwd -P | sed 's,^/,,; s,[/:],-,g')--"
  mkdir -p "$folder"
  file="$folder/2026-11-15T07-53-25-730Z_$id.jsonl"
  pending="{\"type\":\"session\",\"version\":3,\"id\":\"$id\",\"timestamp\":\"$(now)\",\"cwd\":\"$(pwd -P)\"}"
fi
say() { printf '%s\n' "$1"; }
keep() {
  if [ -n "$pending" ]; then pending="$pending
$1"; else say "$1" >> "$file"; fi
}
settle() { if [ -n "$pending" ]; then say "$pending" >> "$file"; pending=; fi; }
entry() { keep "{\"type\":\"message\",\"id\":\"e$n\",\"parentId\":$parent,\"timestamp\":\"$(now)\",\"message\":$1}"; parent="\"e$n\""; n=$((n+1)); }
answered() { entry "{\"role\":\"assistant\",\"content\":[$1],\"model\":\"m\",\"stopReason\":\"$2\"$3}"; settle; }
respond() { say "{\"id\":\"$request\",\"type\":\"response\",\"command\":\"$1\",\"success\":true$2}"; }
request_of() { say "{\"type\":\"extension_ui_request\",\"id\":\"$dialog\",\"method\":\"select\",\"title\":\"Allow?\",\"message\":\"Run touch x\",\"options\":[\"fast\",\"slow\"]}"; }
n=0; parent=null; dialog=
while IFS= read -r line; do
  request=$(say "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
  case "$line" in
    *'"type":"get_state"'*) respond get_state ",\"data\":{\"isStreaming\":false,\"sessionId\":\"$id\"}";;
    *'"cancelled":true,"id":"'"$dialog"'","type":"extension_ui_response"'*)
      dialog=; say '{"type":"tool_execution_end","toolCallId":"c1"}';;
    *'"type":"abort"'*) [ -z "$dialog" ] || continue; answered '' aborted; say '{"type":"agent_end","messages":[]}'; respond abort;;
    *'"streamingBehavior":"steer","type":"prompt"'*)
      text=$(say "$line" | sed 's/.*"message":"\([^"]*\)".*/\1/')
      respond prompt
      case "$text" in *'[[lost]]'*) continue;; esac
      case "$text" in *'[[once]]'*) [ -z "$once" ] || continue; once=1;; esac
      say '{"type":"agent_start"}'
      entry "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}"
      [ -n "$late" ] || settle
      case "$text" in
        *'[[hang]]'*) ;;
        *'[[ask]]'*)
          answered '{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"touch x"}}' toolUse
          say '{"type":"tool_execution_start","toolCallId":"c1"}'
          dialog="d$n"; request_of
          say '{"type":"extension_ui_request","id":"n1","method":"setStatus","title":"waits"}';;
        *'[[fail]]'*) answered '' error ',"errorMessage":"429"'; say '{"type":"agent_end","messages":[]}';;
        *'[[retry]]'*) answered '' error ',"errorMessage":"429"'; say '{"type":"agent_end","messages":[]}'; say '{"type":"auto_retry_start","attempt":1}';;
        *) answered "{\"type\":\"text\",\"text\":\"heard $text\"}" stop; say '{"type":"agent_end","messages":[]}';;
      esac;;
  esac
done
"#;

pub(crate) fn pi(home: &TestHome, version: &str) {
    install(home, version);
    let late = if version.starts_with("0.") { "late=1" } else { "late=" };
    home.write("body", format!("{late}\n{BODY}"));
}

fn launched(home: &TestHome, agent: &str, more: &[&str]) -> Output {
    let cwd = folder(home, "w");
    home.run(&[&["launch", agent, "--cwd", &cwd], more].concat())
}

/// Launches a session to stay and returns its id.
pub(crate) fn kept(home: &TestHome, prompt: &str) -> String {
    let output = launched(home, "pi", &["--keep", "-p", prompt]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stdout.trim().to_owned()
}

fn until(home: &TestHome, id: &str, wanted: &str) -> Value {
    eventually(&format!("it is {wanted}"), || {
        Some(status(home, id)).filter(|row| row["status"] == wanted)
    })
}

#[test]
fn a_kept_session_takes_messages_ends_its_turn_and_is_continued() {
    sandboxed(|| {
        let home = home();
        for version in ["1.5.0", "0.73.1"] {
            pi(&home, version);
            let id = kept(&home, "first");
            let row = until(&home, &id, "idle");
            let pid = row["pid"].clone();
            let told = home.run(&["send", &id, "second", "--json"]);
            assert_eq!(told.code, Some(0), "{}", told.stderr);
            let told = told.json();
            assert_eq!((&told["confirmed"], &told["how"]), (&true.into(), &"turn_begun".into()));
            until_said(&home, &id, "heard second");
            assert_eq!(home.run(&["send", &id, "third [[hang]]"]).code, Some(0));
            until(&home, &id, "running");
            let ended = home.run(&["stop", "--turn", &id]);
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            assert_eq!(until(&home, &id, "idle")["pid"], pid, "its process stays");
            assert_eq!(home.run(&["stop", &id]).code, Some(0));
            until_stopped(&home, &id);
            let resumed = home.run(&["resume", &id, "fourth", "--keep"]);
            assert_eq!(
                (resumed.code, resumed.stdout.trim()),
                (Some(0), id.as_str()),
                "{resumed:?}"
            );
            assert_ne!(until(&home, &id, "idle")["pid"], pid);
            assert_eq!(home.run(&["send", &id, "fifth"]).code, Some(0));
            until_said(&home, &id, "heard fifth");
            assert_eq!(home.run(&["stop", &id]).code, Some(0));
        }
    });
}

/// A kept session at rest, in a home that waits two seconds for a message to be recorded.
fn impatient() -> (TestHome, String) {
    let home = home();
    pi(&home, "1.5.0");
    let id = kept(&home, "first");
    until(&home, &id, "idle");
    configure(&home, &[("live", "2s")], "");
    (home, id)
}

#[test]
fn a_message_that_is_taken_and_not_recorded_is_not_called_sent() {
    sandboxed(|| {
        let (home, id) = impatient();
        let told = home.run(&["send", &id, "[[lost]]"]);
        assert_ne!(told.code, Some(0), "{}", told.stdout);
        configure(&home, &[], "");
        assert_eq!(status(&home, &id)["status"], "idle");
    });
}

/// Pi keeps no id of a message: one line of its record must not confirm two messages with the same words.
#[test]
fn of_two_messages_with_the_same_words_one_line_confirms_one() {
    sandboxed(|| {
        let (home, id) = impatient();
        let sent: Vec<Running> = (0..2)
            .map(|_| {
                let mut command = home.command(&["send", &id, "go on [[once]]"]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                Running(command.spawn().expect("started"))
            })
            .collect();
        let mut codes: Vec<_> = sent.into_iter().map(|sent| sent.output().code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(1)]);
    });
}

#[test]
fn its_output_says_what_it_does_where_its_file_does_not() {
    sandboxed(|| {
        let home = home();
        pi(&home, "0.73.1");
        let id = kept(&home, "first [[hang]]");
        let row = status(&home, &id);
        assert_eq!(row["status"], "running", "no file yet: {row}");
        assert_eq!(home.run(&["stop", "--turn", &id]).code, Some(0));
        until(&home, &id, "idle");
        assert_eq!(home.run(&["send", &id, "again [[retry]]"]).code, Some(0));
        let row = until(&home, &id, "running");
        assert_eq!(row["reason"]["kind"], "retrying", "{row}");
        assert_eq!(home.run(&["send", &id, "again [[fail]]"]).code, Some(0));
        until(&home, &id, "idle");
    });
}

#[test]
fn it_is_found_and_reached_after_everything_of_agentctl_is_gone() {
    sandboxed(|| {
        let home = home();
        pi(&home, "1.5.0");
        let id = kept(&home, "first");
        let before = until(&home, &id, "idle");
        std::fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("wiped");
        assert_eq!(status(&home, &id)["pid"], before["pid"]);
        assert_eq!(home.run(&["send", &id, "second"]).code, Some(0));
        until_said(&home, &id, "heard second");
    });
}

#[test]
fn it_ends_when_it_was_idle_for_the_given_time() {
    sandboxed(|| {
        let home = home();
        pi(&home, "1.5.0");
        let output = launched(&home, "pi", &["--keep=1s", "-p", "first"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let id = output.stdout.lines().next().expect("an id").to_owned();
        assert_eq!(until_stopped(&home, &id)["outcome"], "finished");
    });
}

#[test]
fn ask_is_refused_because_pi_asks_nobody_and_keep_where_it_is_not_known() {
    sandboxed(|| {
        let home = home();
        pi(&home, "1.5.0");
        for flags in [&["--ask", "-p", "x"][..], &["--ask", "--keep", "-p", "x"]] {
            let refused = launched(&home, "pi", flags);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(5), ""), "{refused:?}");
            assert!(refused.stderr.contains("Pi asks nobody for permission"), "{}", refused.stderr);
        }
        let refused = launched(&home, "pi-rust", &["--keep", "-p", "x"]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stderr.contains("is not known"), "{}", refused.stderr);
        let adapters = home.run(&["adapters", "--json"]).json();
        let of = |name: &str| {
            let all = adapters["adapters"].as_array().expect("a list").iter();
            all.clone().find(|adapter| adapter["name"] == name).cloned().expect("the adapter")
        };
        let text = of("pi").to_string();
        assert!(text.contains("with --keep") && text.contains("asks nobody"), "{text}");
    });
}

#[test]
fn a_dialog_of_an_extension_is_an_ask_that_can_be_cancelled_and_not_answered() {
    sandboxed(|| {
        let home = home();
        pi(&home, "1.5.0");
        let id = kept(&home, "first [[ask]]");
        let row = until(&home, &id, "waiting");
        assert_eq!(
            (&row["reason"]["kind"], &row["reason"]["detail"]),
            (&"dialog".into(), &"Allow?: Run touch x".into())
        );
        let waited = home.run(&["wait", &id]);
        assert_eq!(waited.code, Some(10), "{}", waited.stderr);
        let asks = home.run(&["asks", "--json"]).json()["asks"].clone();
        let ask = &asks[0];
        assert_eq!((asks.as_array().map(Vec::len), &ask["via"]), (Some(1), &Value::Null), "{asks}");
        assert_eq!(
            (&ask["title"], &ask["kind"]),
            (&"Allow?: Run touch x".into(), &"dialog".into())
        );
        assert!(ask["parts"].to_string().contains("2. slow"), "{ask}");
        let ask = ask["id"].as_str().expect("an id").to_owned();
        let refused = home.run(&["answer", &ask, "--text", "fast"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        let shown = home.run(&["asks", &ask]);
        assert!(shown.stdout.contains("`agentctl stop --turn ID` cancels the dialog"), "{shown:?}");

        let ended = home.run(&["stop", "--turn", &id]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        until(&home, &id, "idle");
        assert!(home.run(&["asks", "--json"]).json()["asks"].as_array().is_some_and(Vec::is_empty));
        assert_eq!(home.run(&["send", &id, "again [[ask]]"]).code, Some(0));
        until(&home, &id, "waiting");
        let again = home.run(&["asks", "--json"]).json()["asks"][0]["id"].clone();
        assert_ne!(again, ask.as_str(), "another dialog with the same words");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}
