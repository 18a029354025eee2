//! One file per class of attack. The attackers and the promise against each are listed in SECURITY.md;
//! a test names the finding it reproduces (S1 to S23) in its doc comment.

mod answers;
mod completions;
mod daemon_answers;
mod databases;
mod files;
mod foreign_homes;
mod forged_records;
mod gateways;
mod hooks;
mod listeners;
mod names;
mod paths;
mod processes;
mod programs;
mod stopping;
mod tables;
mod words;
