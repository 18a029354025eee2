//! The promised versions of each agent and the honest unknowns, read from `versions.toml`.

use std::cmp::Ordering;
use std::process::Command;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::judge::{Check, Verdict};
use crate::scenario::Scenario;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    agent: Vec<Promised>,
    unknown: Vec<HonestUnknown>,
}

/// The versions of one package of an agent, newest first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promised {
    /// The name that the scenarios use.
    pub name: String,
    /// The name that people use, where it is another.
    shown_as: Option<String>,
    /// The versions.
    pub versions: Vec<String>,
}

impl Promised {
    /// Returns the name that people use.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.shown_as.as_deref().unwrap_or(&self.name)
    }
}

/// One situation in which `unknown` is the best possible answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HonestUnknown {
    agent: String,
    /// The first version it is true of.
    from: Option<String>,
    /// The last version it is true of.
    until: Option<String>,
    /// All scenarios, if there are none.
    #[serde(default)]
    scenarios: Vec<String>,
    /// Also true after the last process of the session has ended.
    #[serde(default)]
    ended: bool,
    /// True of the outcome of an ended session only: its status must be right.
    #[serde(default)]
    outcome: bool,
    because: String,
}

/// The table of this tree. A table that cannot be parsed is a mistake in the tree, and stops the lab.
pub static TABLE: LazyLock<Result<Table, String>> = LazyLock::new(|| {
    toml::from_str(include_str!("../versions.toml")).map_err(|e| format!("versions.toml: {e}"))
});

/// Returns the table.
pub fn table() -> Result<&'static Table, String> {
    TABLE.as_ref().map_err(Clone::clone)
}

impl Table {
    /// Returns the packages, in the order of the table.
    #[must_use]
    pub fn packages(&self) -> &[Promised] {
        &self.agent
    }

    /// Returns the newest promised version of an agent.
    #[must_use]
    pub fn newest(&self, agent: &str) -> Option<&str> {
        let promised = self.agent.iter().find(|p| p.name == agent)?;
        promised.versions.first().map(String::as_str)
    }

    /// Reads `AGENT=VERSION`: the package that has this version, and the version. `latest` is resolved by npm;
    /// a version that is not in the table belongs to the agent's first package.
    pub fn named(&self, text: &str) -> Result<(&Promised, String), String> {
        let (agent, version) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is not AGENT=VERSION"))?;
        let mut own = self.agent.iter().filter(|p| p.name == agent || p.shown() == agent);
        let listed = own.clone().find(|p| p.versions.iter().any(|v| v == version));
        let promised = listed.or_else(|| own.next());
        let promised = promised.ok_or_else(|| format!("there is no package of {agent}"))?;
        let version = if version == "latest" { latest(promised)? } else { version.to_owned() };
        Ok((promised, version))
    }

    /// Returns why `unknown` is honest for this check, if it is.
    #[must_use]
    pub fn reason(&self, scenario: &Scenario, version: &str, check: &Check) -> Option<&str> {
        let agent = scenario.agent.strip_suffix("-old").unwrap_or(scenario.agent);
        let fits = |u: &&HonestUnknown| {
            u.agent == agent
                && (u.scenarios.is_empty() || u.scenarios.iter().any(|s| s == scenario.name))
                && u.from.as_ref().is_none_or(|f| order(f, version).is_le())
                && u.until.as_ref().is_none_or(|l| order(version, l).is_le())
                && u.outcome == check.outcome_only
                && (check.alive || u.ended || u.outcome)
        };
        let told = self.unknown.iter().find(fits).map(|u| u.because.as_str());
        let told = told.or(scenario.unknown_because);
        told.filter(|_| check.verdict == Verdict::Unknown)
    }
}

/// Asks npm for the newest version of a package.
fn latest(promised: &Promised) -> Result<String, String> {
    let package = crate::install::package(&promised.name)?.name;
    let output = Command::new("npm").args(["view", package, "version"]).output();
    let output = output.map_err(|e| format!("npm: {e}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !version.is_empty() {
        return Ok(version);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("npm does not know the newest version of {package}: {said}"))
}

/// Compares two versions number by number.
#[must_use]
pub fn order(a: &str, b: &str) -> Ordering {
    let numbers = |v: &str| -> Vec<u64> { v.split('.').map_while(|n| n.parse().ok()).collect() };
    numbers(a).cmp(&numbers(b))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn check(verdict: Verdict, alive: bool) -> Check {
        Check { verdict, alive, ..Check::of("", true, String::new()) }
    }

    fn scenario(agent: &str, name: &str) -> &'static Scenario {
        let mut all = crate::scenario::all();
        all.find(|s| s.agent == agent && s.name == name).expect("the scenario exists")
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(order("2.1.100", "2.1.77"), Ordering::Greater);
        assert_eq!(order("0.99.0", "0.100.0"), Ordering::Less);
        assert_eq!(order("1.5.0", "1.5.0"), Ordering::Equal);
    }

    #[test]
    fn every_entry_names_agents_and_scenarios_that_exist() {
        let table = table().expect("the table is read");
        for unknown in &table.unknown {
            let own =
                |s: &&Scenario| s.agent.strip_suffix("-old").unwrap_or(s.agent) == unknown.agent;
            assert!(crate::scenario::all().any(|s| own(&s)), "{unknown:?}");
            for name in &unknown.scenarios {
                assert!(crate::scenario::all().any(|s| own(&s) && s.name == name), "{unknown:?}");
            }
        }
        for promised in table.packages() {
            assert!(crate::install::package(&promised.name).is_ok(), "{promised:?}");
            assert!(!promised.versions.is_empty(), "{promised:?}");
        }
    }

    #[test]
    fn packages_promised_versions_and_scenarios_are_of_the_same_agents() {
        let table = table().expect("the table is read");
        let names = |all: &mut dyn Iterator<Item = &str>| -> BTreeSet<String> {
            all.map(str::to_owned).collect()
        };
        let packages = names(&mut crate::scenario::AGENTS.iter().map(|a| a.package.agent));
        assert_eq!(names(&mut table.packages().iter().map(|p| p.name.as_str())), packages);
        assert_eq!(names(&mut crate::scenario::all().map(|s| s.agent)), packages);
    }

    #[test]
    fn unknown_is_honest_only_for_the_versions_and_moments_named() {
        let table = table().expect("the table is read");
        let call = scenario("claude-code", "version-call");
        let alive = check(Verdict::Unknown, true);
        assert!(table.reason(call, "2.0.77", &alive).is_some());
        assert!(table.reason(call, "2.1.100", &alive).is_some());
        assert_eq!(table.reason(call, "2.1.150", &alive), None);
        assert_eq!(table.reason(call, "2.0.77", &check(Verdict::Unknown, false)), None);
        assert_eq!(table.reason(call, "2.0.77", &check(Verdict::Wrong, true)), None);
    }

    #[test]
    fn a_version_belongs_to_the_package_that_has_it() {
        let table = table().expect("the table is read");
        let (old, version) = table.named("pi=0.73.1").expect("a promised version");
        assert_eq!((old.name.as_str(), version.as_str()), ("pi-old", "0.73.1"));
        let (new, version) = table.named("pi=1.6.0").expect("a newer version");
        assert_eq!((new.name.as_str(), version.as_str()), ("pi", "1.6.0"));
        assert!(table.named("unheard-of=1").is_err());
    }
}
