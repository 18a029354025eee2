//! Orders and the stream of the page: the same effects and refusals as the command line; nothing from below an agent.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use agentctl::web::{Access, RouteRow, routes};
use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::inbox::ask_of;
use crate::launched::{folder, launch, script, status, until_stopped};
use crate::mcp_client::Mcp;
use crate::web::{Web, accepted, request};

/// A page that reads its stream.
pub(crate) struct Page {
    lines: BufReader<TcpStream>,
}

impl Page {
    pub(crate) fn open(web: &Web, token: &str, query: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("a listener");
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
        let head = format!(
            "GET /api/stream{query} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\n\r\n",
            web.port
        );
        stream.write_all(head.as_bytes()).expect("sent");
        Self { lines: BufReader::new(stream) }
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("an event in time");
            assert!(read > 0, "the stream has ended");
            if let Some(word) = line.strip_prefix("event: ") {
                word.trim().clone_into(&mut name);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).expect("JSON"));
            }
        }
    }

    /// Waits for an event that fits.
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&str, &Value) -> bool) -> Value {
        for _ in 0..1000 {
            let (name, data) = self.next();
            if fits(&name, &data) {
                return data;
            }
        }
        panic!("{what} was not told");
    }
}

/// Returns the key that the page has for a session of the demo agent.
fn key_of(home: &TestHome, id: &str) -> String {
    format!("demo:{id}@{}/.local/share/agentctl-demo", home.path().display())
}

fn is_session(row: &Value, id: &str, state: &str) -> bool {
    row["id"] == id && row["status"] == state
}

pub(crate) fn has_row(data: &Value, id: &str, state: &str) -> bool {
    data["rows"].as_array().is_some_and(|rows| rows.iter().any(|row| is_session(row, id, state)))
}

#[test]
fn an_answer_is_delivered_and_the_stream_tells_it() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch ran]] [[say:finished now]]", &[]);
        let ask = ask_of(&home, &id);
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let mut page = Page::open(&web, &token, &format!("?talk=demo:{id}"));
        let mut plain = Page::open(&web, &token, "");
        let hello = json!({"control": true, "home": home.path()});
        assert_eq!(page.next(), ("hello".to_owned(), hello));
        let first = page.until("the first look", |name, _| name == "look");
        assert_eq!((&first["full"], &first["asks"][0]["id"]), (&json!(true), &ask["id"]));
        assert!(has_row(&first, &id, "waiting"), "{first}");
        assert_eq!(first["order"], json!([key_of(&home, &id)]));
        let absent = json!({"ask": ask["id"], "reply": {"always": "always:9"}});
        let absent = web.post(&token, "/api/answer", &absent).json();
        let hint = "`/api/asks` shows its `choices` and `fields`";
        assert_eq!(absent["error"]["hint"], hint, "{absent}");
        let answered =
            web.post(&token, "/api/answer", &json!({"ask": ask["id"], "reply": "allow"}));
        assert_eq!(answered.code, 200, "{}", answered.body);
        assert_eq!(answered.json()["ask"]["id"], ask["id"]);
        let key = json!([key_of(&home, &id)]);
        let is_end = |name: &str, data: &Value| name == "look" && data["gone"] == key;
        plain.until("its end", is_end);
        // The last words may be read before the process has ended, or after.
        let (has_ended, has_spoken) = (Cell::new(false), Cell::new(false));
        page.until("its end and its last words", |name, data| {
            has_ended.set(has_ended.get() || is_end(name, data));
            let speaks = name == "said" && data.to_string().contains("finished now");
            has_spoken.set(has_spoken.get() || speaks);
            has_ended.get() && has_spoken.get()
        });
        assert!(home.path().join("w/ran").exists());
        let again = web.post(&token, "/api/answer", &json!({"ask": ask["id"], "reply": "allow"}));
        let printed =
            home.run(&["answer", ask["id"].as_str().expect("an id"), "--allow", "--json"]);
        assert_eq!(again.json(), printed.json(), "the same sentence, hint and code");
        assert_eq!(again.code, 404);
        let unknown = web.get(&token, "/api/stream?talk=demo:none");
        assert_eq!(unknown.code, 404, "{}", unknown.body);
    });
}

