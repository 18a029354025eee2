//! `agentctl mcp`: the MCP server for agents, on standard input and output.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::config::Loaded;
use crate::failure::Outcome;
use crate::mcp::{self, McpOptions};
use crate::ui::Ui;

/// Serve agents over MCP: list, read and wait for sessions
///
/// A Model Context Protocol server on standard input and output, started by an agent or another MCP client: add the
/// command `agentctl mcp` to the MCP servers of the agent. Its tools only read, unless --allow-control is given.
/// Through them agents cannot act on themselves or on the agents above them, and a launch from below an agent is limited by [limits] in the configuration. See docs/MCP.md.
#[derive(Args)]
pub(super) struct McpArgs {
    /// Also offer the tools that launch, message and stop agents
    #[arg(long)]
    allow_control: bool,
    /// Show and touch only sessions in this directory and below it
    #[arg(long, value_name = "DIR")]
    scope: Option<PathBuf>,
}

pub(super) fn cmd_mcp(ui: &mut Ui, loaded: Loaded, args: McpArgs) -> Outcome {
    if ui.reads_keys() {
        ui.note(
            "`agentctl mcp` speaks MCP on stdin, and a client starts it: add the command `agentctl mcp` to the MCP \
             servers of your agent (docs/MCP.md); Ctrl-D ends it",
        );
    }
    let options = McpOptions { allow_control: args.allow_control, scope: args.scope };
    mcp::serve(loaded, &options)?;
    Ok(ExitCode::SUCCESS)
}
