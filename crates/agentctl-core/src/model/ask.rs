//! One ask: a request of a live session that a person must answer, as every interface shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::identity::digest;
use super::{
    Evidence, InternedName, Locator, ProcId, ReasonKind, Session, Target, Time, ToolCall, shorten,
    word,
};

/// Largest text of one part of an ask, in bytes. A longer text is cut, the part says so, and the ask cannot be allowed
/// here: nobody has seen what would be allowed.
pub const MAX_PART_BYTES: usize = 1 << 20;
/// Number of characters of the id of an ask.
pub const ASK_ID_CHARS: usize = 32;
/// Fewest characters of its id by which an ask can be named.
pub const MIN_ASK_PREFIX: usize = 6;
/// Longest rule that is offered, in bytes. A rule is shown whole, because an answer stores it.
pub const MAX_RULE_BYTES: usize = 4 << 10;
/// Longest title of an ask, in characters.
const MAX_TITLE_CHARS: usize = 200;

/// The kind of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskKind {
    /// A tool needs permission.
    Permission,
    /// The agent asks a question.
    Question,
    /// A plan needs approval.
    Plan,
    /// The directory must be trusted first.
    Trust,
    /// A login is required.
    Login,
    /// A dialog is open.
    Dialog,
    /// A usage limit was reached.
    Limit,
}

impl AskKind {
    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Plan => "plan",
            Self::Trust => "trust",
            Self::Login => "login",
            Self::Dialog => "dialog",
            Self::Limit => "limit",
        }
    }

    /// Returns the kind of the ask that a waiting session with this reason has.
    #[must_use]
    pub fn of(reason: Option<ReasonKind>) -> Self {
        match reason {
            Some(ReasonKind::Permission) => Self::Permission,
            Some(ReasonKind::Question) => Self::Question,
            Some(ReasonKind::Plan) => Self::Plan,
            Some(ReasonKind::Trust) => Self::Trust,
            Some(ReasonKind::Login) => Self::Login,
            Some(ReasonKind::Limit) => Self::Limit,
            _ => Self::Dialog,
        }
    }
}

/// One part of the text of an ask.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum AskPart {
    /// A command line.
    Command {
        /// The command.
        text: String,
        /// The text goes on: only its beginning is here.
        cut: bool,
    },
    /// A change of a file.
    Diff {
        /// The file.
        path: String,
        /// The change in the unified format.
        unified: String,
        /// The change goes on: only its beginning is here.
        cut: bool,
    },
    /// A plan.
    Plan {
        /// The plan, in Markdown.
        markdown: String,
        /// The plan goes on: only its beginning is here.
        cut: bool,
    },
    /// Plain text.
    Text {
        /// The text.
        text: String,
        /// The text goes on: only its beginning is here.
        cut: bool,
    },
    /// The arguments of a tool that is not known here.
    Json {
        /// The arguments; a text with their beginning if they are cut.
        value: Value,
        /// The arguments go on: only their beginning is here.
        cut: bool,
    },
}

impl AskPart {
    /// Makes a command, cut at the limit.
    #[must_use]
    pub fn command(text: &str) -> Self {
        let (text, cut) = cut_text(text);
        Self::Command { text, cut }
    }

    /// Makes a plain text, cut at the limit.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let (text, cut) = cut_text(text);
        Self::Text { text, cut }
    }

    /// Makes a plan, cut at the limit.
    #[must_use]
    pub fn plan(text: &str) -> Self {
        let (markdown, cut) = cut_text(text);
        Self::Plan { markdown, cut }
    }

    /// Makes a change of a file, cut at the limit.
    #[must_use]
    pub fn diff(path: &str, unified: &str) -> Self {
        let (unified, cut) = cut_text(unified);
        Self::Diff { path: shorten(path, 4096), unified, cut }
    }

    /// Makes arguments, cut at the limit.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        let text = value.to_string();
        if text.len() <= MAX_PART_BYTES {
            return Self::Json { value: value.clone(), cut: false };
        }
        Self::Json { value: Value::String(cut_text(&text).0), cut: true }
    }
}

