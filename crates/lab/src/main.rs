//! `lab`: play the scenarios, keep a page about it, record a home. See the crate's own page.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)] // it talks to people

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Parser, Subcommand};
use lab::install::{Installed, PACKAGES, install};
use lab::play::{self, Props};
use lab::report::{self, Row};
use lab::scenario::{self, Needs, Scenario};

/// Prove what agentctl says against the real agents
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Play scenarios and print the table
    Run(RunArgs),
    /// Play one scenario and keep its home as a fixture
    Record(RecordArgs),
    #[command(hide = true)]
    Play(PlayArgs),
}

#[derive(Args)]
struct RunArgs {
    /// Only these agents
    #[arg(long)]
    agent: Vec<String>,
    /// Only these scenarios
    #[arg(long)]
    scenario: Vec<String>,
    /// Only the headless core that CI plays
    #[arg(long)]
    core: bool,
    /// Another version of Claude Code
    #[arg(long, value_name = "VERSION")]
    claude_code: Option<String>,
    /// Another version of Codex
    #[arg(long, value_name = "VERSION")]
    codex: Option<String>,
    /// Another version of Pi
    #[arg(long, value_name = "VERSION")]
    pi: Option<String>,
    /// The program to judge, instead of building the one of this tree
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    /// Write the page for users here
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Args)]
struct RecordArgs {
    /// The agent
    agent: String,
    /// The scenario
    scenario: String,
    /// The fixture folder to make
    fixture: PathBuf,
    /// Another version
    #[arg(long)]
    version: Option<String>,
}

#[derive(Args)]
struct PlayArgs {
    agent: String,
    scenario: String,
    #[arg(long)]
    version: String,
    #[arg(long)]
    bin: PathBuf,
    #[arg(long)]
    agentctl: PathBuf,
    #[arg(long)]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Order::Run(args) => run(&args),
        Order::Record(args) => record(&args).map(|()| true),
        Order::Play(args) => play_here(&args).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RunArgs) -> Result<bool, String> {
    let wanted: Vec<&Scenario> = scenario::all()
        .filter(|s| args.agent.is_empty() || args.agent.iter().any(|a| a == s.agent))
        .filter(|s| args.scenario.is_empty() || args.scenario.iter().any(|n| n == s.name))
        .filter(|s| !args.core || s.needs == Needs::Core)
        .collect();
    if wanted.is_empty() {
        return Err("no scenario fits".into());
    }
    let stop = interruptible()?;
    let agentctl = match &args.agentctl {
        Some(program) => std::fs::canonicalize(program).map_err(|e| e.to_string())?,
        None => agentctl()?,
    };
    let mut rows = Vec::new();
    for scenario in wanted {
        let props =
            Props { agent: agent(scenario.agent, args)?, agentctl: agentctl.clone(), keep: None };
        let played = play::in_namespace(scenario, &props, &stop);
        let row = Row { scenario, version: props.agent.version, played };
        println!("{}", report::line(&row));
        rows.push(row);
    }
    let failed = rows.iter().filter(|r| !r.passes()).count();
    println!("\n{} passed, {failed} failed", rows.len() - failed);
    if let Some(page) = &args.page {
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let kernel: String = kernel.split(['-', '+']).take(1).collect();
        std::fs::write(page, report::page(&rows, &date, &kernel)).map_err(|e| e.to_string())?;
    }
    Ok(failed == 0)
}

fn record(args: &RecordArgs) -> Result<(), String> {
    let scenario = find(&args.agent, &args.scenario)?;
    let version = args.version.clone();
    let keep = args.fixture.with_extension("home");
    let agent = installed(scenario.agent, version.as_deref())?;
    let props = Props { agent, agentctl: agentctl()?, keep: Some(keep.clone()) };
    let played = play::in_namespace(scenario, &props, &interruptible()?);
    if let Some(trouble) = played.trouble {
        return Err(trouble);
    }
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let source = format!(
        "{} {}, recorded by the lab's scenario `{}`, {date}: {}.\n",
        scenario.agent, props.agent.version, scenario.name, scenario.shows
    );
    lab::record::record(&keep, &args.fixture, &source).map_err(|e| e.to_string())?;
    std::fs::remove_dir_all(&keep).map_err(|e| e.to_string())?;
    println!("{}", args.fixture.display());
    Ok(())
}

fn play_here(args: &PlayArgs) -> Result<(), String> {
    let scenario = find(&args.agent, &args.scenario)?;
    let agent =
        Installed { agent: scenario.agent, version: args.version.clone(), bin: args.bin.clone() };
    let props = Props { agent, agentctl: args.agentctl.clone(), keep: None };
    play::here(scenario, &props, &args.folder)
}

fn find(agent: &str, name: &str) -> Result<&'static Scenario, String> {
    let found = scenario::all().find(|s| s.agent == agent && s.name == name);
    found.ok_or_else(|| format!("there is no scenario {name} of {agent}"))
}

fn agent(name: &str, args: &RunArgs) -> Result<Installed, String> {
    let version = match name {
        "claude-code" => args.claude_code.as_deref(),
        "codex" => args.codex.as_deref(),
        "pi" => args.pi.as_deref(),
        _ => None,
    };
    installed(name, version)
}

fn installed(name: &str, version: Option<&str>) -> Result<Installed, String> {
    let package = PACKAGES.iter().find(|p| p.agent == name);
    let package = *package.ok_or_else(|| format!("there is no package of {name}"))?;
    install(package, version.unwrap_or(package.pinned), &cache()?)
}

/// A cache outside the tree, so that nothing of it is ever committed.
fn cache() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|h| h.join(".cache")));
    Ok(base.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("agentctl-lab"))
}

/// Builds the program that is judged, as users have it.
fn agentctl() -> Result<PathBuf, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "agentctl",
        "--message-format=json",
    ]);
    let output = cargo.current_dir(&workspace).stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|e| format!("cargo: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let built = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    let built = built.filter(|m| m["target"]["name"] == "agentctl");
    let mut programs = built.filter_map(|m| m["executable"].as_str().map(PathBuf::from));
    let program = programs.next_back();
    program.ok_or_else(|| "agentctl could not be built".to_owned())
}

fn interruptible() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|e| e.to_string())?;
    }
    Ok(stop)
}
