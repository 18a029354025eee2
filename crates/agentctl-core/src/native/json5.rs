//! JSON5 for settings: comments, trailing commas, unquoted keys, single quotes.
//!
//! Plain JSON is parsed by `serde_json`; only a text that it rejects is parsed here. Nesting is limited, and
//! a text that is neither is an error, never a partial value.

use serde_json::{Map, Number, Value};

/// Deepest nesting that is accepted.
const MAX_DEPTH: usize = 64;

/// Parses a document.
pub fn parse(text: &str) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut reader = Reader { rest: text.trim_start_matches('\u{feff}'), line: 1 };
    let value = reader.value(0)?;
    reader.blank()?;
    if reader.rest.is_empty() { Ok(value) } else { Err(reader.wrong("something follows its end")) }
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("line {}: {what}", self.line)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn take(&mut self, wanted: char) -> bool {
        let here = self.rest.starts_with(wanted);
        if here {
            self.next();
        }
        here
    }

    /// Skips whitespace and comments.
    fn blank(&mut self) -> Result<(), String> {
        loop {
            if self.rest.starts_with("//") {
                while !matches!(self.next(), None | Some('\n')) {}
            } else if self.rest.starts_with("/*") {
                let end = self.rest[2..]
                    .find("*/")
                    .map(|at| at + 2)
                    .ok_or_else(|| self.wrong("a comment never ends"))?;
                self.line += self.rest[..end].matches('\n').count();
                self.rest = &self.rest[end + 2..];
            } else if self.rest.starts_with(char::is_whitespace) {
                self.next();
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("it is nested too deeply"));
        }
        self.blank()?;
        match self.rest.chars().next() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"' | '\'') => self.string().map(Value::String),
            Some(_) => self.word(),
            None => Err(self.wrong("a value is missing")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.next();
        let mut map = Map::new();
        loop {
            self.blank()?;
            if self.take('}') {
                return Ok(Value::Object(map));
            }
            let quoted = self.rest.starts_with(['"', '\'']);
            let key = if quoted { self.string()? } else { self.bare().to_owned() };
            self.blank()?;
            if key.is_empty() || !self.take(':') {
                return Err(self.wrong("a key or its colon is missing"));
            }
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            self.blank()?;
            if !self.take(',') && !self.rest.starts_with('}') {
                return Err(self.wrong("a comma or a closing brace is missing"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.next();
        let mut items = Vec::new();
        loop {
            self.blank()?;
            if self.take(']') {
                return Ok(Value::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.blank()?;
            if !self.take(',') && !self.rest.starts_with(']') {
                return Err(self.wrong("a comma or a closing bracket is missing"));
            }
        }
    }

    fn bare(&mut self) -> &str {
        let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '+' | '-' | '.'));
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn word(&mut self) -> Result<Value, String> {
        let word = self.bare().to_owned();
        let plain = word.strip_prefix('+').unwrap_or(&word);
        let hex = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X"));
        let number = match hex {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(Number::from),
            None => plain.parse::<i64>().ok().map(Number::from).or_else(|| {
                let float = plain.parse::<f64>().ok().filter(|_| plain.contains(['.', 'e', 'E']));
                float.and_then(Number::from_f64)
            }),
        };
        match (word.as_str(), number) {
            ("true", _) => Ok(Value::Bool(true)),
            ("false", _) => Ok(Value::Bool(false)),
            ("null", _) => Ok(Value::Null),
            (_, Some(number)) => Ok(Value::Number(number)),
            _ => Err(self.wrong("a word is neither a value nor quoted")),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(self.wrong("a text never ends")),
                c if c == quote => return Ok(text),
                Some('\\') => self.escape(&mut text)?,
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), String> {
        let c = self.next().ok_or_else(|| self.wrong("a text never ends"))?;
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'v' => text.push('\u{b}'),
            '0' => text.push('\0'),
            '\n' => {}
            'x' | 'u' => {
                let count = if c == 'x' { 2 } else { 4 };
                let digits = self.rest.get(..count).map(str::to_owned);
                let code = digits.and_then(|d| u32::from_str_radix(&d, 16).ok());
                let code = code.ok_or_else(|| self.wrong("an escape is cut short"))?;
                self.rest = &self.rest[count..];
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => text.push(other),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json5_settings_are_parsed() {
        let text = "\u{feff}// settings\n{ gateway: { port: 0x4965, auth: { 'token': \"a\\u0062\\\nc\", }, },\n\
                    /* more: é * / **/ list: [1, +2, -3.5, true, null,], $x: '\"' }\n";
        let read = parse(text);
        let wanted = json!({
            "gateway": {"port": 18789, "auth": {"token": "abc"}},
            "list": [1, 2, -3.5, true, null],
            "$x": "\"",
        });
        assert_eq!(read, Ok(wanted));
    }

    #[test]
    fn a_text_that_is_neither_json_nor_json5_is_an_error() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{",
            "{a}",
            "{a:}",
            "[1 2]",
            "'x",
            "/* x",
            "{a:1} b",
            "nan",
            "\\",
            "{a:'\\u00'}",
            &deep,
        ] {
            assert!(parse(text).is_err(), "{}", &text[..text.len().min(20)]);
        }
    }

    #[test]
    fn a_cut_text_never_panics() {
        let text = "{ /* é */ gateway: { 'tok\\x41en': [1, \"ü\\u00e9\", 0x1f,], }, } // ende ☃";
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _any = parse(&text[..end]);
        }
    }
}
