//! The slots of a group launch: how many there may be, and the name that the worktree of each gets.
//!
//! A slot is one agent that is started. The name of its worktree is `GROUP/ADAPTER[-MODEL]`, so that the branch alone
//! tells the group. Names that would be equal get a number.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapters::control::Permissions;

/// Most slots of a launch that gives no limit of its own.
pub const USUAL_MAX_SLOTS: usize = 16;
/// Largest limit that a launch can give.
pub const LARGEST_MAX_SLOTS: usize = 64;
/// Longest part of a worktree's name that a model gives.
const MAX_MODEL_CHARS: usize = 40;

/// One agent of a group launch. What it leaves out is taken from the request and the defaults.
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
        /// What the text is.
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

/// Returns a name for a group that has none: `g-` and six hexadecimal digits.
#[must_use]
pub fn new_group() -> String {
    let id = uuid::Uuid::now_v7();
    // The last bytes of such an id are random, the first are the time.
    let [.., a, b, c] = id.into_bytes();
    format!("g-{a:02x}{b:02x}{c:02x}")
}

/// Checks that a group can be the first part of a branch name.
pub fn check_group(group: &str) -> Result<(), SlotsError> {
    check_part("the group", group)
}

/// Returns the names of the worktrees of slots, in their order. Each slot is given with the name of its adapter.
pub fn worktree_names(
    group: &str,
    slots: &[(&str, &SlotRequest)],
) -> Result<Vec<String>, SlotsError> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for (adapter, slot) in slots {
        let wanted = match &slot.branch {
            Some(branch) => {
                check_part("the branch", branch)?;
                branch.clone()
            }
            None => last_part(adapter, slot.model.as_deref()),
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

/// Returns the adapter and the model as a part of a branch name. A provider in front of the model is left out.
#[must_use]
pub fn last_part(adapter: &str, model: Option<&str>) -> String {
    let Some(model) = model else { return adapter.to_owned() };
    let model = model.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let keep = |c: char| if c.is_alphanumeric() || matches!(c, '_' | '.') { c } else { '-' };
    let model: String = model.chars().map(keep).take(MAX_MODEL_CHARS).collect();
    let words = model.split('-').map(|word| word.trim_matches('.')).filter(|w| !w.is_empty());
    let name = std::iter::once(adapter).chain(words).collect::<Vec<_>>().join("-");
    let dots = name.split('.').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    dots.strip_suffix(".lock").unwrap_or(&dots).to_owned()
}

/// Checks that a text can be a part of a branch name, between two slashes.
fn check_part(what: &'static str, text: &str) -> Result<(), SlotsError> {
    let known = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '=' | ',');
    let why = if text.is_empty() {
        "it is empty"
    } else if !text.chars().all(known) {
        "it has a character that is not allowed there"
    } else if text.starts_with(['-', '.']) {
        "it begins with `-` or `.`"
    } else if text.ends_with('.') || text.ends_with(".lock") || text.contains("..") {
        "it has `..`, or ends with `.` or `.lock`"
    } else {
        return Ok(());
    };
    Err(SlotsError::Name { what, text: text.to_owned(), why })
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
        let (fixed, upper, bad) = (branch("codex-2"), branch("CODEX"), branch("a/b"));
        let slots = [("codex", &none), ("demo", &fixed), ("codex", &none), ("demo", &upper)];
        let names = worktree_names("g", &slots).expect("named");
        assert_eq!(names, ["g/codex", "g/codex-2", "g/codex-3", "g/CODEX-4"]);
        assert!(worktree_names("g", &[("demo", &bad)]).is_err());
    }

    #[test]
    fn a_model_becomes_a_part_of_a_branch_name() {
        let part = |model: &str| last_part("pi", Some(model));
        assert_eq!(part("anthropic/claude-opus-5-5[1m]"), "pi-claude-opus-5-5-1m");
        assert_eq!(part("gpt 5.lock"), "pi-gpt-5");
        assert_eq!(part("~^:?*\\@{x"), "pi-x");
        assert_eq!(part(".."), "pi");
        assert_eq!(part(&"x".repeat(300)).len(), 43);
        assert_eq!(last_part("pi", None), "pi");
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

    #[test]
    fn a_group_must_fit_into_a_branch_name() {
        for group in ["morning", "g-4f1a2c", "größe", "v1.2", "a_b+c=d,e"] {
            assert_eq!(check_group(group), Ok(()), "{group}");
        }
        for group in ["", "a b", "a/b", "-x", ".x", "x.", "x.lock", "a..b", "a~1", "a:b", "@{x}"] {
            assert!(check_group(group).is_err(), "{group}");
        }
        let group = new_group();
        assert!(group.len() == 8 && group.starts_with("g-"), "{group}");
        assert_ne!(group, new_group());
    }
}
