//! The generator's own tests: the same seed gives the same home, and every line can be read.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

const PLAN: Plan =
    Plan { agents: FILES, sessions: 40, seed: 7, now_ms: 1_794_730_000_000, largest: 1_500_000 };

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let relative = path.strip_prefix(directory).expect("below").to_owned();
                found.insert(relative, fs::read(path).expect("read"));
            }
        }
    }
    found
}

#[test]
fn the_same_seed_makes_the_same_home_and_another_one_another() {
    let dir = tempfile::tempdir().expect("dir");
    let made = |name: &str, plan: &Plan| {
        let manifest = home(plan, &dir.path().join(name)).expect("made");
        let mut files = files(&dir.path().join(name).join("home"));
        // The index names the home's own place.
        files.remove(Path::new(".codex/state_5.sqlite")).expect("an index");
        (manifest, files)
    };
    let first = made("a", &PLAN);
    assert!(first == made("b", &PLAN), "the same plan made different homes");
    let other = made("c", &Plan { seed: 8, ..PLAN });
    assert!(first.1.keys().ne(other.1.keys()), "another seed makes other sessions");
    // A smaller home is the beginning of a larger one, but for how its projects are numbered.
    let few = made("d", &Plan { sessions: 10, ..PLAN });
    assert_eq!(few.0.sessions, first.0.sessions[..10]);
}

#[test]
fn every_line_is_json_and_sizes_are_as_wanted() {
    let dir = tempfile::tempdir().expect("dir");
    let manifest = home(&PLAN, dir.path()).expect("made");
    let mut lines = 0;
    for (path, bytes) in files(&dir.path().join("home")) {
        if path.extension().is_some_and(|e| e == "jsonl") {
            let text = String::from_utf8(bytes).expect("UTF-8");
            assert!(text.ends_with('\n'));
            for line in text.lines() {
                let parsed = serde_json::from_str::<Value>(line);
                parsed.unwrap_or_else(|e| panic!("{}: {e}: {line}", path.display()));
                lines += 1;
            }
        }
    }
    assert!(lines > 1000, "{lines} lines");
    for agent in ["claude-code", "codex"] {
        let of: Vec<&Made> = manifest.sessions.iter().filter(|s| s.adapter == agent).collect();
        assert_eq!(of.len(), if agent == "codex" { 16 } else { 24 });
        let largest = manifest.largest(agent).expect("some").bytes;
        assert!(largest >= 1_490_000, "{agent}: {largest}");
        let median = manifest.median(agent).expect("some").bytes;
        assert!((20_000..200_000).contains(&median), "{agent}: {median}");
        assert!(of.iter().all(|s| s.output_tokens > 0 || s.outcome == Outcome::Failed));
    }
    let outcomes = |wanted| manifest.sessions.iter().filter(|s| s.outcome == wanted).count();
    assert!(outcomes(Outcome::Finished) >= 20);
}

#[test]
fn a_complete_home_is_taken_and_an_unfinished_one_is_made_again() {
    let dir = tempfile::tempdir().expect("dir");
    let plan = Plan { sessions: 5, largest: 0, ..PLAN };
    let first = home(&plan, dir.path()).expect("made");
    let path = dir.path().join("home").join(&first.sessions[0].path);
    fs::write(&path, "changed").expect("written");
    assert_eq!(home(&plan, dir.path()).expect("taken"), first);
    assert_eq!(fs::read(&path).expect("read"), b"changed", "a complete home is left as it is");
    fs::remove_file(dir.path().join("complete.json")).expect("removed");
    assert_eq!(home(&plan, dir.path()).expect("made again"), first);
    assert_ne!(fs::read(&path).expect("read"), b"changed");
}

#[test]
fn the_index_knows_every_thread_and_its_parent() {
    let dir = tempfile::tempdir().expect("dir");
    let manifest = home(&Plan { largest: 0, sessions: 200, ..PLAN }, dir.path()).expect("made");
    let index = dir.path().join("home/.codex/state_5.sqlite");
    let beside = fs::read_dir(index.parent().expect("a folder")).expect("listed").count();
    assert_eq!(beside, 3, "sessions, locks and an index at rest");
    let connection = rusqlite::Connection::open(index).expect("opened");
    let count = |sql: &str| connection.query_row(sql, [], |r| r.get::<_, i64>(0)).expect("counted");
    let codex = manifest.sessions.iter().filter(|s| s.adapter == "codex").count();
    assert_eq!(
        count("select count(*) from threads where thread_source = 'user'"),
        i64::try_from(codex).expect("few")
    );
    let children = count("select count(*) from threads where thread_source = 'subagent'");
    assert!(children > 0 && children == count("select count(*) from thread_spawn_edges"));
    let missing = count("select count(*) from threads where rollout_path not like '%.jsonl'");
    assert_eq!(missing, 0);
}

#[test]
fn a_home_of_all_agents_holds_what_its_manifest_says() {
    let dir = tempfile::tempdir().expect("dir");
    let plan = Plan { agents: ALL, sessions: 200, largest: 0, ..PLAN };
    let manifest = home(&plan, dir.path()).expect("made");
    let of = |agent: Agent| manifest.sessions.iter().filter(move |s| s.adapter == agent.name());
    for (agent, wanted) in
        [(Claude, 70), (Codex, 40), (OpenCode, 50), (Pi, 20), (PiRust, 10), (OpenClaw, 10)]
    {
        assert_eq!(of(agent).count(), wanted, "{agent:?}");
    }
    let place = dir.path().join("home");
    let files = of(Claude).chain(of(Codex)).chain(of(Pi)).chain(of(PiRust));
    for made in files {
        assert_eq!(fs::metadata(place.join(&made.path)).expect("there").len(), made.bytes);
    }
    let database = place.join(opencode::PATH);
    let beside = fs::read_dir(database.parent().expect("a folder")).expect("listed").count();
    assert_eq!(beside, 1, "a database at rest");
    let connection = rusqlite::Connection::open(database).expect("opened");
    let count = |sql: &str| connection.query_row(sql, [], |r| r.get::<_, i64>(0)).expect("counted");
    assert_eq!(count("select count(*) from session where parent_id is null"), 50);
    assert!(count("select count(*) from session where parent_id is not null") > 0);
    for table in ["message", "part"] {
        assert_eq!(count(&format!("select count(*) from {table} where not json_valid(data)")), 0);
    }
    let stray =
        "select count(*) from part p left join message m on m.id = p.message_id where m.id is null";
    assert_eq!(count(stray), 0);
    let listed = |made: &Made| manifest.gateway.iter().any(|row| row["sessionId"] == made.id);
    assert!(of(OpenClaw).all(listed));
    // Another mix in the same place is another home.
    let few = Plan { agents: &[Pi], sessions: 200, largest: 0, ..PLAN };
    assert!(home(&few, dir.path()).expect("made").sessions.iter().all(|s| s.adapter == "pi"));
}
