//! The matrix file of a group launch: TOML in which lists multiply, and `[[slot]]` tables that stand for themselves.
//!
//! An unknown key, a wrong type or a wrong value refuses the whole file, with its name, the line and the key. `cwd` and
//! `prompt_file` are relative to the folder of the file; `spec` and `files` to the directory of the launch, as on the
//! command line.

mod origins;
mod values;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use toml::de::{DeTable, DeValue};

pub use self::origins::MatrixOrigins;
use self::values::{Entry, Source};
use super::slots::{LARGEST_MAX_SLOTS, SlotRequest};
use crate::adapters::control::Permissions;
use crate::host::Host;

/// Largest matrix file, and largest prompt file of one.
const MAX_BYTES: u64 = 500_000;
/// The keys of the file.
const KEYS: [&str; 17] = [
    "prompt",
    "prompt_file",
    "prompt_suffix",
    "adapter",
    "model",
    "permissions",
    "env",
    "cwd",
    "base",
    "base_branch",
    "spec",
    "files",
    "group",
    "max",
    "verify",
    "hooks",
    "slot",
];
/// The keys of a `[[slot]]`.
const SLOT_KEYS: [&str; 9] = [
    "adapter",
    "model",
    "permissions",
    "prompt",
    "prompt_suffix",
    "env",
    "branch",
    "base",
    "base_branch",
];
/// The keys whose values are checked after the file was read.
const CHECKED_LATER: [&str; 7] = ["adapter", "base", "base_branch", "cwd", "files", "max", "spec"];
/// The keys of `[hooks]`.
const HOOK_KEYS: [&str; 2] = ["on_create", "on_complete"];

/// Whether the prompt of the file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePrompt {
    /// It does.
    Used,
    /// The caller has another one.
    Overridden,
}

/// A matrix file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The directory of the launch, absolute if the path of the file was.
    pub cwd: Option<PathBuf>,
    /// The revision that the worktrees begin at, unless a slot has its own.
    pub base: Option<String>,
    /// The file with the specification.
    pub spec: Option<PathBuf>,
    /// Files and patterns of the context.
    pub files: Vec<String>,
    /// The group.
    pub group: Option<String>,
    /// The limit of slots.
    pub max: Option<usize>,
    /// The command for `compare --verify`. A launch never runs it.
    pub verify: Option<Vec<String>>,
    /// The hook after the start of each session.
    pub on_create: Option<Vec<String>>,
    /// The hook after the end of each agent.
    pub on_complete: Option<Vec<String>>,
    /// The slots, the product of the lists first. Each has its prompt, unless that is overridden.
    pub slots: Vec<SlotRequest>,
    /// The lines at which the values stand.
    pub origins: MatrixOrigins,
}

/// Why a matrix file was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixError {
    /// The file.
    pub file: PathBuf,
    /// The line, if a part of the file is meant.
    pub line: Option<usize>,
    /// The key; empty if the whole file is meant.
    pub key: String,
    /// The reason.
    pub what: String,
    /// A hint for the user.
    pub hint: Option<String>,
}

impl std::fmt::Display for MatrixError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for MatrixError {}

impl Matrix {
    /// Reads a file, seen from the directory of the host.
    pub fn read(host: &Host, file: &Path, prompt: FilePrompt) -> Result<Self, MatrixError> {
        let path = host.cwd.join(file);
        let text = read_text(&path).map_err(|what| MatrixError {
            file: file.to_owned(),
            line: None,
            key: String::new(),
            what,
            hint: None,
        })?;
        let folder = path.parent().unwrap_or(&host.cwd);
        let mut matrix = Self::parse(&Source { file, folder, text: &text }, prompt)?;
        matrix.cwd = matrix.cwd.map(|cwd| folder.join(host.expanded(&cwd)));
        matrix.spec = matrix.spec.map(|spec| host.expanded(&spec));
        Ok(matrix)
    }

