//! One line of a client as a message of the protocol, or as the error that answers it.

use rmcp::model::ClientJsonRpcMessage;
use serde_json::{Value, json};

use super::limits::MAX_LINE_BYTES;
use super::lines::Line;

/// The code of JSON-RPC for a line that is no request.
const INVALID_REQUEST: i32 = -32600;

/// The meaning of a line.
pub(super) enum Incoming {
    /// A message.
    Message(Box<ClientJsonRpcMessage>),
    /// No message, and nothing that could be answered.
    Nothing,
    /// A request that is not one of the protocol: this answers it.
    Wrong(Value),
}

impl Incoming {
    /// Reads a line.
    pub(super) fn of(line: &Line) -> Self {
        match line {
            Line::Whole(bytes) => Self::of_whole(bytes),
            Line::TooLong(beginning) => match id_at_beginning(beginning) {
                Some(id) => {
                    let why = format!("the line is longer than {MAX_LINE_BYTES} bytes");
                    Self::Wrong(error(Some(id), &why))
                }
                None => Self::Nothing,
            },
        }
    }

    fn of_whole(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        if let Ok(message) = serde_json::from_slice(bytes) {
            return Self::Message(Box::new(message));
        }
        let value = match serde_json::from_slice::<Value>(bytes) {
            Ok(value) => value,
            // Rubbish is ignored, as the official libraries do. A request may be no JSON to this parser only: half of
            // a surrogate pair, deep nesting, a large number. Its client waits for an answer.
            Err(why) => {
                let answer =
                    |id| Self::Wrong(error(Some(id), &format!("the line is no JSON: {why}")));
                return id_at_beginning(bytes).map_or(Self::Nothing, answer);
            }
        };
        let id = value.get("id");
        let is_notification = id.is_none() && value.get("method").is_some_and(Value::is_string);
        if is_notification {
            return Self::Nothing;
        }
        Self::Wrong(error(id.cloned().filter(is_id), why_no_request(&value)))
    }
}

fn is_id(value: &Value) -> bool {
    value.is_string() || value.is_number()
}

fn why_no_request(value: &Value) -> &'static str {
    match value {
        Value::Object(fields) if fields.get("jsonrpc") != Some(&json!("2.0")) => {
            "`jsonrpc` must be \"2.0\""
        }
        Value::Object(fields) if !fields.get("method").is_some_and(Value::is_string) => {
            "`method` must be a string"
        }
        Value::Object(fields) if !fields.get("id").is_some_and(is_id) => {
            "`id` must be a string or a number"
        }
        Value::Object(_) => "it is no request of the protocol",
        _ => "a message must be an object",
    }
}

fn error(id: Option<Value>, why: &str) -> Value {
    let error = json!({"code": INVALID_REQUEST, "message": format!("invalid request: {why}")});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// Returns the id of a request of which only the beginning is known, or whose other parts are invalid: the value of `id`
/// in the outermost object.
fn id_at_beginning(bytes: &[u8]) -> Option<Value> {
    let bytes = bytes.trim_ascii_start();
    if !bytes.starts_with(b"{") {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let (text, rest) = bytes[at..].split_at(text_len(&bytes[at..])?);
                at += text.len();
                if let Some(value) = rest.trim_ascii_start().strip_prefix(b":")
                    && depth == 1
                    && serde_json::from_slice::<String>(text).is_ok_and(|key| key == "id")
                {
                    let mut values = serde_json::Deserializer::from_slice(value).into_iter();
                    return values.next()?.ok().filter(is_id);
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns how many bytes the text has that begins here, with its quotes. Its contents need not be valid.
fn text_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: impl AsRef<[u8]>) -> Option<Value> {
        match Incoming::of(&Line::Whole(line.as_ref().to_vec())) {
            Incoming::Wrong(answer) => Some(answer),
            Incoming::Message(_) | Incoming::Nothing => None,
        }
    }

    #[test]
    fn a_wrong_request_is_answered_with_its_id_and_rubbish_with_nothing() {
        let id = |line: &str| answer(line).map(|answer| answer["id"].clone());
        assert_eq!(id(r#"{"id":83,"method":"tools/call","params":5}"#), Some(json!(83)));
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":"a","method":5}"#), Some(json!("a")));
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#), Some(Value::Null));
        assert_eq!(id("[]"), Some(Value::Null));
        for ignored in ["", "rubbish", "{", r#"{"method":"notifications/strange","params":5}"#] {
            assert_eq!(answer(ignored), None, "{ignored}");
        }
    }

    #[test]
    fn a_request_that_this_parser_refuses_is_answered_with_its_id() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for bad in
            [r#""\ud83d""#.as_bytes(), deep.as_bytes(), b"1e999", b"\"\xff\"", b"\"\\x \\\" \""]
        {
            let request = [
                br#"{"jsonrpc":"2.0","method":"tools/call","params":{"a":"#,
                bad,
                br#"},"id":"b"}"#,
            ];
            let answer = answer(request.concat()).expect("an answer");
            assert_eq!(answer["id"], "b", "{answer}");
            assert_eq!(answer["error"]["code"], INVALID_REQUEST, "{answer}");
        }
        for ignored in [
            r#"rubbish {"id":1,}"#,
            r#"["id":1"#,
            r#"{"params":{"id":1},}"#,
            r#"{"id"#,
            r#"{"id":"\ud83d"}"#,
        ] {
            assert_eq!(answer(ignored), None, "{ignored}");
        }
    }

    #[test]
    fn the_id_of_a_line_that_is_too_long_is_read_from_its_beginning() {
        let id = |text: &str| id_at_beginning(text.as_bytes());
        assert_eq!(
            id(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"aaa"#),
            Some(json!(7))
        );
        assert_eq!(id(r#"{"params":{"id":1,"a":["id"]},"id" : "b","method"#), Some(json!("b")));
        assert_eq!(id(r#"{"params":{"id":1,"text":"aaa"#), None);
        assert_eq!(id(r#"{"method":"id","params":{"text":"aaa"#), None);
        assert_eq!(id("rubbish"), None);
    }
}
