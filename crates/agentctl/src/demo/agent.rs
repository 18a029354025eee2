//! The agent itself: one session, one turn after the other, until its script ends.
//!
//! Exit codes: 0 finished, 1 failed, 130 interrupted, 143 terminated. SIGKILL leaves its live record
//! behind and its last turn open, as with any agent.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use agentctl_core::adapters::demo::{ASK_NOT_OPEN, Line, Live, SocketOrder, Usage};
use agentctl_core::host::Host;
use agentctl_core::marks::DEMO_PID;
use agentctl_core::model::{is_session_id, shorten};
use agentctl_core::talk::connect_unix;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::asking::Secrecy;
use super::home::{Conversation, Home};
use super::script::{self, Step};
use super::socket::{self, Request};
use super::writing;
use crate::failure::{Failure, Kind, Outcome};

const MODEL: &str = "demo-1";
/// Longest output of a tool that is kept, in bytes.
const OUTPUT_BYTES: u64 = 64 << 10;
/// Time to connect to another demo agent.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);

/// Run the built-in demo agent
#[derive(Args)]
pub struct AgentArgs {
    /// The prompt; `-` reads it from stdin
    #[arg(short, long)]
    prompt: Option<String>,
    /// The id of the new session
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    session_id: Option<String>,
    /// Continue this session
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// The name of the model it claims to use
    #[arg(long, default_value = MODEL)]
    model: String,
    /// Stay for further prompts when the turn is over
    #[arg(long)]
    stay: bool,
    /// Wait this long for each answer, then go on as after a denial [default: for ever]
    #[arg(long, value_name = "MILLISECONDS")]
    answer_within_ms: Option<u64>,
    /// End after this many seconds at the latest, as if terminated
    #[arg(long, value_name = "SECONDS")]
    at_most: Option<u64>,
    /// Send a live session an answer or a further prompt (-p), and end
    #[arg(long, value_name = "ID", conflicts_with_all = ["session_id", "resume", "stay"])]
    tell: Option<String>,
}

/// An event while the agent waits.
pub(super) enum Event {
    Signal(i32),
    /// A person typed this text.
    Told(String),
    /// Another process sent an order.
    Order(Request),
    ToolDone {
        text: String,
        is_error: bool,
    },
}

/// How a turn ended.
enum Turn {
    Finished,
    Failed(String),
    Cut(Cut),
}

/// The cause that cuts a turn short.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    /// This signal: the process exits.
    Signal(i32),
    /// An order that ends the turn only.
    Order,
}

/// Words that will become a turn.
struct Prompt {
    text: String,
    /// The id under which the conversation already holds them.
    recorded: Option<String>,
}

impl Prompt {
    fn typed(text: String) -> Self {
        Self { text, recorded: None }
    }
}

pub(super) struct Agent {
    pub(super) home: Home,
    host: Arc<Host>,
    conversation: Conversation,
    pub(super) live: Live,
    pub(super) events: Receiver<Event>,
    sender: Sender<Event>,
    queue: VecDeque<Prompt>,
    /// The messages that it has taken, by the id that their sender chose.
    taken: HashSet<String>,
    /// The commands that may run without another ask.
    pub(super) always: HashSet<String>,
    /// The time for each answer.
    pub(super) answer_limit: Option<Duration>,
    messages: u64,
    model: String,
}

/// Runs the agent.
pub fn run(host: &Arc<Host>, args: &AgentArgs) -> Outcome {
    let home = Home::open(host)?;
    let prompt = match args.prompt.as_deref() {
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            Some(text)
        }
        other => other.map(str::to_owned),
    };
    if let Some(id) = &args.tell {
        return tell(host, &home, id, prompt.as_deref().unwrap_or_default());
    }
    let mut agent = Agent::start(host, home, args)?;
    let mut code = 0;
    let mut next = prompt.map(Prompt::typed);
    loop {
        code = match next.take() {
            Some(prompt) => agent.turn(prompt)?,
            None => code,
        };
        if code >= 128 || !args.stay {
            break;
        }
        match agent.next_prompt()? {
            Ok(prompt) => next = Some(prompt),
            Err(signal) => {
                code = signal_code(signal);
                break;
            }
        }
    }
    agent.leave(code)?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn signal_code(signal: i32) -> i32 {
    128 + signal
}

