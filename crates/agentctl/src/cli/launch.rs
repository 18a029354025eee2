//! `agentctl launch`: start a session, print its real id.

mod context_flags;
mod flags;
mod group;
mod slot_flags;
mod worktree_flags;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::adapters::control::Permissions;
use agentctl_core::ask::{
    Fleet, GroupLaunchRequest, LaunchDocument, LaunchNews, LaunchRequest, LaunchSubject, PlanPlace,
    PromptContext, WaitRequest, WaitTarget, WorktreeRequest,
};
use agentctl_core::launch::matrix::MatrixOrigins;
use agentctl_core::model::Session;
use agentctl_core::text::shell_word;
use agentctl_core::transcript::Transcript;
use clap::Args;

use self::context_flags::ContextFlags;
pub(super) use self::flags::{Flags, ModelFlags};
use self::slot_flags::SlotFlags;
pub(super) use self::worktree_flags::WorktreeFlags;
use super::interrupt::Interrupt;
use super::logs::Form;
use super::wait::{self, Show};
use crate::config::{Loaded, Span};
use crate::face::{
    IdleFuse, adapters_hint, idle_fuse, launch_remark, made_remarks, making_line, not_started,
    unseen_after_launch,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Start an agent and print its session id
///
/// The agent runs in the background, without a terminal, and keeps running when you close the shell or kill agentctl.
/// --permissions says what it may do without asking; with --ask it asks you (`agentctl asks`), and with --keep it stays
/// for further messages (`agentctl send`). stdout has the session id alone, so `id=$(agentctl launch …)` works. Several --adapter, --times or --matrix start several agents, each in a git worktree
/// of its own. Text that is piped in stands in front of the prompt. See docs/MANY.md.
#[derive(Args)]
pub(super) struct LaunchArgs {
    /// The agent (`agentctl adapters`) [default: the configured one, else the first that is installed]
    adapter: Option<String>,
    /// The prompt: what the agent is to do; `-` reads it from stdin
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt", "prompt_file"])]
    text: Option<String>,
    /// The prompt as an option, also if it begins with a dash (use it in scripts); `-` reads it from stdin
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Working directory of the agent [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Name the session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    slots: SlotFlags,
    #[command(flatten)]
    context: ContextFlags,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    worktree: WorktreeFlags,
}

impl LaunchArgs {
    /// Says whether this word stands in the place of the agent.
    pub(super) fn names_agent(&self, word: &str) -> bool {
        self.adapter.as_deref() == Some(word)
    }
}

/// The session that is launched or continued.
pub(super) struct Wanted {
    pub(super) subject: LaunchSubject,
    pub(super) prompt: Vec<u8>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) name: Option<String>,
    pub(super) context: PromptContext,
    pub(super) worktree: Option<WorktreeRequest>,
    /// The permissions and the model.
    pub(super) choice: (Option<Permissions>, Option<String>),
}

pub(super) fn cmd_launch(ui: &mut Ui, loaded: &Loaded, mut args: LaunchArgs) -> Outcome {
    args.slots.check()?;
    args.context.check()?;
    if let Some(word) = args.text.as_deref().filter(|word| args.worktree.may_be_name(word)) {
        ui.warn(&format!(
            "`{word}` is the prompt; a name of the worktree is written --worktree={}",
            shell_word(word)
        ));
    }
    if let Some((option, span)) = args.text.as_deref().and_then(|word| args.flags.may_be_span(word))
    {
        ui.warn(&format!(
            "`{span}` is the prompt; the time of {option} is written {option}={span}"
        ));
    }
    let words = Words::of(ui, loaded, &mut args)?;
    let is_group = args.slots.is_group(words.adapter.is_some());
    if !is_group {
        args.slots.check_one()?;
    }
    if args.slots.dry_run || is_group {
        return several(ui, loaded, args, words);
    }
    let Words { adapter, prompt, context } = words;
    let slot = args.slots.slots(adapter).into_iter().next().unwrap_or_default();
    let wanted = Wanted {
        subject: LaunchSubject::New { adapter: slot.adapter },
        prompt: prompt.unwrap_or_default(),
        cwd: args.cwd,
        name: args.name,
        context,
        worktree: args.worktree.request()?,
        choice: (slot.permissions, slot.model),
    };
    start(ui, loaded, args.flags, wanted)
}

/// Launches several agents, or prints what a launch would do.
fn several(ui: &mut Ui, loaded: &Loaded, mut args: LaunchArgs, words: Words) -> Outcome {
    let after = args.flags.after()?;
    let is_group = args.slots.is_group(words.adapter.is_some());
    if is_group {
        group::check_options(&args, after)?;
    }
    let mut request = GroupLaunchRequest {
        slots: args.slots.slots(words.adapter),
        times: args.slots.times,
        max: args.slots.max,
        prompt: words.prompt.map(Into::into),
        context: words.context,
        cwd: args.cwd,
        worktrees: args.worktree.options(),
        options: args.flags.options(&loaded.defaults),
        ..GroupLaunchRequest::default()
    };
    let origins = match &args.slots.matrix {
        Some(file) => group::add_matrix(&loaded.fleet(), &mut request, file)?,
        None => MatrixOrigins::default(),
    };
    if args.slots.dry_run {
        let worktree = if is_group { None } else { args.worktree.request()? };
        let place = match (is_group, worktree) {
            (false, None) => PlanPlace::Directory,
            (false, Some(WorktreeRequest { name: Some(name), .. })) => PlanPlace::Named(name),
            _ => PlanPlace::Worktrees,
        };
        let agent = (args.name.as_deref(), &place);
        return group::dry_run(ui, loaded, (&request, &origins), agent);
    }
    group::start(ui, loaded, (request, &origins), after)
}

/// The words of a launch: which agent, and what it is to do.
struct Words {
    adapter: Option<String>,
    /// The prompt; `None` only if a matrix file has it.
    prompt: Option<Vec<u8>>,
    context: PromptContext,
}

impl Words {
    fn of(ui: &mut Ui, loaded: &Loaded, args: &mut LaunchArgs) -> Result<Self, Failure> {
        let (fleet, defaults) = (loaded.fleet(), &loaded.defaults);
        let (mut adapter, mut text) = (args.adapter.take(), args.text.take());
        text = text.or(args.prompt.take());
        let file = args.prompt_file.as_deref();
        let is_unknown = |word: &String| fleet.adapter(word).is_none();
        let (options, has_prompt) = (&args.slots, text.is_some() || file.is_some());
        // If options name the agents, the only word is the prompt.
        let named = !options.opened.is_empty() || options.matrix.is_some();
        if named && !has_prompt && adapter.as_ref().is_some_and(is_unknown) {
            text = adapter.take();
        }
        let has_prompt = text.is_some() || file.is_some();
        if let Some(word) = adapter.as_ref().filter(|word| is_unknown(word))
            && (word.contains(char::is_whitespace) || !has_prompt)
        {
            return Err(prompt_in_place_of_adapter(word, has_prompt, defaults.adapter.is_some()));
        }
        if let (Some(word), Some(_)) = (&adapter, &options.matrix) {
            let message = format!("`{word}` is given beside a matrix file, which names the agents");
            return Err(Failure::new(Kind::Usage, message)
                .hint("write the agent into the file, or leave --matrix out"));
        }
        if !has_prompt && options.matrix.is_none() {
            let adapter = adapter.as_deref().map_or_else(|| "ADAPTER".to_owned(), shell_word);
            return Err(Failure::new(Kind::Usage, "no prompt is given").hint(format!(
                "write `agentctl launch {adapter} \"PROMPT\"`, or give it with --prompt or --prompt-file"
            )));
        }
        let prompt = if has_prompt {
            Some(prompt(text.as_deref(), file, &PromptWord::PROMPT)?)
        } else {
            None
        };
        let context = std::mem::take(&mut args.context);
        let context = context.context(ui, text.as_deref() == Some("-"))?;
        Ok(Self { adapter, prompt, context })
    }
}

/// Says that the only positional argument is not an adapter. It may have been meant as the prompt.
fn prompt_in_place_of_adapter(word: &str, has_prompt: bool, has_default: bool) -> Failure {
    let message = if has_prompt {
        format!("`{word}` is not an adapter, and the prompt is given by an option")
    } else {
        format!("`{word}` is not an adapter, and no prompt is given")
    };
    let known = adapters_hint(word);
    let failure = Failure::new(Kind::Usage, message);
    let is_prompt = has_default || word.contains(char::is_whitespace);
    let quoted = prompt_word(word);
    match (has_prompt, is_prompt) {
        (true, _) => failure.hint(format!("give the prompt once; {known}")),
        (false, true) => failure.hint(format!(
            "if it is the prompt, write `agentctl launch ADAPTER {quoted}` or `agentctl launch -p {quoted}`"
        )),
        (false, false) => failure.hint(known),
    }
}

/// Quotes the text of a person in a command, also a single word: it stands for several.
pub(super) fn prompt_word(text: &str) -> String {
    let word = shell_word(text);
    if word == text { format!("\"{text}\"") } else { word }
}

/// The words about a text for an agent that is missing.
pub(super) struct PromptWord {
    word: &'static str,
    hint: &'static str,
}

impl PromptWord {
    const PROMPT: Self = Self {
        word: "prompt",
        hint: "write `agentctl launch ADAPTER \"PROMPT\"`, or give it with --prompt or --prompt-file",
    };
    pub(super) const MESSAGE: Self =
        Self { word: "message", hint: "write `agentctl send ID \"MESSAGE\"`" };
}

/// Returns the prompt: typed, from stdin, or from a file.
pub(super) fn prompt(
    text: Option<&str>,
    file: Option<&std::path::Path>,
    PromptWord { word, hint }: &PromptWord,
) -> Result<Vec<u8>, Failure> {
    let bytes = match (text, file) {
        (Some("-"), _) => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes)?;
            bytes
        }
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(file)) => std::fs::read(file).map_err(|e| {
            Failure::new(Kind::Failed, format!("{} cannot be read: {e}", file.display()))
                .hint(format!("give the {word} with -p TEXT, or name a file that is there"))
        })?,
        (None, None) => Vec::new(),
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Failure::new(Kind::Usage, format!("the {word} is empty")).hint(*hint));
    }
    Ok(bytes)
}

