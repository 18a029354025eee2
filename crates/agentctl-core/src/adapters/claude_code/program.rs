//! Recognises the processes of Claude Code, and those of them that can serve a session.
//!
//! A process is recognised by its program file: the npm package, the native installer's folder, or a
//! file called `claude`. Versions up to 2.1.100 run in Node.js and overwrite their own argument list,
//! so they cannot be proved: they are suspects, which can make an answer `unknown` and may give no answer
//! to an ask, but are never joined or signalled.

use std::collections::HashSet;
use std::path::{Component, Path};

use crate::adapters::runtime::{is_runtime, script};
use crate::adapters::{Look, version_beside};
use crate::kernel::Process;
use crate::native::{bun, file};

/// The names under which the agent's own file is started as a search tool.
const SEARCH_TOOLS: [&str; 3] = ["rg", "ugrep", "bfs"];
/// The npm package.
pub(super) const PACKAGE: &str = "@anthropic-ai/claude-code";

/// Says whether a name may be that of a process of Claude Code. A link to the native installer's program
/// file may have any name; the file itself is named by its version.
pub(super) fn is_candidate(comm: &str, exe_name: &str) -> bool {
    is_agent_name(comm) || is_agent_name(exe_name) || is_version(exe_name)
}

/// Says whether a process is the agent's own program, by its program file or script. `argv[0]` only
/// excludes the search tools, which are the same file.
pub(super) fn is_own_program(process: &Process) -> bool {
    is_program_file(process) || is_named_script(process)
}

/// Says whether a process may be Claude Code although it has no record: its own program file, or an
/// interpreter that calls itself `claude`. A shell script of that name is a wrapper: it has no record.
pub(super) fn is_suspect(process: &Process) -> bool {
    let unproved = || {
        let interpreted = process.exe.as_deref().is_none_or(is_runtime);
        interpreted && (is_agent_name(&process.comm) || is_agent_name(called(process)))
    };
    is_program_file(process) || unproved()
}

fn is_program_file(process: &Process) -> bool {
    let Some(exe) = process.exe.as_deref() else { return false };
    let own = has_own_layout(exe)
        || exe.file_name().is_some_and(|name| is_agent_name(&name.to_string_lossy()))
        || (is_runtime(exe) && script(process).is_some_and(|path| has_own_layout(&path)));
    own && !is_search_tool(process)
}

/// Says whether a process runs a script called `claude`. The kernel names such a process after the
/// script; a program that only got a file of that name as an argument has another name.
fn is_named_script(process: &Process) -> bool {
    let named = process.argv.get(1).and_then(|path| path.rsplit('/').next());
    is_agent_name(&process.comm) && named.is_some_and(is_agent_name)
}

/// Says whether a process runs in an interpreter. Those versions write no start time, no status and, up
/// to 2.0, no live record at all.
pub(super) fn is_interpreted(process: &Process) -> bool {
    process.exe.as_deref().is_some_and(is_runtime)
}

/// Says whether only the name of its program file makes a process look like Claude Code: neither the folder
/// nor the content of the file does.
pub(super) fn is_namesake(process: &Process) -> bool {
    let is_bundle = |exe: &Path| {
        file::open_of_anybody(exe).is_ok_and(|(program, _)| bun::holds_program(&program))
    };
    let layout = |exe: &Path| has_own_layout(exe) || is_runtime(exe) || is_bundle(exe);
    !process.exe.as_deref().is_none_or(layout)
}

/// Says whether a process runs this version or a later one, according to the files beside its program.
pub(super) fn is_since(process: &Process, version: [u32; 3]) -> bool {
    let told = process.exe.as_deref().and_then(|exe| version_beside(exe, PACKAGE));
    let numbers = told.map(|text| text.split('.').map_while(|part| part.parse().ok()).collect());
    numbers
        .is_some_and(|numbers: Vec<u32>| numbers.len() == 3 && numbers.as_slice() >= &version[..])
}

