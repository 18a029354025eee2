//! 10,000 sessions of all agents in one home: files, a database at rest and in use, and a gateway.
//!
//! The gateway is a thread of this process; its list is part of the answer and no part of `cat`.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use testkit::gateway::{Gateway, TOKEN};
use testkit::generate::{ALL, Agent};

use crate::measure::{compare, median, ours, repeat};
use crate::promises::{Bench, HISTORY, Home, answers, made, peak_of_history};

const SESSIONS: usize = 10_000;
const EACH: [&[Agent]; 3] = [&[Agent::OpenCode], &[Agent::Pi], &[Agent::PiRust]];

/// A gateway and the configuration that names it, both gone with the value.
struct Beside {
    _gateway: Gateway,
    config: PathBuf,
}

impl Beside {
    fn start(home: &Home) -> Self {
        let gateway = Gateway::start();
        gateway.world().rows.clone_from(&home.manifest.gateway);
        let config = home.path.join(".config/agentctl/config.toml");
        std::fs::create_dir_all(config.parent().expect("a folder")).expect("made");
        let url = gateway.url();
        let text = format!("[[openclaw.gateways]]\nurl = \"{url}\"\ntoken = \"{TOKEN}\"\n");
        std::fs::write(&config, text).expect("written");
        Self { _gateway: gateway, config }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.config);
    }
}

/// Keeps a database in use: its write-ahead log holds pages that are not in it yet.
fn in_use(home: &Path) -> Connection {
    let writer = Connection::open(home.join(".local/share/opencode/opencode.db")).expect("opened");
    writer.pragma_update(None, "wal_autocheckpoint", 0).expect("kept");
    // The same values again: the pages are new, their content is not.
    let again = "update message set time_updated = time_updated where rowid % 50 = 0";
    writer.execute(again, []).expect("written");
    writer
}

/// The lines about one home: its time, its memory, its answers.
fn lines(whose: &str) -> [String; 3] {
    [
        format!("`list -a --since all`, 10,000 sessions {whose}"),
        format!("peak memory of it, {whose}"),
        format!("answers of it, {whose}"),
    ]
}

impl Bench<'_> {
    /// All agents, one gateway, then single agents where that was asked for.
    pub(crate) fn mixed(&mut self) {
        let used = "of all agents, OpenCode's in use";
        if self.any_wanted("of all agents") || self.any_wanted(used) {
            let home = made(ALL, SESSIONS, &self.directory.join("mixed"));
            let _beside = Beside::start(&home);
            self.history_of(&home, "of all agents");
            let writer = in_use(&home.path);
            self.history_of(&home, used);
            writer.close().expect("closed");
        }
        if self.any_wanted("of one gateway") {
            let home = made(&[Agent::OpenClaw], SESSIONS, &self.directory.join("gateway"));
            let _beside = Beside::start(&home);
            self.history_of(&home, "of one gateway");
        }
        for agents in EACH.into_iter().filter(|_| self.options.each) {
            let whose = format!("of {}", agents[0].name());
            if self.any_wanted(&whose) {
                let home = made(agents, SESSIONS, &self.directory.join(agents[0].name()));
                self.history_of(&home, &whose);
            }
        }
    }

    fn any_wanted(&self, whose: &str) -> bool {
        let only = self.options.only.as_deref();
        lines(whose).iter().any(|line| only.is_none_or(|word| line.contains(word)))
    }

    fn history_of(&mut self, home: &Home, whose: &str) {
        let [time, memory, right] = lines(whose);
        let mut list = ours(&home.path, &HISTORY);
        if self.wanted(&time) {
            let megabytes = home.manifest.bytes / 1_000_000;
            if megabytes > 0 {
                let runs = self.options.runs.div_ceil(2);
                let times = compare(runs, &mut home.cat_all(), &mut list);
                self.at_most_ratio(time, &format!("`cat` of {megabytes} MB"), times, Some(0.25));
            } else {
                // A gateway has no files to compare its time with.
                let took = median(repeat(self.options.runs, &mut list));
                self.alone(time, took);
            }
        }
        if self.wanted(&memory) {
            let peak = peak_of_history(&home.path);
            self.at_most_64_mb(memory, peak);
        }
        if self.wanted(&right) {
            let (result, kept) = answers(home);
            self.state(right, result, "all right, no daemon, no cache file".to_owned(), kept);
        }
    }
}
