//! The checks of `doctor` about the page in the browser.

use super::{Check, CheckState, WebContext};

/// Checks whether the page is served, and its settings.
pub(super) fn checks(web: &WebContext) -> Vec<Check> {
    let check = |name: &str, state, detail: &str| Check::new("web", name, state, detail);
    let server = match (&web.trouble, web.is_running) {
        (Some(why), _) => check("server", CheckState::Failed, why)
            .hint("no link is asked for; remove the directory if it is not yours"),
        (None, true) => {
            check("server", CheckState::Ok, "running; `agentctl web --link` prints a link")
        }
        (None, false) => check("server", CheckState::Absent, "not running")
            .hint("`agentctl web` serves a page for the browser"),
    };
    let mut checks = vec![server];
    for user in &web.unknown_users {
        let detail = format!("this machine has no user `{user}`");
        let unknown = check("web.proxy_users", CheckState::Degraded, &detail);
        checks.push(unknown.hint("name the user that the proxy runs as, or its number"));
    }
    if web.is_exposed {
        let detail = "other machines can reach this address, and nothing is encrypted";
        let exposed = check("web.listen", CheckState::Degraded, detail);
        checks.push(exposed.hint("listen on 127.0.0.1 and put an https proxy in front of it"));
    }
    checks
}