impl AskPart {
    /// Says whether only its beginning is here.
    fn is_cut(&self) -> bool {
        match self {
            Self::Command { cut, .. }
            | Self::Text { cut, .. }
            | Self::Plan { cut, .. }
            | Self::Diff { cut, .. }
            | Self::Json { cut, .. } => *cut,
        }
    }
}

fn cut_text(text: &str) -> (String, bool) {
    let end = text.floor_char_boundary(MAX_PART_BYTES);
    (text[..end].to_owned(), end < text.len())
}

/// One option of a field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AskOption {
    /// The option.
    pub label: String,
    /// A further explanation.
    pub about: Option<String>,
}

/// One question of an ask. Most asks that are questions have one field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AskField {
    /// The name of the field in `answer --field`; its number, counted from 1, names it too.
    pub id: String,
    /// A short heading.
    pub header: Option<String>,
    /// The question.
    pub text: String,
    /// The options that are offered.
    pub options: Vec<AskOption>,
    /// Several options may be chosen.
    pub many: bool,
    /// A text that is none of the options is accepted.
    pub free_text: bool,
    /// The answer is a secret.
    pub secret: bool,
}

impl AskField {
    /// Makes a question with options; without options it takes any text.
    #[must_use]
    pub fn question(id: impl Into<String>, text: impl Into<String>, options: Vec<String>) -> Self {
        let options: Vec<AskOption> =
            options.into_iter().map(|label| AskOption { label, about: None }).collect();
        Self {
            id: id.into(),
            header: None,
            text: text.into(),
            free_text: options.is_empty(),
            options,
            many: false,
            secret: false,
        }
    }
}

/// How long a decision holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskScope {
    /// For this ask.
    Once,
    /// For the rest of the session.
    Session,
    /// For this project.
    Project,
    /// For everything that this user runs with the agent.
    User,
}

impl AskScope {
    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// One decision that an ask offers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AskChoice {
    /// The key of the decision: `allow`, `deny`, `stop`, or `always:` and a number.
    pub key: String,
    /// The decision in a few words.
    pub label: String,
    /// The rule that the agent would store, in its own words.
    pub rule: Option<String>,
    /// How long the decision holds.
    pub scope: AskScope,
}

impl AskChoice {
    /// The key of the decision to allow it once.
    pub const ALLOW: &'static str = "allow";
    /// The key of the decision to deny it.
    pub const DENY: &'static str = "deny";
    /// The key of the decision to end the turn.
    pub const STOP: &'static str = "stop";

    /// Allows it once.
    #[must_use]
    pub fn allow() -> Self {
        Self::once(Self::ALLOW, "allow once")
    }

    /// Denies it.
    #[must_use]
    pub fn deny() -> Self {
        Self::once(Self::DENY, "deny")
    }

    /// Denies it and ends the turn.
    #[must_use]
    pub fn stop() -> Self {
        Self::once(Self::STOP, "end the turn")
    }

    /// Makes a decision that holds for this ask.
    #[must_use]
    pub fn once(key: &str, label: &str) -> Self {
        Self { key: key.into(), label: label.into(), rule: None, scope: AskScope::Once }
    }

    /// Makes the decision that stores a rule: the number counts from 1.
    #[must_use]
    pub fn always(number: usize, rule: impl Into<String>, scope: AskScope) -> Self {
        let key = Self::always_key(number);
        Self { key, label: "always".into(), rule: Some(rule.into()), scope }
    }

    /// Returns the key of the decision that stores this rule.
    #[must_use]
    pub fn always_key(number: usize) -> String {
        format!("always:{number}")
    }

    /// Says whether it lets the agent do what it asks for.
    fn allows(&self) -> bool {
        self.key == Self::ALLOW || self.rule_number().is_some()
    }

    /// Returns the number of the rule that this decision stores.
    #[must_use]
    pub fn rule_number(&self) -> Option<usize> {
        self.key.strip_prefix("always:")?.parse().ok()
    }
}

