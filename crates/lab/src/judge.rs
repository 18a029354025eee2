//! Right, unknown or wrong: compares agentctl's answers with the scenario.
//!
//! The same session is asked for in five ways (`list`, `list -a`, `status`, `why`, `asks`); all must agree with
//! the truth and with each other. `unknown` is not wrong, and it is counted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stage::{Stage, Trouble};

/// Most looks at a session whose row keeps changing. The last one is compared all the same.
const MOST_LOOKS: usize = 20;

/// How one comparison came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The answer is true.
    Right,
    /// The answer is `unknown`.
    Unknown,
    /// The answer is false.
    Wrong,
}

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    /// When in the scenario.
    pub moment: String,
    /// How it came out.
    pub verdict: Verdict,
    /// The wrong answer, if it was not right.
    pub evidence: Option<String>,
    /// Whether the session has a live process at that moment.
    #[serde(default)]
    pub alive: bool,
    /// Only the outcome is unknown; everything else is right.
    #[serde(default)]
    pub outcome_only: bool,
}

impl Check {
    /// Makes a comparison that holds or does not.
    #[must_use]
    pub fn of(moment: &str, holds: bool, evidence: String) -> Self {
        let verdict = if holds { Verdict::Right } else { Verdict::Wrong };
        Self {
            moment: moment.to_owned(),
            verdict,
            evidence: (!holds).then_some(evidence),
            alive: false,
            outcome_only: false,
        }
    }
}

/// The session a claim is about.
#[derive(Clone, Debug)]
pub enum Who {
    /// By its native id.
    Id(String),
    /// A process that has no session yet.
    Process(u32),
}

/// The expected reason.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// Nothing.
    Any,
    /// There is none.
    None,
    /// It is of this kind.
    Kind(&'static str),
}

/// The expected state of a session, from the script.
#[derive(Clone, Debug)]
pub struct Claim {
    who: Who,
    status: &'static str,
    reason: Reason,
    detail: Option<String>,
    outcome: Option<&'static str>,
    pids: Option<Vec<u32>>,
    hosted: Option<bool>,
    tokens: Option<Value>,
    note: Option<&'static str>,
    facts: Vec<(&'static str, Value)>,
}

impl Claim {
    /// Claims a status of a session.
    #[must_use]
    pub fn of(id: &str, status: &'static str) -> Self {
        Self::about(Who::Id(id.to_owned()), status)
    }

    /// Claims a status of a process without a session.
    #[must_use]
    pub fn of_process(pid: u32, status: &'static str) -> Self {
        Self::about(Who::Process(pid), status)
    }

    fn about(who: Who, status: &'static str) -> Self {
        Self {
            who,
            status,
            reason: Reason::Any,
            detail: None,
            outcome: None,
            pids: None,
            hosted: None,
            tokens: None,
            note: None,
            facts: Vec::new(),
        }
    }

    /// Claims the kind of reason, or that there is none.
    #[must_use]
    pub fn because(mut self, kind: Option<&'static str>) -> Self {
        self.reason = kind.map_or(Reason::None, Reason::Kind);
        self
    }

    /// Claims that the reason's detail holds this text.
    #[must_use]
    pub fn about_what(mut self, text: &str) -> Self {
        self.detail = Some(text.to_owned());
        self
    }

