//! A gateway that is slow, flaps, lies or is dead, asked again and again: its answer is right or
//! missing, and other answers do not change.
//!
//! Each round gives the gateway other sessions and another behaviour. The oracle is the test's own
//! data: a row that differs from it is wrong, a list that lacks a row without a fault is wrong.
//! `AGENTCTL_FLAPS` sets the number of rounds, `AGENTCTL_SEED` repeats them.
#![cfg(target_os = "linux")]
// Tests build their own host; helpers of tests panic like the tests themselves.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_core::adapters::demo::Demo;
use agentctl_core::adapters::openclaw::OpenClaw;
use agentctl_core::fleet::{self, Adapters, Fleet, Query};
use agentctl_core::host::{Deadlines, Gateway as Configured, Host, Secret};
use agentctl_core::kernel::Kernel;
use agentctl_core::model::{FaultCode, Session, Status, Time};
use serde_json::{Value, json};
use testkit::gateway::{Gateway, Manner, TOKEN};
use testkit::{Dice, TestHome, sandboxed};

/// Longer than anything takes.
const LONG: Duration = Duration::from_mins(1);

static BOTH: Adapters = &[&OpenClaw, &Demo];

fn host(home: &TestHome, gateway: &Gateway, token: &str, limit: Duration) -> Arc<Host> {
    let known = Configured {
        url: gateway.url(),
        token: Some(Secret::Text(token.into())),
        ..Configured::default()
    };
    Arc::new(Host {
        gateways: BTreeMap::from([("openclaw".into(), vec![known])]),
        // Only the gateway is ever late on purpose.
        deadlines: Deadlines { live: LONG, all: LONG, gateway: limit, ..Deadlines::default() },
        ..Host::new(home.path(), Kernel::open().expect("a kernel"), || Time(jiff::Timestamp::now()))
    })
}

fn everything() -> Query {
    Query { all: true, children: true, ..Query::default() }
}

/// The states of a conversation, with the expected status of each.
const STATES: [(Option<&str>, bool, Status); 7] = [
    (Some("running"), true, Status::Running),
    (Some("queued"), true, Status::Running),
    (None, true, Status::Running),
    (Some("done"), false, Status::Idle),
    (Some("failed"), false, Status::Idle),
    (Some("killed"), false, Status::Idle),
    (None, false, Status::Idle),
];

/// A time far from our clock: clock skew must cause no doubt.
fn sometime(dice: &mut Dice) -> i64 {
    [0, -1, 1, 1_794_728_786_726, 4_294_967_296_000, i64::MAX]
        [usize::try_from(dice.below(6)).expect("small")]
}

fn rows(dice: &mut Dice, count: usize) -> Vec<(Value, Status)> {
    let row = |n: usize, dice: &mut Dice| {
        let at = usize::try_from(dice.below(STATES.len() as u64)).expect("small");
        let (word, active, status) = STATES[at];
        let row = json!({
            "key": format!("agent:main:dashboard:{n}"), "sessionId": format!("{n:08}-0000-4000-8000-00000000beef"),
            "classification": "direct", "createdVia": "operator", "hasActiveRun": active, "status": word,
            "createdAt": sometime(dice), "updatedAt": sometime(dice), "endedAt": sometime(dice),
        });
        (row, status)
    };
    (0..count).map(|n| row(n, dice)).collect()
}

fn temper(dice: &mut Dice, rows: usize) -> Manner {
    match dice.below(40) {
        0 => Manner::Mute,
        1 => Manner::NoChallenge,
        2 => Manner::NoAnswer,
        3 => Manner::Drip(1_000),
        4 => Manner::HugeFrame,
        5 => Manner::EndlessPages,
        6 | 7 => Manner::Rubbish,
        8 | 9 => Manner::Shapeless,
        10..=13 => Manner::CutAfter(usize::try_from(dice.below(3)).expect("small")),
        14 | 15 => Manner::HangUp,
        16 => Manner::SamePage,
        17 => Manner::NoNextPage,
        18 => Manner::Starting(2),
        19 => Manner::OldProtocol,
        20 | 21 => Manner::NoScopes,
        22 => Manner::NoList,
        23 if rows > 1 => Manner::HalfTheTruth,
        24 | 25 => Manner::Restless,
        _ => Manner::Well,
    }
}