/// The way by which an answer reaches the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskChannel {
    /// Our own process that the agent started as a hook.
    Asker,
    /// The standard input of the agent.
    Stdin,
    /// The server that hosts the session.
    Server,
    /// The gateway that hosts the session.
    Gateway,
    /// The socket of the agent.
    Socket,
}

impl AskChannel {
    /// Returns its name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Asker => "asker",
            Self::Stdin => "stdin",
            Self::Server => "server",
            Self::Gateway => "gateway",
            Self::Socket => "socket",
        }
    }
}

/// A request of a live session that a person must answer.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Ask {
    /// Its id. It covers the session, the agent's own id of the request, the tool and its input.
    pub id: String,
    /// The adapter of the session.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The home of the session.
    pub root: String,
    /// The session.
    pub session_id: Option<String>,
    /// The process that serves the session.
    pub pid: Option<u32>,
    /// The kind of ask.
    pub kind: AskKind,
    /// The ask in one line: `Bash: npm test -- login`.
    pub title: String,
    /// The directory of the session.
    pub cwd: Option<String>,
    /// The tool call that needs permission.
    pub tool: Option<ToolCall>,
    /// The whole text: the command, the change, the plan.
    pub parts: Vec<AskPart>,
    /// The questions.
    pub fields: Vec<AskField>,
    /// The decisions that are offered.
    pub choices: Vec<AskChoice>,
    /// The way by which an answer reaches the agent; null if it cannot be answered from here.
    pub via: Option<AskChannel>,
    /// The reason why it cannot be answered from here, and where it can be.
    pub why_not: Option<String>,
    /// When it was opened.
    pub since: Option<Time>,
    /// When it ends without an answer.
    pub until: Option<Time>,
    /// The result if it ends without an answer.
    pub then: Option<String>,
    /// The observations behind it.
    pub evidence: Vec<Evidence>,
    /// The agent's own id of the request. No part of the JSON.
    #[serde(skip)]
    pub native: String,
}

impl Ask {
    /// Makes the ask of a waiting session from its status alone: it cannot be answered from here.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let reason = session.reason.as_ref();
        let kind = AskKind::of(reason.map(|reason| reason.kind));
        let detail = reason.and_then(|reason| reason.detail.as_deref());
        let mut ask = Self {
            id: String::new(),
            adapter: session.adapter,
            root: session.root.clone(),
            session_id: session.id.clone(),
            pid: session.pid,
            kind,
            title: shorten(detail.unwrap_or(kind.word()), MAX_TITLE_CHARS),
            cwd: session.cwd.clone(),
            tool: None,
            parts: detail.map(AskPart::text).into_iter().collect(),
            fields: Vec::new(),
            choices: Vec::new(),
            via: None,
            why_not: None,
            since: session.last_activity_at,
            until: reason.and_then(|reason| reason.until),
            then: None,
            evidence: session.evidence.clone(),
            native: String::new(),
        };
        let native = session.open_call.clone().unwrap_or_default();
        ask.identify(session, &native);
        ask
    }

    /// Sets the tool call and the title.
    pub fn set_tool(&mut self, tool: ToolCall) {
        self.title = shorten(&tool.gist(), MAX_TITLE_CHARS);
        self.tool = Some(tool);
    }

    /// Sets the title, shortened to one line.
    pub fn set_title(&mut self, title: &str) {
        self.title = shorten(title, MAX_TITLE_CHARS);
    }

    /// Returns the name of its session.
    #[must_use]
    pub fn target(&self) -> Target {
        let locator = |id| Locator { id, path: None, parent: None };
        Target {
            adapter: self.adapter,
            root: self.root.clone(),
            session: self.session_id.clone().map(locator),
            pid: self.pid.filter(|_| self.session_id.is_none()),
        }
    }

    /// Computes the id from the session, the agent's own id of the request, and everything that an answer
    /// agrees to, the rules that it can store included. Called when these are complete.
    pub fn identify(&mut self, session: &Session, native: &str) {
        let process = |p: &ProcId| format!("{}/{}", p.pid, p.start_ticks);
        let serving = session.processes.first().map(|serving| process(&serving.id));
        let subject = session.id.clone().or(serving).unwrap_or_default();
        let tool = self.tool.as_ref().map(|tool| format!("{}\u{0}{}", tool.name, tool.input));
        if self.parts.iter().any(AskPart::is_cut) {
            self.choices.retain(|choice| !choice.allows());
        }
        let shown = (&self.parts, &self.fields, &self.choices);
        let shown = serde_json::to_string(&shown).unwrap_or_default();
        native.clone_into(&mut self.native);
        self.id = digest(&[
            self.adapter,
            &self.root,
            &subject,
            self.kind.word(),
            native,
            &self.title,
            tool.as_deref().unwrap_or_default(),
            &shown,
        ]);
    }

    /// Says whether it offers this decision.
    #[must_use]
    pub fn offers(&self, key: &str) -> bool {
        self.choices.iter().any(|choice| choice.key == key)
    }

    /// Returns the part of its id that tables show.
    #[must_use]
    pub fn short_id(&self) -> &str {
        self.id.get(..8).unwrap_or(&self.id)
    }
}