fn tell(host: &Host, home: &Home, id: &str, text: &str) -> Outcome {
    let served = home.served(&host.kernel);
    let fitting: Vec<_> = served.iter().filter(|(_, session)| session.starts_with(id)).collect();
    let [(pid, _)] = fitting.as_slice() else {
        let message = format!("`{id}` matches {} live demo sessions", fitting.len());
        return Err(
            Failure::new(Kind::Failed, message).hint("`agentctl list --adapter demo` shows them")
        );
    };
    connect_unix(&home.socket(*pid), TELL_TIMEOUT)?.write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

impl Agent {
    fn start(host: &Arc<Host>, home: Home, args: &AgentArgs) -> Result<Self, Failure> {
        let refused = |why: String| Failure::new(Kind::Failed, why);
        let fresh = || uuid::Uuid::now_v7().to_string();
        let id = args.resume.clone().or(args.session_id.clone()).unwrap_or_else(fresh);
        if !is_session_id(&id) {
            return Err(refused(format!("`{id}` cannot be a session id")));
        }
        let served = home.served(&host.kernel);
        if let Some((pid, _)) = served.iter().find(|(_, session)| *session == id) {
            return Err(refused(format!("session {id} is already running in pid {pid}")));
        }
        let path = home.conversation(&id);
        let conversation = match &args.resume {
            Some(_) => {
                Conversation::reopen(&path).map_err(|_| refused(format!("no session {id}")))?
            }
            None => Conversation::create(&path)
                .map_err(|_| refused(format!("session {id} already exists")))?,
        };
        let me =
            host.kernel.process(std::process::id())?.ok_or_else(|| refused("no /proc".into()))?;
        let cwd = std::env::current_dir()?.to_string_lossy().into_owned();
        let (sender, events) = channel();
        listen_for_signals(&sender)?;
        socket::listen(&home, me.id.pid, &sender)?;
        if let Some(seconds) = args.at_most {
            end_after(Duration::from_secs(seconds), &sender);
        }
        let live = Live {
            start_ticks: me.id.start_ticks,
            boot_id: me.id.boot_id,
            machine_id: host.kernel.machine_id().map(str::to_owned),
            pid_namespace: host.kernel.pid_namespace(),
            session: id.clone(),
            cwd: cwd.clone(),
            status: "busy".into(),
            detail: None,
            ask: None,
            stays: args.stay,
            started_ms: host.now().millis(),
        };
        let mut agent = Self {
            home,
            host: Arc::clone(host),
            conversation,
            live,
            events,
            sender,
            queue: VecDeque::new(),
            taken: HashSet::new(),
            always: HashSet::new(),
            answer_limit: args.answer_within_ms.map(Duration::from_millis),
            messages: 0,
            model: args.model.clone(),
        };
        if args.resume.is_none() {
            agent.write(Line::Session { cwd, model: args.model.clone() })?;
        }
        agent.say_live("busy", None)?;
        speak(&format!("session {id}"));
        Ok(agent)
    }

    pub(super) fn say_live(&mut self, status: &str, detail: Option<String>) -> io::Result<()> {
        status.clone_into(&mut self.live.status);
        self.live.detail = detail;
        self.live.ask = None;
        self.home.write_live(std::process::id(), &self.live)
    }

    pub(super) fn write(&mut self, line: Line) -> io::Result<()> {
        self.conversation.append(&line)
    }

    pub(super) fn now(&self) -> String {
        self.host.now().to_string()
    }

    /// Returns the moment after a span from now, in milliseconds.
    pub(super) fn millis_after(&self, span: Duration) -> i64 {
        let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        self.host.now().millis().saturating_add(span)
    }

    pub(super) fn id(&mut self) -> String {
        self.messages += 1;
        format!("demo-{}-{}", std::process::id(), self.messages)
    }

    /// Plays one turn to its end and returns the matching exit code.
    fn turn(&mut self, prompt: Prompt) -> io::Result<i32> {
        self.say_live("busy", None)?;
        let at = self.now();
        let line = match prompt.recorded {
            Some(message) => Line::Turn { message, at },
            None => {
                let id = self.id();
                Line::Prompt { id, text: prompt.text.clone(), at }
            }
        };
        self.write(line)?;
        let (state, error, code) = match self.play(&prompt.text)? {
            Turn::Finished => ("finished", None, 0),
            Turn::Failed(why) => ("failed", Some(why), 1),
            Turn::Cut(Cut::Signal(signal)) => ("interrupted", None, signal_code(signal)),
            Turn::Cut(Cut::Order) => ("interrupted", None, 1),
        };
        if let Some(why) = &error {
            speak(&format!("error: {why}"));
        }
        let at = self.now();
        self.write(Line::End { state: state.into(), error, at })?;
        Ok(code)
    }

    fn play(&mut self, prompt: &str) -> io::Result<Turn> {
        let mut read = usage_of(prompt);
        for step in script::read(prompt) {
            let cut = match step {
                Step::Say(text) => {
                    speak(&text);
                    let (id, usage, at) = (self.id(), spend(&mut read, &text), self.now());
                    self.write(Line::Say { id, text, model: self.model.clone(), usage, at })?;
                    None
                }
                Step::Tool(command) => {
                    let call = self.write_call(&command, &mut read)?;
                    self.run_tool(call, &command)?
                }
                Step::Write(path, text) => {
                    self.write_file(path, text, &mut read)?;
                    None
                }
                Step::Permit(command) => self.permit(&command, &mut read)?,
                Step::Ask(question) => self.ask(&question, Secrecy::Shown)?,
                Step::AskSecret(question) => self.ask(&question, Secrecy::Secret)?,
                Step::Delay(time) => self.pause(Some(time))?,
                Step::Hang => self.pause(None)?,
                Step::Error(why) => {
                    let why = if why.is_empty() { "scripted error".to_owned() } else { why };
                    return Ok(Turn::Failed(why));
                }
            };
            if let Some(cut) = cut {
                return Ok(Turn::Cut(cut));
            }
        }
        Ok(Turn::Finished)
    }

    /// Writes the call of a command; returns its id.
    pub(super) fn write_call(&mut self, command: &str, read: &mut u64) -> io::Result<String> {
        let (id, at, usage) = (self.id(), self.now(), spend(read, command));
        let call = format!("call-{}-{}", std::process::id(), self.messages);
        let (command, model) = (command.to_owned(), self.model.clone());
        self.write(Line::Tool { id, call: call.clone(), command, model, usage, at })?;
        Ok(call)
    }

    /// Writes a file, and records its content before and after.
    fn write_file(&mut self, path: String, text: String, read: &mut u64) -> io::Result<()> {
        let (id, at, usage) = (self.id(), self.now(), spend(read, &text));
        let call = format!("call-{}-{}", std::process::id(), self.messages);
        let content = if text.is_empty() { text } else { format!("{text}\n") };
        let (line_path, line_call) = (path.clone(), call.clone());
        let line = Line::Write {
            id,
            call: line_call,
            path: line_path,
            content: content.clone(),
            model: self.model.clone(),
            usage,
            at,
        };
        self.write(line)?;
        let written = writing::write(&path, content);
        let (text, is_error, wrote) = match written {
            Ok(wrote) => (format!("wrote {path}"), false, Some(wrote)),
            Err(error) => (format!("{path} cannot be written: {error}"), true, None),
        };
        let at = self.now();
        self.write(Line::Result { call, text, is_error, at, wrote, denied: false })
    }

    /// Runs a command in a process group of its own; an interrupt ends the whole group.
    pub(super) fn run_tool(&mut self, call: String, command: &str) -> io::Result<Option<Cut>> {
        self.say_live("tool", Some(format!("shell: {}", shorten(command, 80))))?;
        let group = self.start_tool(command)?;
        let outcome = loop {
            match self.events.recv() {
                Ok(Event::ToolDone { text, is_error }) => break Ok((text, is_error)),
                Ok(event) => {
                    if let Some(cut) = self.take_elsewhere(event)? {
                        // The group may have ended by itself.
                        let _gone = group.map(|g| kill_process_group(g, Signal::KILL));
                        break Err(cut);
                    }
                }
                Err(_) => break Err(Cut::Signal(SIGTERM)),
            }
        };
        match outcome {
            Ok((text, is_error)) => {
                let at = self.now();
                self.write(Line::Result { call, text, is_error, at, wrote: None, denied: false })?;
                self.say_live("busy", None)?;
                Ok(None)
            }
            Err(cut) => Ok(Some(cut)),
        }
    }

    #[allow(clippy::disallowed_methods)] // an agent starts its own tools
    fn start_tool(&self, command: &str) -> io::Result<Option<Pid>> {
        let (mut said, output) = io::pipe()?;
        let mut child = Command::new("sh");
        child.args(["-c", command]).process_group(0);
        child.env(DEMO_PID, std::process::id().to_string());
        child.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut running = child.spawn()?;
        // The command holds the write end of the pipe; without it the pipe ends with the tool.
        drop(child);
        let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw);
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // Output before a broken pipe counts; the rest is drained, because a full pipe would block
            // the tool.
            let _said = said.by_ref().take(OUTPUT_BYTES).read_to_end(&mut text);
            let _drained = io::copy(&mut said, &mut io::sink());
            let is_error = running.wait().map_or(true, |status| !status.success());
            let text = String::from_utf8_lossy(&text).into_owned();
            // After an interrupt there is no receiver any more.
            let _unheard = sender.send(Event::ToolDone { text, is_error });
        });
        Ok(group)
    }

    /// Takes an event that nothing waits for; returns the cause if it cuts the turn short.
    pub(super) fn take_elsewhere(&mut self, event: Event) -> io::Result<Option<Cut>> {
        match event {
            Event::Signal(signal) => return Ok(Some(Cut::Signal(signal))),
            Event::Told(text) => self.queue.push_back(Prompt::typed(text)),
            Event::ToolDone { .. } => {}
            Event::Order(request) => match request.order.clone() {
                SocketOrder::Answer(_) => request.refuse(ASK_NOT_OPEN),
                SocketOrder::Interrupt {} => {
                    request.take();
                    return Ok(Some(Cut::Order));
                }
                SocketOrder::Message { .. } if !self.live.stays => {
                    request.refuse("it takes no messages: it ends with this turn");
                }
                SocketOrder::Message { id, text } => {
                    if self.taken.insert(id.clone()) {
                        let at = self.now();
                        self.write(Line::Message { id: id.clone(), text: text.clone(), at })?;
                        self.queue.push_back(Prompt { text, recorded: Some(id) });
                    }
                    request.take();
                }
            },
        }
        Ok(None)
    }

    /// Waits for the next turn: a queued message, or a new one. Returns the signal that ends the process.
    fn next_prompt(&mut self) -> io::Result<Result<Prompt, i32>> {
        if let Some(prompt) = self.queue.pop_front() {
            return Ok(Ok(prompt));
        }
        self.say_live("idle", None)?;
        loop {
            match self.events.recv().map_err(io::Error::other)? {
                Event::Told(text) => return Ok(Ok(Prompt::typed(text))),
                Event::Signal(signal) => return Ok(Err(signal)),
                Event::Order(request) => match request.order.clone() {
                    SocketOrder::Message { id, .. } if self.taken.contains(&id) => request.take(),
                    SocketOrder::Message { id, text } => {
                        self.taken.insert(id.clone());
                        let at = self.now();
                        // The status changes before the message is recorded: a receipt means a turn.
                        self.say_live("busy", None)?;
                        self.write(Line::Message { id: id.clone(), text: text.clone(), at })?;
                        request.take();
                        return Ok(Ok(Prompt { text, recorded: Some(id) }));
                    }
                    SocketOrder::Interrupt {} => request.refuse("no turn is running"),
                    SocketOrder::Answer(_) => request.refuse(ASK_NOT_OPEN),
                },
                Event::ToolDone { .. } => {}
            }
        }
    }

    /// Waits for a time, or for ever; returns the cause that cut it short.
    fn pause(&mut self, time: Option<Duration>) -> io::Result<Option<Cut>> {
        let until = time.and_then(|t| Instant::now().checked_add(t));
        loop {
            let left = until
                .map_or(Duration::from_hours(1), |u| u.saturating_duration_since(Instant::now()));
            match self.events.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) if until.is_some() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(Some(Cut::Signal(SIGTERM))),
                Ok(event) => {
                    if let Some(cut) = self.take_elsewhere(event)? {
                        return Ok(Some(cut));
                    }
                }
            }
        }
    }

    fn leave(mut self, code: i32) -> io::Result<()> {
        let at = self.now();
        self.write(Line::Exit { code, at })?;
        self.home.leave();
        Ok(())
    }
}

/// Starts the thread that sends signals into the channel, so that one wait covers everything.
fn listen_for_signals(sender: &Sender<Event>) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let to = sender.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // The main thread is exiting already.
            let _leaving = to.send(Event::Signal(signal));
        }
    });
    Ok(())
}

/// Ends the agent like a SIGTERM, unless it has ended before.
fn end_after(time: Duration, sender: &Sender<Event>) {
    let to = sender.clone();
    std::thread::spawn(move || {
        let until = Instant::now() + time;
        while Instant::now() < until {
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
        let _leaving = to.send(Event::Signal(SIGTERM));
    });
}

/// Prints a line of the agent. If the reader of stdout is gone, the agent continues.
pub(super) fn speak(text: &str) {
    let _unheard = writeln!(io::stdout(), "{text}");
}

fn usage_of(text: &str) -> u64 {
    50 + text.len() as u64 / 4
}

/// Counts the tokens of a step: all earlier text is read from the model's cache, new text is written
/// into it.
fn spend(read: &mut u64, text: &str) -> Usage {
    let output = 1 + text.len() as u64 / 4;
    let usage = Usage { input: 10, output, cache_read: *read, cache_write: output };
    *read += output;
    usage
}
