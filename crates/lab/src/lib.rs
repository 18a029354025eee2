//! The lab: real agents against a scripted model, judged by the scenario's own facts.
//!
//! `versions` lists the promised versions and the honest unknowns; `install` fetches them; `stage` is
//! one scenario's own home, pid namespace, model and processes; `scenario` holds the scenarios, one
//! file per agent; `judge` compares the answers of agentctl with the script; `order` runs agentctl like
//! a user; `report` makes the table and `docs/CONFORMANCE.md`; `record` turns a home into a fixture.
//! The judge shares no code with agentctl: it reads its JSON like any script.
#![allow(clippy::disallowed_methods, clippy::missing_panics_doc)] // it starts programs and reads the world

pub mod install;
pub mod judge;
pub mod matrix;
pub mod model;
pub mod order;
pub mod play;
pub mod process;
pub mod record;
pub mod report;
pub mod scenario;
pub mod stage;
pub mod terminal;
pub mod versions;