#[test]
fn a_name_that_is_given_later_reaches_an_open_page() {
    sandboxed(|| {
        let home = home();
        let (ended, live) = (launch(&home, "e", "x", &[]), launch(&home, "w", "x [[hang]]", &[]));
        let web = Web::start(&home, &[]);
        let mut page = Page::open(&web, &web.token(), "");
        let first = page.until("the first look", |name, data| {
            name == "look" && has_row(data, &live, "running")
        });
        assert_eq!(home.run(&["name", &live, "painter"]).code, Some(0));
        let named = page.until("the name of a live session", |name, data| {
            let is_named = |row: &Value| row["id"] == *live && row["name"] == "painter";
            name == "look" && data["rows"].as_array().is_some_and(|rows| rows.iter().any(is_named))
        });
        assert_ne!(named["names"], first["names"]);
        assert_eq!(home.run(&["name", &ended, "baker"]).code, Some(0));
        // The row of an ended session is in no look: the page reads it again because of the number.
        let _again = page.until("a look because of the name of an ended session", |name, data| {
            name == "look" && data["names"] != named["names"]
        });
    });
}

#[test]
fn sessions_are_launched_spoken_to_and_stopped() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        fs::create_dir(home.path().join("w")).expect("made");
        let cwd = home.path().join("w").display().to_string();
        let order =
            json!({"adapter": "demo", "prompt": "x [[say:hello]]", "cwd": cwd, "name": "a"});
        let launched = web.post(&token, "/api/launch", &order);
        assert_eq!(launched.code, 200, "{}", launched.body);
        let id = launched.json()["id"].as_str().expect("an id").to_owned();
        until_stopped(&home, &id);
        assert_eq!(status(&home, &id)["name"], "a");
        let absent = json!({"adapter": "demo", "prompt": "x", "cwd": "/nowhere"});
        let absent = web.post(&token, "/api/launch", &absent).json();
        assert_eq!(absent["error"]["hint"], "name another directory with `cwd`", "{absent}");
        let option = json!({"adapter": "demo", "prompt": "x", "cwd": cwd, "model": "--help"});
        let option = web.post(&token, "/api/launch", &option).json();
        assert_eq!(option["error"]["hint"], "name a model", "{option}");
        let message = json!({"session": id, "text": "more [[hang]]"});
        let sent = web.post(&token, "/api/send", &message);
        assert_eq!(sent.code, 200, "an ended session is resumed: {}", sent.body);
        assert_eq!(sent.json()["id"], json!(id));
        eventually("it works", || (status(&home, &id)["status"] == "running").then_some(()));
        let busy = web.post(&token, "/api/send", &message).json();
        let hint = "a message after its end resumes it; a launch with `keep` starts one that stays";
        assert_eq!(busy["error"]["hint"], hint, "{busy}");
        let wrong = web.post(&token, "/api/stop", &json!({"id": "a", "force": true})).json();
        let message = wrong["error"]["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(": unknown field `force`"), "{wrong}");
        let wrong = web.post(&token, "/api/stop", &json!({"id": {"secret": true}})).json();
        assert!(!wrong["error"]["message"].to_string().contains("secret"), "{wrong}");
        let occupied = web.post(&token, "/api/launch", &order);
        assert_eq!(
            (occupied.code, occupied.json()["error"]["code"].clone()),
            (409, json!("refused"))
        );
        let stopped = web.post(&token, "/api/stop", &json!({"id": id}));
        assert_eq!(stopped.code, 200, "{}", stopped.body);
        assert_eq!(stopped.json()["stopped"][0]["id"], json!(id));
        for (path, body, code) in [
            ("/api/stop", json!({"id": "none-such"}), 404),
            ("/api/stop", json!({"id": ""}), 400),
            ("/api/stop", json!({"id": id, "force": true}), 400),
            ("/api/launch", json!({"adapter": "demo", "prompt": " ", "cwd": cwd}), 400),
            ("/api/launch", json!({"adapter": "demo", "prompt": "x", "cwd": "w"}), 400),
            ("/api/launch", json!({"adapter": "none", "prompt": "x", "cwd": cwd}), 400),
            ("/api/send", json!({"session": id, "text": ""}), 400),
            ("/api/send", json!({"session": id, "text": "x", "when_idle": true}), 400),
            ("/api/answer", json!({"ask": "00000000", "reply": "allow"}), 404),
            ("/api/answer", json!({"ask": "0000", "reply": "allow"}), 400),
            ("/api/answer", json!({"ask": "00000000", "reply": "perhaps"}), 400),
        ] {
            let answer = web.post(&token, path, &body);
            assert_eq!(answer.code, code, "{path} {body}: {}", answer.body);
        }
    });
}

