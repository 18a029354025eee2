//! The orders `launch` and `resume`: start a session, find the session that began, and run its hook.

mod as_before;
mod checks;
mod request;
mod sentence;
mod worktree;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::checks::hooks_in_force;
pub(super) use self::checks::{check_choices, check_hooks};
pub use self::request::{
    LaunchDefaults, LaunchHooks, LaunchOptions, LaunchRequest, LaunchSubject, TextOrBytes,
};
pub use self::worktree::WorktreeRequest;
use super::FuseOrderError;
use super::names::{LaunchWords, WordRefusal};
use super::resume::{Continuation, NotContinued};
use super::{Fleet, WaitTarget};
use crate::adapters::control::{Begin, Order, Refusal};
use crate::adapters::{Adapter, RootPlace};
use crate::hooks::{self, Facts};
use crate::host::Host;
use crate::kernel::{Cancellation, OpenOrder};
use crate::launch::context::ContextError;
use crate::launch::slots::SlotsError;
use crate::launch::{LaunchError, LaunchOrder, StartedLaunch, check_brakes, check_prompt, launch};
use crate::locks::Holder;
use crate::model::{Fault, InternedName, SCHEMA_VERSION, Session, Target, word};
use crate::names::NameReservation;
use crate::resolve::resolve;
use crate::runs::{Attendance, HookMoment, Runs};
use crate::transcript::Transcript;
use crate::worktrees::{Made, MakeError, MakeNews};

/// The longest time between an agent's first words and its first record.
pub(super) const FIRST_RECORD_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two looks for the first record.
const FIRST_RECORD_PAUSE: Duration = Duration::from_millis(20);

/// The result of a launch. `launch --json` prints its session alone.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LaunchDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The agent's own session id.
    pub id: String,
    /// The adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The id of the run; null for a session on a server, which leaves no run on this machine.
    pub run: Option<String>,
    /// The process of the agent, if it is known.
    pub pid: Option<u32>,
    /// The home of the session; null if the session was not looked for, or was not found.
    pub root: Option<String>,
    /// The session; null if it was not looked for, or could not be looked at.
    pub session: Option<Session>,
    /// Why the on-create hook failed; null if it did not fail or there is none.
    pub hook_failure: Option<String>,
    /// Occupants of the directory that did not prevent the launch: the agents that it was ordered from.
    pub beside: Vec<Holder>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// A report to the caller during a launch.
