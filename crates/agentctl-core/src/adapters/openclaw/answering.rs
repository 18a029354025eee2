//! Answers to approvals of commands. Messages reach a session of a gateway as a resume does.

use super::{OpenClaw, approvals, gateways};
use crate::adapters::answering::{Answering, AnsweringAbilities, Delivered, NotDelivered, Speech};
use crate::adapters::{Look, Root};
use crate::model::{Ask, Reply, Session};

impl Answering for OpenClaw {
    fn abilities(&self) -> AnsweringAbilities {
        AnsweringAbilities {
            asks: "commands, with `approvals = true` of its gateway",
            messages: "at any time, by its gateway",
            no_ask: Some("the settings of its gateway decide which commands it asks for"),
            no_keep: Some("its sessions always stay and take messages"),
        }
    }

    fn deliver(
        &self,
        look: &Look,
        root: &Root,
        _session: &Session,
        ask: &Ask,
        reply: &Reply,
    ) -> Result<Delivered, NotDelivered> {
        let label = root.label();
        let gateway = gateways::all(&look.host).into_iter().find(|g| g.label() == label);
        match gateway.filter(|gateway| gateway.approvals) {
            Some(gateway) => approvals::resolve(look, &gateway, ask, reply),
            None => {
                let why = "`approvals = true` is not set for its gateway any more";
                Err(NotDelivered::Refused(why.into()))
            }
        }
    }

    fn speech(&self, _look: &Look, _root: &Root, _session: &Session) -> Speech {
        let why = "its gateway takes messages for it".into();
        Speech::Not { why, hint: Some("`agentctl resume` hands one over".into()) }
    }
}
