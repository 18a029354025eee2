//! What an agent's own program has to do before the agent can be started: bounded, and fatal to the
//! launch when it fails.

use std::fs::File;
use std::io::Write;

use super::{LaunchError, Starting, io, last_words, output};
use crate::host::Host;
use crate::kernel::{Spawn, Stdio};
use crate::model::Exit;
use crate::native::private;
use crate::runs::Run;

/// So much of what it says is kept.
const SAID_BYTES: u64 = 64 << 10;

/// Runs what the agent asks for, one after the other, in the agent's directory and environment.
pub(super) fn run(host: &Host, starting: &Starting<'_>, run: &Run) -> Result<(), LaunchError> {
    let Starting { launch, control, start, .. } = *starting;
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
            .attended(limit, SAID_BYTES)
            .map_err(io("what has to be run before the agent cannot be started"))?;
        // It has been read: nothing but what was said is kept.
        let _kept = std::fs::remove_file(&told);
        if matches!(attended.exit, Some(Exit { code: Some(0), .. })) {
            continue;
        }
        // Said by the agent's own program before there was an agent; kept where its words are.
        let _unkept = output(&run.stderr()).and_then(|mut file| file.write_all(&attended.said));
        let agent = launch.adapter.name();
        let words = last_words(&attended.said, b"");
        return Err(match attended.exit {
            None => LaunchError::Silent { agent, limit, words },
            exit => LaunchError::Died { agent, exit, advice: control.advice(&words), words },
        });
    }
    Ok(())
}
