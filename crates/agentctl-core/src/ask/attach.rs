//! The order `attach`: how a person gets at the terminal of one session.

use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, InspectedSession, NotContinued, NotStarted};
use crate::adapters::RootPlace;
use crate::adapters::control::{Control, Order, Refusal, Start};
use crate::kernel::Process;
use crate::launch::{self, LaunchError};
use crate::model::{Fault, Session};

/// How one session is attached to.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Attachment {
    /// The session.
    pub session: Session,
    /// The way to its terminal.
    pub way: AttachmentWay,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// The way to the terminal of a session.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentWay {
    /// No process serves it: this command opens it in the agent's own interface.
    Open(OpenCommand),
    /// No process serves it, and its agent has no interface in a terminal.
    NoInterface,
    /// A process that serves it has this terminal.
    Terminal(SessionTerminal),
    /// Its processes have no terminal.
    NoTerminal {
        /// The process.
        pid: u32,
        /// It was launched by this program.
        launched: bool,
    },
    /// It lives in a server that other sessions share, or on another machine.
    Server {
        /// The process of the server, where it runs on this machine.
        pid: Option<u32>,
    },
}

/// The command that opens a session in the agent's own interface.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct OpenCommand {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set for it.
    pub set: Vec<(String, String)>,
    /// Variables removed from its environment.
    pub unset: Vec<String>,
    /// The directory of the session.
    pub cwd: PathBuf,
}

/// The terminal of a live session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct SessionTerminal {
    /// The process of the session.
    pub pid: u32,
    /// The device file of its terminal.
    pub tty: PathBuf,
    /// The program that runs the terminal (a terminal emulator, tmux, sshd), where it is an ancestor.
    pub program: Option<String>,
}

impl Fleet {
    /// Finds the way to the terminal of the one session that a text names. Nothing is started.
    pub fn attachment(&self, text: &str) -> Result<Attachment, NotStarted> {
        let not_continued = |why| NotStarted::NotContinued { text: text.to_owned(), why };
        let found = self.inspected(text).map_err(NotContinued::NotOne).map_err(not_continued)?;
        let InspectedSession { session, faults, .. } = found;
        let is_remote = self.adapter(session.adapter).is_some_and(super::launch::is_remote);
        let way = if is_remote || session.hosted {
            AttachmentWay::Server { pid: session.pid }
        } else if session.processes.is_empty() {
            self.open_command(text)?.map_or(AttachmentWay::NoInterface, AttachmentWay::Open)
        } else {
            self.terminal_of(&session)
        };
        Ok(Attachment { session, way, faults })
    }

    fn terminal_of(&self, session: &Session) -> AttachmentWay {
        let kernel = &self.host.kernel;
        let serving = session.processes.iter().filter_map(|serving| {
            let process = kernel.process(serving.id.pid).ok().flatten();
            process.filter(|now| now.id == serving.id)
        });
        // A terminal of another container has a name that may mean another terminal here.
        let with_terminal = serving.filter(|process| !process.elsewhere);
        let found = with_terminal.map(|p| (kernel.terminal(&p), p)).find(|(tty, _)| tty.is_some());
        match found {
            Some((Some(tty), process)) => {
                let program = self.terminal_program(&process, &tty);
                AttachmentWay::Terminal(SessionTerminal { pid: process.id.pid, tty, program })
            }
            _ => AttachmentWay::NoTerminal {
                pid: session.pid.unwrap_or_default(),
                launched: session.run.is_some(),
            },
        }
    }

    /// Returns the name of the first ancestor of a process that does not run on its terminal.
    fn terminal_program(&self, process: &Process, tty: &std::path::Path) -> Option<String> {
        let kernel = &self.host.kernel;
        let mut ancestors = kernel.ancestors(process);
        let outside = ancestors.find(|above| kernel.terminal(above).as_deref() != Some(tty))?;
        (outside.id.pid > 1).then_some(outside.comm)
    }

    /// Returns the command that opens an ended session, if its agent has one. Its home must be configured: the agent is started with the
    /// home as its configuration.
    fn open_command(&self, text: &str) -> Result<Option<OpenCommand>, NotStarted> {
        let mut ignored = |_: &Fault| {};
        let found = self.continuation(text, None, false, &mut ignored);
        let found = found.map_err(|why| NotStarted::NotContinued { text: text.to_owned(), why })?;
        let failed = |error: LaunchError| NotStarted::Failed(error);
        let missing = || NotStarted::NotContinued {
            text: text.to_owned(),
            why: NotContinued::NotOne(super::NotOne::Nothing),
        };
        let target = found.from.ok_or_else(missing)?;
        let id = target.session.as_ref().map(|locator| locator.id.clone()).ok_or_else(missing)?;
        launch::check_continuable(self, &target).map_err(failed)?;
        let cwd = launch::directory(&found.cwd).map_err(failed)?;
        let order = Order::resume(id, cwd.clone(), RootPlace::of_label(&target.root));
        let control: Option<&dyn Control> = found.adapter.control();
        let start = control.and_then(|control| control.interactive_resume(&self.host, &order));
        let command = start.map(|start| self.in_directory(start?, cwd)).transpose();
        command.map_err(|refusal| failed(refusal.into()))
    }

    fn in_directory(&self, start: Start, cwd: PathBuf) -> Result<OpenCommand, Refusal> {
        let Start { program, args, set, unset, .. } = start;
        let args = args.into_iter().map(OsString::into_string).collect::<Result<_, _>>();
        let args = args.map_err(|_| {
            Refusal::new("the path of its record is not UTF-8", "rename that folder")
        })?;
        // The agent must not be taken for a tool of an agent that this command runs inside of.
        let unset = launch::around_us(self.adapters).into_iter().chain(unset).collect();
        Ok(OpenCommand { program, args, set, unset, cwd })
    }
}
