//! Stopping what has left the agent's pid namespace, its user, or our sight.

use serde_json::json;
use testkit::{TestHome, sandboxed};

use crate::home;
use crate::launched::{launch, status};
use crate::stop::{lives, written_pid};

/// Launches an agent whose tool is started by these words, and returns the tool's pid. It asks `/proc`,
/// which is the test's own: inside another namespace `$$` is another number.
fn with_tool(home: &TestHome, starter: &str) -> (String, u32) {
    let pid = home.at("pids/tool");
    let text = format!(
        "{starter} setsid sh -c 'read p r < /proc/self/stat; echo $p; exec sleep 600' > {}\n",
        pid.display()
    );
    let script = home.write("parts/tool.sh", text);
    let id = launch(home, "ws", &format!("x [[tool:sh {}]]", script.display()), &[]);
    (id, written_pid(&pid))
}

#[test]
fn a_tool_in_a_pid_namespace_of_its_own_goes_too() {
    sandboxed(|| {
        for haste in [None, Some("--force")] {
            let home = home();
            let (id, tool) = with_tool(&home, "unshare -p -f");
            let mut args = vec!["stop", &id, "--json"];
            args.extend(haste);
            let told = home.run(&args);
            assert!(!lives(tool), "{told:?}");
            assert_eq!((told.code, &told.json()["survivors"]), (Some(0), &json!([])), "{told:?}");
            assert_eq!(status(&home, &id)["status"], "stopped");
        }
    });
}
