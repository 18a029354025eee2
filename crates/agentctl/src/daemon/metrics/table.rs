//! The table of all metrics: name, kind, labels and help text. `docs/METRICS.md` holds the same table, and a
//! test compares them.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Counted anew at each scrape.
    Gauge,
    /// Added up since the daemon started.
    Counter,
    /// Values since the daemon started, in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Returns its name in the text format.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name, as queries write it.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its help text, one line.
    pub help: &'static str,
}

type Labels = &'static [&'static str];

const fn gauge(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const fn counter(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

/// The version of the daemon.
pub(super) static BUILD: Metric =
    gauge("agentctl_build_info", &["version"], "Always 1; the label is the daemon's version");
/// The start time of the daemon.
pub(super) static BEGAN: Metric = gauge(
    "agentctl_start_time_seconds",
    &[],
    "When the daemon began, in seconds since 1970; every counter began at 0 then",
);
/// Live sessions.
pub(super) static SESSIONS: Metric = gauge(
    "agentctl_sessions_live",
    &["adapter", "status"],
    "Live sessions, counted now: what `agentctl list` shows",
);
/// The same, under the predecessor's name.
pub(super) static SESSIONS_ACTIVE: Metric =
    gauge("agentctl_sessions_active", &[], "All live sessions, counted now");
/// Locked directories.
pub(super) static LOCKS: Metric = gauge(
    "agentctl_locks",
    &["kind"],
    "Directories kept, counted now: occupied by a live session, or locked by a person (manual)",
);
/// The same, under the predecessor's name.
pub(super) static LOCKS_ACTIVE: Metric = gauge(
    "agentctl_locks_active",
    &["type"],
    "agentctl_locks under its earlier name; auto is occupied by a live session",
);
/// Active fuses.
pub(super) static FUSES: Metric = gauge("agentctl_fuses", &[], "Fuses that are set, counted now");
/// The same, under the predecessor's name.
pub(super) static FUSES_ACTIVE: Metric =
    gauge("agentctl_fuses_active", &[], "agentctl_fuses under its earlier name");
/// Current faults.
pub(super) static FAULTS: Metric = gauge(
    "agentctl_adapter_faults_active",
    &["adapter", "code"],
    "Sources that failed in this very look; sessions may be missing from the gauges then",
);
/// Queued events of a webhook endpoint.
pub(super) static QUEUE: Metric = gauge(
    "agentctl_webhook_queue",
    &["endpoint"],
    "Events that wait for a webhook or are on their way, counted now",
);
/// Event subscribers.
pub(super) static SUBSCRIBERS: Metric =
    gauge("agentctl_event_subscribers", &[], "Connections that listen to events, counted now");

/// Launches.
pub(super) static LAUNCHES: Metric = counter(
    "agentctl_launches_total",
    &["adapter"],
    "Sessions that began by `agentctl launch` or `resume`",
);
/// Ended sessions.
pub(super) static ENDS: Metric = counter(
    "agentctl_session_ends_total",
    &["adapter", "outcome"],
    "Sessions that ended, launched by agentctl or not, by how their last turn ended",
);
/// Ended sessions, under the predecessor's name.
pub(super) static SESSIONS_TOTAL: Metric = counter(
    "agentctl_sessions_total",
    &["status"],
    "agentctl_session_ends_total under its earlier name: completed, failed, or stopped (everything else)",
);
/// Durations of sessions.
pub(super) static DURATION: Metric = Metric {
    name: "agentctl_session_duration_seconds",
    kind: Kind::Histogram(&[60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0]),
    labels: &[],
    help: "From a session's own beginning to its end, pauses before a resume included",
};
/// Events.
pub(super) static EVENTS: Metric =
    counter("agentctl_events_total", &["type"], "Events reported, late ones included");
/// Delay of events.
pub(super) static LAG: Metric = Metric {
    name: "agentctl_event_lag_seconds",
    kind: Kind::Histogram(&[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0]),
    labels: &[],
    help: "From the time that the source of an event gives, or else the look that saw it, until it is reported; not for events from a time without a daemon",
};
/// Expired fuses.
pub(super) static EXPIRED: Metric =
    counter("agentctl_fuses_expired_total", &[], "Fuses that expired");
/// Webhook deliveries.
pub(super) static DELIVERIES: Metric = counter(
    "agentctl_webhook_deliveries_total",
    &["endpoint", "result"],
    "Events that a webhook accepted (delivered), that were given up (failed), or that its full queue dropped (dropped)",
);
/// New faults.
pub(super) static FAULTS_TOTAL: Metric = counter(
    "agentctl_adapter_faults_total",
    &["adapter", "code"],
    "Faults that appeared in the daemon's own looks; one that stays counts once",
);
/// Duration of the question to one home.
pub(super) static QUESTION: Metric = Metric {
    name: "agentctl_adapter_question_seconds",
    kind: Kind::Histogram(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5]),
    labels: &["adapter"],
    help: "How long one home of an agent took to say what lives in it, in each of the daemon's own looks; one that did not answer counts with the time it was waited for",
};
/// Tokens.
pub(super) static TOKENS: Metric = counter(
    "agentctl_tokens_total",
    &["adapter", "model", "kind"],
    "Tokens of sessions that ended, as their own files tell them, added at the end under the last model; a session that ends again adds what is new",
);
/// Cost.
pub(super) static COST: Metric = counter(
    "agentctl_cost_usd_total",
    &["adapter", "model"],
    "The agents' own cost figures in US dollars, added like tokens; sessions without such a figure add nothing",
);
/// Ended sessions whose usage is unknown.
pub(super) static UNCOUNTED: Metric = counter(
    "agentctl_usage_unknown_total",
    &["adapter"],
    "Sessions that ended and whose tokens are unknown: they are missing from tokens and cost",
);

/// All metrics, in the order of the output.
pub static ALL: [&Metric; 24] = [
    &BUILD,
    &BEGAN,
    &SESSIONS,
    &SESSIONS_ACTIVE,
    &LOCKS,
    &LOCKS_ACTIVE,
    &FUSES,
    &FUSES_ACTIVE,
    &FAULTS,
    &QUEUE,
    &SUBSCRIBERS,
    &LAUNCHES,
    &ENDS,
    &SESSIONS_TOTAL,
    &DURATION,
    &EVENTS,
    &LAG,
    &EXPIRED,
    &DELIVERIES,
    &FAULTS_TOTAL,
    &QUESTION,
    &TOKENS,
    &COST,
    &UNCOUNTED,
];
