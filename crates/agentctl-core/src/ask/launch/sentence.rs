//! The reason why an agent of a group was not launched, in one sentence: it is a field of a document.

use super::{NoAdapter, NotStarted};

impl NotStarted {
    /// Returns the reason in one sentence, without a hint.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::NoAdapter(NoAdapter::Unknown(name)) => {
                format!("there is no adapter named `{name}`")
            }
            Self::NoAdapter(NoAdapter::NoneInstalled) => {
                "no coding agent is installed, or none is on your PATH".to_owned()
            }
            Self::NotContinued { text, .. } => format!("the session `{text}` cannot go on"),
            Self::DirectoryOnServer(agent) => {
                format!("{agent} runs on a server, which chooses the directory")
            }
            Self::HookOnServer(agent) => {
                format!("{agent} runs on a server: no hook is run for it")
            }
            Self::AskLimit(agent) => {
                format!("--ask takes no time with {agent}: its server waits without a limit")
            }
            Self::CannotAskOrStay(refusal) => refusal.message.clone(),
            Self::ModelIsOption(model) => {
                format!("`{model}` is no model: it begins with a dash")
            }
            Self::Hook { moment, why } => format!("the {} hook: {why}", moment.word()),
            Self::Words(_) => "the name or the group cannot be given".to_owned(),
            Self::Context(error) => error.to_string(),
            Self::Worktree(error) => error.to_string(),
            Self::WorktreeOfContinued => {
                "a session that goes on works in its own directory".to_owned()
            }
            Self::Slots(error) => error.to_string(),
            Self::InSlot { slot, why } => format!("slot {slot}: {}", why.sentence()),
            Self::NoPrompt => "it has no prompt".to_owned(),
            Self::Failed(error) => error.to_string(),
        }
    }
}
