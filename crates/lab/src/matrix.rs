//! The table of versions on the conformance page: one line per agent and version, made by `lab
//! versions`.
//!
//! A run that plays some versions replaces their lines and leaves the others; `lab run`, which writes
//! the rest of the page, keeps this section unchanged.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::report::Row;
use crate::versions::{self, Table};

const HEADING: &str = "## Versions\n";

/// One line: the agent, the version, and the line itself.
struct Line {
    agent: String,
    version: String,
    text: String,
}

/// Returns the section with the lines of these rows replaced, or of a page without one, made.
#[must_use]
pub fn section(page: &str, rows: &[Row<'_>], table: &Table, date: &str) -> String {
    let mut lines = lines(existing(page).unwrap_or_default());
    for new in played(rows, table, date) {
        lines.retain(|l| (l.agent.as_str(), l.version.as_str()) != (&new.agent, &new.version));
        lines.push(new);
    }
    let rank = |l: &Line| table.packages().iter().position(|p| p.shown() == l.agent);
    lines.sort_by(|a, b| {
        rank(a).cmp(&rank(b)).then_with(|| versions::order(&b.version, &a.version))
    });
    let mut out = format!(
        "{HEADING}\n\
         Made by `just lab-versions`: the scenarios that do not wait for a file of the newest version, played\n\
         with every version that agentctl promises to judge right (`crates/lab/versions.toml`). **unknown** counts\n\
         comparisons, and is allowed only for the reasons given; any other `unknown`, and any wrong answer, fails the run.\n\
         Another version: `just lab-versions --version claude-code=2.1.330`, or `=latest`.\n\n\
         | agent | version | played | scenarios | comparisons | right | unknown | wrong |\n|---|---|---|---|---|---|---|---|\n"
    );
    for line in lines {
        out.push_str(&line.text);
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Puts a section into a page, in place of the existing one, or before the last paragraph.
#[must_use]
pub fn with_section(page: &str, section: &str) -> String {
    if let Some(old) = existing(page) {
        return page.replacen(old, section, 1);
    }
    let end = page.rfind("\nTo repeat it:").map_or(page.len(), |at| at + 1);
    format!("{}{section}{}", &page[..end], &page[end..])
}

/// Returns the section of a page, up to the next heading or the last paragraph.
#[must_use]
pub fn existing(page: &str) -> Option<&str> {
    let start = page.find(HEADING)?;
    let body = &page[start + HEADING.len()..];
    let end = ["\n## ", "\nTo repeat it:"].iter().filter_map(|e| body.find(e)).min();
    let end = end.map_or(page.len(), |at| start + HEADING.len() + at + 1);
    Some(&page[start..end])
}

fn lines(section: &str) -> Vec<Line> {
    let rows = section.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| agent "));
    let line = |text: &str| {
        let mut cells = text.trim_matches('|').split('|').map(str::trim);
        let (agent, version) = (cells.next()?.to_owned(), cells.next()?.to_owned());
        Some(Line { agent, version, text: text.to_owned() })
    };
    rows.filter_map(line).collect()
}

fn played(rows: &[Row<'_>], table: &Table, date: &str) -> Vec<Line> {
    let mut seen: Vec<(&str, &str)> =
        rows.iter().map(|r| (r.scenario.agent, r.version.as_str())).collect();
    seen.dedup();
    let shown = |agent: &str| {
        let own = table.packages().iter().find(|p| p.name == agent);
        own.map_or(agent, |p| p.shown()).to_owned()
    };
    let line = |(agent, version): (&str, &str)| {
        let own: Vec<&Row<'_>> =
            rows.iter().filter(|r| r.scenario.agent == agent && r.version == version).collect();
        let agent = shown(agent);
        let text = format!("| {agent} | {version} | {date} | {} |", figures(&own));
        Line { agent, version: version.to_owned(), text }
    };
    seen.into_iter().map(line).collect()
}

/// Counts the scenarios and comparisons of one version.
fn figures(rows: &[&Row<'_>]) -> String {
    let checks = || rows.iter().flat_map(|r| &r.played.checks);
    let count = |verdict| checks().filter(|c| c.verdict == verdict).count();
    let reasons: BTreeSet<&str> =
        rows.iter().flat_map(|r| r.reasons()).map(|r| r.unwrap_or("**NOT HONEST**")).collect();
    let mut unknown = count(crate::judge::Verdict::Unknown).to_string();
    if !reasons.is_empty() {
        let reasons: Vec<&str> = reasons.into_iter().collect();
        // Writing to a String cannot fail.
        let _infallible = write!(unknown, ": {}", reasons.join("; "));
    }
    let mut wrong = count(crate::judge::Verdict::Wrong).to_string();
    let not_played: Vec<&str> =
        rows.iter().filter(|r| r.played.trouble.is_some()).map(|r| r.scenario.name).collect();
    let wrong_in: Vec<&str> =
        rows.iter().filter(|r| r.word() == "WRONG").map(|r| r.scenario.name).collect();
    if !wrong_in.is_empty() {
        let _infallible = write!(wrong, ": **{}**", wrong_in.join(", "));
    }
    if !not_played.is_empty() {
        let _infallible = write!(wrong, "; **not played: {}**", not_played.join(", "));
    }
    let right = count(crate::judge::Verdict::Right);
    format!("{} | {} | {right} | {unknown} | {wrong}", rows.len(), checks().count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Check, Verdict};
    use crate::play::Played;

    fn row(version: &str, verdict: Verdict) -> Row<'static> {
        let mut all = crate::scenario::all();
        let scenario = all.find(|s| s.agent == "claude-code" && s.name == "version-call");
        let check = Check { alive: true, verdict, ..Check::of("m", true, String::new()) };
        let played = Played { checks: vec![check], trouble: None, notes: Vec::new() };
        Row { scenario: scenario.expect("it exists"), version: version.into(), played }
    }

    #[test]
    fn a_run_replaces_its_own_lines_and_leaves_the_rest_of_the_page() {
        let table = versions::table().expect("the table is read");
        let page = "# Page\n\n## codex 1\n\nx\n\nTo repeat it: y\n";
        let first = section(page, &[row("2.0.77", Verdict::Unknown)], table, "2026-01-01");
        let page = with_section(page, &first);
        let second = section(&page, &[row("2.1.325", Verdict::Right)], table, "2026-01-02");
        let page = with_section(&page, &second);
        assert!(page.starts_with("# Page\n\n## codex 1\n\nx\n\n## Versions\n"), "{page}");
        assert!(page.ends_with("\n\nTo repeat it: y\n"), "{page}");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        let newest = at("| claude-code | 2.1.325 | 2026-01-02 | 1 | 1 | 1 | 0 | 0 |");
        let oldest = at(
            "| claude-code | 2.0.77 | 2026-01-01 | 1 | 1 | 0 | 1: this version writes no live record | 0 |",
        );
        assert!(newest < oldest);
        assert_eq!(page.matches("## Versions").count(), 1);
    }

    #[test]
    fn an_unlisted_unknown_is_reported() {
        let table = versions::table().expect("the table is read");
        let made = section("", &[row("2.1.325", Verdict::Unknown)], table, "d");
        assert!(made.contains("1: **NOT HONEST**"), "{made}");
        assert!(!row("2.1.325", Verdict::Unknown).passes());
        assert!(row("2.0.77", Verdict::Unknown).passes());
    }
}
