//! Lays out the messages of one conversation, in one go or as they come.

use std::collections::{HashMap, HashSet};

use agentctl_core::model::{Message, Role, Time, ToolCall, ToolResult};
use agentctl_core::transcript::Earlier;
use jiff::civil::Date;

use super::inline::Markup;
use super::markdown::markdown;
use super::plain::{plain, uncoloured};
use super::tools::{Shown, answer_lines, call_lines, folded_text, image_words, result_lines};
use super::wrap::Indent;
use super::{Line, LineKind, Span, SpanStyle};
use crate::face::{local_clock, local_date};
use crate::text::counted;

/// Lines of a prompt that are shown.
const PROMPT_LINES: usize = 20;
/// Lines of thinking that are shown.
const THINKING_LINES: usize = 3;
/// Lines of a message of the agent program that are shown.
const SYSTEM_LINES: usize = 10;
/// A longer pause within an answer is shown by a new heading with the time.
const PAUSE_MS: i64 = 5 * 60 * 1000;

/// The display that a conversation is laid out for.
#[derive(Clone, Debug)]
pub struct View {
    /// Columns; `None` if there is no limit.
    pub width: Option<usize>,
    /// Nothing is folded.
    pub is_full: bool,
    /// The display has styles, so that the characters of Markdown are not needed.
    pub has_styles: bool,
    /// How to see what is folded, such as `--full`.
    pub unfold: &'static str,
    /// The day that needs no mention.
    pub today: Option<Date>,
}

#[cfg(test)]
impl View {
    /// A view without styles.
    pub(super) fn plain(width: usize) -> Self {
        let width = Some(width);
        Self { width, is_full: false, has_styles: false, unfold: "--full", today: None }
    }
}

/// The layout of one conversation.
pub struct Conversation {
    view: View,
    day: Option<Date>,
    /// The author of the last heading.
    author: Option<Role>,
    /// The id of the last message: its parts may come as messages of their own.
    last_id: Option<String>,
    /// The time of the last message.
    last_at: Option<Time>,
    /// Calls without a result so far, by id.
    open: HashMap<String, (ToolCall, Option<Time>)>,
    /// The call that the last line belongs to.
    last_call: Option<String>,
    last_kind: Option<LineKind>,
}

