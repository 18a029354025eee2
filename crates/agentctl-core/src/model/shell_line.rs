//! Words as a command line, for people who read it.

use std::borrow::Cow;

/// Returns words as one command line: a shell reads the same words from it.
#[must_use]
pub fn shell_line(words: &[&str]) -> String {
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_a_shell_would_change_are_quoted() {
        assert_eq!(
            shell_line(&["git", "log", "--since=1.week", "a/b"]),
            "git log --since=1.week a/b"
        );
        assert_eq!(
            shell_line(&["rm", "a b", "", "it's", "$HOME"]),
            r"rm 'a b' '' 'it'\''s' '$HOME'"
        );
    }
}
