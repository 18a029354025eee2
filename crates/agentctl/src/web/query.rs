//! The part of an address after the question mark.

use crate::failure::{Failure, Kind};

/// The names and values of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct QueryText(Vec<(String, String)>);

impl QueryText {
    /// Reads a query. A part without a value has an empty one.
    pub(super) fn parse(text: &str) -> Self {
        let parts = text.split('&').filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        };
        Self(parts.map(pair).collect())
    }

    /// Returns the first value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns a value that must be there.
    pub(super) fn needed(&self, name: &str) -> Result<&str, Failure> {
        let given = self.get(name).filter(|value| !value.trim().is_empty());
        given.ok_or_else(|| Failure::new(Kind::Usage, format!("the query lacks `{name}`")))
    }

    /// Returns the session that is meant, as a user would type it.
    pub(super) fn session(&self) -> Result<&str, Failure> {
        self.needed("id").map(typed_session)
    }

    /// Says whether a name has the value `true`.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "true")
    }

    /// Returns a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let parse = |value: &str| {
            let wrong = |_| Failure::new(Kind::Usage, format!("`{name}` is not a number"));
            value.parse().map_err(wrong)
        };
        self.get(name).map(parse).transpose()
    }
}

/// Returns the text that names a session on the command line. A process without a session has the key
/// `adapter:pid:N` on the page; its pid names it.
pub(super) fn typed_session(key: &str) -> &str {
    // The id or the home of a session may hold `:pid:`.
    let pid = key.split_once(':').and_then(|(_, name)| name.strip_prefix("pid:"));
    let is_pid = |pid: &&str| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit());
    pid.filter(is_pid).unwrap_or(key)
}

/// Decodes `%41` and `+`. Bytes that are not UTF-8 are replaced.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let escaped = escaped.and_then(|pair| std::str::from_utf8(pair).ok());
        match escaped.and_then(crate::text::unhex) {
            Some(decoded) => {
                out.extend(decoded);
                at += 3;
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_once() {
        let query = QueryText::parse("id=demo%3Aa%2520b&n=40&all=true&x&y=%4&z=a+b%");
        assert_eq!(query.get("id"), Some("demo:a%20b"));
        assert_eq!(query.number("n").expect("a number"), Some(40));
        assert!(query.flag("all") && !query.flag("n"));
        assert_eq!(
            (query.get("x"), query.get("y"), query.get("z")),
            (Some(""), Some("%4"), Some("a b%"))
        );
        assert_eq!(typed_session("demo:pid:12"), "12");
        assert_eq!(typed_session("demo:pid:x"), "demo:pid:x");
        let named = "demo:a@/home/:pid:12";
        assert_eq!(typed_session(named), named);
        assert!(query.needed("x").is_err() && query.number("id").is_err());
    }
}