pub enum LaunchNews<'a> {
    /// The request and the defaults name no adapter: the first installed one is launched.
    FirstInstalled {
        /// Its name.
        adapter: &'static str,
    },
    /// The agent runs on a server, so the hooks of the defaults are not run.
    HooksNotRun,
    /// The session goes on with this of its last run, which the request does not mention.
    AsBefore(&'a Attendance),
    /// A fuse that ends the session when it was idle for some time was set, or could not be. It needs a daemon.
    IdleFuse {
        /// The agent's own session id.
        id: &'a str,
        /// The time.
        idle_ms: u64,
        /// Why it is not set.
        set: Result<(), &'a FuseOrderError>,
    },
    /// A source could not be asked.
    Fault(&'a Fault),
    /// An agent that works in the directory did not prevent the launch: it was ordered from there.
    Beside(&'a Holder),
    /// The conversation of a session that goes on, opened at its end: only what follows is new.
    Conversation(Box<Transcript>),
    /// The agent has told the session id. This comes before the hook is run.
    Started {
        /// The agent's own session id.
        id: &'a str,
    },
    /// The session was looked for. This comes before the hook is run.
    Looked {
        /// The agent's own session id.
        id: &'a str,
        /// The session; `None` if it could not be looked at.
        session: Option<&'a Session>,
    },
    /// The on-create hook failed, for this reason. The session is not affected.
    HookFailed(&'a str),
    /// A step of making the worktree of the launch.
    Making(&'a MakeNews),
    /// The worktree of the launch is complete.
    Made(&'a Made),
    /// The launch failed, and its worktree is kept for this reason.
    WorktreeKept {
        /// The worktree.
        made: &'a Made,
        /// The reason.
        why: &'a str,
    },
    /// The launch failed, and its worktree is removed.
    WorktreeRemoved {
        /// The worktree.
        made: &'a Made,
    },
}

/// Why no agent could be chosen for a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAdapter {
    /// No adapter has this name.
    Unknown(String),
    /// None was named, and none is installed.
    NoneInstalled,
}

/// Why an order was not carried out.
#[derive(Debug)]
pub enum NotStarted {
    /// No agent could be chosen.
    NoAdapter(NoAdapter),
    /// The session cannot go on.
    NotContinued {
        /// The text that names the session.
        text: String,
        /// The reason.
        why: NotContinued,
    },
    /// A directory was given for this agent, whose server decides where it works.
    DirectoryOnServer(&'static str),
    /// A hook was ordered for this agent, which runs on a server, where no hook of ours can run.
    HookOnServer(&'static str),
    /// A time limit for answers was given for this agent, whose asks wait without a limit.
    AskLimit(&'static str),
    /// The agent cannot ask a human, or cannot stay after its turn, as the order wants.
    CannotAskOrStay(Refusal),
    /// The name of the model begins with a dash: the agent would read it as an option.
    ModelIsOption(String),
    /// The program of a hook is not there.
    Hook {
        /// When the hook would be run.
        moment: HookMoment,
        /// The reason.
        why: String,
    },
    /// The name or the group cannot be given.
    Words(WordRefusal),
    /// The context of the prompt cannot be put together.
    Context(ContextError),
    /// The worktree could not be made.
    Worktree(Box<MakeError>),
    /// A worktree was ordered for a session that goes on, which works in its own directory.
    WorktreeOfContinued,
    /// The slots of a group launch cannot be launched.
    Slots(SlotsError),
    /// A slot of a group launch cannot be launched.
    InSlot {
        /// Its number, from 0.
        slot: usize,
        /// The reason.
        why: Box<NotStarted>,
    },
    /// A slot has no prompt.
    NoPrompt,
    /// The launch failed.
    Failed(LaunchError),
}

/// The work of an agent that is started.
struct Work {
    /// The commit that its worktree begins at.
    base: Option<String>,
    /// The prompt with its context.
    prompt: Vec<u8>,
    /// The options of the request, with those of the last run. They have been checked.
    options: LaunchOptions,
    /// The name and the group. The name is reserved.
    words: LaunchWords,
    /// Calls the launch off, if it has a worktree.
    cancellation: Option<Cancellation>,
}

/// A launch that nothing refuses so far.
struct ReadyLaunch {
    beginning: Continuation,
    /// The options of the request, with those of the last run.
    options: LaunchOptions,
    words: LaunchWords,
    /// Keeps the name from other launches.
    reserved: Option<NameReservation>,
    /// The prompt with its context.
    prompt: Vec<u8>,
    /// The sources that could not be asked.
    faults: Vec<Fault>,
}

/// A session that began or goes on.
pub(super) struct StartedSession {
    pub(super) launched: StartedLaunch,
    transcript: Option<Transcript>,
    pub(super) adapter: &'static dyn Adapter,
    on_create: Option<Vec<String>>,
}

/// Says whether the sessions of an agent live in a server: neither a directory nor a hook of this machine
/// concerns them.
pub(super) fn is_remote(adapter: &dyn Adapter) -> bool {
    adapter.control().is_some_and(|control| control.remote().is_some())
}

impl Fleet {
    /// Starts or continues a session. `tell` hears of its progress; the session id is told as soon as the
    /// agent has told it. Then the session is looked for if the request wants it or a hook is to be run, and
    /// the on-create hook is run to its end.
    pub fn launch(
        &self,
        request: &LaunchRequest,
        defaults: &LaunchDefaults,
        tell: &mut dyn FnMut(LaunchNews<'_>),
    ) -> Result<LaunchDocument, NotStarted> {
        self.launch_in(request, None, defaults, tell)
    }

    /// Does the same in a worktree that was made already. If the launch fails, that worktree is removed, unless
    /// something is in it.
    pub(super) fn launch_in(
        &self,
        request: &LaunchRequest,
        made: Option<(Made, OpenOrder)>,
        defaults: &LaunchDefaults,
        tell: &mut dyn FnMut(LaunchNews<'_>),
    ) -> Result<LaunchDocument, NotStarted> {
        let ReadyLaunch { mut beginning, options, words, reserved, prompt, faults } =
            self.ready_launch(request, defaults, tell)?;
        // Open from before the worktree is made until the agent has told its id: a signal in between calls it off.
        let (made, mut open) = match made {
            Some((made, open)) => {
                beginning.cwd.clone_from(&made.cwd);
                (Some(made), Some(open))
            }
            None => {
                let open = request.worktree.is_some().then(|| self.cancellation.open());
                (self.make_worktree(&mut beginning, request, defaults, tell)?, open)
            }
        };
        if let Some(made) = &made {
            tell(LaunchNews::Made(made));
        }
        let base = made.as_ref().map(|made| made.base.clone());
        let keep_idle_ms = options.keep_idle_ms;
        if keep_idle_ms.is_some() {
            // An agent that nothing ends must not be left behind between its start and its fuse.
            open = open.or_else(|| Some(self.cancellation.open()));
        }
        let cancellation = open.as_ref().map(|_| self.cancellation.clone());
        let work = Work { base, prompt, options, words, cancellation };
        let started = self.start(beginning, work, defaults);
        drop(reserved);
        let mut started = started.inspect_err(|_| {
            if let Some(made) = &made {
                self.undo_worktree(made, tell);
            }
        })?;
        if let Some(made) = &made {
            worktree::keep_setup_output(&started, made);
        }
        for fault in &started.launched.faults {
            tell(LaunchNews::Fault(fault));
        }
        for holder in &started.launched.exempt {
            tell(LaunchNews::Beside(holder));
        }
        if let Some(transcript) = started.transcript.take() {
            tell(LaunchNews::Conversation(Box::new(transcript)));
        }
        let is_sought = request.look || started.on_create.is_some() || keep_idle_ms.is_some();
        let target = is_sought.then(|| self.find_started(&started)).flatten();
        if let Some(idle_ms) = keep_idle_ms {
            let set = self.end_when_idle(&started, target.as_ref(), idle_ms);
            let id = &started.launched.session;
            tell(LaunchNews::IdleFuse { id, idle_ms, set: set.as_ref().copied() });
        }
        tell(LaunchNews::Started { id: &started.launched.session });
        // A signal before this point waits until the session has its fuse and its id is told.
        drop(open);
        let mut document = LaunchDocument::of(&started, faults);
        document.root = target.as_ref().map(|target| target.root.clone());
        if request.look || started.on_create.is_some() {
            document.session = target.as_ref().and_then(|target| self.inspect(target).session);
            let session = document.session.as_ref();
            tell(LaunchNews::Looked { id: &document.id, session });
            document.hook_failure = self.run_on_create(&started, session);
            if let Some(why) = &document.hook_failure {
                tell(LaunchNews::HookFailed(why));
            }
        }
        Ok(document)
    }

    /// Checks everything that can refuse a launch before its worktree is made, and puts the prompt together.
    fn ready_launch(
        &self,
        request: &LaunchRequest,
        defaults: &LaunchDefaults,
        tell: &mut dyn FnMut(LaunchNews<'_>),
    ) -> Result<ReadyLaunch, NotStarted> {
        let mut faults = Vec::new();
        let beginning = match &request.subject {
            LaunchSubject::New { adapter } => {
                self.beginning(adapter.as_deref(), request.cwd.clone(), defaults, tell)?
            }
            LaunchSubject::Resume { .. } | LaunchSubject::Fork { .. }
                if request.worktree.is_some() =>
            {
                return Err(NotStarted::WorktreeOfContinued);
            }
            LaunchSubject::Resume { session } | LaunchSubject::Fork { session } => {
                let fork = matches!(request.subject, LaunchSubject::Fork { .. });
                let found = self.continuation(session, request.cwd.clone(), fork, &mut |fault| {
                    tell(LaunchNews::Fault(fault));
                    faults.push(fault.clone());
                });
                found.map_err(|why| NotStarted::NotContinued { text: session.clone(), why })?
            }
        };
        let hooks = &request.options.hooks;
        if is_remote(beginning.adapter) && hooks.is_empty() && !defaults.hooks.is_empty() {
            tell(LaunchNews::HooksNotRun);
        }
        if request.worktree.is_some() && is_remote(beginning.adapter) {
            return Err(NotStarted::DirectoryOnServer(beginning.adapter.name()));
        }
        if request.worktree.is_some() {
            // Before a worktree is made.
            check_brakes(self, 1).map_err(NotStarted::Failed)?;
        }
        let (options, again) = self.options_as_before(&beginning, request, defaults);
        let words = LaunchWords { name: request.name.clone(), group: options.group.clone() };
        let reserved = self.check_words(&words).map_err(NotStarted::Words)?;
        check_choices(&self.host, beginning.adapter, &options, defaults)?;
        if again != Attendance::default() {
            tell(LaunchNews::AsBefore(&again));
        }
        let context = request.context.read(&self.host, &beginning.cwd);
        let context = context.map_err(NotStarted::Context)?;
        let prompt = context.before(&request.prompt.clone().into_bytes());
        check_prompt(beginning.adapter, &prompt).map_err(NotStarted::Failed)?;
        if request.worktree.is_some() {
            self.check_start(&beginning, &options, defaults)?;
        }
        Ok(ReadyLaunch { beginning, options, words, reserved, prompt, faults })
    }

    /// Returns the beginning of a new session: with the agent that was named, else the configured one, else
    /// the first that is installed.
    fn beginning(
        &self,
        named: Option<&str>,
        cwd: Option<PathBuf>,
        defaults: &LaunchDefaults,
        tell: &mut dyn FnMut(LaunchNews<'_>),
    ) -> Result<Continuation, NotStarted> {
        let adapter = self.chosen_adapter(named, defaults)?;
        if named.is_none() && defaults.adapter.is_none() {
            tell(LaunchNews::FirstInstalled { adapter: adapter.name() });
        }
        if cwd.is_some() && is_remote(adapter) {
            return Err(NotStarted::DirectoryOnServer(adapter.name()));
        }
        let here = &self.host.cwd;
        let cwd = cwd.map_or_else(|| here.clone(), |directory| here.join(directory));
        Ok(Continuation { adapter, begin: Begin::New, cwd, from: None, last_run: None })
    }

    /// Returns the agent that was named, else the configured one, else the first that is installed.
    pub(super) fn chosen_adapter(
        &self,
        named: Option<&str>,
        defaults: &LaunchDefaults,
    ) -> Result<&'static dyn Adapter, NotStarted> {
        let Some(name) = named.or(defaults.adapter.as_deref()) else {
            let none = || NotStarted::NoAdapter(NoAdapter::NoneInstalled);
            return self.first_installed().ok_or_else(none);
        };
        let unknown = || NotStarted::NoAdapter(NoAdapter::Unknown(name.to_owned()));
        self.adapter(name).ok_or_else(unknown)
    }

    fn first_installed(&self) -> Option<&'static dyn Adapter> {
        let installed = |adapter: &&'static dyn Adapter| {
            !adapter.is_built_in()
                && adapter.control().is_some()
                && adapter.installation(&self.host).program.is_some()
        };
        self.adapters.iter().copied().find(installed)
    }

    /// Checks that the agent can be started, for example that it is installed. The directory need not be the one that
    /// the agent will work in.
    fn check_start(
        &self,
        beginning: &Continuation,
        options: &LaunchOptions,
        defaults: &LaunchDefaults,
    ) -> Result<(), NotStarted> {
        let Some(control) = beginning.adapter.control() else { return Ok(()) };
        let order = new_order(options, defaults, &beginning.cwd);
        let start = control.start(&self.host, &order);
        start.map(drop).map_err(|refusal| NotStarted::Failed(refusal.into()))
    }

    /// Starts or continues a session, and returns once the agent has told the session's real id.
    fn start(
        &self,
        Continuation { adapter, begin, cwd, from, .. }: Continuation,
        Work { base, prompt, options, words, cancellation }: Work,
        defaults: &LaunchDefaults,
    ) -> Result<StartedSession, NotStarted> {
        let (host, remote) = (&self.host, is_remote(adapter));
        let hooks = hooks_in_force(adapter, &options, defaults);
        // A session that goes on in its server keeps its model and permissions: the defaults are for
        // sessions that begin.
        let goes_on = remote && matches!(begin, Begin::Resume(_));
        let usual = if goes_on { &LaunchDefaults::default() } else { defaults };
        let order = LaunchOrder {
            adapter,
            order: Order {
                begin,
                name: words.name.clone(),
                root: from.as_ref().map(|target| RootPlace::of_label(&target.root)),
                ..new_order(&options, usual, &cwd)
            },
            prompt,
            group: options.group,
            env: options.env,
            on_complete: hooks.on_complete.map(|hook| absolute(host, hook)),
            callback: options.callback,
            base,
            attendance: Attendance {
                ask_ms: options.ask_ms,
                keep: options.keep,
                keep_idle_ms: options.keep_idle_ms,
            },
            force: options.force,
            from,
            cancellation,
        };
        let transcript = self.transcript_to_go_on(&order);
        // A folder of runs that cannot be tidied is no reason not to launch.
        let _untidied = Runs::of(host).evict(host, defaults.keep);
        let launched = launch(self, order).map_err(NotStarted::Failed)?;
        let on_create = hooks.on_create;
        let mut started = StartedSession { launched, transcript, adapter, on_create };
        self.remember_words(&mut started, &words);
        Ok(started)
    }

    /// Opens the conversation of a session that goes on, at its end.
    fn transcript_to_go_on(&self, order: &LaunchOrder) -> Option<Transcript> {
        let resumed = matches!(order.order.begin, Begin::Resume(_)).then_some(order.from.as_ref());
        let mut transcript = self.transcript(resumed.flatten()?).ok()?;
        let _seen = transcript.last_raw(1);
        Some(transcript)
    }

    /// Finds the session that began. An agent may tell its id before it writes: its first record is awaited,
    /// unless the agent has ended and will not write any more.
    pub(super) fn find_started(&self, started: &StartedSession) -> Option<Target> {
        let launched = &started.launched;
        let until = Instant::now() + FIRST_RECORD_TIMEOUT;
        let named = format!("{}:{}", started.adapter.name(), launched.session);
        let is_it = |target: &Target| {
            target.session.as_ref().is_some_and(|locator| locator.id == launched.session)
        };
        loop {
            let has_ended = launched.run.as_ref().is_none_or(|run| run.ended().is_some());
            let found = resolve(self, &named).targets;
            let found = found.into_iter().find(is_it);
            if found.is_some() || has_ended || Instant::now() >= until {
                return found;
            }
            std::thread::park_timeout(FIRST_RECORD_PAUSE);
        }
    }

    /// Runs the hook for a session that began. Returns why it failed; a failure changes nothing else.
    fn run_on_create(&self, started: &StartedSession, session: Option<&Session>) -> Option<String> {
        let (hook, run) = (started.on_create.as_ref()?, started.launched.run.as_ref()?);
        let spec = run.spec()?;
        let facts = Facts::of(HookMoment::Create, &spec, Some(&started.launched.session), session);
        hooks::run(&self.host, HookMoment::Create, hook, &facts, run).failure()
    }
}

impl LaunchDocument {
    /// Describes a session that was just started and has not been looked for yet.
    fn of(started: &StartedSession, mut faults: Vec<Fault>) -> Self {
        let launched = &started.launched;
        faults.extend(launched.faults.iter().cloned());
        Self {
            schema_version: SCHEMA_VERSION,
            id: launched.session.clone(),
            adapter: started.adapter.name(),
            run: launched.run.as_ref().map(|run| run.id.clone()),
            pid: launched.process.as_ref().map(|process| process.pid),
            root: None,
            session: None,
            hook_failure: None,
            beside: launched.exempt.clone(),
            faults,
        }
    }

    /// Returns the name of the session for a request to wait for it; `None` if the session was not found.
    #[must_use]
    pub fn wait_target(&self) -> Option<WaitTarget> {
        let (adapter, id) = (self.adapter.to_owned(), self.id.clone());
        self.root.clone().map(|root| WaitTarget::Session { adapter, root, id })
    }
}

/// Returns the order for a new session in a directory.
pub(super) fn new_order(options: &LaunchOptions, usual: &LaunchDefaults, cwd: &Path) -> Order {
    Order {
        begin: Begin::New,
        cwd: cwd.to_owned(),
        model: options.model.clone().or_else(|| usual.model.clone()),
        name: None,
        permissions: options.permissions.unwrap_or(usual.permissions),
        extra: options.extra.iter().cloned().map(TextOrBytes::into_argument).collect(),
        root: None,
        ask: options.ask_ms.map(Duration::from_millis),
        keep: options.keep,
    }
}

/// Makes the path of a hook's program absolute: the user names it from the current directory, and the agent
/// works in another one.
fn absolute(host: &Host, mut hook: Vec<String>) -> Vec<String> {
    if let Some(program) = hook.first_mut().filter(|program| program.contains('/')) {
        *program = host.cwd.join(&*program).to_string_lossy().into_owned();
    }
    hook
}
