//! Texts about a fuse: its name, its target, its conditions and its actions.

use agentctl_core::fuses::{Action, Fuse};
use agentctl_core::host::Host;

use crate::text::{one_line, with_tilde};

/// Returns the name of a fuse for messages.
#[must_use]
pub fn fuse_name(host: &Host, fuse: &Fuse) -> String {
    let label = fuse.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    one_line(&format!("the fuse on {}{label}", fuse_target(host, fuse)))
}

/// Returns the directory or the session to which a fuse is bound.
fn fuse_target(host: &Host, fuse: &Fuse) -> String {
    match (&fuse.directory, &fuse.session) {
        (Some(directory), _) => with_tilde(&host.home, directory),
        (None, Some(id)) => one_line(&format!("{} {id}", fuse.adapter.as_deref().unwrap_or("?"))),
        (None, None) => "-".into(),
    }
}

/// Returns the conditions of a fuse in a few words: `ttl 2h, idle 30m`.
#[must_use]
pub fn fuse_conditions(fuse: &Fuse) -> String {
    let spans =
        [("ttl", fuse.ttl_ms), ("idle", fuse.idle_ms), ("max-runtime", fuse.max_runtime_ms)];
    let spans = spans.into_iter().filter_map(|(name, ms)| Some(format!("{name} {}", span(ms?))));
    let cost = fuse.max_cost_usd.map(|usd| format!("max-cost ${usd}"));
    spans.chain(cost).collect::<Vec<_>>().join(", ")
}

/// Returns a span in the largest unit that divides it.
pub(super) fn span(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let whole = units.into_iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

/// Returns the actions of a fuse as they are typed: `stop, run:make clean`.
#[must_use]
pub fn fuse_actions(fuse: &Fuse) -> String {
    let words = fuse.on_expire.iter().map(|action| match action {
        Action::Event => "event".to_owned(),
        Action::Stop => "stop".to_owned(),
        Action::Run { argv } => {
            let argv = argv.iter().map(String::as_str);
            format!("run:{}", shlex::try_join(argv).unwrap_or_default())
        }
        Action::Webhook { url } => format!("webhook:{url}"),
    });
    words.collect::<Vec<_>>().join(", ")
}
