//! Three hidden subcommands: the shim, which is the parent of exactly one launched agent, the starter, which marks
//! its own process and then executes the agent, and the parent of the command of a fuse.
//!
//! They are handled before arguments are parsed, so that the shim beside each agent needs little memory. No
//! status depends on the shim: if it is killed, the agent goes on and only its exit code is lost.

mod fuse_action;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use agentctl_core::adapters::ALL;
use agentctl_core::fleet::{self, Fleet};
use agentctl_core::hooks::{self, Facts};
use agentctl_core::kernel::{
    Kernel, Spawn, Stdio, adopt_orphans, become_program, endless_pipe, inherited, reap,
};
use agentctl_core::launch::{self, AgentEnv};
use agentctl_core::marks::{AGENT_ENV, FUSE_ACTION, MARKER, Marker, SHIM, STARTER};
use agentctl_core::model::Exit;
use agentctl_core::resolve::resolve;
use agentctl_core::runs::{HookMoment, HookReport, Run, RunEnd, Spec, Started};

/// Runs a hidden subcommand, if the arguments name one.
#[must_use]
pub fn dispatch() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let result = match args.next()?.to_str()? {
        SHIM => parent(&args.collect::<Vec<_>>()).map(|()| ExitCode::SUCCESS),
        STARTER => become_agent(&args.collect::<Vec<_>>()).map(|()| ExitCode::SUCCESS),
        FUSE_ACTION => fuse_action::attend(&args.collect::<Vec<_>>()),
        _ => return None,
    };
    Some(match result {
        Ok(code) => code,
        Err(error) => {
            // stderr is that of the agent, or closed.
            let _unread = writeln!(io::stderr(), "agentctl: {error}");
            ExitCode::from(127)
        }
    })
}

fn usage() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this subcommand is for agentctl itself")
}

/// Takes over the inherited lock files of a launch, given by their descriptor numbers.
fn held(numbers: &OsString) -> io::Result<Vec<OwnedFd>> {
    let numbers = numbers.to_str().ok_or_else(usage)?.split(',').filter(|n| !n.is_empty());
    numbers.map(|n| inherited(n.parse().map_err(|_| usage())?)).collect()
}

/// `exec-agent <run> <locks> <program> <args…>`: marks its own process and executes the agent.
fn become_agent(args: &[OsString]) -> io::Result<()> {
    let [run, mutexes, program, rest @ ..] = args else { return Err(usage()) };
    // Close-on-exec: the directory lock is released when the agent is executed, not earlier.
    let _held = held(mutexes)?;
    let kernel = Kernel::open()?;
    let me = kernel.process(std::process::id())?.ok_or_else(|| io::Error::other("no /proc"))?;
    let marker = Marker {
        run: run.to_string_lossy().into_owned(),
        pid: me.id.pid,
        start_ticks: me.id.start_ticks,
    };
    let error = become_program(program, rest, MARKER, &marker.to_string());
    Err(io::Error::new(error.kind(), format!("{} cannot be run: {error}", program.display())))
}

/// `shim <run folder> <locks> <program> <args…>`: starts the agent, waits for its end, records its exit code.
fn parent(args: &[OsString]) -> io::Result<()> {
    let [folder, mutexes, rest @ ..] = args else { return Err(usage()) };
    adopt_orphans()?;
    let run = Run::at(Path::new(folder), rustix::process::geteuid().as_raw()).ok_or_else(usage)?;
    let agent = match start(&run, mutexes, rest) {
        Ok(agent) => agent,
        Err(error) => {
            // `launch` shows the agent's stderr when it fails.
            writeln!(launch::output(&run.stderr())?, "agentctl: {error}")?;
            let exit = Exit { code: Some(127), signal: None };
            return run.write_ended(&RunEnd { exit, at: crate::config::clock() });
        }
    };
    // The folder may be deleted or the disk full: still wait for the agent.
    let _unkept = name_agent(&run, agent);
    let ended_by_us = attend_server(&run, agent);
    let exit = loop {
        match reap()? {
            Some((pid, exit)) if pid == agent => break exit,
            Some(_) => {}
            None => return Err(io::Error::other("the agent is not ours to wait for")),
        }
    };
    // A server that was ended because its session rests shows the result of the turn, not the signal.
    let exit = ended_by_us.get().copied().unwrap_or(exit);
    let ended = RunEnd { exit, at: crate::config::clock() };
    let _unkept = run.write_ended(&ended);
    if let Some(spec) = run.spec() {
        run_on_complete(&run, &spec, &ended);
    }
    wait_for_orphans();
    Ok(())
}

