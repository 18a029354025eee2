//! Texts about the holder of a directory: a live session, or a person's lock.

use agentctl_core::host::Host;
use agentctl_core::locks::{self, Holder};

use super::{age, local_minute};
use crate::text::one_line;

/// Returns the holder of a directory as a text of its own, and until when it holds it.
#[must_use]
pub fn holder_text(holder: &Holder) -> String {
    let left = holder.until.map(|until| format!(" (until {})", local_minute(until)));
    one_line(&format!("{}{}", holder.description(), left.unwrap_or_default()))
}

/// Returns the holder of a directory as the end of a sentence that begins with the directory and `is`: session,
/// pid and age, or the name on the lock.
pub(super) fn holder_in_sentence(host: &Host, holder: &Holder) -> String {
    let since = holder.since.map(|t| age(host.now(), t));
    let facts = [holder.pid.map(|p| format!("pid {p}")), since, holder.reason.clone()];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    match holder.kind {
        locks::Kind::Occupied => {
            let adapter = holder.adapter.unwrap_or("an agent");
            let session = holder.session.as_deref().unwrap_or("without a session yet");
            format!("occupied by {adapter} {session}{facts}")
        }
        locks::Kind::Manual => {
            format!("locked by {}{facts}", holder.by.as_deref().unwrap_or("an unknown user"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_was_sent_as_json_is_described_from_its_fields() {
        let sent = |text: &str| serde_json::from_str::<Holder>(text).expect("a holder");
        let nothing = r#""pid":null,"session":null,"adapter":null,"since":null,"until":null"#;
        let manual =
            sent(&format!(r#"{{"kind":"manual","by":"ada","reason":"release",{nothing}}}"#));
        assert_eq!(holder_text(&manual), "locked by ada: release");
        let unnamed = sent(&format!(r#"{{"kind":"manual","by":null,"reason":null,{nothing}}}"#));
        assert_eq!(holder_text(&unnamed), "locked by an unknown user");
    }
}