/// The results of a batch of messages, by the id of their call.
type Results<'a> = HashMap<&'a str, (&'a ToolResult, Option<Time>)>;

impl Conversation {
    /// Begins a layout.
    #[must_use]
    pub fn new(view: View) -> Self {
        Self {
            day: view.today,
            view,
            author: None,
            last_id: None,
            last_at: None,
            open: HashMap::new(),
            last_call: None,
            last_kind: None,
        }
    }

    /// Takes note of calls whose results come later.
    pub fn expect(&mut self, calls: Vec<ToolCall>) {
        let calls = calls.into_iter().filter_map(|call| Some((call.id.clone()?, (call, None))));
        self.open.extend(calls);
    }

    /// Returns the line about the messages before a page, with how to see them; none if there are none.
    #[must_use]
    pub fn earlier_line(&self, earlier: Earlier, hint: &str) -> Option<Line> {
        let more = if earlier.is_exact { "" } else { "more than " };
        let words = counted(earlier.messages, "earlier message");
        let text = format!("… {more}{words} ({hint})");
        let spans = vec![Span::new(SpanStyle::Dimmed, text)];
        (earlier.messages > 0).then(|| Line::new(LineKind::Fold, spans))
    }

    /// Lays out messages that follow the ones before.
    pub fn lines(&mut self, messages: &[Message]) -> Vec<Line> {
        let mut results: Results<'_> = HashMap::new();
        for message in messages {
            for result in &message.tool_results {
                if let Some(id) = &result.id {
                    results.entry(id).or_insert((result, message.at));
                }
            }
        }
        let mut shown = HashSet::new();
        let mut lines = Vec::new();
        for message in messages {
            self.message(message, &results, &mut shown, &mut lines);
        }
        lines
    }

    fn message<'a>(
        &mut self,
        message: &'a Message,
        results: &Results<'a>,
        shown: &mut HashSet<&'a str>,
        lines: &mut Vec<Line>,
    ) {
        let is_pending =
            |result: &&ToolResult| result.id.as_deref().is_none_or(|id| !shown.contains(id));
        let pending: Vec<&ToolResult> = message.tool_results.iter().filter(is_pending).collect();
        let has_text = message.text.as_deref().is_some_and(|text| !text.trim().is_empty());
        let is_said = has_text || message.thinking.is_some() || !message.images.is_empty();
        if !is_said && message.tool_calls.is_empty() && pending.is_empty() {
            return;
        }
        let is_below_its_call = !is_said
            && message.tool_calls.is_empty()
            && self.last_call.is_some()
            && pending.first().is_some_and(|result| result.id == self.last_call);
        if !is_below_its_call {
            // A date or a heading, as after a pause, would part the result from its call.
            self.date(message.at, lines);
            self.heading(message, lines);
        }
        if is_said {
            self.said(message, lines);
        }
        for call in &message.tool_calls {
            let answer = call.id.as_deref().and_then(|id| results.get_key_value(id));
            let took = answer.and_then(|(_, (_, end))| duration(message.at?, (*end)?));
            self.call(call, answer.map(|(_, (result, _))| *result), took, lines);
            match (answer, &call.id) {
                (Some((id, _)), _) => drop(shown.insert(*id)),
                (None, Some(id)) => drop(self.open.insert(id.clone(), (call.clone(), message.at))),
                (None, None) => {}
            }
        }
        for result in pending {
            self.late_result(result, message.at, lines);
        }
    }

    /// Adds the day if it is another one than that of the message before.
    fn date(&mut self, at: Option<Time>, lines: &mut Vec<Line>) {
        let Some(day) = at.map(local_date) else { return };
        if self.day == Some(day) {
            return;
        }
        self.day = Some(day);
        self.author = None;
        self.gap(lines);
        let text = day.strftime("%A, %Y-%m-%d").to_string();
        self.push(lines, LineKind::Date, vec![Span::new(SpanStyle::Strong, text)]);
    }

    /// Adds the author, unless the lines before are of the same one.
    fn heading(&mut self, message: &Message, lines: &mut Vec<Line>) {
        // A tool works for the assistant.
        let role = if message.role == Role::Tool { Role::Assistant } else { message.role };
        let paused =
            self.last_at.zip(message.at).is_some_and(|(a, b)| b.millis() - a.millis() > PAUSE_MS);
        let is_part = message.id.is_some() && self.last_id == message.id;
        self.last_id.clone_from(&message.id);
        let may_continue = role == Role::Assistant || is_part;
        let continues = may_continue && self.author == Some(role) && !paused;
        self.last_at = message.at.or(self.last_at);
        if continues {
            return;
        }
        self.author = Some(role);
        if self.last_kind != Some(LineKind::Date) {
            self.gap(lines);
        }
        let when = message.at.map(|at| format!("  {}", local_clock(at))).unwrap_or_default();
        let author = Span::new(SpanStyle::Author(role), author(role));
        self.push(lines, LineKind::Author, vec![author, Span::plain(when)]);
    }

    fn said(&mut self, message: &Message, lines: &mut Vec<Line>) {
        let is_after_tool = !matches!(
            self.last_kind,
            None | Some(LineKind::Author | LineKind::Date | LineKind::Blank)
        );
        if is_after_tool {
            self.gap(lines);
        }
        if let Some(thinking) = &message.thinking {
            self.extend(lines, self.thinking(thinking));
        }
        for image in &message.images {
            let words = Span::new(SpanStyle::Dimmed, image_words(image));
            self.push(lines, LineKind::Image, vec![Span::plain("  "), words]);
        }
        if let Some(text) = message.text.as_deref().filter(|text| !text.trim().is_empty()) {
            if message.thinking.is_some() {
                self.gap(lines);
            }
            let text = self.text(message.role, text);
            self.extend(lines, text);
        }
    }

    fn text(&self, role: Role, text: &str) -> Vec<Line> {
        let gap = Span::plain("  ");
        let kind = (LineKind::Text, SpanStyle::Plain);
        match role {
            Role::Assistant => {
                let markup = if self.view.has_styles { Markup::Styled } else { Markup::Written };
                let text = plain(text);
                let text = text.trim_matches('\n').trim_end();
                let rows = markdown(text, &Indent::of(vec![gap]), self.view.width, markup);
                rows.into_iter().map(|row| Line::new(LineKind::Text, row)).collect()
            }
            Role::User => {
                let text = plain(text);
                let text = text.trim_matches('\n');
                folded_text(text, kind, (&gap, Shown::First(PROMPT_LINES)), &self.view)
            }
            Role::System | Role::Tool => {
                let text = uncoloured(text);
                let text = text.trim_matches('\n');
                folded_text(text, kind, (&gap, Shown::First(SYSTEM_LINES)), &self.view)
            }
        }
    }

    fn thinking(&self, text: &str) -> Vec<Line> {
        let text = plain(text);
        let text = text.trim();
        let text = if text.is_empty() {
            "thinking (not recorded)".to_owned()
        } else {
            format!("thinking: {text}")
        };
        let kind = (LineKind::Thinking, SpanStyle::Dimmed);
        folded_text(&text, kind, (&Span::plain("  "), Shown::First(THINKING_LINES)), &self.view)
    }

    fn call(
        &mut self,
        call: &ToolCall,
        result: Option<&ToolResult>,
        took: Option<String>,
        lines: &mut Vec<Line>,
    ) {
        self.extend(lines, call_lines(call, result, took, &self.view));
        self.last_call.clone_from(&call.id);
    }

    /// Adds a result whose call was shown in an earlier batch, or not at all.
    fn late_result(&mut self, result: &ToolResult, at: Option<Time>, lines: &mut Vec<Line>) {
        let known = result.id.as_ref().and_then(|id| self.open.remove(id));
        match known {
            // Its call is the last line: the result stands below it.
            Some((call, _)) if self.last_call == call.id && self.last_call.is_some() => {
                self.extend(lines, answer_lines(&call, result, &self.view));
            }
            Some((call, began)) => {
                let took = began.zip(at).and_then(|(began, end)| duration(began, end));
                self.call(&call, Some(result), took, lines);
            }
            None => self.extend(lines, result_lines(result, &self.view)),
        }
    }

    fn gap(&mut self, lines: &mut Vec<Line>) {
        if self.last_kind.is_some_and(|kind| kind != LineKind::Blank) {
            self.push(lines, LineKind::Blank, Vec::new());
        }
    }

    fn push(&mut self, lines: &mut Vec<Line>, kind: LineKind, spans: Vec<Span>) {
        self.extend(lines, vec![Line::new(kind, spans)]);
    }

    fn extend(&mut self, lines: &mut Vec<Line>, mut more: Vec<Line>) {
        let Some(last) = more.last() else { return };
        self.last_kind = Some(last.kind);
        self.last_call = None;
        lines.append(&mut more);
    }
}

