//! The sentence for an order that an agent gives about itself, or about an agent above it.

use agentctl_core::inbox::Answerer;
use agentctl_core::model::Target;

use super::full_name;
use crate::failure::{Failure, Kind};

/// Says that an order was refused because the caller runs below its target, or may do so.
#[must_use]
pub fn refused_below(caller: &Answerer, target: &Target, what: &str) -> Failure {
    let id = target.session.as_ref().map(|locator| locator.id.as_str());
    let name = full_name(target.adapter, id, target.pid);
    let unknown = caller.above.iter().find(|above| above.session.is_none());
    let why = match (&caller.unseen, unknown) {
        (Some(why), _) => format!("whether the caller runs below it is not known: {why}"),
        (None, Some(above)) if !caller.is_below(target) => {
            format!("the session of process {} above the caller is not known", above.pid)
        }
        _ => "the caller is this session or runs below it".to_owned(),
    };
    Failure::new(Kind::Refused, format!("{what} {name}: {why}"))
        .hint("an agent can act neither on its own session nor on those above it; a person can")
}
