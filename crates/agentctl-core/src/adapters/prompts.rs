//! Counts the prompts of a conversation.

use crate::model::{Message, Role};

/// The number of prompts in the lines that were read so far. The lines are added in their order.
#[derive(Debug, Default)]
pub struct PromptCounter {
    count: u64,
    /// The id of the newest prompt. The parts of one message share its id.
    last_id: Option<String>,
}

impl PromptCounter {
    /// Adds a prompt of a person or script, with the id of its message.
    pub fn add(&mut self, id: Option<String>) {
        if id.is_none() || id != self.last_id {
            self.count += 1;
        }
        self.last_id = id;
    }

    /// Adds the prompt that the messages of one line hold, if they hold one.
    pub fn add_messages(&mut self, messages: Vec<Message>) {
        let is_prompt = |message: &Message| message.role == Role::User && message.text.is_some();
        if let Some(prompt) = messages.into_iter().find(is_prompt) {
            self.add(prompt.id);
        }
    }

    /// Returns the number of prompts.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_one_message_are_one_prompt() {
        let mut prompts = PromptCounter::default();
        for id in [Some("a"), Some("a"), Some("b"), Some("a"), None, None] {
            prompts.add(id.map(str::to_owned));
        }
        assert_eq!(prompts.count(), 5);
        let image_only = Message::of(Role::User);
        let answer = Message { text: Some("done".into()), ..Message::of(Role::Assistant) };
        prompts.add_messages(vec![image_only, answer]);
        assert_eq!(prompts.count(), 5, "neither is a prompt");
        prompts.add_messages(vec![Message { text: Some("go".into()), ..Message::of(Role::User) }]);
        assert_eq!(prompts.count(), 6);
    }
}