/// Attends the server of a run on a thread of its own; returns the place of the exit to record if it ends the
/// server. Other runs have nothing to attend.
fn attend_server(run: &Run, agent: u32) -> Arc<OnceLock<Exit>> {
    let result = Arc::new(OnceLock::new());
    if run.spec().is_none_or(|spec| spec.server.is_none()) {
        return result;
    }
    let (run, exit) = (run.clone(), Arc::clone(&result));
    std::thread::spawn(move || {
        // Without a usable configuration the server stays until it is stopped.
        let Ok(host) = crate::config::host() else { return };
        let fleet = Fleet::new(host, ALL);
        let Ok(Some(process)) = fleet.host.kernel.process(agent) else { return };
        launch::attend_server(&fleet, &run, &process.id, &exit);
    });
    result
}

/// Records the process of the agent.
fn name_agent(run: &Run, agent: u32) -> io::Result<()> {
    let kernel = Kernel::open()?;
    let Some(process) = kernel.process(agent)? else { return Ok(()) };
    run.write_started(&Started {
        process: process.id,
        shim: kernel.process(std::process::id())?.map(|me| me.id),
        pid_namespace: kernel.pid_namespace(),
        machine: kernel.machine_id().map(str::to_owned),
        at: crate::config::clock(),
    })
}

/// Starts the starter, which becomes the agent, and hands it the directory lock.
fn start(run: &Run, mutexes: &OsString, command: &[OsString]) -> io::Result<u32> {
    let mut exec: Vec<OsString> = vec![STARTER.into(), run.id.clone().into(), mutexes.clone()];
    exec.extend(command.iter().cloned());
    let env = std::env::var_os(AGENT_ENV).and_then(|v| serde_json::from_str(v.to_str()?).ok());
    let env: AgentEnv = env.unwrap_or_default();
    let mut unset = env.unset;
    unset.push(AGENT_ENV.to_owned());
    let spawn = Spawn {
        program: std::env::current_exe()?,
        args: exec,
        set: env.set.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
        unset,
        cwd: std::env::current_dir()?,
        stdin: Stdio::File(stdin(run)?),
        stdout: Stdio::File(launch::output(&run.stdout())?),
        stderr: Stdio::File(launch::output(&run.stderr())?),
        // The shim's copy of the directory lock is closed once the starter has inherited it.
        keep: held(mutexes)?,
    };
    Ok(spawn.detached()?.id())
}

/// Opens the standard input of the agent: the file of its prompt, or a pipe that begins with its first line.
fn stdin(run: &Run) -> io::Result<File> {
    let first = match std::fs::read(run.first_line()) {
        Ok(first) => first,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return File::open(run.prompt()),
        Err(error) => return Err(error),
    };
    let pipe = endless_pipe(&first)?;
    // The agent has it now; the prompt stays in its own file.
    let _left = std::fs::remove_file(run.first_line());
    Ok(pipe)
}

/// Runs the on-complete hook with the facts about the ended session.
fn run_on_complete(run: &Run, spec: &Spec, ended: &RunEnd) {
    let Some(hook) = &spec.on_complete else { return };
    let host = match crate::config::host() {
        Ok(host) => host,
        Err(failure) => {
            // Without a usable configuration the hook cannot run: record that.
            let error = Some(format!("could not be run: {failure}"));
            let report = HookReport { exit: None, error, at: crate::config::clock() };
            let _unkept = run.write_report(HookMoment::Complete, &report);
            return;
        }
    };
    let fleet = Fleet::new(host, ALL);
    let id = fleet::session_of(&fleet, run, spec);
    let session = id.as_ref().and_then(|id| {
        let found = resolve(&fleet, &format!("{}:{id}", spec.adapter));
        fleet::inspect(&fleet, found.targets.first()?).session
    });
    let began = run.started().map_or(spec.at, |s| s.at);
    let facts = Facts::of(HookMoment::Complete, spec, id.as_deref(), session.as_ref());
    let facts = facts.ended(ended.exit, began, ended.at);
    let _kept = hooks::run(&fleet.host, HookMoment::Complete, hook, &facts, run);
}

/// Waits until the orphans of the agent have ended. The shim stays above them, so that `stop` finds them and none of
/// them answers for an agent.
fn wait_for_orphans() {
    // A directory in which a process is cannot be unmounted.
    let _kept = std::env::set_current_dir("/");
    while let Ok(Some(_)) = reap() {}
}
