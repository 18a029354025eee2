//! The checks of a group launch, before anything is made: slots, adapters, prompts, group, hooks and context.

use std::path::PathBuf;

use super::super::launch::{
    LaunchDefaults, LaunchOptions, LaunchRequest, LaunchSubject, NotStarted, TextOrBytes,
    check_choices, check_hooks, is_remote,
};
use super::super::names::LaunchWords;
use super::{Fleet, GroupLaunchRequest, PlanPlace, absolute};
use crate::adapters::Adapter;
use crate::launch::context::PromptContext;
use crate::launch::slots::{SlotRequest, repeated, worktree_names};
use crate::launch::{check_brakes, check_prompt, directory};
use crate::worktrees::{Made, Wanted, new_group};

/// A group launch that can begin.
pub(super) struct ReadyGroup {
    pub group: String,
    pub cwd: PathBuf,
    pub slots: Vec<ReadySlot>,
}

/// A slot that can be launched.
pub(super) struct ReadySlot {
    pub number: usize,
    pub adapter: &'static dyn Adapter,
    /// The options of the request, with those of the slot.
    pub options: LaunchOptions,
    /// The prompt with its context.
    pub prompt: Vec<u8>,
    /// The name of its worktree.
    pub name: String,
    /// The revision that its worktree begins at; `None` for that of the request.
    pub base: Option<String>,
}

impl Fleet {
    /// Checks a request. Nothing is made.
    pub(super) fn ready_group(
        &self,
        request: &GroupLaunchRequest,
        place: &PlanPlace,
        defaults: &LaunchDefaults,
    ) -> Result<ReadyGroup, NotStarted> {
        let slots = repeated(&request.slots, request.times.unwrap_or(1), request.max)?;
        check_brakes(self, slots.len()).map_err(NotStarted::Failed)?;
        let group = request.options.group.clone().unwrap_or_else(new_group);
        let words = LaunchWords { name: None, group: Some(group.clone()) };
        self.check_words(&words).map_err(NotStarted::Words)?;
        if *place != PlanPlace::Directory {
            check_hooks(&self.host, &request.options.hooks.or(&defaults.hooks))?;
        }
        let cwd = absolute(self, request.cwd.as_deref());
        let cwd = directory(&cwd).map_err(NotStarted::Failed)?;
        let mut adapters = Vec::new();
        for (number, slot) in slots.iter().enumerate() {
            let adapter = self.adapter_of(slot, (request, place), defaults);
            adapters.push(adapter.map_err(|why| in_slot(number, slots.len(), why))?);
        }
        let named: Vec<(&str, &SlotRequest)> =
            adapters.iter().zip(&slots).map(|(adapter, slot)| (adapter.name(), slot)).collect();
        let names = match place {
            PlanPlace::Named(name) => vec![name.clone()],
            PlanPlace::Worktrees | PlanPlace::Directory => worktree_names(&group, &named)?,
        };
        let prompts = prompts(&slots, request)?;
        let context = request.context.read(&self.host, &cwd).map_err(NotStarted::Context)?;
        let count = slots.len();
        let each = slots.into_iter().zip(adapters).zip(names.into_iter().zip(prompts));
        let slots = each.enumerate().map(|(number, ((slot, adapter), (name, prompt)))| {
            let options = options_of(&slot, request);
            let prompt = context.before(&prompt);
            let why = |why| in_slot(number, count, NotStarted::Failed(why));
            check_prompt(adapter, &prompt).map_err(why)?;
            Ok(ReadySlot { number, adapter, options, prompt, name, base: slot.base })
        });
        let slots = slots.collect::<Result<_, NotStarted>>()?;
        Ok(ReadyGroup { group, cwd, slots })
    }

    fn adapter_of(
        &self,
        slot: &SlotRequest,
        (request, place): (&GroupLaunchRequest, &PlanPlace),
        defaults: &LaunchDefaults,
    ) -> Result<&'static dyn Adapter, NotStarted> {
        let adapter = self.chosen_adapter(slot.adapter.as_deref(), defaults)?;
        let in_place = *place == PlanPlace::Directory && request.cwd.is_none();
        if is_remote(adapter) && !in_place {
            return Err(NotStarted::DirectoryOnServer(adapter.name()));
        }
        check_choices(&self.host, adapter, &options_of(slot, request), defaults)?;
        Ok(adapter)
    }
}

/// Names the slot that is refused, if there are several and the reason is not the same for all.
fn in_slot(slot: usize, count: usize, why: NotStarted) -> NotStarted {
    match why {
        NotStarted::Hook { .. } => why,
        why if count == 1 => why,
        why => NotStarted::InSlot { slot, why: Box::new(why) },
    }
}

/// Returns the options of the request with those of one slot, which count more.
fn options_of(slot: &SlotRequest, request: &GroupLaunchRequest) -> LaunchOptions {
    let mut options = request.options.clone();
    options.model = slot.model.clone().or(options.model);
    options.permissions = slot.permissions.or(options.permissions);
    options.env.extend(slot.env.iter().cloned());
    options
}

/// Returns the prompt of each slot, without context.
fn prompts(
    slots: &[SlotRequest],
    request: &GroupLaunchRequest,
) -> Result<Vec<Vec<u8>>, NotStarted> {
    let prompt = |(number, slot): (usize, &SlotRequest)| {
        let own = slot.prompt.clone().map(String::into_bytes);
        let shared = || request.prompt.clone().map(TextOrBytes::into_bytes);
        let mut prompt = own.or_else(shared).unwrap_or_default();
        if prompt.iter().all(u8::is_ascii_whitespace) {
            let why = Box::new(NotStarted::NoPrompt);
            return Err(NotStarted::InSlot { slot: number, why });
        }
        if let Some(suffix) = slot.prompt_suffix.as_deref().filter(|text| !text.trim().is_empty()) {
            prompt.extend_from_slice(b"\n\n");
            prompt.extend_from_slice(suffix.as_bytes());
        }
        Ok(prompt)
    };
    slots.iter().enumerate().map(prompt).collect()
}

impl ReadyGroup {
    /// Returns the worktrees that are needed.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let wanted = |slot: &ReadySlot| {
            let (name, base) = (slot.name.clone(), slot.base.clone());
            Wanted { name, slot: slot.number, base }
        };
        self.slots.iter().map(wanted).collect()
    }
}

impl ReadySlot {
    /// Returns the request for the launch of this slot in its worktree.
    pub(super) fn launch_request(
        &self,
        request: &GroupLaunchRequest,
        ready: &ReadyGroup,
        made: &Made,
    ) -> LaunchRequest {
        let mut options = self.options.clone();
        options.group = Some(ready.group.clone());
        LaunchRequest {
            subject: LaunchSubject::New { adapter: Some(self.adapter.name().to_owned()) },
            prompt: self.prompt.clone().into(),
            context: PromptContext::default(),
            cwd: Some(made.cwd.clone()),
            name: None,
            look: request.look,
            options,
            worktree: None,
        }
    }
}
