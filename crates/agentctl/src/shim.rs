//! The parent of exactly one launched agent, and the moment in which a process becomes that agent.
//!
//! Both are hidden subcommands, looked at before any argument is parsed, so that what stays behind each
//! agent is small. The shim is no witness: nobody asks it whether a session lives. Kill it and the agent
//! goes on; only its exit code will not be known.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::fleet;
use agentctl_core::hooks::{self, Facts};
use agentctl_core::kernel::{Kernel, Spawn, Stdio, adopt_orphans, become_program, inherited, reap};
use agentctl_core::launch::{self, AgentEnv};
use agentctl_core::marks::{AGENT_ENV, MARKER, Marker, SHIM, STARTER};
use agentctl_core::model::Exit;
use agentctl_core::resolve::resolve;
use agentctl_core::runs::{HookMoment, HookReport, Run, RunEnd, Spec, Started};

/// Orphans of the agent are kept together so long after its end, for whoever stops it.
const LINGER: Duration = Duration::from_secs(5);

/// Runs one of the two, if that is what was asked for.
#[must_use]
pub fn dispatch() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let result = match args.next()?.to_str()? {
        SHIM => parent(&args.collect::<Vec<_>>()),
        STARTER => become_agent(&args.collect::<Vec<_>>()),
        _ => return None,
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The agent's own stderr, or nobody's.
            let _unread = writeln!(io::stderr(), "agentctl: {error}");
            ExitCode::from(127)
        }
    })
}

fn usage() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this subcommand is for agentctl itself")
}

/// Takes over the mutexes of a launch, by their numbers.
fn held(numbers: &OsString) -> io::Result<Vec<OwnedFd>> {
    let numbers = numbers.to_str().ok_or_else(usage)?.split(',').filter(|n| !n.is_empty());
    numbers.map(|n| inherited(n.parse().map_err(|_| usage())?)).collect()
}

/// `exec-agent <run> <mutex> <program> <args…>`: marks itself and becomes the agent.
fn become_agent(args: &[OsString]) -> io::Result<()> {
    let [run, mutexes, program, rest @ ..] = args else { return Err(usage()) };
    // From here on the agent's exec, and nothing else, gives the directory free.
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

/// `shim <run folder> <mutex> <program> <args…>`: starts the agent, sees it end, says how.
fn parent(args: &[OsString]) -> io::Result<()> {
    let [folder, mutexes, rest @ ..] = args else { return Err(usage()) };
    adopt_orphans()?;
    let run = Run::at(Path::new(folder), rustix::process::geteuid().as_raw()).ok_or_else(usage)?;
    let agent = match start(&run, mutexes, rest) {
        Ok(agent) => agent,
        Err(error) => {
            // Whoever launched it reads it there, as the agent's own last words.
            writeln!(launch::output(&run.stderr())?, "agentctl: {error}")?;
            let exit = Exit { code: Some(127), signal: None };
            return run.write_ended(&RunEnd { exit, at: crate::config::clock() });
        }
    };
    // The folder may be wiped, or the disk full: that is no reason to leave the agent alone.
    let _unkept = name_agent(&run, agent);
    let exit = loop {
        match reap()? {
            Some((pid, exit)) if pid == agent => break exit,
            Some(_) => {}
            None => return Err(io::Error::other("the agent is not ours to wait for")),
        }
    };
    let ended = RunEnd { exit, at: crate::config::clock() };
    let _unkept = run.write_ended(&ended);
    if let Some(spec) = run.spec() {
        complete(&run, &spec, &ended);
    }
    linger();
    Ok(())
}

/// Writes which process the agent became.
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

/// Starts the process that becomes the agent, and hands it the directory's mutex.
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
        stdin: Stdio::File(File::open(run.prompt())?),
        stdout: Stdio::File(launch::output(&run.stdout())?),
        stderr: Stdio::File(launch::output(&run.stderr())?),
        // The shim's own hold on the directory ends as soon as the agent-to-be has one.
        keep: held(mutexes)?,
    };
    Ok(spawn.detached()?.id())
}

/// Runs what was wanted at the end, with what is then known of the session.
fn complete(run: &Run, spec: &Spec, ended: &RunEnd) {
    let Some(hook) = &spec.on_complete else { return };
    let host = match crate::config::host() {
        Ok(host) => host,
        Err(failure) => {
            // There is no world to look at; that it was not run is told in its place.
            let error = Some(format!("it was not run: {failure}"));
            let report = HookReport { exit: None, error, at: crate::config::clock() };
            let _unkept = run.write_report(HookMoment::Complete, &report);
            return;
        }
    };
    let id = fleet::session_of(&host, ALL, run, spec);
    let session = id.as_ref().and_then(|id| {
        let found = resolve(&host, ALL, &format!("{}:{id}", spec.adapter));
        fleet::inspect(&host, ALL, found.targets.first()?).session
    });
    let began = run.started().map_or(spec.at, |s| s.at);
    let facts = Facts::of(HookMoment::Complete, spec, id.as_deref(), session.as_ref());
    let facts = facts.ended(ended.exit, began, ended.at);
    let _kept = hooks::run(&host, HookMoment::Complete, hook, &facts, run);
}

/// Stays the parent of what the agent left behind until that is gone, or for a few seconds.
fn linger() {
    let (sender, alone) = channel();
    std::thread::spawn(move || {
        while let Ok(Some(_)) = reap() {}
        let _leaving: Result<(), _> = sender.send(());
    });
    let _late = alone.recv_timeout(LINGER);
}

/// How an agent's end is shown: never as a status.
#[must_use]
pub fn words(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "-".into(),
    }
}