/// Launches, reports, and stays as long as the flags ask for.
pub(super) fn start(ui: &mut Ui, loaded: &Loaded, mut flags: Flags, wanted: Wanted) -> Outcome {
    let (fleet, defaults) = (&loaded.fleet(), &loaded.defaults);
    let after = flags.after()?;
    let Wanted { subject, prompt, cwd, name, context, worktree, choice } = wanted;
    let look = after.json || after.stay != Stay::Not;
    let mut options = flags.options(defaults);
    (options.permissions, options.model) = choice;
    let prompt = prompt.into();
    let request = LaunchRequest { subject, prompt, context, cwd, name, look, worktree, options };
    let mut told = Told { printed: Ok(()), transcript: None, fuse_failed: None };
    let interrupt = Interrupt::listen(&fleet.cancellation)?;
    let launched = fleet.launch(&request, defaults, &mut |news| told.hear(ui, fleet, after, news));
    let launched = launched.map_err(|why| not_started(fleet, why));
    let document = interrupt.end(ui, launched)?;
    let message = format!("interrupted: session {} had begun, and goes on", document.id);
    interrupt.set_last_words(message.clone());
    interrupt.end_called_off(ui, &message)?;
    let fuse_failed = told.fuse_failed;
    attend(ui, fleet, &document, (after, told)).map(|code| with_fuse(code, fuse_failed))
}