    fn parse(source: &Source<'_>, prompt: FilePrompt) -> Result<Self, MatrixError> {
        let table = DeTable::parse(source.text).map_err(|error| source.not_toml(&error))?;
        let table = table.get_ref();
        source.check_keys(table, "", &KEYS)?;
        let entry = |key: &'static str| Entry::of(source, table, "", key);
        let hooks = match entry("hooks") {
            Some(entry) => Some(entry.table()?),
            None => None,
        };
        let hook = |key: &'static str| match hooks {
            Some(hooks) => Entry::of(source, hooks, "hooks.", key).map(|e| e.argv()).transpose(),
            None => Ok(None),
        };
        if let Some(hooks) = hooks {
            source.check_keys(hooks, "hooks.", &HOOK_KEYS)?;
        }
        let base = entry("base").or_else(|| entry("base_branch"));
        Ok(Self {
            cwd: entry("cwd").map(|e| e.text()).transpose()?.map(PathBuf::from),
            base: base.map(|e| e.text()).transpose()?,
            spec: entry("spec").map(|e| e.text()).transpose()?.map(PathBuf::from),
            files: entry("files").map(|e| e.texts()).transpose()?.unwrap_or_default(),
            group: entry("group").map(|e| e.text()).transpose()?,
            max: entry("max").map(|e| e.number(1..=LARGEST_MAX_SLOTS)).transpose()?,
            verify: entry("verify").map(|e| e.argv()).transpose()?,
            on_create: hook("on_create")?,
            on_complete: hook("on_complete")?,
            slots: slots(source, table, prompt)?,
            origins: origins(source, table),
        })
    }
}

/// Returns where the values stand that are checked after the file was read.
fn origins(source: &Source<'_>, table: &DeTable<'_>) -> MatrixOrigins {
    let settings_of = |table: &DeTable<'_>, prefix: &str| -> Vec<_> {
        let entries = CHECKED_LATER
            .iter()
            .filter_map(|key| Some((*key, Entry::of(source, table, prefix, key)?)));
        entries.flat_map(|(key, entry)| entry.settings(key)).collect()
    };
    let mut settings = settings_of(table, "");
    let slots = Entry::of(source, table, "", "slot").and_then(|entry| entry.tables().ok());
    for (number, slot) in slots.into_iter().flatten().enumerate() {
        settings.extend(settings_of(slot, &slot_prefix(number + 1)));
    }
    MatrixOrigins { file: source.file.to_owned(), settings }
}

/// Returns the words in front of a key of a `[[slot]]`.
fn slot_prefix(number: usize) -> String {
    format!("[[slot]] {number}: ")
}

/// The refusal of a `[[slot]]` without a prompt in a file that has several.
const SEVERAL_PROMPTS: &str = "it has no prompt: of several prompts in the file it takes none";

/// The values that multiply.
struct Lists {
    adapters: Vec<Option<String>>,
    models: Vec<Option<String>>,
    permissions: Vec<Option<Permissions>>,
    prompts: Vec<Option<String>>,
    suffixes: Vec<Option<String>>,
    env: Vec<Vec<(String, String)>>,
}

/// Returns all slots of a file.
fn slots(
    source: &Source<'_>,
    table: &DeTable<'_>,
    prompt: FilePrompt,
) -> Result<Vec<SlotRequest>, MatrixError> {
    let lists = lists(source, table, prompt)?;
    let single = table.get("slot");
    let mut slots = Vec::new();
    if single.is_none() || table.contains_key("adapter") {
        slots = lists.product(source)?;
    } else if let Some(entry) = Entry::of(source, table, "", "model") {
        return Err(entry.wrong("it needs `adapter` beside it, or belongs into a [[slot]]"));
    }
    if let Some(entry) = Entry::of(source, table, "", "slot") {
        for (number, item) in entry.tables()?.into_iter().enumerate() {
            let slot = slot(source, item, number + 1, &lists)?;
            if slot.prompt.is_none() && lists.prompts.len() > 1 {
                let hint = Some("write `prompt = \"…\"` into it".to_owned());
                return Err(MatrixError { hint, ..entry.wrong_table(number, SEVERAL_PROMPTS) });
            }
            slots.push(slot);
        }
    }
    let without = |slot: &SlotRequest| slot.prompt.is_none();
    if prompt == FilePrompt::Used && slots.iter().any(without) {
        let hint = "write `prompt = \"…\"` or `prompt_file = \"FILE\"`, or launch with -p";
        return Err(source.whole("no prompt is given", hint));
    }
    Ok(slots)
}