#[test]
fn no_behaviour_of_a_gateway_causes_a_wrong_answer() {
    sandboxed(|| {
        let rounds: u32 =
            std::env::var("AGENTCTL_FLAPS").map_or(400, |n| n.parse().expect("a number"));
        let mut dice = Dice::new();
        println!("seed {} rounds {rounds}", dice.seed);
        let home = TestHome::new("agentctl");
        home.plant(
            &PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/demo/0.1.0"),
            ".",
        );
        let beside = |rows: &[Session]| -> Vec<(Option<String>, Status)> {
            let theirs = rows.iter().filter(|s| s.adapter == "demo");
            theirs.map(|s| (s.id.clone(), s.status)).collect()
        };
        let mut gateway = Gateway::start();
        let limit = Duration::from_millis(500);
        let quiet =
            fleet::list(&Fleet::new(host(&home, &gateway, TOKEN, limit), BOTH), &everything());
        let undisturbed = beside(&quiet.sessions);
        assert!(!undisturbed.is_empty());
        let now =
            fleet::list(&Fleet::new(host(&home, &gateway, TOKEN, limit), BOTH), &Query::default());
        let living = beside(&now.sessions);
        let (mut right, mut faults, mut needless, mut slowest) = (0, 0, 0, Duration::ZERO);
        for round in 0..rounds {
            let count = usize::try_from(dice.below(12)).expect("small");
            let truth = rows(&mut dice, count);
            let mut manner = temper(&mut dice, count);
            let dead = dice.below(20) == 0;
            if dead {
                gateway.end();
                manner = Manner::HangUp;
            }
            {
                let mut world = gateway.world();
                world.rows = truth.iter().map(|(row, _)| row.clone()).collect();
                world.page = usize::try_from(dice.below(5)).expect("small");
                world.manner = manner;
                world.asked.clear();
            }
            let token = if dice.below(20) == 0 { "another" } else { TOKEN };
            let host = host(&home, &gateway, token, limit);
            let began = Instant::now();
            // Live sessions and all sessions are different questions, which fail in different ways.
            let plain = dice.below(2) == 0;
            let query = if plain { Query::default() } else { everything() };
            let listing = fleet::list(&Fleet::new(Arc::clone(&host), BOTH), &query);
            slowest = slowest.max(began.elapsed());
            let about =
                format!("round {round}, {manner:?}, dead {dead}, token {token}, plain {plain}");
            let usual = if plain { &living } else { &undisturbed };
            assert_eq!(&beside(&listing.sessions), usual, "{about}");
            let mut shown: Vec<(String, Status)> = listing
                .sessions
                .iter()
                .filter(|s| s.adapter == "openclaw")
                .map(|s| (s.id.clone().unwrap_or_default(), s.status))
                .collect();
            shown.sort();
            if listing.faults.is_empty() {
                let mut wanted: Vec<(String, Status)> = truth
                    .iter()
                    .filter(|(_, status)| !plain || *status == Status::Running)
                    .map(|(row, status)| {
                        (row["sessionId"].as_str().expect("an id").into(), *status)
                    })
                    .collect();
                wanted.sort();
                assert_eq!(shown, wanted, "{about}");
                right += 1;
            } else {
                assert!(shown.is_empty(), "{about}: {shown:?} beside {:?}", listing.faults);
                assert!(listing.faults.iter().all(|f| f.adapter == "openclaw"), "{about}");
                assert!(!listing.faults.iter().any(|f| f.message.contains(TOKEN)), "{about}");
                faults += 1;
                // A healthy gateway may time out on a busy machine, and must have no other fault.
                let well = manner == Manner::Well && !dead && token == TOKEN;
                let late = listing.faults.iter().all(|f| f.code == FaultCode::Timeout);
                assert!(!well || late, "{about}: {:?}", listing.faults);
                needless += u32::from(well);
            }
            if token != TOKEN {
                assert!(!listing.faults.is_empty(), "{about}");
            }
            if dead {
                gateway = gateway.again();
            }
        }
        println!(
            "{rounds} rounds: {right} right, {faults} faults ({needless} without need), 0 wrong, slowest {slowest:?}"
        );
        assert!(right > 0 && faults > 0);
    });
}
