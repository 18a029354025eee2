//! The orders `launch` and `resume`: start a session, run its hook, and find the session that began.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::Fleet;
use super::names::{LaunchWords, WordRefusal};
use crate::adapters::control::{Begin, Order, Permissions};
use crate::adapters::{Adapter, RootPlace};
use crate::hooks::{self, Facts};
use crate::host::Host;
use crate::launch::{LaunchError, LaunchOrder, StartedLaunch, launch};
use crate::model::{Callback, Session, Target};
use crate::resolve::resolve;
use crate::runs::{HookMoment, Runs};
use crate::transcript::Transcript;

/// The longest time between an agent's first words and its first record.
const FIRST_RECORD_LIMIT: Duration = Duration::from_secs(5);
/// The pause between two looks for the first record.
const FIRST_RECORD_PAUSE: Duration = Duration::from_millis(20);

/// The values of a launch that its request leaves out.
#[derive(Clone, Debug)]
pub struct LaunchDefaults {
    /// The adapter.
    pub adapter: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The permissions of the agent.
    pub permissions: Permissions,
    /// The hooks.
    pub hooks: LaunchHooks,
    /// How long the folders of ended runs are kept.
    pub keep: Duration,
}

impl Default for LaunchDefaults {
    fn default() -> Self {
        Self {
            adapter: None,
            model: None,
            permissions: Permissions::Default,
            hooks: LaunchHooks::default(),
            keep: Duration::from_hours(7 * 24),
        }
    }
}

/// The commands to run at the start and the end of a session, as argv.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaunchHooks {
    /// After the start of a session.
    pub on_create: Option<Vec<String>>,
    /// After the end of its agent.
    pub on_complete: Option<Vec<String>>,
}

/// The agent that a launch starts.
#[derive(Clone, Copy)]
pub struct ChosenAdapter {
    /// The agent.
    pub adapter: &'static dyn Adapter,
    /// It was neither named nor configured: it is the first that is installed.
    pub first_installed: bool,
}

/// Why no agent could be chosen for a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAdapter {
    /// No adapter has this name.
    Unknown(String),
    /// None was named, and none is installed.
    NoneInstalled,
}

/// A request to start or continue a session, before the defaults are applied.
pub struct LaunchRequest {
    /// The agent.
    pub adapter: &'static dyn Adapter,
    /// The prompt or message.
    pub prompt: Vec<u8>,
    /// Whether a session begins, goes on, or is copied.
    pub begin: Begin,
    /// The session that goes on or is copied.
    pub from: Option<Target>,
    /// The directory in which the agent works.
    pub cwd: PathBuf,
    /// The name of the session.
    pub name: Option<String>,
    /// Everything else that may be said.
    pub options: LaunchOptions,
}

/// The part of an order that launches and resumes have in common.
#[derive(Clone, Debug, Default)]
pub struct LaunchOptions {
    /// The model, in the agent's own words.
    pub model: Option<String>,
    /// The launch group.
    pub group: Option<String>,
    /// Variables set for the agent.
    pub env: Vec<(String, String)>,
    /// The permissions of the agent.
    pub permissions: Option<Permissions>,
    /// Start it also where an agent works or a lock stands.
    pub force: bool,
    /// The programs that are run when the session begins or ends.
    pub hooks: LaunchHooks,
    /// The session or agent that is to be told about this one.
    pub callback: Option<Callback>,
    /// Further arguments for the agent itself.
    pub extra: Vec<OsString>,
}

