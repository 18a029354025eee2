//! The sentence for an order that an agent gives about itself, or about an agent above it.

use agentctl_core::ask::Fleet;
use agentctl_core::inbox::Answerer;
use agentctl_core::model::Target;

use super::full_name;
use super::inbox::link_above;
use crate::failure::{Failure, Kind};

const RUNS_BELOW: &str = "the caller is this session or runs below it";
const ONLY_A_PERSON: &str =
    "an agent can act neither on its own session nor on those above it; a person can";

/// Says that an order was refused because the caller runs below its target, or may do so.
#[must_use]
pub fn refused_below(caller: &Answerer, target: &Target, what: &str) -> Failure {
    let id = target.session.as_ref().map(|locator| locator.id.as_str());
    let name = full_name(target.adapter, id, target.pid);
    let why = match &caller.unseen {
        Some(why) => format!("whether the caller runs below it is not known: {why}"),
        None if caller.is_below(target) => RUNS_BELOW.to_owned(),
        None => why_it_may_be_below(caller),
    };
    Failure::new(Kind::Refused, format!("{what} {name}: {why}")).hint(ONLY_A_PERSON)
}

/// Says that an agent that may answer others did not answer this one: it is its own, or may be. `what` is the clause
/// that says what was not done.
pub(super) fn answer_refused_below(fleet: &Fleet, caller: &Answerer, what: &str) -> Failure {
    let is_known = caller.above.iter().all(|above| above.session.is_some());
    let why = if is_known && !caller.launchers_share_configuration(fleet) {
        "the agent that launched the caller has ended, or has another configuration".to_owned()
    } else {
        why_it_may_be_below(caller)
    };
    Failure::new(Kind::Refused, format!("{what}: {why}")).hint(ONLY_A_PERSON)
}

fn why_it_may_be_below(caller: &Answerer) -> String {
    match caller.above.iter().find(|above| above.session.is_none()) {
        Some(above) if above.pid == 0 => {
            "the agent that launched the caller is not known".to_owned()
        }
        Some(above) => {
            format!("the session of process {} above the caller is not known", above.pid)
        }
        None => RUNS_BELOW.to_owned(),
    }
}

/// Says that an order was refused because the caller runs below an agent, was left behind by one, or cannot be
/// examined.
#[must_use]
pub fn order_from_agent(caller: &Answerer) -> Failure {
    let is_known = !caller.above.is_empty() || !caller.left_behind.is_empty();
    let message = match &caller.unseen {
        Some(why) if !is_known => {
            format!("the process that gives the order cannot be examined: {why}")
        }
        _ => format!("{}: agents may not give orders here", link_above(caller)),
    };
    Failure::new(Kind::Refused, message)
        .hint("give the order from a terminal or browser that no agent has started")
}