    /// Claims how it ended.
    #[must_use]
    pub fn ended(mut self, outcome: &'static str) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// Claims which processes serve it.
    #[must_use]
    pub fn served_by(mut self, pids: &[u32]) -> Self {
        let mut pids = pids.to_vec();
        pids.sort_unstable();
        self.pids = Some(pids);
        self
    }

    /// Claims that the serving process is shared.
    #[must_use]
    pub fn hosted(mut self, hosted: bool) -> Self {
        self.hosted = Some(hosted);
        self
    }

    /// Claims its tokens, as `status` must count them.
    #[must_use]
    pub fn spent(mut self, tokens: Value) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Claims that one of its notes holds this text.
    #[must_use]
    pub fn noting(mut self, text: &'static str) -> Self {
        self.note = Some(text);
        self
    }

    /// Claims one more field of its row, by its JSON pointer.
    #[must_use]
    pub fn with(mut self, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.facts.push((pointer, value.into()));
        self
    }

    fn is_live(&self) -> bool {
        !matches!(self.status, "stopped" | "error")
    }

    /// Says whether the rows show each of its processes apart, as a process that may serve any session.
    fn processes_unjoined(&self, rows: &[Value]) -> bool {
        let apart = |pid: &u32| {
            let mut own = rows.iter().filter(|r| r["id"].is_null() && r["pid"] == *pid);
            own.any(|r| r["status"] == "unknown")
        };
        let pids = self.pids.as_deref().unwrap_or_default();
        !pids.is_empty() && pids.iter().all(apart)
    }

    /// Says whether a row is right but for an outcome that it says is unknown.
    fn lacks_outcome_only(&self, row: &Value) -> bool {
        let mut known = row.clone();
        known["outcome"] = self.outcome.into();
        row["outcome"] == "unknown"
            && self.outcome.is_some_and(|outcome| outcome != "unknown")
            && self.differences(&known).is_empty()
    }

    /// Lists the fields of a row that differ from the claim.
    fn differences(&self, row: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut compare = |what: &str, expected: Value, said: &Value| {
            if expected != *said {
                wrong.push(format!("{what} is {expected}, agentctl says {said}"));
            }
        };
        compare("status", self.status.into(), &row["status"]);
        match self.reason {
            Reason::Any => {}
            Reason::None => compare("reason.kind", Value::Null, &row["reason"]["kind"]),
            Reason::Kind(kind) => compare("reason.kind", kind.into(), &row["reason"]["kind"]),
        }
        if let Some(outcome) = self.outcome {
            compare("outcome", outcome.into(), &row["outcome"]);
        }
        if let Some(hosted) = self.hosted {
            compare("hosted", hosted.into(), &row["hosted"]);
        }
        if let Some(pids) = &self.pids {
            let said = row["processes"].as_array().into_iter().flatten();
            let mut said: Vec<u64> = said.filter_map(|p| p["pid"].as_u64()).collect();
            said.sort_unstable();
            compare("processes", pids.clone().into(), &said.into());
        }
        for (pointer, value) in &self.facts {
            compare(pointer, value.clone(), row.pointer(pointer).unwrap_or(&Value::Null));
        }
        if let Some(text) = &self.detail
            && !row["reason"]["detail"].as_str().is_some_and(|d| d.contains(text))
        {
            wrong
                .push(format!("reason.detail does not hold `{text}`: {}", row["reason"]["detail"]));
        }
        if let Some(text) = self.note {
            let mut notes = row["notes"].as_array().into_iter().flatten();
            if !notes.any(|n| n.as_str().is_some_and(|n| n.contains(text))) {
                wrong.push(format!("no note holds `{text}`: {}", row["notes"]));
            }
        }
        wrong
    }
}

/// Asks agentctl in every way about one session and compares.
pub fn judge(stage: &Stage, moment: &str, claim: &Claim) -> Result<Check, Trouble> {
    let mut wrong = Vec::new();
    let mut unknown = Vec::new();
    let mut outcomes = Vec::new();
    let live = stage.rows(&[])?;
    let all = stage.rows(&["-a", "--since", "all"])?;
    let fits = |row: &&Value| match &claim.who {
        Who::Id(id) => row["id"] == id.as_str(),
        Who::Process(pid) => row["id"].is_null() && row["pid"] == *pid,
    };
    let name = match &claim.who {
        Who::Id(id) => id.clone(),
        Who::Process(pid) => pid.to_string(),
    };
    let mut look = |face: &str, rows: &[Value], must: bool| {
        let found: Vec<&Value> = rows.iter().filter(fits).collect();
        match found.as_slice() {
            [row] if row["status"] == "unknown" && claim.status != "unknown" => {
                unknown.push(format!("{face}: {}", row["reason"]));
            }
            [row] if claim.lacks_outcome_only(row) => {
                outcomes.push(format!("{face}: outcome is unknown, {}", row["notes"]));
            }
            [row] => {
                wrong.extend(claim.differences(row).into_iter().map(|d| format!("{face}: {d}")));
            }
            [] if must && claim.processes_unjoined(rows) => {
                unknown.push(format!("{face}: a row of its process only"));
            }
            [] if must => wrong.push(format!("{face}: no row of {name}")),
            [] => {}
            more => wrong.push(format!("{face}: {} rows of {name}", more.len())),
        }
    };
    // An idle thread in a shared server is not listed as a live session.
    let rests = claim.status == "idle" && claim.hosted == Some(true);
    look("list", &live, claim.is_live() && !rests);
    look("list -a", &all, true);
    // An agent writes its records at any moment. `status` is compared with `list` only if the row was the same before
    // and after it; each of these looks is compared with the claim.
    let mut before = all.iter().find(fits).map(settled);
    for looks_left in (0..MOST_LOOKS).rev() {
        let (code, stdout, stderr) = stage.ask(&["status", &name, "--json"])?;
        let Ok(row) = serde_json::from_str::<Value>(&stdout) else {
            wrong.push(format!("status: exit {code:?}, no document: {stderr}"));
            break;
        };
        look("status", std::slice::from_ref(&row), true);
        let again = stage.rows(&["-a", "--since", "all"])?;
        look("list -a", &again, true);
        let after = again.iter().find(fits).map(settled);
        if before != after && looks_left > 0 {
            before = after;
            continue;
        }
        if let Some(tokens) = &claim.tokens
            && row["tokens"] != *tokens
        {
            wrong.push(format!("status: tokens are {tokens}, agentctl says {}", row["tokens"]));
        }
        if let Some(listed) = after.filter(|listed| *listed != settled(&row)) {
            wrong.push(format!("list and status differ: {listed} / {row}"));
        }
        break;
    }
    wrong.extend(asks_differ(stage, &live, &fits)?);
    let (_, why, _) = stage.ask(&["why", &name])?;
    let word = if unknown.is_empty() { claim.status } else { "unknown" };
    if wrong.is_empty() && !why.contains(&format!(" is {word}: ")) {
        wrong.push(format!("why: does not say {word}: {why}"));
    }
    let outcome_only = unknown.is_empty() && !outcomes.is_empty();
    unknown.extend(outcomes);
    let (verdict, evidence) = match (wrong.is_empty(), unknown.is_empty()) {
        (false, _) => (Verdict::Wrong, Some(format!("{}\n{why}", wrong.join("\n")))),
        (true, false) => (Verdict::Unknown, Some(unknown.join("\n"))),
        (true, true) => (Verdict::Right, None),
    };
    let alive = claim.is_live();
    Ok(Check { moment: moment.to_owned(), verdict, evidence, alive, outcome_only })
}

/// Compares `asks` with `list`: a session has an ask if it waits for a human, and none otherwise.
fn asks_differ(
    stage: &Stage,
    live: &[Value],
    fits: &dyn Fn(&&Value) -> bool,
) -> Result<Option<String>, Trouble> {
    let (code, stdout, stderr) = stage.ask(&["asks", "--json"])?;
    let document: Value = serde_json::from_str(&stdout)
        .map_err(|e| format!("agentctl asks exited {code:?}: {e}: {stderr}"))?;
    let waits = live.iter().filter(fits).any(|row| row["status"] == "waiting");
    // An ask names its session and process like a row, under other names.
    let row = |ask: &Value| serde_json::json!({"id": ask["session_id"], "pid": ask["pid"]});
    let asks = document["asks"].as_array().into_iter().flatten();
    let asks: Vec<Value> = asks.filter(|ask| fits(&&row(ask))).cloned().collect();
    Ok((waits == asks.is_empty())
        .then(|| format!("asks: waiting is {waits}, and there are {asks:?}")))
}

/// Compares with several claims of which any may be right: the best verdict decides, the earlier of equal ones.
pub fn judge_any(stage: &Stage, moment: &str, claims: &[Claim]) -> Result<Check, Trouble> {
    let mut best: Option<Check> = None;
    for claim in claims {
        let check = judge(stage, moment, claim)?;
        if best.as_ref().is_none_or(|b| check.verdict < b.verdict) {
            best = Some(check);
        }
    }
    best.ok_or_else(|| "nothing is claimed".to_owned())
}

/// Returns a row without the fields that may differ between `list` and `status`.
fn settled(row: &Value) -> Value {
    let mut row = row.clone();
    for field in testkit::STATUS_FIELDS {
        row.as_object_mut().and_then(|row| row.remove(field));
    }
    row["tokens"] = Value::Null;
    row["cost_usd"] = Value::Null;
    // Only `status` counts tokens, so only `status` can say why they are not known.
    if let Some(notes) = row["notes"].as_array_mut() {
        notes.retain(|n| !n.as_str().is_some_and(|n| n.starts_with("tokens are not known")));
    }
    // Written by the agent's shim a moment after its end; claimed separately.
    row["exit"] = Value::Null;
    row["ended_at"] = Value::Null;
    // Only `status` reads the order that ended a run.
    if let Some(evidence) = row["evidence"].as_array_mut() {
        evidence.retain(|e| !e["source"].as_str().is_some_and(|s| s.ends_with("/ended-by.json")));
    }
    for evidence in row["evidence"].as_array_mut().into_iter().flatten() {
        evidence["at"] = Value::Null;
        // It counts all processes at that instant.
        if evidence["source"] == "kernel:process table" {
            evidence["says"] = Value::Null;
        }
    }
    row
}
