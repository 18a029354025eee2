//! The lab: real agents against a scripted model, judged by what the scenario itself knows.
//!
//! `model` is the scripted model server; `stage` is one scenario's own home, pid namespace and processes;
//! `scenario` lists what is tried; `judge` compares what agentctl says with what was scripted. The judge
//! shares no code with what it judges.
#![allow(clippy::disallowed_methods, clippy::missing_panics_doc)] // it starts programs and reads the world

pub mod model;
