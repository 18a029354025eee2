//! The scenarios: one folder per agent, one function per scenario, one line per agent in [`AGENTS`].

mod alike;
mod below;
mod changes;
pub mod claude_code;
pub mod codex;
mod control;
mod inbox_bars;
pub mod openclaw;
pub mod opencode;
pub mod pi;
mod server_asks;
mod unusual;

use crate::install::Package;
use crate::stage::{Stage, Trouble};

/// Every agent of the lab, in the order of the page. A further agent is a folder of its name, a line here, and
/// its versions in `versions.toml`.
pub static AGENTS: &[&PlayedAgent] = &[
    &claude_code::AGENT,
    &codex::AGENT,
    &opencode::AGENT,
    &pi::AGENT,
    &pi::OLD_AGENT,
    &openclaw::AGENT,
];

/// One agent of the lab: the package that is installed, and the scenarios that are played with it.
pub struct PlayedAgent {
    /// The package.
    pub package: Package,
    /// The scenarios, list by list.
    pub scenarios: &'static [&'static [Scenario]],
}

/// Returns every scenario, agent by agent.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    AGENTS.iter().flat_map(|agent| agent.scenarios.iter().copied().flatten())
}

/// The requirements of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but processes and files: part of the core that CI plays.
    Core,
    /// Nothing but processes and files, played with the full table only.
    Headless,
    /// A terminal (tmux).
    Terminal,
}

/// Which promised versions of its agent a scenario is played with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// The newest: it waits for files that older versions do not write.
    Newest,
    /// All of them.
    Every,
    /// This version and later ones, because earlier ones lack the feature.
    Since(&'static str),
}

/// One scenario: it scripts the truth, waits for facts, and compares.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The agent.
    pub agent: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its description for the page.
    pub shows: &'static str,
    /// Its requirements.
    pub needs: Needs,
    /// Why `unknown` is the best possible answer, where no source exists.
    pub unknown_because: Option<&'static str>,
    /// Which promised versions it is played with.
    pub versions: Versions,
    /// Plays it.
    pub play: fn(&mut Stage) -> Result<(), Trouble>,
}

impl Scenario {
    /// Has it played with every promised version.
    const fn every(mut self) -> Self {
        self.versions = Versions::Every;
        self
    }

    /// Has it played with this version and later ones.
    const fn since(mut self, version: &'static str) -> Self {
        self.versions = Versions::Since(version);
        self
    }

    /// Says whether it is played with this version when versions are compared.
    #[must_use]
    pub fn shows_version(&self, version: &str) -> bool {
        match self.versions {
            Versions::Newest => false,
            Versions::Every => true,
            Versions::Since(first) => crate::versions::order(first, version).is_le(),
        }
    }
}

/// An agent's name, from which its scenarios are listed.
struct Agent(&'static str);

type Play = fn(&mut Stage) -> Result<(), Trouble>;

impl Agent {
    const fn core(&self, name: &'static str, shows: &'static str, play: Play) -> Scenario {
        self.scenario(name, shows, Needs::Core, play)
    }

    const fn headless(&self, name: &'static str, shows: &'static str, play: Play) -> Scenario {
        self.scenario(name, shows, Needs::Headless, play)
    }

    const fn terminal(&self, name: &'static str, shows: &'static str, play: Play) -> Scenario {
        self.scenario(name, shows, Needs::Terminal, play)
    }

    const fn scenario(
        &self,
        name: &'static str,
        shows: &'static str,
        needs: Needs,
        play: Play,
    ) -> Scenario {
        Scenario {
            agent: self.0,
            name,
            shows,
            needs,
            unknown_because: None,
            versions: Versions::Newest,
            play,
        }
    }
}
