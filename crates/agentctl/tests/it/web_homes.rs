//! Sessions of two homes with the same id: every call of the page names exactly one of them.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestHome, sandboxed};

use crate::launched::launch;
use crate::web::Web;
use crate::web_orders::Page;
use crate::{configure, home};

/// The folder of a home of the demo agent.
const OWN: &str = ".local/share/agentctl-demo";

/// Copies the home of the demo agent, with its records and the notes about live sessions.
fn copy_home(home: &TestHome) {
    for folder in ["sessions", "live"] {
        for entry in fs::read_dir(home.path().join(OWN).join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            // The pipes of the agent are none of a copy.
            if !path.is_file() {
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let text = fs::read(&path).expect("read");
            home.write(&format!("copy/{folder}/{name}"), text);
        }
    }
}

fn keys(order: &Value) -> Vec<String> {
    let mut keys: Vec<String> = order
        .as_array()
        .into_iter()
        .flatten()
        .map(|key| key.as_str().expect("a key").to_owned())
        .collect();
    keys.sort();
    keys
}

#[test]
fn sessions_of_two_homes_with_the_same_id_are_told_apart() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[write:a.txt|one]] [[say:here]] [[hang]]", &[]);
        crate::launched::until_said(&home, &id, "here");
        copy_home(&home);
        configure(&home, &[], "[roots]\ndemo = [\"~/copy\"]\n");
        let web = Web::start(&home, &["--allow-control"]);
        let token = web.token();
        let roots = ["copy", OWN].map(|name| home.path().join(name).display().to_string());
        let wanted: Vec<String> = roots.iter().map(|root| format!("demo:{id}@{root}")).collect();
        let all = web.get(&token, "/api/sessions?all=true").json();
        assert_eq!(all["sessions"].as_array().map(Vec::len), Some(2), "{all}");
        let mut page = Page::open(&web, &token, "");
        let first = page.until("the first look", |name, _| name == "look");
        let rows = first["rows"].as_array().expect("rows");
        let live = keys(&first["order"]);
        assert_eq!(rows.len(), live.len(), "{first}");
        assert!(
            live.iter().all(|key| wanted.contains(key)) && live.contains(&wanted[1]),
            "{first}"
        );
        let plain = web.get(&token, &format!("/api/session?id=demo:{id}"));
        assert_eq!(
            (plain.code, plain.json()["error"]["code"].clone()),
            (404, json!("session_ambiguous"))
        );
        for (key, root) in wanted.iter().zip(&roots) {
            for path in ["session", "why", "talk", "changes"] {
                let answer = web.get(&token, &format!("/api/{path}?id={key}"));
                assert_eq!(answer.code, 200, "{path} {key}: {}", answer.body);
            }
            let diff = web.get(&token, &format!("/api/diff?id={key}")).json();
            let said = diff["error"]["message"].as_str().unwrap_or_default();
            assert!(said.ends_with("is not in a git repository"), "{diff}");
            let row = web.get(&token, &format!("/api/session?id={key}")).json();
            assert_eq!(row["root"], **root, "{row}");
            let mut page = Page::open(&web, &token, &format!("?talk={key}"));
            let said = page.until("its conversation", |name, _| name == "said");
            assert_eq!(said["id"], **key);
            assert!(said.to_string().contains("here"), "{said}");
        }
        let busy =
            web.post(&token, "/api/send", &json!({"session": wanted[1], "text": "more"})).json();
        assert_ne!(busy["error"]["code"], "session_ambiguous", "{busy}");
        let stopped = web.post(&token, "/api/stop", &json!({"id": wanted[1]}));
        assert_eq!(stopped.code, 200, "{}", stopped.body);
        assert_eq!(stopped.json()["stopped"][0]["id"], json!(id));
    });
}
