//! `lab`: play the scenarios, keep a page about it, record a home. See the crate's own page.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)] // it talks to people

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Parser, Subcommand};
use lab::install::{Installed, install, package};
use lab::play::{self, Played, Props};
use lab::report::{self, Row};
use lab::scenario::{self, Needs, Scenario};
use lab::{matrix, versions};

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
    /// Play every promised version of the agents and print the table
    Versions(VersionsArgs),
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
    /// Another version of an agent than the newest promised one; VERSION may be `latest`
    #[arg(long, value_name = "AGENT=VERSION")]
    version: Vec<String>,
    /// Play this many rounds where a scenario counts in rounds
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// The program to judge, instead of building the one of this tree
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    /// Write the page for users here
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Args)]
struct VersionsArgs {
    /// Only this version, promised or not; VERSION may be `latest`
    #[arg(long, value_name = "AGENT=VERSION")]
    version: Vec<String>,
    /// Only these agents
    #[arg(long)]
    agent: Vec<String>,
    /// Only these scenarios
    #[arg(long)]
    scenario: Vec<String>,
    /// Only the headless core that CI plays
    #[arg(long)]
    core: bool,
    /// The program to judge, instead of building the one of this tree
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    /// Write the table into the page for users
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
    /// The program to judge, instead of building the one of this tree
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
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
    rounds: Option<usize>,
    #[arg(long)]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Order::Run(args) => run(&args),
        Order::Versions(args) => play_versions(&args),
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
    let agentctl = judged(args.agentctl.as_deref())?;
    let named = named_versions(args)?;
    let mut rows = Vec::new();
    for scenario in wanted {
        let agent = installed(scenario.agent, named.get(scenario.agent).map(String::as_str))?;
        let (agentctl, rounds) = (agentctl.clone(), args.rounds);
        let props = Props { agent, agentctl, keep: None, rounds };
        let played = play::in_namespace(scenario, &props, &stop);
        let row = Row { scenario, version: props.agent.version, played };
        println!("{}", report::line(&row));
        rows.push(row);
    }
    let passed = count(&rows);
    if stop.load(Ordering::Relaxed) {
        return Err("interrupted: the page is left as it is".into());
    }
    if let Some(page) = &args.page {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let kernel: String = kernel.split(['-', '+']).take(1).collect();
        let before = std::fs::read_to_string(page).unwrap_or_default();
        let mut text = report::page(&rows, &today(), &kernel);
        if let Some(section) = matrix::existing(&before) {
            text = matrix::with_section(&text, section);
        }
        std::fs::write(page, text).map_err(|e| e.to_string())?;
    }
    Ok(passed)
}

/// Plays the promised versions, or the named ones, newest first. A version that cannot be installed is
/// reported as not played, and the others are played all the same.
fn play_versions(args: &VersionsArgs) -> Result<bool, String> {
    let table = versions::table()?;
    let mut wanted = Vec::new();
    for named in &args.version {
        wanted.push(table.named(named)?);
    }
    if args.version.is_empty() {
        let all = table.packages().iter();
        wanted = all.flat_map(|p| p.versions.iter().map(move |v| (p, v.clone()))).collect();
    }
    wanted.retain(|(p, _)| {
        args.agent.is_empty() || args.agent.iter().any(|a| *a == p.name || a == p.shown())
    });
    let stop = interruptible()?;
    let agentctl = judged(args.agentctl.as_deref())?;
    let mut rows = Vec::new();
    for (promised, version) in wanted {
        let agent = installed(&promised.name, Some(&version));
        let scenarios = scenario::all()
            .filter(|s| s.agent == promised.name && s.shows_version(&version))
            .filter(|s| args.scenario.is_empty() || args.scenario.iter().any(|n| n == s.name))
            .filter(|s| !args.core || s.needs == Needs::Core);
        for scenario in scenarios {
            let played = match &agent {
                Ok(agent) => {
                    let (agent, agentctl) = (agent.clone(), agentctl.clone());
                    let props = Props { agent, agentctl, keep: None, rounds: None };
                    play::in_namespace(scenario, &props, &stop)
                }
                Err(error) => Played::failed(error.clone()),
            };
            let row = Row { scenario, version: version.clone(), played };
            println!("{}", report::line(&row));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Err("no scenario fits".into());
    }
    let passed = count(&rows);
    if stop.load(Ordering::Relaxed) {
        return Err("interrupted: the page is left as it is".into());
    }
    let before = args.page.as_ref().and_then(|p| std::fs::read_to_string(p).ok());
    let section = matrix::section(&before.unwrap_or_default(), &rows, table, &today());
    match &args.page {
        Some(page) => {
            let before = std::fs::read_to_string(page).unwrap_or_default();
            let text = matrix::with_section(&before, &section);
            std::fs::write(page, text).map_err(|e| e.to_string())?;
        }
        None => println!("\n{section}"),
    }
    Ok(passed)
}

/// Prints how many scenarios passed, and says whether all did.
fn count(rows: &[Row<'_>]) -> bool {
    let failed = rows.iter().filter(|r| !r.passes()).count();
    println!("\n{} passed, {failed} failed", rows.len() - failed);
    failed == 0
}

fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Returns the program under test: the named one, or the one of this tree.
fn judged(named: Option<&Path>) -> Result<PathBuf, String> {
    match named {
        Some(program) => std::fs::canonicalize(program).map_err(|e| e.to_string()),
        None => agentctl(),
    }
}

fn record(args: &RecordArgs) -> Result<(), String> {
    let scenario = find(&args.agent, &args.scenario)?;
    let version = args.version.clone();
    let keep = args.fixture.with_extension("home");
    let agent = installed(scenario.agent, version.as_deref())?;
    let agentctl = judged(args.agentctl.as_deref())?;
    let props = Props { agent, agentctl, keep: Some(keep.clone()), rounds: None };
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
    let (agentctl, rounds) = (args.agentctl.clone(), args.rounds);
    let props = Props { agent, agentctl, keep: None, rounds };
    play::here(scenario, &props, &args.folder)
}

fn find(agent: &str, name: &str) -> Result<&'static Scenario, String> {
    let found = scenario::all().find(|s| s.agent == agent && s.name == name);
    found.ok_or_else(|| format!("there is no scenario {name} of {agent}"))
}

/// Returns the versions that were named, by package.
fn named_versions(args: &RunArgs) -> Result<HashMap<String, String>, String> {
    let table = versions::table()?;
    let named = args.version.iter().map(|named| table.named(named));
    named.map(|found| found.map(|(package, version)| (package.name.clone(), version))).collect()
}

fn installed(name: &str, version: Option<&str>) -> Result<Installed, String> {
    let newest = versions::table()?.newest(name);
    let version = version.or(newest).ok_or_else(|| format!("no version of {name} is promised"))?;
    install(package(name)?, version, &cache()?)
}

/// A cache outside the tree, so that nothing of it is ever committed: `AGENTCTL_LAB_CACHE`, or in the user's cache.
fn cache() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(cache) = set("AGENTCTL_LAB_CACHE") {
        return Ok(cache);
    }
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