/// Why an order was not carried out.
#[derive(Debug)]
pub enum NotStarted {
    /// A hook was ordered for an agent that runs on a server, where no hook of ours can run.
    HookOnServer(&'static str),
    /// The name or the group cannot be given.
    Words(WordRefusal),
    /// The launch failed.
    Failed(LaunchError),
}

/// A session that began or goes on.
pub struct StartedSession {
    /// The launch.
    pub launched: StartedLaunch,
    /// The conversation of a session that goes on, read up to its end: only what follows is new.
    pub transcript: Option<Transcript>,
    pub(super) adapter: &'static dyn Adapter,
    on_create: Option<Vec<String>>,
}

impl StartedSession {
    /// Says whether a program is to be run because the session has begun: see [`Fleet::run_on_create`].
    #[must_use]
    pub fn has_hook(&self) -> bool {
        self.on_create.is_some()
    }
}

/// Says whether the sessions of an agent live in a server: neither a directory nor a hook of this machine
/// concerns them.
#[must_use]
pub fn is_remote(adapter: &dyn Adapter) -> bool {
    adapter.control().is_some_and(|control| control.remote().is_some())
}

impl Fleet {
    /// Returns the agent that was named, else the configured one, else the first that is installed.
    pub fn choose_adapter(
        &self,
        named: Option<&str>,
        defaults: &LaunchDefaults,
    ) -> Result<ChosenAdapter, NoAdapter> {
        if let Some(name) = named.or(defaults.adapter.as_deref()) {
            let adapter = self.adapter(name).ok_or_else(|| NoAdapter::Unknown(name.to_owned()))?;
            return Ok(ChosenAdapter { adapter, first_installed: false });
        }
        let installed = |adapter: &&'static dyn Adapter| {
            !adapter.is_built_in()
                && adapter.control().is_some()
                && adapter.installation(&self.host).program.is_some()
        };
        let first = self.adapters.iter().copied().find(installed);
        let adapter = first.ok_or(NoAdapter::NoneInstalled)?;
        Ok(ChosenAdapter { adapter, first_installed: true })
    }

    /// Starts or continues a session, and returns once the agent has told the session's real id.
    pub fn start(
        &self,
        request: LaunchRequest,
        defaults: &LaunchDefaults,
    ) -> Result<StartedSession, NotStarted> {
        let (host, adapter) = (&self.host, request.adapter);
        let remote = is_remote(adapter);
        let LaunchRequest { prompt, begin, from, cwd, name, options, .. } = request;
        let words = LaunchWords { name: name.clone(), group: options.group.clone() };
        self.check_words(&words).map_err(NotStarted::Words)?;
        if remote && !options.hooks.is_empty() {
            return Err(NotStarted::HookOnServer(adapter.name()));
        }
        let hooks = if remote { options.hooks } else { options.hooks.or(&defaults.hooks) };
        // A session that goes on in its server keeps its model and permissions: the defaults are for
        // sessions that begin.
        let goes_on = remote && matches!(begin, Begin::Resume(_));
        let usual = if goes_on { &LaunchDefaults::default() } else { defaults };
        let order = LaunchOrder {
            adapter,
            order: Order {
                begin,
                cwd,
                model: options.model.or_else(|| usual.model.clone()),
                name,
                permissions: options.permissions.unwrap_or(usual.permissions),
                extra: options.extra,
                root: from.as_ref().map(|target| RootPlace::of_label(&target.root)),
            },
            prompt,
            group: options.group,
            env: options.env,
            on_complete: hooks.on_complete.map(|hook| absolute(host, hook)),
            callback: options.callback,
            force: options.force,
            from,
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
    #[must_use]
    pub fn find_started(&self, started: &StartedSession) -> Option<Target> {
        let launched = &started.launched;
        let until = Instant::now() + FIRST_RECORD_LIMIT;
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
    #[must_use]
    pub fn run_on_create(
        &self,
        started: &StartedSession,
        session: Option<&Session>,
    ) -> Option<String> {
        let (hook, run) = (started.on_create.as_ref()?, started.launched.run.as_ref()?);
        let spec = run.spec()?;
        let facts = Facts::of(HookMoment::Create, &spec, Some(&started.launched.session), session);
        hooks::run(&self.host, HookMoment::Create, hook, &facts, run).failure()
    }
}

impl LaunchHooks {
    /// Says whether no program is to be run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.on_create.is_none() && self.on_complete.is_none()
    }

    /// Takes from the other hooks those that are missing here.
    fn or(self, other: &Self) -> Self {
        Self {
            on_create: self.on_create.or_else(|| other.on_create.clone()),
            on_complete: self.on_complete.or_else(|| other.on_complete.clone()),
        }
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