/// Returns the pids of the suspects that only wait for the real agent: a process below them is the same
/// agent in another program file. A process that is recognised only by its file's name (a shim, a
/// copied shell) may have other programs in between; the agent's own package is a launcher only of its
/// children.
pub(super) fn launchers(look: &Look) -> HashSet<u32> {
    let may_serve = |p: &&Process| is_suspect(p) && super::arguments::may_serve_session(&p.argv);
    let agents = look.table.processes.iter().filter(may_serve);
    crate::adapters::launchers::launchers(look, agents, &|above, agent, steps| {
        let by_name_only = || !above.exe.as_deref().is_some_and(has_own_layout);
        above.exe != agent.exe && (steps == 1 || by_name_only())
    })
}

/// Says whether a file name is the agent's. Nix hides the program behind a wrapper; copies are often
/// named after their version.
fn is_agent_name(name: &str) -> bool {
    matches!(name, "claude" | "claude.exe" | ".claude-wrapped" | ".claude-unwrapped")
        || name.strip_prefix("claude-").is_some_and(is_version)
}

/// Returns the base name of `argv[0]`; background processes call themselves `claude bg-spare`.
fn called(process: &Process) -> &str {
    let first = process.argv.first().map_or("", String::as_str);
    let first = first.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default()
}

fn is_search_tool(process: &Process) -> bool {
    SEARCH_TOOLS.contains(&called(process))
}

/// `…/@anthropic-ai/claude-code…/…`, the same of the agent SDK, or `…/claude/versions/<version>`.
fn has_own_layout(path: &Path) -> bool {
    let parts: Vec<&str> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    let package = |pair: &[&str]| {
        let names = ["claude-code", "claude-agent-sdk"];
        let platform = |rest: &str| rest.is_empty() || rest.starts_with('-');
        pair[0] == "@anthropic-ai"
            && names.iter().any(|name| pair[1].strip_prefix(name).is_some_and(platform))
    };
    let in_package = parts.len() > 2 && parts[..parts.len() - 1].windows(2).any(package);
    let installed =
        matches!(parts.as_slice(), [.., "claude", "versions", version] if is_version(version));
    in_package || installed
}

/// `2.1.325`, also with a suffix.
fn is_version(name: &str) -> bool {
    let mut parts = name.splitn(3, '.');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
    };
    is_number(parts.next())
        && is_number(parts.next())
        && parts.next().is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_recognised_by_its_package_or_its_versioned_folder() {
        for own in [
            "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js",
            "/x/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
            "/x/node_modules/@anthropic-ai/claude-code-linux-x64/renamed",
            "/x/node_modules/@anthropic-ai/claude-agent-sdk/cli.js",
            "/home/u/.local/share/claude/versions/2.1.325",
            "/home/u/.local/share/claude/versions/2.2.0-beta.1",
        ] {
            assert!(has_own_layout(Path::new(own)), "{own}");
        }
        for other in [
            "/usr/bin/vim",
            "/x/@anthropic-ai/claude-code",
            "/x/@anthropic-ai/sdk/cli.js",
            "/x/@anthropic-ai/claude-codex/cli.js",
            "/x/claude/versions/current",
            "/x/other/versions/2.1.325",
            "/x/claude/versions/2.1.325/bin/tool",
        ] {
            assert!(!has_own_layout(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_link_of_any_name_to_a_versioned_program_is_a_candidate() {
        assert!(is_candidate("cc", "2.1.325"));
        assert!(is_candidate("cc", "claude.exe"));
        assert!(is_candidate("claude", "node"));
        assert!(is_candidate("claude-2.1.325", "claude-2.1.325"));
        assert!(!is_candidate("claude-monitor", "claude-monitor"));
        assert!(!is_candidate("node", "node"));
        assert!(!is_candidate("python3.11", "python3.11"));
    }
}