#[test]
fn no_agent_is_launched_with_all_permissions() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let cwd = home.path().display().to_string();
        let order = |permissions: &str| json!({"adapter": "demo", "prompt": "x", "cwd": cwd, "permissions": permissions});
        let refused = web.post(&token, "/api/launch", &order("bypass"));
        assert_eq!(refused.code, 409, "{}", refused.body);
        let error = &refused.json()["error"];
        assert_eq!(error["code"], "refused", "{error}");
        assert!(error["hint"].to_string().contains("agentctl launch --permissions bypass"));
        assert_eq!(home.run(&["runs", "--json"]).json()["runs"], json!([]), "nothing was begun");
        for permissions in ["edits", "default"] {
            let launched = web.post(&token, "/api/launch", &order(permissions));
            assert_eq!(launched.code, 200, "{permissions}: {}", launched.body);
            until_stopped(&home, launched.json()["id"].as_str().expect("an id"));
        }
    });
}

/// The configuration may give agents of a terminal all permissions: those of the page and of other agents get none of it.
#[test]
fn configured_bypass_counts_in_a_terminal_only() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        crate::configure(&home, &[], "permissions = \"bypass\"\n");
        let (id, cwd) = ("0c2f8f8e-1111-4222-8333-123456789abc", folder(&home, "w"));
        let slug = cwd.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let message = json!({"role": "user", "content": "first"});
        let line = json!({"type": "user", "message": message, "uuid": "u", "cwd": cwd, "sessionId": id,
            "timestamp": "2026-11-15T10:00:00.000Z"});
        home.write(&format!(".claude/projects/{slug}/{id}.jsonl"), format!("{line}\n"));
        let told = r#"printf '%s ' "$@" > "$HOME/args"; for id in "$@"; do case "$id" in ????????-*) break; esac; done"#;
        let init = r#"echo '{"type":"system","subtype":"init","session_id":"'$id'"}'"#;
        script(&home, "claude", &format!("{told}; {init}"));
        let given = |what: &str| {
            let path = home.path().join("args");
            let given = fs::read_to_string(&path).expect("the agent was started");
            fs::remove_file(path).expect("removed");
            assert!(given.contains(what), "{given}");
            given.contains("--dangerously-skip-permissions")
        };
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let order = json!({"adapter": "claude-code", "prompt": "x", "cwd": cwd});
        web.post(&token, "/api/launch", &order);
        assert!(!given("--session-id"), "a launch from the page");
        web.post(&token, "/api/send", &json!({"session": id, "text": "second"}));
        assert!(!given("--resume"), "a resume from the page");
        let mut mcp = Mcp::start(&home, &["--allow-control"]);
        mcp.call("launch", json!({"adapter": "claude-code", "prompt": "x", "cwd": cwd}));
        assert!(!given("--session-id"), "a launch through the MCP server");
        mcp.call("send", json!({"id": id, "text": "second"}));
        assert!(!given("--resume"), "a resume through the MCP server");
        assert_eq!(
            home.run(&["resume", id, "second"]).code,
            Some(1),
            "the message is not recorded"
        );
        assert!(given("--resume"), "the terminal of a person");
        assert_eq!(web.get(&token, "/api/begin").json()["permissions"], "bypass");
    });
}

#[test]
fn without_control_nothing_is_ordered() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch ran]]", &[]);
        let ask = ask_of(&home, &id);
        let web = Web::start(&home, &[]);
        let token = web.token();
        for (path, body) in [
            ("/api/answer", json!({"ask": ask["id"], "reply": "allow"})),
            ("/api/stop", json!({"id": id})),
            ("/api/send", json!({"session": id, "text": "x"})),
            ("/api/launch", json!({"adapter": "demo", "prompt": "x", "cwd": "/"})),
        ] {
            let refused = web.post(&token, path, &body);
            assert_eq!(refused.code, 403, "{path}: {}", refused.body);
            assert_eq!(refused.json()["error"]["code"], "control_off");
        }
        assert_eq!(ask_of(&home, &id)["id"], ask["id"], "the ask is open");
    });
}

/// Writes a script that sends a request from wherever it runs, and keeps the status line.
fn write_request(home: &TestHome, name: &str, web: &Web, request: &str) -> String {
    let at = home.path().display().to_string();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}\ncat {at}/{name}.request >&3\ncat <&3 > {at}/{name}.part\nmv {at}/{name}.part {at}/{name}.answer\n",
        web.port
    );
    home.write(&format!("{name}.request"), request);
    home.write(&format!("{name}.sh"), script);
    format!("bash {at}/{name}.sh")
}

