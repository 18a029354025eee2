//! `agentctl web`: orders that run at the same time, and a list that equals that of `list`.

use std::io::Write;
use std::net::TcpStream;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Repository, TestHome, eventually, sandboxed};

use crate::home;
use crate::inbox::ask_of;
use crate::launched::{launch, script, status};
use crate::web::Web;
use crate::web_orders::{Page, has_row};

/// Sets a setup program for worktrees. Each run of it leaves a file `begun-NAME` in the home, and ends when there is a
/// file `go-NAME`.
fn slow_setup(home: &TestHome) {
    let at = home.path().display().to_string();
    let text = format!(
        "name=$(basename \"$AGENTCTL_WORKTREE\")\ntouch \"{at}/begun-$name\"\nuntil [ -e \"{at}/go-$name\" ]; do sleep 0.05; done"
    );
    let program = script(home, "setup", &text);
    let config = format!("[worktree]\nsetup = [{:?}]\n", program.display().to_string());
    home.write(".config/agentctl/config.toml", config);
}

fn order(shop: &Repository, worktree: &str) -> Value {
    json!({"adapter": "demo", "prompt": "x [[say:hi]]", "cwd": shop.path, "worktree": worktree})
}

fn until_begun(home: &TestHome, name: &str) {
    let begun = home.path().join(format!("begun-{name}"));
    eventually("its setup runs", || begun.exists().then_some(()));
}

#[test]
fn two_worktree_launches_at_once_both_succeed() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        slow_setup(&home);
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        std::thread::scope(|scope| {
            let launched = |name: &'static str| {
                let (web, token, shop) = (&web, &token, &shop);
                let answer =
                    scope.spawn(move || web.post(token, "/api/launch", &order(shop, name)));
                until_begun(&home, name);
                answer
            };
            let (one, two) = (launched("one"), launched("two"));
            for (name, answer) in [("one", one), ("two", two)] {
                home.write(&format!("go-{name}"), "");
                let answer = answer.join().expect("an answer");
                assert_eq!(answer.code, 200, "{name}: {}", answer.body);
                assert!(home.path().join("shop.worktrees").join(name).is_dir(), "{name}");
            }
        });
    });
}

/// Launches whose setup takes long stop neither questions nor answers.
#[test]
fn slow_launches_delay_no_question_and_no_answer() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let asking = launch(&home, "w", "x [[permit:touch ran]]", &[]);
        let ask = ask_of(&home, &asking);
        slow_setup(&home);
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let send = |number: usize| {
            let body = order(&shop, &format!("w{number}")).to_string();
            let head = format!(
                "POST /api/launch HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                web.port,
                body.len()
            );
            let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("a listener");
            stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
            stream
        };
        let waiting: Vec<TcpStream> = (0..20).map(send).collect();
        // The server admits some of them at once, in any order.
        eventually("a setup runs", || {
            let begun = |number: &usize| home.path().join(format!("begun-w{number}")).exists();
            (0..20).find(begun)
        });
        for _ in 0..20 {
            assert_eq!(web.get(&token, "/api/asks").code, 200);
        }
        let answer = json!({"ask": ask["id"], "reply": "allow"});
        assert_eq!(web.post(&token, "/api/answer", &answer).code, 200);
        drop(waiting);
    });
}

/// Sets a filter of a repository that blocks until there is a file `go`; each run of it adds a line to `begun`.
fn slow_filter(home: &TestHome, repository: &Repository) {
    let at = home.path().display().to_string();
    let text =
        format!("echo >> {at}/begun\nwhile ! [ -e {at}/go ]; do read line < {at}/fifo; done\ncat");
    let program = script(home, "filter", &text);
    let fifo = std::process::Command::new("mkfifo").arg(home.path().join("fifo")).status();
    assert!(fifo.expect("mkfifo").success());
    repository.write(".gitattributes", "README.md filter=slow\n");
    repository.git(["config", "filter.slow.clean", program.to_str().expect("UTF-8")]);
    repository.write("README.md", "changed\n");
}

/// Questions that git answers slowly stop no other question, order or check, and end with their clients.
#[test]
fn slow_diffs_delay_nothing_and_end_with_their_clients() {
    sandboxed(|| {
        let home = home();
        let work = Repository::new(&home.path().join("w"));
        slow_filter(&home, &work);
        let asking = launch(&home, "w", "x [[permit:touch ran]] [[hang]]", &[]);
        let ask = ask_of(&home, &asking);
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let open = |_| {
            let head = format!(
                "GET /api/diff?id=demo:{asking}&patch=true HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\n\r\n",
                web.port
            );
            let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("a listener");
            stream.write_all(head.as_bytes()).expect("sent");
            stream
        };
        let begun = || {
            let begun = std::fs::read_to_string(home.path().join("begun")).unwrap_or_default();
            (!begun.is_empty()).then_some(begun.len())
        };
        let waiting: Vec<TcpStream> = (0..20).map(open).collect();
        eventually("a filter runs", begun);
        for path in ["/api/asks", "/api/sessions", "/api/sessions?all=true"] {
            assert_eq!(web.get(&token, path).code, 200, "{path}");
        }
        let answer = json!({"ask": ask["id"], "reply": "allow"});
        assert_eq!(web.post(&token, "/api/answer", &answer).code, 200);
        for stream in &waiting {
            stream.set_nonblocking(true).expect("set");
            let end = stream.peek(&mut [0]).expect_err("the diffs are still being worked on");
            assert_eq!(end.kind(), std::io::ErrorKind::WouldBlock);
        }
        drop(waiting);
        // The filters that block are ended, so a further diff gets a permit; its own filter does not block.
        home.write("go", "");
        let diff = web.get(&token, &format!("/api/diff?id=demo:{asking}&patch=true"));
        assert_eq!(diff.code, 200, "{}", diff.body);
        assert!(diff.body.contains("README.md"), "{}", diff.body);
        assert_eq!(home.run(&["stop", &asking]).code, Some(0));
    });
}

#[test]
fn a_paused_agent_is_shown_as_list_shows_it() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        let running = eventually("it runs", || {
            Some(status(&home, &id)).filter(|status| status["status"] == "running")
        });
        let web = Web::start(&home, &[]);
        let mut page = Page::open(&web, &web.token(), "");
        page.until("it runs", |name, data| name == "look" && has_row(data, &id, "running"));
        let pid = running["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).expect("a pid");
        for (signal, is_paused) in [(Signal::STOP, true), (Signal::CONT, false)] {
            kill_process(pid, signal).expect("it lives");
            let beats = std::cell::Cell::new(0);
            let look = page.until("the pause", |name, data| {
                // A look without a cause comes once a minute, after three beats.
                beats.set(beats.get() + usize::from(name == "beat"));
                assert!(beats.get() < 2, "the pause was not noticed");
                let rows = data["rows"].as_array().into_iter().flatten();
                let paused = |row: &Value| row["reason"]["kind"] == "paused";
                name == "look" && rows.filter(|row| row["id"] == id).any(|r| paused(r) == is_paused)
            });
            let listed = home.run(&["list", "--json"]).json();
            let facts =
                |row: &Value| [row["id"].clone(), row["status"].clone(), row["reason"].clone()];
            assert_eq!(facts(&look["rows"][0]), facts(&listed["sessions"][0]));
        }
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}
