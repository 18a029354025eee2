//! Pinned versions of the real agents, from npm, in a cache outside the tree.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An agent as npm knows it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Our name for the agent.
    pub agent: &'static str,
    /// The package.
    pub name: &'static str,
    /// The version the scenarios were written against.
    pub pinned: &'static str,
    /// The Node it wants, where that of the machine may not do.
    pub node: Option<&'static str>,
}

/// The agents of the lab.
pub const PACKAGES: [Package; 4] = [
    Package {
        agent: "claude-code",
        name: "@anthropic-ai/claude-code",
        pinned: "2.1.325",
        node: None,
    },
    Package { agent: "codex", name: "@openai/codex", pinned: "0.166.0", node: None },
    Package { agent: "opencode", name: "opencode-ai", pinned: "1.18.33", node: None },
    Package { agent: "openclaw", name: "openclaw", pinned: "2026.9.6", node: Some("26") },
];

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
    let folder = cache.join(format!("{}-{version}", package.agent));
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
    let node = match package.node {
        Some(version) => {
            let node = Package { agent: "node", name: "node", pinned: "", node: None };
            Some(install(node, version, cache)?.bin)
        }
        None => None,
    };
    let mut said = String::new();
    for _ in 0..3 {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "--loglevel=error",
            "--prefix",
        ]);
        npm.arg(&folder).arg(format!("{}@{version}", package.name));
        if let Some(bin) = &node {
            // What it runs while it is installed must be run by that Node already.
            let path = std::env::var_os("PATH").unwrap_or_default();
            npm.env("PATH", format!("{}:{}", bin.display(), path.to_string_lossy()));
        }
        match npm.output() {
            Ok(output) if output.status.success() => {
                if let Some(bin) = &node {
                    let _there =
                        std::os::unix::fs::symlink(bin.join("node"), installed.bin.join("node"));
                }
                std::fs::write(&complete, "").map_err(|e| e.to_string())?;
                return Ok(installed);
            }
            Ok(output) => said = format!("npm: {}", String::from_utf8_lossy(&output.stderr).trim()),
            Err(error) => said = format!("npm: {error}"),
        }
    }
    Err(format!("{}@{version} could not be installed after three tries: {said}", package.name))
}
