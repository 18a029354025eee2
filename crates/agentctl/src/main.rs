//! Entry point: parse, run, report. Everything else is in the library half of this crate.

use std::process::ExitCode;

use agentctl::ui::Ui;

fn main() -> ExitCode {
    // First, because the shim beside each launched agent and the asker of each ask must stay small.
    if let Some(code) = agentctl::shim::dispatch().or_else(agentctl::asker::dispatch) {
        return code;
    }
    agentctl::failure::report_panics_in_one_line();
    let mut ui = Ui::from_env();
    let outcome = agentctl::cli::run(std::env::args_os(), &mut ui);
    let code = outcome.unwrap_or_else(|failure| failure.report(&mut ui));
    ui.close(code)
}