#[test]
fn a_process_below_an_agent_gives_no_order_even_with_a_token() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch ran]]", &[]);
        let ask = ask_of(&home, &id);
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let bodies = [
            ("answer", json!({"ask": ask["id"], "reply": "allow"})),
            ("stop", json!({"id": id})),
            ("send", json!({"session": id, "text": "x"})),
            ("launch", json!({"adapter": "demo", "prompt": "x", "cwd": home.path()})),
        ];
        let mut tools = String::new();
        for (name, body) in &bodies {
            let body = body.to_string();
            let request = format!(
                "POST /api/{name} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                web.port,
                body.len()
            );
            let command = write_request(&home, name, &web, &request);
            // Apart from the agent's tree, and with an emptied environment.
            tools.push_str(&format!(" [[tool:(setsid env -i PATH=/usr/bin:/bin {command} &)]]"));
        }
        let below = launch(&home, "below", &format!("x{tools} [[hang]]"), &[]);
        for (name, _) in &bodies {
            let path = home.path().join(format!("{name}.answer"));
            let answer = eventually(name, || fs::read_to_string(&path).ok());
            assert!(answer.starts_with("HTTP/1.1 403 "), "{name}: {answer}");
            assert!(answer.contains("from_agent"), "{name}: {answer}");
            assert!(answer.contains("agents may not give orders"), "{name}: {answer}");
        }
        assert_eq!(ask_of(&home, &id)["id"], ask["id"], "the ask is open");
        assert!(!home.path().join("w/ran").exists());
        let link = home.path().join("link.out").display().to_string();
        let asked = format!(
            "{} web --link > {link}.part 2>&1; mv {link}.part {link}",
            env!("CARGO_BIN_EXE_agentctl")
        );
        let other = launch(&home, "other", &format!("x [[tool:{asked}]] [[hang]]"), &[]);
        let said = eventually("an answer", || fs::read_to_string(&link).ok());
        assert!(said.contains("agents may not give orders") && !said.contains("#k="), "{said}");
        let started = home.path().join("web.out").display().to_string();
        let web2 = format!(
            "{} web --allow-control > {started}.part 2>&1; mv {started}.part {started}",
            env!("CARGO_BIN_EXE_agentctl")
        );
        let third = launch(&home, "third", &format!("x [[tool:{web2}]] [[hang]]"), &[]);
        let said = eventually("an answer", || fs::read_to_string(&started).ok());
        assert!(said.contains("agents may not give orders"), "{said}");
        for id in [below, other, third] {
            assert_eq!(home.run(&["stop", &id]).code, Some(0));
        }
        let allowed = web.post(&token, "/api/answer", &json!({"ask": ask["id"], "reply": "allow"}));
        assert_eq!(allowed.code, 200, "from here it is taken: {}", allowed.body);
    });
}

/// Sends a good request for a route from a process of the second user. Returns the status line, and the rest of a refusal.
fn from_other(other: testkit::OtherUser, web: &Web, token: &str, route: RouteRow) -> String {
    let request = request(route.method, route.path, &accepted(web.port, token, route));
    let script = r#"exec 3<>/dev/tcp/127.0.0.1/$PORT; printf %s "$REQUEST" >&3
        IFS= read -r line <&3; echo "$line"; case "$line" in *" 403 "*) cat <&3;; esac"#;
    let mut command = other.command("bash");
    command.args(["-c", script]).env("PORT", web.port.to_string()).env("REQUEST", request);
    let output = command.output().expect("runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs root: another user connects"]
fn a_process_of_another_user_sees_nothing() {
    sandboxed(|| {
        let other = testkit::another_user();
        let home = home();
        let number = other.uid.to_string();
        for (users, admitted) in [
            (None, false),
            (Some("daemon"), false),
            (Some(number.as_str()), true),
            (Some("nobody"), true),
        ] {
            let users = users.map(|user| format!("[web]\nproxy_users = [\"{user}\"]\n"));
            crate::configure(&home, &[], &users.clone().unwrap_or_default());
            let web = Web::start(&home, &["--allow-control"]);
            let token = web.token();
            for route in routes() {
                let answer = from_other(other, &web, &token, route);
                let refused = answer.contains(" 403 ") && answer.contains("other_user");
                let taken = [" 200 ", " 400 "].iter().any(|code| answer.contains(code));
                let is_right = match route.access {
                    // The files of the page hold no data.
                    Access::Public => answer.contains(" 200 "),
                    // Such a route is served on the private socket alone.
                    Access::Private => answer.contains(" 404 "),
                    // The query or the body is incomplete.
                    _ if admitted => taken,
                    _ => refused,
                };
                assert!(is_right, "{users:?} {} {}: {answer}", route.method, route.path);
            }
        }
    });
}

