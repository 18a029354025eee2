//! The agent itself: one session, one turn after the other, until its script ends.
//!
//! Exit codes: 0 finished, 1 failed, 130 interrupted, 143 terminated. SIGKILL leaves its live record
//! behind and its last turn open, as with any agent.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use agentctl_core::adapters::demo::{Line, Live, Usage};
use agentctl_core::host::Host;
use agentctl_core::model::{is_session_id, shorten};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::home::{Conversation, Home};
use super::script::{self, Step};
use crate::failure::{Failure, Kind, Outcome};

const MODEL: &str = "demo-1";
/// Longest output of a tool that is kept, in bytes.
const OUTPUT_BYTES: u64 = 64 << 10;

/// Run the built-in demo agent
#[derive(Args)]
pub struct AgentArgs {
    /// What to do; `-` reads it from stdin
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
    /// End after this many seconds at the latest, as if terminated
    #[arg(long, value_name = "SECONDS")]
    at_most: Option<u64>,
    /// Send a live session an answer or a further prompt (-p), and end
    #[arg(long, value_name = "ID", conflicts_with_all = ["session_id", "resume", "stay"])]
    tell: Option<String>,
}

/// An event while the agent waits.
enum Event {
    Signal(i32),
    Told(String),
    ToolDone { text: String, is_error: bool },
}

/// How a turn ended.
enum Turn {
    Finished,
    Failed(String),
    Interrupted(i32),
}

