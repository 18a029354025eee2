//! The slots of a group launch: how many there may be, and the name that the worktree of each gets.
//!
//! A slot is one agent that is started. The name of its worktree is `GROUP/ADAPTER[-MODEL]`, so that the branch alone
//! tells the group. Names that would be equal get a number.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapters::control::Permissions;
use crate::worktrees::{ref_part, slot_name};

/// Most slots of a launch that gives no limit of its own.
pub const USUAL_MAX_SLOTS: usize = 16;
/// Largest limit that a launch can give.
pub const LARGEST_MAX_SLOTS: usize = 64;

/// One agent of a group launch. A value that it leaves out is taken from the request and the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlotRequest {
    /// The name of the adapter; null for the configured one, else the first that is installed.
    pub adapter: Option<String>,
    /// The model, in the agent's own words.
    pub model: Option<String>,
    /// The permissions of the agent.
    pub permissions: Option<Permissions>,
    /// The prompt of this slot, in place of that of the request.
    pub prompt: Option<String>,
    /// Text behind the prompt.
    pub prompt_suffix: Option<String>,
    /// Variables set for the agent, besides those of the request.
    pub env: Vec<(String, String)>,
    /// The last part of the name of its worktree and branch; null for the adapter and the model.
    pub branch: Option<String>,
    /// The revision that its worktree begins at; null for that of the request.
    pub base: Option<String>,
}

/// Why the slots of a request cannot be launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotsError {
    /// There is none.
    #[error("the launch has no slot")]
    None,
    /// There are more than the limit.
    #[error("the launch has {count} slots; at most {max} are allowed")]
    TooMany {
        /// How many.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The limit itself is too large, or zero.
    #[error("the limit of slots is {0}; it must be from 1 to 64")]
    Limit(usize),
    /// The number of repetitions is zero.
    #[error("every slot is repeated 0 times: nothing would be launched")]
    Times,
    /// A text cannot be a part of a branch name.
    #[error("{what} `{text}` cannot be part of a branch name: {why}")]
    Name {
        /// The meaning of the text.
        what: &'static str,
        /// The text.
        text: String,
        /// The rule.
        why: &'static str,
    },
}

impl SlotsError {
    /// Returns a hint for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::None => "`--adapter NAME` opens a slot",
            Self::TooMany { max, .. } if *max < LARGEST_MAX_SLOTS => {
                "--max raises the limit, up to 64"
            }
            Self::TooMany { .. } | Self::Limit(_) => "64 is the most that one launch can start",
            Self::Times => "leave --times out, or write 1 or more",
            Self::Name { .. } => "use letters, digits, `-`, `_` and `.`",
        }
    }
}

/// Repeats slots and checks their number.
pub fn repeated(
    slots: &[SlotRequest],
    times: usize,
    max: Option<usize>,
) -> Result<Vec<SlotRequest>, SlotsError> {
    let max = max.unwrap_or(USUAL_MAX_SLOTS);
    if max == 0 || max > LARGEST_MAX_SLOTS {
        return Err(SlotsError::Limit(max));
    }
    if times == 0 {
        return Err(SlotsError::Times);
    }
    let count = slots.len().saturating_mul(times);
    match count {
        0 => Err(SlotsError::None),
        count if count > max => Err(SlotsError::TooMany { count, max }),
        _ => {
            let each = slots.iter().flat_map(|slot| std::iter::repeat_n(slot, times));
            Ok(each.cloned().collect())
        }
    }
}

/// Returns the names of the worktrees of slots, in their order. Each slot is given with the name of its adapter.
pub fn worktree_names(
    group: &str,
    slots: &[(&str, &SlotRequest)],
) -> Result<Vec<String>, SlotsError> {
    let group = part("the group", group)?;
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for (adapter, slot) in slots {
        let wanted = match &slot.branch {
            Some(branch) => part("the branch", branch)?,
            None => slot_name(adapter, slot.model.as_deref()),
        };
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let mut candidates = std::iter::once(wanted.clone()).chain(numbered);
        let free = candidates.find(|name| !taken.contains(&name.to_lowercase()));
        let free = free.unwrap_or(wanted);
        // Some file systems do not tell upper from lower case.
        taken.insert(free.to_lowercase());
        names.push(format!("{group}/{free}"));
    }
    Ok(names)
}

/// Makes a text a part of a branch name.
fn part(what: &'static str, text: &str) -> Result<String, SlotsError> {
    let part = ref_part(text);
    let why = "no letter or digit of it is left";
    if part.is_empty() {
        return Err(SlotsError::Name { what, text: text.to_owned(), why });
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(model: Option<&str>) -> SlotRequest {
        SlotRequest { model: model.map(str::to_owned), ..SlotRequest::default() }
    }

    #[test]
    fn equal_names_get_a_number() {
        let (none, opus) = (slot(None), slot(Some("opus")));
        let slots = [("codex", &none), ("codex", &none), ("codex", &opus), ("codex", &none)];
        let names = worktree_names("g-1", &slots).expect("named");
        assert_eq!(names, ["g-1/codex", "g-1/codex-2", "g-1/codex-opus", "g-1/codex-3"]);
        let branch = |text: &str| SlotRequest { branch: Some(text.into()), ..slot(None) };
        let (fixed, upper, odd) = (branch("codex-2"), branch("CODEX"), branch("a/b c"));
        let slots = [("codex", &none), ("demo", &fixed), ("codex", &none), ("demo", &upper)];
        let names = worktree_names("my group", &slots).expect("named");
        let expected = ["codex", "codex-2", "codex-3", "CODEX-4"];
        assert_eq!(names, expected.map(|name| format!("my-group/{name}")));
        assert_eq!(worktree_names("g", &[("demo", &odd)]).expect("named"), ["g/a-b-c"]);
        let empty = branch("../..");
        assert!(worktree_names("g", &[("demo", &empty)]).is_err());
        assert!(worktree_names("***", &[("demo", &none)]).is_err());
    }

    #[test]
    fn the_number_of_slots_is_limited() {
        let slots = vec![slot(None); 6];
        assert_eq!(repeated(&slots, 2, None).expect("12").len(), 12);
        let refused = |times, max| repeated(&slots, times, max).expect_err("refused");
        assert_eq!(refused(3, None), SlotsError::TooMany { count: 18, max: 16 });
        assert_eq!(refused(3, Some(65)), SlotsError::Limit(65));
        assert_eq!(refused(3, Some(0)), SlotsError::Limit(0));
        assert_eq!(refused(0, None), SlotsError::Times);
        assert_eq!(
            refused(usize::MAX, Some(64)),
            SlotsError::TooMany { count: usize::MAX, max: 64 }
        );
        assert_eq!(repeated(&slots, 3, Some(64)).expect("18").len(), 18);
        assert_eq!(repeated(&[], 3, None).expect_err("none"), SlotsError::None);
    }
}