/// Returns the exit code of a launch whose fuse may have failed, with the exit code of `fuse set`.
fn with_fuse(code: ExitCode, failed: Option<Kind>) -> ExitCode {
    match failed {
        Some(kind) if code == ExitCode::SUCCESS => ExitCode::from(kind.exit_code()),
        _ => code,
    }
}

/// How long a launch command stays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    /// It exits once the id is printed.
    Not,
    /// Until the turn is over.
    Waiting,
    /// Until then, showing the conversation.
    Following,
}

impl Flags {
    /// Returns the tasks after the launch.
    pub(super) fn after(&self) -> Result<After, Failure> {
        if self.timeout.is_some() && !(self.wait || self.follow) {
            return Err(Failure::new(Kind::Usage, "--timeout needs --wait or --follow").hint(
                "add --wait; how long an agent may take to start is `launch` below [deadline]",
            ));
        }
        let timeout_ms = self.timeout.map(Span::millis);
        Ok(After { json: self.json, stay: Stay::of(self.wait, self.follow), timeout_ms })
    }
}

impl Stay {
    fn of(wait: bool, follow: bool) -> Self {
        match (wait, follow) {
            (_, true) => Self::Following,
            (true, false) => Self::Waiting,
            (false, false) => Self::Not,
        }
    }
}

