//! `agentctl schema`: the JSON schemas of all documents, generated from the types themselves.

use std::collections::BTreeMap;
use std::process::ExitCode;

use agentctl_core::ask::{
    AdaptersDocument, AnswerDocument, AsksDocument, CancelledFuseDocument, ChangesDocument,
    CleanDocument, CompareDocument, DiffDocument, DoctorDocument, FuseDocument, FusesDocument,
    GroupLaunchDocument, LaunchPlan, LockDocument, LocksDocument, NamedSession, PruneDocument,
    RunsDocument, SendDocument, StatusDocument, StopDocument, TakeDocument, TurnEndDocument,
    WaitDocument, WhyDocument, WorktreesDocument,
};
use agentctl_core::events::Event;
use agentctl_core::model::{Listing, Message};
use clap::Args;
use serde_json::Value;

use crate::config::ConfigDocument;
use crate::face::{BeginDocument, TalkPage};
use crate::failure::{Failure, Kind, Outcome};
use crate::protocol::{DaemonChange, DaemonStatus};
use crate::ui::Ui;
use crate::web::{Links, PairDocument, RunningServer, StreamEvent};

/// Print the JSON schemas of the --json output
#[derive(Args)]
pub(super) struct SchemaArgs {
    /// Print only the schema of this command, or `error`
    name: Option<String>,
}

/// Returns every schema by name; `docs/schema/<name>.json` holds the same.
#[must_use]
pub(super) fn all() -> BTreeMap<&'static str, Value> {
    let value = |schema: schemars::Schema| schema.to_value();
    BTreeMap::from([
        ("launch-group", value(schemars::schema_for!(GroupLaunchDocument))),
        ("launch-plan", value(schemars::schema_for!(LaunchPlan))),
        ("list", value(schemars::schema_for!(Listing))),
        ("status", value(schemars::schema_for!(StatusDocument))),
        ("stop", value(schemars::schema_for!(StopDocument))),
        ("stop-turn", value(schemars::schema_for!(TurnEndDocument))),
        ("logs", value(schemars::schema_for!(Message))),
        ("changes", value(schemars::schema_for!(ChangesDocument))),
        ("why", value(schemars::schema_for!(WhyDocument))),
        ("wait", value(schemars::schema_for!(WaitDocument))),
        ("event", value(schemars::schema_for!(Event))),
        ("asks", value(schemars::schema_for!(AsksDocument))),
        ("answer", value(schemars::schema_for!(AnswerDocument))),
        ("send", value(schemars::schema_for!(SendDocument))),
        ("lock", value(schemars::schema_for!(LockDocument))),
        ("unlock", value(schemars::schema_for!(LockDocument))),
        ("locks", value(schemars::schema_for!(LocksDocument))),
        ("fuse-set", value(schemars::schema_for!(FuseDocument))),
        ("fuse-extend", value(schemars::schema_for!(FuseDocument))),
        ("fuse-cancel", value(schemars::schema_for!(CancelledFuseDocument))),
        ("fuses", value(schemars::schema_for!(FusesDocument))),
        ("doctor", value(schemars::schema_for!(DoctorDocument))),
        ("adapters", value(schemars::schema_for!(AdaptersDocument))),
        ("name", value(schemars::schema_for!(NamedSession))),
        ("group", value(schemars::schema_for!(NamedSession))),
        ("diff", value(schemars::schema_for!(DiffDocument))),
        ("compare", value(schemars::schema_for!(CompareDocument))),
        ("worktree-clean", value(schemars::schema_for!(CleanDocument))),
        ("worktree-take", value(schemars::schema_for!(TakeDocument))),
        ("worktree-list", value(schemars::schema_for!(WorktreesDocument))),
        ("runs", value(schemars::schema_for!(RunsDocument))),
        ("prune", value(schemars::schema_for!(PruneDocument))),
        ("daemon", value(schemars::schema_for!(DaemonStatus))),
        ("daemon-start", value(schemars::schema_for!(DaemonChange))),
        ("daemon-stop", value(schemars::schema_for!(DaemonChange))),
        ("web-begin", value(schemars::schema_for!(BeginDocument))),
        ("web-link", value(schemars::schema_for!(Links))),
        ("web-pair", value(schemars::schema_for!(PairDocument))),
        ("web-server", value(schemars::schema_for!(RunningServer))),
        ("web-stream", value(schemars::schema_for!(StreamEvent<'_>))),
        ("web-talk", value(schemars::schema_for!(TalkPage))),
        ("config", value(schemars::schema_for!(ConfigDocument))),
        ("error", value(schemars::schema_for!(crate::failure::ErrorDocument<'_>))),
    ])
}

pub(super) fn cmd_schema(ui: &mut Ui, args: &SchemaArgs) -> Outcome {
    let all = all();
    match &args.name {
        None => ui.json(&all)?,
        Some(name) => match all.get(name.as_str()) {
            Some(schema) => ui.json(schema)?,
            None => {
                let known: Vec<_> = all.keys().copied().collect();
                return Err(Failure::new(
                    Kind::Usage,
                    format!("there is no schema named `{name}`"),
                )
                .hint(format!("schemas: {}", known.join(", "))));
            }
        },
    }
    Ok(ExitCode::SUCCESS)
}
