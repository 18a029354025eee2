//! The steps before a launch: the first line of an agent that reads a pipe, and the agent's own preparation
//! commands, each with a timeout. A failure ends the launch.

use std::fs::File;
use std::io::Write;

use super::first_output::last_output;
use super::{LaunchError, Starting, io, output};
use crate::adapters::control::StartStdin;
use crate::host::Host;
use crate::kernel::{Spawn, Stdio};
use crate::model::Exit;
use crate::native::private;
use crate::runs::Run;

/// Limit of the output that is kept.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// Writes the first line, if the agent reads a pipe, and runs the preparation commands one after the other, in
/// the agent's directory and environment.
pub(super) fn run(host: &Host, starting: &Starting<'_>, run: &Run) -> Result<(), LaunchError> {
    let Starting { launch, control, start, .. } = *starting;
    if start.stdin == StartStdin::Pipe {
        let prompt = String::from_utf8_lossy(&launch.prompt);
        private::file(&run.first_line())
            .and_then(|mut file| file.write_all(&control.first_line(&launch.order, &prompt)))
            .map_err(io("the run's folder cannot be written"))?;
    }
    for preparation in control.prepare(host, &launch.order, start) {
        let told = run.directory.join("prepare.in");
        private::file(&told)
            .and_then(|mut file| file.write_all(&preparation.input))
            .map_err(io("the run's folder cannot be written"))?;
        let spawn = Spawn {
            program: preparation.program,
            args: preparation.args,
            set: starting.set(),
            unset: starting.unset(),
            cwd: launch.order.cwd.clone(),
            stdin: Stdio::File(File::open(&told).map_err(io("the run's folder cannot be read"))?),
            stdout: Stdio::Null,
            stderr: Stdio::Null,
            keep: Vec::new(),
        };
        let limit = host.deadlines.launch;
        let attended = spawn
            .attended(limit, MAX_OUTPUT_BYTES)
            .map_err(io("a program that prepares the agent cannot be started"))?;
        // The input has been read and is not needed any more.
        let _kept = std::fs::remove_file(&told);
        if matches!(attended.exit, Some(Exit { code: Some(0), .. })) {
            continue;
        }
        // The output of the failed command is kept in the agent's stderr file.
        let _unkept = output(&run.stderr()).and_then(|mut file| file.write_all(&attended.said));
        let agent = launch.adapter.name();
        let words = last_output(&attended.said, b"");
        return Err(match attended.exit {
            None => LaunchError::Silent { agent, limit, words },
            exit => LaunchError::Died { agent, exit, advice: control.advice(&words), words },
        });
    }
    Ok(())
}