fn author(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    }
}

/// Returns the time between two moments, if it is a second or more.
fn duration(began: Time, end: Time) -> Option<String> {
    let seconds = (end.millis() - began.millis()) / 1000;
    match seconds {
        ..1 => None,
        1..60 => Some(format!("{seconds}s")),
        60..3600 => Some(format!("{}m {}s", seconds / 60, seconds % 60)),
        _ => Some(format!("{}h {}m", seconds / 3600, seconds % 3600 / 60)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(value: Value) -> Message {
        let mut message = serde_json::to_value(Message::of(Role::Assistant)).expect("JSON");
        for (key, value) in value.as_object().cloned().into_iter().flatten() {
            message[key] = value;
        }
        serde_json::from_value(message).expect("a message")
    }

    fn call(id: &str, name: &str, input: Value) -> Message {
        message(json!({"tool_calls": [{"id": id, "name": name, "input": input}]}))
    }

    fn result(id: &str, text: &str) -> Message {
        let result = json!({"id": id, "text": text, "is_error": false});
        message(json!({"role": "tool", "tool_results": [result]}))
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn results_of_later_batches_find_their_calls() {
        let mut conversation = Conversation::new(View::plain(40));
        let content = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12";
        let write = call("w", "Write", json!({"file_path": "a", "content": content}));
        let lines = conversation.lines(&[call("b", "Bash", json!({"command": "ls"})), write]);
        assert!(texts(&lines).contains(&"    … 4 more lines (--full)".to_owned()), "{lines:?}");
        assert_eq!(
            conversation.lines(&[result("w", "created")]),
            [],
            "the change is shown already"
        );
        let late = conversation.lines(&[result("b", "src")]);
        assert_eq!(texts(&late), ["  ▸ Bash(ls)", "    │ src"], "the call is repeated");
        let lines = conversation.lines(&[call("c", "Bash", json!({"command": "id"}))]);
        assert_eq!(texts(&lines), ["  ▸ Bash(id)"]);
        assert_eq!(texts(&conversation.lines(&[result("c", "ada")])), ["    │ ada"]);
        let unknown = conversation.lines(&[result("never", "x")]);
        assert_eq!(texts(&unknown), ["    │ x"]);
    }

    #[test]
    fn a_result_after_a_long_pause_or_midnight_stands_below_its_call() {
        for (asked, answered) in [
            ("2026-11-14T10:00:00.000Z", "2026-11-14T10:08:00.000Z"),
            ("2026-11-14T10:00:00.000Z", "2026-11-16T10:00:00.000Z"),
        ] {
            let mut conversation = Conversation::new(View::plain(40));
            let at = |mut message: Message, time: &str| {
                message.at = serde_json::from_value(json!(time)).expect("a time");
                message
            };
            let first = at(call("a", "Bash", json!({"command": "ls"})), asked);
            conversation.lines(&[first]);
            let next = at(call("b", "Bash", json!({"command": "id"})), answered);
            let lines = conversation.lines(&[at(result("a", "src"), answered), next]);
            let texts = texts(&lines);
            assert_eq!(texts.first().map(String::as_str), Some("    │ src"), "{texts:?}");
            assert_eq!(texts.last().map(String::as_str), Some("  ▸ Bash(id)"), "{texts:?}");
            assert!(!texts.contains(&"  ▸ Bash(ls)".to_owned()), "the call is there: {texts:?}");
            let authors = lines.iter().filter(|line| line.kind == LineKind::Author).count();
            assert_eq!(authors, 1, "the next call is below the pause: {texts:?}");
        }
    }

    #[test]
    fn a_day_and_a_pause_are_shown() {
        let mut conversation = Conversation::new(View::plain(40));
        let at = |time: &str| message(json!({"text": "x", "at": time}));
        let lines = conversation.lines(&[
            at("2026-11-14T10:00:00.000Z"),
            at("2026-11-14T10:04:00.000Z"),
            at("2026-11-14T10:10:00.000Z"),
            at("2026-11-16T10:10:30.000Z"),
        ]);
        let kinds = |kind: LineKind| lines.iter().filter(|line| line.kind == kind).count();
        assert_eq!((kinds(LineKind::Date), kinds(LineKind::Author)), (2, 3), "{:?}", texts(&lines));
    }
}
