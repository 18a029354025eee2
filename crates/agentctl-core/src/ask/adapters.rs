//! The question `adapters`: which agents are supported, installed or not, and what each can do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::adapters::Adapter;
use crate::adapters::answering::AnsweringAbilities;
use crate::adapters::changes::ChangesTold;
use crate::adapters::control::Abilities;
use crate::host::Host;
use crate::model::SCHEMA_VERSION;

/// The answer to `adapters --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AdaptersDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// One row per agent.
    pub adapters: Vec<AdapterRow>,
}

/// One agent that is supported.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AdapterRow {
    /// The name on the command line.
    pub name: String,
    /// A program of it is on the PATH.
    pub installed: bool,
    /// Its version, if a file beside the program contains it.
    pub version: Option<String>,
    /// The program.
    pub program: Option<String>,
    /// Sees live sessions, also those that were not launched by agentctl.
    pub live: bool,
    /// Sees ended sessions.
    pub history: bool,
    /// When it can detect that a human is needed.
    pub waiting: String,
    /// Counts tokens.
    pub tokens: bool,
    /// Knows the agent's own cost figure.
    pub cost: bool,
    /// Sees subagents.
    pub subagents: bool,
    /// How much its records tell about changed files: `hunks`, `arguments`; null where they tell nothing.
    #[serde(default)]
    pub changes: Option<String>,
    /// How it is controlled; null where it can only be observed.
    pub control: Option<AdapterControl>,
    /// How its live sessions are answered and spoken to; null where no way is known.
    #[serde(default)]
    pub answering: Option<AdapterAnswering>,
}

/// How the live sessions of an agent are answered and spoken to.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AdapterAnswering {
    /// The asks that can be answered from here; `-` for none.
    pub asks: String,
    /// The sessions that take messages while they live; `-` for none.
    pub messages: String,
    /// Why `launch --ask` is refused; null where it is accepted.
    pub no_ask: Option<String>,
    /// Why `launch --keep` is refused; null where it is accepted.
    pub no_keep: Option<String>,
}

impl From<AnsweringAbilities> for AdapterAnswering {
    fn from(can: AnsweringAbilities) -> Self {
        Self {
            asks: can.asks.to_owned(),
            messages: can.messages.to_owned(),
            no_ask: can.no_ask.map(str::to_owned),
            no_keep: can.no_keep.map(str::to_owned),
        }
    }
}

/// How an agent is launched, resumed and stopped.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AdapterControl {
    /// `launch` starts it.
    pub launch: bool,
    /// `resume` continues its sessions.
    pub resume: bool,
    /// `resume --fork` copies them.
    pub fork: bool,
    /// The meaning of `--permissions edits` for it.
    pub edits: String,
    /// The meaning of `--permissions bypass` for it.
    pub bypass: String,
    /// How `stop` ends it.
    pub stop: String,
}

impl From<Abilities> for AdapterControl {
    fn from(can: Abilities) -> Self {
        let Abilities { fork, edits, bypass, stop } = can;
        let (edits, bypass, stop) = (edits.to_owned(), bypass.to_owned(), stop.to_owned());
        Self { launch: true, resume: true, fork, edits, bypass, stop }
    }
}

impl AdapterRow {
    fn of(host: &Host, adapter: &dyn Adapter) -> Self {
        let (can, found) = (adapter.capabilities(), adapter.installation(host));
        Self {
            name: adapter.name().to_owned(),
            installed: found.program.is_some(),
            version: found.version,
            program: found.program.map(|p| p.to_string_lossy().into_owned()),
            live: can.live,
            history: can.history,
            waiting: can.waiting.to_owned(),
            tokens: can.tokens,
            cost: can.cost,
            subagents: can.subagents,
            changes: match can.changes {
                ChangesTold::Hunks => Some("hunks".to_owned()),
                ChangesTold::Arguments => Some("arguments".to_owned()),
                ChangesTold::Nothing(_) => None,
            },
            control: adapter.control().map(|c| c.abilities().into()),
            answering: adapter.answering().map(|a| a.abilities().into()),
        }
    }
}

impl Fleet {
    /// Lists the agents that are supported.
    #[must_use]
    pub fn adapters(&self) -> AdaptersDocument {
        let rows = self.adapters.iter().map(|adapter| AdapterRow::of(&self.host, *adapter));
        AdaptersDocument { schema_version: SCHEMA_VERSION, adapters: rows.collect() }
    }
}
