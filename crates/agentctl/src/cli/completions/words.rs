//! Splits a line of bash up to the cursor into words, as bash would, without expanding anything.

/// A line up to the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The complete words, without quotes.
    pub(super) words: Vec<String>,
    /// The word at the cursor; empty after a blank.
    pub(super) last: LastWord,
    /// The word at the cursor is the file of a redirection.
    pub(super) is_redirected: bool,
}

/// The word at the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LastWord {
    /// The word without quotes.
    pub(super) text: String,
    /// The word as it is typed.
    pub(super) raw: String,
    /// The quote that is open at the cursor.
    pub(super) quote: Option<char>,
}

/// Splits a line. Operators end a word; the file of a redirection is not a word of the command.
pub(super) fn split(line: &str) -> Line {
    let mut words = Vec::new();
    let mut last = LastWord::default();
    let mut is_redirected = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (last.quote, c) {
            (None, ' ' | '\t' | '\n' | '<' | '>' | '&') => {
                let done = std::mem::take(&mut last);
                // `2>`: the number belongs to the operator.
                let is_descriptor = matches!(c, '<' | '>') && done.raw.parse::<u8>().is_ok();
                if !done.raw.is_empty() && !is_descriptor {
                    if !is_redirected {
                        words.push(done.text);
                    }
                    is_redirected = false;
                }
                is_redirected |= matches!(c, '<' | '>');
                continue;
            }
            (None, '\'' | '"') => last.quote = Some(c),
            (Some(quote), c) if quote == c => last.quote = None,
            (None, '\\') => {
                last.raw.push(c);
                let Some(next) = chars.next() else { break };
                last.text.push(next);
                last.raw.push(next);
                continue;
            }
            (Some('"'), '\\') => {
                last.raw.push(c);
                let Some(next) = chars.next() else { break };
                if !matches!(next, '$' | '`' | '"' | '\\') {
                    last.text.push('\\');
                }
                last.text.push(next);
                last.raw.push(next);
                continue;
            }
            _ => last.text.push(c),
        }
        last.raw.push(c);
    }
    Line { words, last, is_redirected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_words(line: &str) -> (Vec<String>, String, Option<char>) {
        let Line { words, last, .. } = split(line);
        (words, last.text, last.quote)
    }

    #[test]
    fn words_are_split_as_bash_splits_them() {
        let words = |line: &str| split_words(line).0;
        assert_eq!(words("agentctl stop "), ["agentctl", "stop"]);
        assert_eq!(words(r#"a 'b c' "d \" e" f\ g h"#), ["a", "b c", "d \" e", "f g"]);
        assert_eq!(split_words("a 'b c"), (vec!["a".into()], "b c".into(), Some('\'')));
        assert_eq!(split_words("a b\\"), (vec!["a".into()], "b".into(), None));
        assert_eq!(split("a --cwd=x\\ y").last.raw, "--cwd=x\\ y");
    }

    #[test]
    fn files_of_redirections_are_no_words() {
        let line = split("agentctl list 2> er");
        assert_eq!(
            (line.words, line.is_redirected),
            (vec!["agentctl".into(), "list".into()], true)
        );
        let line = split("agentctl list >out -");
        assert_eq!((line.words.len(), line.is_redirected), (2, false));
    }
}