/// A page that reads nothing keeps no other page waiting.
#[test]
fn a_slow_page_delays_no_other() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &[]);
        let token = web.token();
        let _slow: Vec<Page> = (0..40).map(|_| Page::open(&web, &token, "")).collect();
        let mut page = Page::open(&web, &token, "");
        page.until("the first look", |name, data| name == "look" && data["full"] == true);
        for round in 0..5 {
            let id = launch(&home, &format!("w{round}"), "x [[hang]]", &[]);
            page.until("it runs", |name, data| name == "look" && has_row(data, &id, "running"));
            assert_eq!(home.run(&["stop", &id]).code, Some(0));
            let key = json!(key_of(&home, &id));
            page.until("its end", |name, data| {
                let gone = data["gone"].as_array();
                name == "look" && gone.is_some_and(|gone| gone.contains(&key))
            });
        }
    });
}

#[test]
fn a_token_that_has_ended_ends_the_stream() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &[]);
        let token = web.token();
        let mut page = Page::open(&web, &token, "");
        page.until("the first look", |name, _| name == "look");
        fs::remove_file(home.path().join(".local/state/agentctl/web.key")).expect("removed");
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut page.lines, &mut rest).expect("it ends");
        let rest = String::from_utf8_lossy(&rest);
        assert!(!rest.contains("event: beat"), "{rest}");
    });
}

/// Counts the threads of the server that watch.
fn watching(web: &Web) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", web.pid())).expect("it lives").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "watch").count()
}

#[test]
fn nothing_is_watched_without_a_page_and_once_for_many() {
    sandboxed(|| {
        let home = home();
        let web = Web::start(&home, &[]);
        let token = web.token();
        assert_eq!(web.get(&token, "/api/sessions").code, 200);
        assert_eq!(watching(&web), 0, "no page is open");
        for _ in 0..2 {
            let mut pages: Vec<Page> = (0..3).map(|_| Page::open(&web, &token, "")).collect();
            for page in &mut pages {
                page.until("the first look", |name, data| name == "look" && data["full"] == true);
            }
            // Threads of a look have the name of the watcher until they end.
            eventually("one watcher for all", || (watching(&web) == 1).then_some(()));
            drop(pages);
            eventually("the watch has ended", || (watching(&web) == 0).then_some(()));
        }
    });
}

/// A process that an agent left behind has a token and no agent above it any more: its mark is left.
#[test]
fn a_process_that_an_agent_left_behind_gives_no_order() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch ran]]", &[]);
        let ask = ask_of(&home, &id);
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let body = json!({"ask": ask["id"], "reply": "allow"}).to_string();
        let request = format!(
            "POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            web.port,
            body.len()
        );
        let command = write_request(&home, "answer", &web, &request);
        let run = "0199aaaa-0000-7000-8000-000000000000";
        let mut orphan = std::process::Command::new("sh");
        orphan.args(["-c", &command]).env("AGENTCTL_RUN", format!("v1:{run}:4000000:1"));
        assert!(orphan.status().expect("run").success());
        let answer = fs::read_to_string(home.path().join("answer.answer")).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("has ended and started this process"), "{answer}");
        assert!(answer.contains("that no agent has started"), "{answer}");
        // The command line refuses the mark as well.
        let mut answer = home.command(&["answer", &crate::inbox::id_of(&ask), "--allow"]);
        answer.env("AGENTCTL_RUN", format!("v1:{run}:4000000:1"));
        assert_eq!(answer.output().expect("run").status.code(), Some(5));
        drop(web);
        let mut second = home.command(&["web", "--allow-control", "--listen", "127.0.0.1:0"]);
        second.env("AGENTCTL_RUN", format!("v1:{run}:4000000:1"));
        let refused: testkit::Output = second.output().into();
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("has ended and started this process"),
            "{}",
            refused.stderr
        );
    });
}
