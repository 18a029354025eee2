//! Random worktrees, random orders and random races: nothing is ever lost, and what is worthless goes.
//!
//! `AGENTCTL_NEMESIS_SEED` repeats a run, `AGENTCTL_NEMESIS_ROUNDS` makes it longer (`just nemesis-clean`).

use std::path::{Path, PathBuf};
use std::process::Child;

use agentctl_core::worktrees::{CleanAction, CleanNews, CleanSelection};
use testkit::{Repository, sandboxed};

use super::World;
use super::hidden_states::fail_launch;
use super::oracle::Oracle;
use super::states::{Random, State, apply, choose, is_worthless};

/// How many worktrees one repository has. Each is one round.
const ROUNDS_PER_REPOSITORY: usize = 12;

/// The rounds of the normal tests are divided between these, which run side by side.
const PARTS: u64 = 3;

#[test]
fn nothing_is_lost_and_what_is_worthless_goes_first_part() {
    sandboxed(|| part(0));
}

#[test]
fn nothing_is_lost_and_what_is_worthless_goes_second_part() {
    sandboxed(|| part(1));
}

#[test]
fn nothing_is_lost_and_what_is_worthless_goes_third_part() {
    sandboxed(|| part(2));
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn part(number: u64) {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = u64::from(time.expect("after 1970").subsec_nanos());
    let seed = setting("AGENTCTL_NEMESIS_SEED").unwrap_or(now);
    let rounds = setting("AGENTCTL_NEMESIS_ROUNDS").unwrap_or(300) / PARTS;
    println!("AGENTCTL_NEMESIS_SEED={seed}, part {number}, {rounds} rounds");
    let (mut done, mut batch, mut removed) = (0, 0, 0);
    while done < rounds {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(number << 40).wrapping_add(batch);
        let (worktrees, gone) = repository(&mut Random::new(seed), batch);
        done += worktrees;
        removed += gone;
        batch += 1;
    }
    println!("{done} worktrees, {removed} removed, 0 losses");
}

/// A worktree with its states.
struct Subject {
    name: String,
    path: PathBuf,
    states: Vec<State>,
    process: Option<Child>,
    /// Something happened to it while it was cleaned.
    disturbed: bool,
}

/// Makes a repository with worktrees in random states and cleans it. Returns how many worktrees there were and how many
/// went.
fn repository(random: &mut Random, batch: u64) -> (u64, usize) {
    let with_submodule = random.below(3) == 0;
    let world = World::new(with_submodule);
    let count = if with_submodule { ROUNDS_PER_REPOSITORY / 2 } else { ROUNDS_PER_REPOSITORY };
    let names: Vec<String> =
        (0..count).map(|number| format!("g{}/n{number}", number % 3)).collect();
    let mut subjects = Vec::new();
    for name in names {
        let states = choose(random, with_submodule);
        let tree = if with_submodule { world.made(&name) } else { world.made_fast(&name) };
        let mut process = None;
        for state in &states {
            process = apply(&world, &tree, &name, *state).or(process);
        }
        subjects.push(Subject { name, path: tree.path, states, process, disturbed: false });
    }
    let mut oracle = Oracle::look(&world);
    let kind = random.below(4);
    let mut rows = Vec::new();
    if kind < 2 {
        let order = world.order(CleanSelection::All);
        rows = disturbed_clean(&world, &order, random, &mut subjects, &mut oracle);
    } else {
        for at in 0..subjects.len() {
            let mut order = world.named(&subjects[at].name);
            order.force = kind == 3;
            // Without a branch of ours it cannot be named by it.
            let nameless = [State::DetachedCommit, State::BranchIsSymbolic];
            if !subjects[at].states.iter().any(|state| nameless.contains(state)) {
                rows.extend(disturbed_clean(&world, &order, random, &mut subjects, &mut oracle));
            }
        }
    }
    for subject in subjects.iter().filter(|one| one.states.contains(&State::LaunchInProgress)) {
        fail_launch(&world, &subject.name);
    }
    let story = |subject: &Subject| format!("{} {:?}", subject.name, subject.states);
    let lost = oracle.lost(&world, kind == 3);
    let all: Vec<String> = subjects.iter().map(story).collect();
    assert!(lost.is_empty(), "batch {batch}, kind {kind}: lost {lost:#?}\n{all:#?}\n{rows:#?}");
    for subject in &mut subjects {
        let branch = format!("refs/heads/agentctl/{}", subject.name);
        let is_gone =
            !subject.path.exists() && !world.shop.succeeds(["rev-parse", "--verify", &branch]);
        let row = rows.iter().find(|row| row.contains(&format!("{:?}", subject.name)));
        if is_worthless(&subject.states) && !subject.disturbed {
            assert!(is_gone, "batch {batch}: {} is still there: {row:?}", story(subject));
        }
        if let Some(process) = &mut subject.process {
            let missing = [State::MissingFolder, State::NoWorktree];
            let was_there = !subject.states.iter().any(|state| missing.contains(state));
            let (process, is_there) = (process, subject.path.exists() || !was_there);
            assert!(is_there, "batch {batch}: {} {:?} was occupied", subject.name, subject.states);
            process.kill().and_then(|()| process.wait()).expect("killed");
        }
    }
    let removed = rows.iter().filter(|row| row.contains("action: Removed")).count();
    (subjects.len() as u64, removed)
}

/// Cleans, and disturbs some worktrees at some moment of it.
fn disturbed_clean(
    world: &World,
    order: &agentctl_core::worktrees::CleanOrder,
    random: &mut Random,
    subjects: &mut [Subject],
    oracle: &mut Oracle,
) -> Vec<String> {
    let cleaned = world.clean_telling(order, &mut |news| {
        if random.below(6) != 0 {
            return;
        }
        if let Some(place) = disturb(world, &news, random, oracle) {
            for subject in subjects.iter_mut() {
                subject.disturbed |= subject.path == place || place.ends_with(&subject.name);
            }
        }
    });
    let rows = cleaned.worktrees;
    let moved = rows.iter().filter(|row| row.action == CleanAction::Removed);
    for row in moved.filter(|row| row.rescue.is_some()) {
        let rescue = row.rescue.as_ref().expect("filtered");
        assert_eq!(world.shop.git(["rev-parse", &rescue.reference]), rescue.commit);
    }
    rows.iter().map(|row| format!("{row:?}")).collect()
}

/// Does something to a worktree at this moment. Returns the worktree or branch.
fn disturb(
    world: &World,
    news: &CleanNews,
    random: &mut Random,
    oracle: &mut Oracle,
) -> Option<PathBuf> {
    match news {
        CleanNews::Renaming(path) => {
            let name = random.pick(&["late.txt", "late.log", "src/lib.txt"]);
            oracle.add_file(world, &path.join(name), random.below(1 << 40))?;
            Some(path.clone())
        }
        CleanNews::Renamed(aside) => {
            // A program writes by the path that it knows.
            let name = aside.file_name()?.to_str()?.strip_prefix('.')?;
            let path = aside.with_file_name(name.strip_suffix(".agentctl-removing")?);
            std::fs::create_dir_all(&path).ok()?;
            oracle.add_file(world, &path.join("again.txt"), random.below(1 << 40))?;
            Some(path)
        }
        CleanNews::DeletingBranch(branch) => {
            let commit = new_commit(&world.shop, branch);
            world.shop.git(["update-ref", branch, &commit]);
            oracle.add_commit(commit);
            Some(Path::new(branch).to_owned())
        }
        _ => None,
    }
}

fn new_commit(shop: &Repository, parent: &str) -> String {
    let tree = shop.git(["rev-parse", &format!("{parent}^{{tree}}")]);
    shop.git(["commit-tree", &tree, "-p", parent, "-m", "late commit"])
}