struct Agent {
    home: Home,
    host: Arc<Host>,
    conversation: Conversation,
    live: Live,
    events: Receiver<Event>,
    sender: Sender<Event>,
    told: Vec<String>,
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
    let mut next = prompt;
    loop {
        code = match next.take() {
            Some(prompt) => agent.turn(&prompt)?,
            None => code,
        };
        if code >= 128 || !args.stay {
            break;
        }
        agent.say_live("idle", None)?;
        match agent.wait_for_words()? {
            Ok(words) => next = Some(words),
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
    UnixStream::connect(home.socket(*pid))?.write_all(text.as_bytes())?;
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
        listen(&home, me.id.pid, &sender)?;
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
            started_ms: host.now().millis(),
        };
        let told = Vec::new();
        let mut agent = Self {
            home,
            host: Arc::clone(host),
            conversation,
            live,
            events,
            sender,
            told,
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

    fn say_live(&mut self, status: &str, detail: Option<String>) -> io::Result<()> {
        status.clone_into(&mut self.live.status);
        self.live.detail = detail;
        self.home.write_live(std::process::id(), &self.live)
    }

    fn write(&mut self, line: Line) -> io::Result<()> {
        self.conversation.append(&line)
    }

    fn now(&self) -> String {
        self.host.now().to_string()
    }

    fn id(&mut self) -> String {
        self.messages += 1;
        format!("demo-{}-{}", std::process::id(), self.messages)
    }

    /// Plays one turn to its end and returns the matching exit code.
    fn turn(&mut self, prompt: &str) -> io::Result<i32> {
        self.say_live("busy", None)?;
        let (id, at) = (self.id(), self.now());
        self.write(Line::Prompt { id, text: prompt.to_owned(), at })?;
        let (state, error, code) = match self.play(prompt)? {
            Turn::Finished => ("finished", None, 0),
            Turn::Failed(why) => ("failed", Some(why), 1),
            Turn::Interrupted(signal) => ("interrupted", None, signal_code(signal)),
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
            let outcome = match step {
                Step::Say(text) => {
                    speak(&text);
                    let (id, usage, at) = (self.id(), spend(&mut read, &text), self.now());
                    self.write(Line::Say { id, text, model: self.model.clone(), usage, at })?;
                    None
                }
                Step::Tool(command) => self.tool(command, &mut read)?,
                Step::Ask(question) => self.ask(question)?,
                Step::Delay(time) => self.pause(Some(time)),
                Step::Hang => self.pause(None),
                Step::Error(why) => {
                    let why = if why.is_empty() { "scripted error".to_owned() } else { why };
                    return Ok(Turn::Failed(why));
                }
            };
            if let Some(signal) = outcome {
                return Ok(Turn::Interrupted(signal));
            }
        }
        Ok(Turn::Finished)
    }

    /// Runs a command in a process group of its own; an interrupt ends the whole group.
    fn tool(&mut self, command: String, read: &mut u64) -> io::Result<Option<i32>> {
        let (id, at, usage) = (self.id(), self.now(), spend(read, &command));
        let call = format!("call-{}", self.messages);
        self.say_live("tool", Some(format!("shell: {}", shorten(&command, 80))))?;
        let line = Line::Tool {
            id,
            call: call.clone(),
            command: command.clone(),
            model: self.model.clone(),
            usage,
            at,
        };
        self.write(line)?;
        let group = self.start_tool(&command)?;
        let outcome = loop {
            match self.events.recv() {
                Ok(Event::ToolDone { text, is_error }) => break Ok((text, is_error)),
                Ok(Event::Told(words)) => self.told.push(words),
                Ok(Event::Signal(signal)) => {
                    // The group may have ended by itself.
                    let _gone = group.map(|g| kill_process_group(g, Signal::KILL));
                    break Err(signal);
                }
                Err(_) => break Err(SIGTERM),
            }
        };
        match outcome {
            Ok((text, is_error)) => {
                let at = self.now();
                self.write(Line::Result { call, text, is_error, at })?;
                self.say_live("busy", None)?;
                Ok(None)
            }
            Err(signal) => Ok(Some(signal)),
        }
    }

    #[allow(clippy::disallowed_methods)] // an agent starts its own tools
    fn start_tool(&self, command: &str) -> io::Result<Option<Pid>> {
        let (mut said, output) = io::pipe()?;
        let mut child = Command::new("sh");
        child.args(["-c", command]).process_group(0);
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

    fn ask(&mut self, question: String) -> io::Result<Option<i32>> {
        // The entry is written before the live record: a look in between would date the prompt by the entry
        // before it, and another watcher by this one.
        let (id, at) = (self.id(), self.now());
        self.write(Line::Ask { id, question: question.clone(), at })?;
        self.say_live("waiting", Some(question.clone()))?;
        speak(&question);
        match self.wait_for_words()? {
            Ok(text) => {
                let (id, at) = (self.id(), self.now());
                self.write(Line::Answer { id, text, at })?;
                self.say_live("busy", None)?;
                Ok(None)
            }
            Err(signal) => Ok(Some(signal)),
        }
    }

    fn wait_for_words(&mut self) -> io::Result<Result<String, i32>> {
        if !self.told.is_empty() {
            return Ok(Ok(self.told.remove(0)));
        }
        loop {
            match self.events.recv() {
                Ok(Event::Told(words)) => return Ok(Ok(words)),
                Ok(Event::Signal(signal)) => return Ok(Err(signal)),
                Ok(Event::ToolDone { .. }) => {}
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    /// Waits for a time, or for ever; returns the signal that interrupted it.
    fn pause(&mut self, time: Option<Duration>) -> Option<i32> {
        let until = time.and_then(|t| Instant::now().checked_add(t));
        loop {
            let left = until
                .map_or(Duration::from_hours(1), |u| u.saturating_duration_since(Instant::now()));
            match self.events.recv_timeout(left) {
                Ok(Event::Signal(signal)) => return Some(signal),
                Ok(Event::Told(words)) => self.told.push(words),
                Err(RecvTimeoutError::Timeout) if until.is_some() => return None,
                Ok(Event::ToolDone { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Some(SIGTERM),
            }
        }
    }

    fn leave(mut self, code: i32) -> io::Result<()> {
        let at = self.now();
        self.write(Line::Exit { code, at })?;
        self.home.remove_live(std::process::id());
        Ok(())
    }
}

/// Starts the threads that send signals and received messages into one channel, so that one wait covers
/// both.
fn listen(home: &Home, pid: u32, sender: &Sender<Event>) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let to = sender.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // The main thread is exiting already.
            let _leaving = to.send(Event::Signal(signal));
        }
    });
    home.remove_live(pid);
    let listener = UnixListener::bind(home.socket(pid))?;
    let to = sender.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut text = String::new();
            if stream.take(1 << 20).read_to_string(&mut text).is_ok() {
                let _leaving = to.send(Event::Told(text));
            }
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
fn speak(text: &str) {
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