/// The tasks after a session has begun.
#[derive(Clone, Copy)]
pub(super) struct After {
    pub(super) json: bool,
    pub(super) stay: Stay,
    pub(super) timeout_ms: Option<u64>,
}

impl After {
    /// Returns the request to wait until the turn of this session is over.
    pub(super) fn request(self, target: WaitTarget) -> WaitRequest {
        let timeout_ms = self.timeout_ms;
        WaitRequest { targets: vec![target], timeout_ms, ..WaitRequest::default() }
    }
}

/// The results of the reports during a launch.
struct Told {
    /// The result of printing the id or the session. If the reader of stdout is gone, the rest is still
    /// done.
    printed: Result<(), Failure>,
    /// The conversation of a session that goes on, at its end.
    transcript: Option<Transcript>,
    /// Nothing ends the session when it is idle, although that was wanted.
    fuse_failed: Option<Kind>,
}

impl Told {
    fn hear(&mut self, ui: &mut Ui, fleet: &Fleet, after: After, news: LaunchNews<'_>) {
        match news {
            LaunchNews::Making(news) => {
                if let Some(line) = making_line(news).filter(|_| ui.shows_progress()) {
                    ui.note(&line);
                }
            }
            LaunchNews::Made(made) => {
                for remark in made_remarks(&fleet.host, made) {
                    ui.note(&remark);
                }
                for warning in &made.warnings {
                    ui.warn(warning);
                }
            }
            LaunchNews::FirstInstalled { .. } if ui.wants_json() => {}
            LaunchNews::IdleFuse { id, idle_ms, set } => {
                let IdleFuse { line, failed } = idle_fuse(fleet, (id, idle_ms), set);
                if let Some(line) = line {
                    super::say(ui, &line);
                }
                self.fuse_failed = failed;
            }
            LaunchNews::Fault(fault) => ui.warn_fault(fault),
            LaunchNews::Conversation(transcript) => self.transcript = Some(*transcript),
            LaunchNews::Started { id } if after.stay == Stay::Following => {
                ui.note(&format!("session {id}"));
            }
            LaunchNews::Started { id } if !after.json => {
                let written = ui.line(id);
                self.printed = flushed(ui, id, written);
            }
            // One document: with --wait it is the session at the end of the turn.
            LaunchNews::Looked { id, session } if after.json && after.stay == Stay::Not => {
                self.printed = print_session(ui, id, session);
            }
            LaunchNews::HookFailed(why) => ui.warn(&format!("the on-create hook failed: {why}")),
            news => {
                if let Some(remark) = launch_remark(&news) {
                    ui.note(&remark);
                }
            }
        }
    }
}

/// Stays as long as the flags ask for, once the session has begun and its hook was run.
fn attend(
    ui: &mut Ui,
    fleet: &Fleet,
    document: &LaunchDocument,
    (after, told): (After, Told),
) -> Outcome {
    if after.stay == Stay::Not {
        return told.printed.map(|()| ExitCode::SUCCESS);
    }
    let Some(target) = document.wait_target() else {
        return Err(unseen_after_launch(&document.id));
    };
    let mut request = after.request(target);
    if after.stay == Stay::Following {
        let form = if after.json { Form::Json } else { Form::Human };
        return wait::follow(ui, fleet, &request, (form, told.transcript));
    }
    request.figures = after.json;
    let waited = wait::wait_for(ui, fleet, &request, Show::Nothing)?;
    let ended = wait::answer(&waited, &request);
    if after.json {
        print_session(ui, &document.id, waited.sessions.first())?;
        return ended.or_else(|failure| Ok(failure.beside_data(ui)));
    }
    ended
}

fn print_session(ui: &mut Ui, id: &str, session: Option<&Session>) -> Result<(), Failure> {
    let Some(session) = session else {
        return Err(unseen_after_launch(id));
    };
    let written = ui.json(session);
    flushed(ui, id, written)
}

/// Flushes stdout. If that fails, the id goes to stderr: the session lives, and the user must be able to
/// find it.
fn flushed(ui: &mut Ui, id: &str, written: std::io::Result<()>) -> Result<(), Failure> {
    written.and_then(|()| ui.flush()).map_err(|error| {
        ui.note(&format!("session {id}"));
        error.into()
    })
}
