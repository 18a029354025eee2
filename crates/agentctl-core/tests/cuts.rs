//! A transcript cut at any byte: bytes behind the last newline are not a line yet, and never a fact.
//!
//! Every recorded transcript of every agent is cut at random places and read through its adapter: the
//! record must equal that of the same file cut at its last newline, and nothing may panic.
#![allow(clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_core::adapters::{ALL, Adapter, Depth, Look, Record, Root, Turn};
use agentctl_core::host::Host;
use agentctl_core::kernel::{Kernel, Table};
use agentctl_core::model::{Locator, Time};
use proptest::prelude::*;

fn clock() -> Time {
    Time::from_millis(1_794_740_000_000).expect("a time")
}

fn look(home: &Path) -> Look {
    let host = Host::new(home, Kernel::open().expect("a kernel"), clock);
    Look {
        now: host.now(),
        host: Arc::new(host),
        table: Arc::new(Table::default()),
        deadline: Instant::now() + Duration::from_mins(1),
    }
}

/// Every recorded transcript, with the adapter that reads it.
fn recorded() -> Vec<(&'static dyn Adapter, PathBuf)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures");
    let mut found = Vec::new();
    for &adapter in ALL {
        let mut pending = vec![fixtures.join(adapter.name())];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).expect("listed").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    pending.push(path);
                } else if is_transcript(&path) {
                    found.push((adapter, path));
                }
            }
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    found
}

fn is_transcript(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let places = ["/projects/", "/.codex/sessions/", "/agentctl-demo/sessions/"];
    text.ends_with(".jsonl") && places.iter().any(|place| text.contains(place))
}

fn read(adapter: &'static dyn Adapter, home: &Path, bytes: &[u8]) -> Record {
    let path = home.join("transcript.jsonl");
    fs::write(&path, bytes).expect("written");
    let (look, root) = (look(home), Root::known(home.to_owned()));
    let locator = Locator { id: "x".into(), path: Some(path), parent: None };
    adapter.store(&look, &root).record(&locator, Depth::Whole)
}

/// Returns a record as text, without the time of the reading.
fn told(record: &Record) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        record.turn,
        record.cwd,
        record.model,
        record.title,
        record.prompt,
        record.last_activity_at,
        record.tokens,
        record.cost_usd
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_torn_line_is_never_a_fact(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        but_for_its_newline in any::<bool>(),
    ) {
        let all = recorded();
        prop_assert!(all.len() > 60, "{} recorded transcripts", all.len());
        let (adapter, path) = which.get(&all);
        let bytes = fs::read(path).expect("readable");
        let mut cut = at.index(bytes.len() + 1);
        if but_for_its_newline {
            // The hardest case: the line is there, only nothing says that it is all of it.
            cut = bytes[cut..].iter().position(|b| *b == b'\n').map_or(cut, |newline| cut + newline);
        }
        let whole = bytes[..cut].iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
        let home = tempfile::tempdir().expect("a directory");
        let torn = read(*adapter, home.path(), &bytes[..cut]);
        let clean = read(*adapter, home.path(), &bytes[..whole]);
        prop_assert_eq!(told(&torn), told(&clean), "{} cut at {}", path.display(), cut);
    }

    #[test]
    fn rubbish_between_lines_changes_nothing_but_itself(
        which in any::<prop::sample::Index>(),
        rubbish in proptest::collection::vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 0..300),
    ) {
        let all = recorded();
        let (adapter, path) = which.get(&all);
        let bytes = fs::read(path).expect("readable");
        let home = tempfile::tempdir().expect("a directory");
        let before = read(*adapter, home.path(), &bytes);
        let mut soiled = bytes.clone();
        soiled.extend(&rubbish);
        soiled.push(b'\n');
        let mut after = read(*adapter, home.path(), &soiled);
        // The damaged last line may have contained the end of the turn: then the state is not known.
        if matches!(after.turn, Turn::Undecided(_)) {
            after.turn = before.turn.clone();
        }
        prop_assert_eq!(told(&before), told(&after), "{}", path.display());
        for line in [&rubbish[..], &bytes[..bytes.len().min(2000)]] {
            drop(adapter.messages(line));
        }
    }
}
