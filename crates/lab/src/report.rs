//! The report: a table for the terminal, and `docs/CONFORMANCE.md` for users.

use std::fmt::Write;

use crate::judge::Verdict;
use crate::play::Played;
use crate::scenario::Scenario;
use crate::versions;

/// One line of the table.
pub struct Row<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// With which version.
    pub version: String,
    /// The result.
    pub played: Played,
}

impl Row<'_> {
    /// Returns the reason why `unknown` is honest for each comparison that came out so. `None` where it is not.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = Option<&str>> {
        let table = versions::table().ok();
        let unknown = self.played.checks.iter().filter(|c| c.verdict == Verdict::Unknown);
        unknown.map(move |check| table?.reason(self.scenario, &self.version, check))
    }

    /// Says whether it came out as it must: right, or unknown where no source exists.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self.played.verdict() {
            Verdict::Right => true,
            Verdict::Unknown => self.reasons().all(|reason| reason.is_some()),
            Verdict::Wrong => false,
        }
    }

    /// Returns the word for the terminal and the page.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.played.verdict(), &self.played.trouble) {
            (_, Some(_)) => "NOT PLAYED",
            (Verdict::Right, None) => "right",
            (Verdict::Unknown, None) if self.passes() => "unknown",
            (Verdict::Unknown, None) => "UNKNOWN",
            (Verdict::Wrong, None) => "WRONG",
        }
    }
}

/// Returns one line for the terminal, and the evidence of every check that is not right.
#[must_use]
pub fn line(row: &Row<'_>) -> String {
    let mut out = format!(
        "{:<10}  {:<11} {:<9} {}",
        row.word(),
        row.scenario.agent,
        row.version,
        row.scenario.name
    );
    let mut tell = |text: &str| {
        for line in text.lines() {
            // Writing to a String cannot fail.
            let _infallible = write!(out, "\n            {line}");
        }
    };
    if let Some(trouble) = &row.played.trouble {
        tell(trouble);
    }
    for check in &row.played.checks {
        if let Some(evidence) = &check.evidence {
            tell(&format!("{}:", check.moment));
            tell(evidence);
        }
    }
    for note in &row.played.notes {
        tell(note);
    }
    out
}

/// Returns the page for users.
#[must_use]
pub fn page(rows: &[Row<'_>], date: &str, kernel: &str) -> String {
    let mut out = String::from(
        "# Conformance: what agentctl says about the real agents\n\n\
         Agents change every week. This page is made by `just lab`, which installs the real programs, drives\n\
         them with a scripted model, and compares what `agentctl` says and does with what was scripted. A\n\
         verdict is **right** only if `list`, `list -a`, `status` and `why` all say what is true and agree with\n\
         each other, and if every order did what it says. **unknown** is an honest answer where the agent gives no source; it is counted. **WRONG** is a\n\
         bug of ours.\n\n",
    );
    let count = |word: &str| rows.iter().filter(|r| r.word() == word).count();
    let comparisons: usize = rows.iter().map(|r| r.played.checks.len()).sum();
    let others = rows.iter().filter(|r| !r.passes()).count();
    let _infallible = writeln!(
        out,
        "{date}, Linux {kernel}: {} scenarios, {comparisons} comparisons: {} right, {} unknown, {others} not right.\n",
        rows.len(),
        count("right"),
        count("unknown"),
    );
    let mut agents: Vec<(&str, &str)> =
        rows.iter().map(|r| (r.scenario.agent, r.version.as_str())).collect();
    agents.dedup();
    for (agent, version) in agents {
        let _infallible = writeln!(out, "## {agent} {version}\n");
        out.push_str(
            "| scenario | what it shows | comparisons | agentctl is |\n|---|---|---|---|\n",
        );
        for row in rows.iter().filter(|r| r.scenario.agent == agent) {
            let why = match row.word() {
                "unknown" => {
                    format!("unknown: {}", row.reasons().flatten().next().unwrap_or_default())
                }
                "right" => "right".to_owned(),
                word => format!("**{word}**"),
            };
            let _infallible = writeln!(
                out,
                "| {} | {} | {} | {why} |",
                row.scenario.name,
                row.scenario.shows,
                row.played.checks.len()
            );
        }
        out.push('\n');
    }
    out.push_str(
        "To repeat it: `just lab`. One agent, scenario or version: `just lab --agent codex`,\n\
         `--scenario killed-in-tool`, `--version claude-code=2.1.400`. No account, no key; after the installation\n\
         nothing but loopback is talked to.\n",
    );
    out
}