/// The answer to one field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldAnswer {
    /// The field.
    pub field: String,
    /// The labels of the chosen options, or one text.
    pub values: Vec<String>,
}

/// An answer to an ask.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// Allow it once.
    Allow,
    /// Allow it and store the rule of this choice, by its key.
    Always(String),
    /// Deny it.
    Deny {
        /// The words for the agent.
        message: Option<String>,
    },
    /// Answer the questions.
    Fields(Vec<FieldAnswer>),
    /// Deny it and end the turn.
    Stop,
}

impl Reply {
    /// Returns the key of the choice that this reply takes; `None` for answers to questions.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Allow => Some(AskChoice::ALLOW),
            Self::Always(key) => Some(key),
            Self::Deny { .. } => Some(AskChoice::DENY),
            Self::Stop => Some(AskChoice::STOP),
            Self::Fields(_) => None,
        }
    }

    /// Returns the reply with `(secret)` in the place of the values of secret fields: a document about an answer is
    /// written to files and logs.
    #[must_use]
    pub fn without_secrets(&self, ask: &Ask) -> Self {
        let is_secret = |id: &str| ask.fields.iter().any(|field| field.id == id && field.secret);
        let mut reply = self.clone();
        if let Self::Fields(answers) = &mut reply {
            for answer in answers.iter_mut().filter(|answer| is_secret(&answer.field)) {
                answer.values = vec!["(secret)".to_owned()];
            }
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::blank_session;

    #[test]
    fn the_id_covers_the_request_the_call_and_the_rules_that_can_be_stored() {
        let mut session = blank_session("demo", "/home/ada".into());
        session.id = Some("s".into());
        let id = |native: &str, command: &str, rule: &str| {
            let mut ask = Ask::of(&session);
            let input = serde_json::json!({ "command": command });
            ask.set_tool(ToolCall { id: None, name: "shell".into(), input });
            ask.choices = vec![AskChoice::always(1, rule, AskScope::Session)];
            ask.identify(&session, native);
            ask.id
        };
        let shown = id("r1", "ls", "ls");
        assert_eq!(shown, id("r1", "ls", "ls"));
        assert_eq!(shown.len(), ASK_ID_CHARS);
        for other in [id("r2", "ls", "ls"), id("r1", "rm", "ls"), id("r1", "ls", "*")] {
            assert_ne!(shown, other);
        }
    }

    #[test]
    fn a_secret_answer_is_not_repeated() {
        let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
        let field = |id: &str| AskField::question(id, "?", Vec::new());
        ask.fields = vec![field("colour"), AskField { secret: true, ..field("token") }];
        let reply = |token: &str| {
            let answer = |field: &str, value: &str| FieldAnswer {
                field: field.to_owned(),
                values: vec![value.to_owned()],
            };
            Reply::Fields(vec![answer("colour", "red"), answer("token", token)])
        };
        assert_eq!(reply("hunter2").without_secrets(&ask), reply("(secret)"));
    }
}