fn lists(
    source: &Source<'_>,
    table: &DeTable<'_>,
    prompt: FilePrompt,
) -> Result<Lists, MatrixError> {
    let entry = |key: &'static str| Entry::of(source, table, "", key);
    let texts = |key| -> Result<Vec<Option<String>>, MatrixError> {
        let texts = entry(key).map(|e| e.one_or_more()).transpose()?;
        Ok(texts.map_or_else(|| vec![None], |texts| texts.into_iter().map(Some).collect()))
    };
    let permissions = match entry("permissions") {
        Some(entry) => entry.permissions()?.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let prompts = match (entry("prompt"), entry("prompt_file")) {
        (Some(entry), None) => entry.prompts()?.into_iter().map(Some).collect(),
        (None, Some(entry)) => vec![Some(prompt_file(source, &entry)?)],
        (None, None) => vec![None],
        (Some(_), Some(entry)) => return Err(entry.wrong("`prompt` is given as well")),
    };
    let prompts = if prompt == FilePrompt::Overridden { vec![None] } else { prompts };
    let suffixes = match entry("prompt_suffix") {
        Some(entry) => entry.strings()?.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let env = match entry("env") {
        Some(entry) => entry.variables()?,
        None => vec![Vec::new()],
    };
    let (adapters, models) = (texts("adapter")?, texts("model")?);
    Ok(Lists { adapters, models, permissions, prompts, suffixes, env })
}

impl Lists {
    /// Returns one slot for each combination: the adapter changes last.
    fn product(&self, source: &Source<'_>) -> Result<Vec<SlotRequest>, MatrixError> {
        let lengths = [
            self.adapters.len(),
            self.models.len(),
            self.permissions.len(),
            self.prompts.len(),
            self.suffixes.len(),
            self.env.len(),
        ];
        let count = lengths.into_iter().fold(1_usize, usize::saturating_mul);
        if count > LARGEST_MAX_SLOTS {
            let what = format!("its lists make {count} slots; at most 64 are allowed");
            return Err(source.whole(&what, "shorten a list: the lists multiply"));
        }
        let mut slots = vec![SlotRequest::default()];
        slots = each(&slots, &self.adapters, |slot, value| slot.adapter.clone_from(value));
        slots = each(&slots, &self.models, |slot, value| slot.model.clone_from(value));
        slots = each(&slots, &self.permissions, |slot, value| slot.permissions = *value);
        slots = each(&slots, &self.prompts, |slot, value| slot.prompt.clone_from(value));
        slots = each(&slots, &self.suffixes, |slot, value| slot.prompt_suffix.clone_from(value));
        slots = each(&slots, &self.env, |slot, value| slot.env.clone_from(value));
        Ok(slots)
    }
}

/// Returns each slot once for each value.
fn each<T>(
    slots: &[SlotRequest],
    values: &[T],
    set: impl Fn(&mut SlotRequest, &T),
) -> Vec<SlotRequest> {
    let both = slots.iter().flat_map(|slot| values.iter().map(move |value| (slot, value)));
    both.map(|(slot, value)| {
        let mut slot = slot.clone();
        set(&mut slot, value);
        slot
    })
    .collect()
}

/// Returns the value of a list that has only one.
fn only<T: Clone>(values: &[T]) -> Option<T> {
    if let [one] = values { Some(one.clone()) } else { None }
}

/// Reads a `[[slot]]`. Prompt, permissions and variables of the file count for it, if they are single values.
fn slot(
    source: &Source<'_>,
    table: &DeTable<'_>,
    number: usize,
    lists: &Lists,
) -> Result<SlotRequest, MatrixError> {
    let prefix = slot_prefix(number);
    source.check_keys(table, &prefix, &SLOT_KEYS)?;
    let entry = |key: &'static str| Entry::of(source, table, &prefix, key);
    let text = |key| entry(key).map(|e| e.text()).transpose();
    let permissions = match entry("permissions") {
        Some(entry) => Some(entry.permission()?),
        None => only(&lists.permissions).flatten(),
    };
    let prompt = match entry("prompt") {
        Some(entry) => Some(entry.prompt()?),
        None => only(&lists.prompts).flatten(),
    };
    let env = match entry("env") {
        Some(entry) => entry.variables_of_one()?,
        None => only(&lists.env).unwrap_or_default(),
    };
    Ok(SlotRequest {
        adapter: text("adapter")?,
        model: text("model")?,
        permissions,
        prompt,
        prompt_suffix: entry("prompt_suffix").map(|e| e.string()).transpose()?,
        env,
        branch: text("branch")?,
        base: text("base")?.or(text("base_branch")?),
    })
}

fn prompt_file(source: &Source<'_>, entry: &Entry<'_>) -> Result<String, MatrixError> {
    let name = entry.text()?;
    let read = read_text(&source.folder.join(&name));
    let text = read.map_err(|what| entry.wrong(format!("`{name}`: {what}")))?;
    if text.trim().is_empty() {
        return Err(entry.wrong(format!("`{name}` is empty")));
    }
    Ok(text)
}

/// Reads a regular file of UTF-8 text.
fn read_text(path: &Path) -> Result<String, String> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    let failed = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        let kind = if meta.is_dir() { "a directory" } else { "no regular file" };
        return Err(format!("it is {kind}"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it is larger than 500 kB".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// Says whether a value is a table.
fn is_table(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::Table(_))
}

#[cfg(test)]
mod tests;
