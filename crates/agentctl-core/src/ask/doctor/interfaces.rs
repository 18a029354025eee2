//! The checks of `doctor` about the MCP server and the screen of `top`.

use super::{Check, CheckState};
use crate::host::Host;

/// Says what agents may do through the MCP server and the command line.
pub(super) fn mcp(host: &Host) -> Check {
    let limits = host.launch_limits;
    let answers =
        if host.agents_may_answer_others { "may answer other agents" } else { "may not answer" };
    let detail = format!(
        "agents launch agents to depth {}, {} at a time, and {answers}",
        limits.depth, limits.children
    );
    Check::new("mcp", "agents", CheckState::Ok, &detail)
        .hint("`agentctl mcp` only reads; --allow-control adds orders ([limits], [answers])")
}

/// Says whether this terminal can show `top`.
pub(super) fn top(has_screen: bool) -> Check {
    if has_screen {
        return Check::new("top", "terminal", CheckState::Ok, "this terminal can show it");
    }
    Check::new("top", "terminal", CheckState::Absent, "this is no terminal with a screen")
        .hint("`agentctl list --watch` prints the list again whenever it changes")
}
