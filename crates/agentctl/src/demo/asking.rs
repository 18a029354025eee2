//! Questions and permissions of the agent: one loop shows an ask and decides which answer is taken.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use agentctl_core::adapters::demo::{ASK_NOT_OPEN, Line, LiveAsk, SocketAnswer, SocketOrder};
use agentctl_core::model::shorten;

use super::agent::{Agent, Cut, Event, speak};

/// The result of waiting for an answer.
enum Answered {
    /// The tool may run.
    Allowed,
    /// The tool may not run, for this reason.
    Denied(String),
    /// The question is answered; the conversation holds the text.
    Text,
    Cut(Cut),
}

/// Whether the answer to a question is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Shown,
    Secret,
}

impl Agent {
    /// Asks for permission to run a command, and runs it if that is allowed. A denial continues the turn.
    pub(super) fn permit(&mut self, command: &str, read: &mut u64) -> io::Result<Option<Cut>> {
        let call = self.write_call(command, read)?;
        if self.always.contains(command) {
            return self.run_tool(call, command);
        }
        let ask = LiveAsk {
            id: call.clone(),
            kind: "permission".into(),
            text: format!("shell: {}", shorten(command, 80)),
            command: Some(command.to_owned()),
            options: Vec::new(),
            secret: false,
            until_ms: None,
        };
        match self.wait_for_answer(ask)? {
            Answered::Cut(cut) => Ok(Some(cut)),
            Answered::Denied(why) => {
                let at = self.now();
                self.write(Line::Result {
                    call,
                    text: why,
                    is_error: true,
                    at,
                    wrote: None,
                    denied: true,
                })?;
                self.say_live("busy", None)?;
                Ok(None)
            }
            Answered::Allowed | Answered::Text => self.run_tool(call, command),
        }
    }

    /// Asks a question: `Which?|Red|Blue` has two options.
    pub(super) fn ask(&mut self, question: &str, secrecy: Secrecy) -> io::Result<Option<Cut>> {
        let mut words = question.split('|').map(|word| word.trim().to_owned());
        let text = words.next().unwrap_or_default();
        let options: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        // The entry is written before the live record: a look in between would date the prompt by the entry
        // before it, and another watcher by this one.
        let (id, at) = (self.id(), self.now());
        self.write(Line::Ask { id: id.clone(), question: text.clone(), at })?;
        let ask = LiveAsk {
            id,
            kind: "question".into(),
            text: text.clone(),
            command: None,
            options,
            secret: secrecy == Secrecy::Secret,
            until_ms: None,
        };
        speak(&text);
        match self.wait_for_answer(ask)? {
            Answered::Cut(cut) => Ok(Some(cut)),
            Answered::Text | Answered::Allowed | Answered::Denied(_) => {
                self.say_live("busy", None)?;
                Ok(None)
            }
        }
    }

    /// Shows an ask and waits for its answer, at most as long as the agent may wait. This loop alone decides which
    /// answer is taken.
    fn wait_for_answer(&mut self, mut ask: LiveAsk) -> io::Result<Answered> {
        // A limit that is beyond the clock is none.
        let until = self.answer_limit.and_then(|limit| Instant::now().checked_add(limit));
        ask.until_ms = self.answer_limit.map(|limit| self.millis_after(limit));
        self.live.status = "waiting".into();
        self.live.detail = Some(ask.text.clone());
        self.live.ask = Some(ask.clone());
        self.home.write_live(std::process::id(), &self.live)?;
        loop {
            let Some(event) = self.next_event(until)? else {
                return Ok(Answered::Denied("denied: nobody answered in time".into()));
            };
            match event {
                Event::Told(text) if ask.kind == "question" => {
                    self.answer_question(&ask, text)?;
                    return Ok(Answered::Text);
                }
                Event::Order(request) => {
                    let answer = match &request.order {
                        SocketOrder::Answer(answer) if answer.ask == ask.id => answer.clone(),
                        SocketOrder::Answer(_) => {
                            request.refuse(ASK_NOT_OPEN);
                            continue;
                        }
                        _ => match self.take_elsewhere(Event::Order(request))? {
                            Some(cut) => return Ok(Answered::Cut(cut)),
                            None => continue,
                        },
                    };
                    match self.settle(&ask, answer)? {
                        Ok(answered) => {
                            request.take();
                            return Ok(answered);
                        }
                        Err(why) => request.refuse(why),
                    }
                }
                event => {
                    if let Some(cut) = self.take_elsewhere(event)? {
                        return Ok(Answered::Cut(cut));
                    }
                }
            }
        }
    }

    /// Waits for the next event; `None` if none comes until the deadline.
    fn next_event(&self, until: Option<Instant>) -> io::Result<Option<Event>> {
        let Some(until) = until else {
            return self.events.recv().map(Some).map_err(io::Error::other);
        };
        match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Decides about one answer to the open ask: taken with this result, or refused for this reason.
    fn settle(
        &mut self,
        ask: &LiveAsk,
        answer: SocketAnswer,
    ) -> io::Result<Result<Answered, &'static str>> {
        if answer.stop {
            return Ok(Ok(Answered::Cut(Cut::Order)));
        }
        if ask.kind == "question" {
            let chosen = (!answer.options.is_empty()).then(|| answer.options.join(", "));
            let Some(text) = answer.text.or(chosen) else {
                return Ok(Err("a question needs a text"));
            };
            self.answer_question(ask, text)?;
            return Ok(Ok(Answered::Text));
        }
        Ok(match answer.allow {
            Some(true) => {
                self.always.extend(ask.command.clone().filter(|_| answer.always));
                Ok(Answered::Allowed)
            }
            Some(false) => {
                let words = answer.message.map(|words| format!("denied: {words}"));
                Ok(Answered::Denied(words.unwrap_or_else(|| "denied".into())))
            }
            None => Err("a permission needs `allow`"),
        })
    }

    /// Writes the answer to a question. The record does not hold a secret.
    fn answer_question(&mut self, ask: &LiveAsk, text: String) -> io::Result<()> {
        let text = if ask.secret { "(secret)".to_owned() } else { text };
        let (id, at) = (self.id(), self.now());
        self.write(Line::Answer { id, text, at })
    }
}
