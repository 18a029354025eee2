//! The scenarios: one file per agent, one function per scenario, one line each in [`all`].

mod alike;
pub mod claude_code;
pub mod codex;
mod control;
pub mod openclaw;
pub mod opencode;
pub mod pi;
mod unusual;

use crate::stage::{Stage, Trouble};

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

/// Returns every scenario, agent by agent.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    let claude = claude_code::SCENARIOS.iter().chain(&claude_code::CONTROL);
    let codex = codex::SCENARIOS.iter().chain(&codex::CONTROL);
    let pi = pi::SCENARIOS.iter().chain(&pi::CONTROL).chain(pi::OLD).chain(&pi::OLD_CONTROL);
    let opencode = opencode::SCENARIOS.iter();
    claude.chain(codex).chain(opencode).chain(pi).chain(openclaw::SCENARIOS)
}
