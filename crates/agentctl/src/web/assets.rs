//! The files of the page, inside the program. They hold no data.

/// One file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its path on the server.
    pub path: &'static str,
    /// Its `Content-Type`.
    pub kind: &'static str,
    /// Its contents.
    pub text: &'static str,
}

impl Asset {
    /// Returns what browsers get: a script without its comments and without semicolons that the end of the line
    /// implies, and without the spaces around its signs; a style on one line; no file with its indentation.
    #[must_use]
    pub fn sent(&self) -> String {
        let is_script = self.kind == SCRIPT;
        let lines = self.text.lines().map(str::trim_start);
        let is_left_out = |line: &str| line.is_empty() || is_script && line.starts_with("//");
        let mut lines = lines.filter(|line| !is_left_out(line)).peekable();
        let end = if self.kind == STYLE { "" } else { "\n" };
        let mut sent = String::new();
        while let Some(line) = lines.next() {
            // A line that begins with a word or a brace cannot continue the statement before it.
            let next = lines.peek().and_then(|next| next.chars().next());
            let is_new = next.is_none_or(|first| first.is_ascii_alphabetic() || first == '}');
            let line = line.strip_suffix(';').filter(|_| is_script && is_new).unwrap_or(line);
            if is_script {
                sent.push_str(&without_spaces(line));
            } else {
                sent.push_str(line);
            }
            sent.push_str(end);
        }
        sent
    }
}

/// Returns a line of a script without the spaces around its signs. From a template, a regular expression or a comment on
/// it stays as it is: their parts are no code.
fn without_spaces(line: &str) -> String {
    const SIGNS: &str = ",:;?=>{}()[]&|";
    let mut sent = String::with_capacity(line.len());
    let (mut quote, mut is_escaped) = (None, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(end) => {
                is_escaped = c == '\\';
                quote = Some(end).filter(|end| c != *end);
            }
            None if matches!(c, '`' | '/') => {
                sent.push(c);
                sent.extend(chars);
                return sent;
            }
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == ' ' => {
                let is_sign = |c: &char| SIGNS.contains(*c);
                if sent.ends_with(|c| is_sign(&c)) || chars.peek().is_some_and(is_sign) {
                    continue;
                }
            }
            None => {}
        }
        sent.push(c);
    }
    sent
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";
const MANIFEST: &str = "application/manifest+json";

const fn asset(path: &'static str, kind: &'static str, text: &'static str) -> Asset {
    Asset { path, kind, text }
}

/// All files of the page.
pub const ASSETS: &[Asset] = &[
    asset("/", HTML, include_str!("page/index.html")),
    asset("/style.css", STYLE, include_str!("page/style.css")),
    asset("/app.js", SCRIPT, include_str!("page/app.js")),
    asset("/ask.js", SCRIPT, include_str!("page/ask.js")),
    asset("/begin.js", SCRIPT, include_str!("page/begin.js")),
    asset("/dom.js", SCRIPT, include_str!("page/dom.js")),
    asset("/inbox.js", SCRIPT, include_str!("page/inbox.js")),
    asset("/list.js", SCRIPT, include_str!("page/list.js")),
    asset("/net.js", SCRIPT, include_str!("page/net.js")),
    asset("/talk.js", SCRIPT, include_str!("page/talk.js")),
    asset("/work.js", SCRIPT, include_str!("page/work.js")),
    asset("/icon.svg", PICTURE, include_str!("page/icon.svg")),
    asset("/app.webmanifest", MANIFEST, include_str!("page/app.webmanifest")),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes that all files of the page have together.
    const MAX_PAGE_BYTES: usize = 60 << 10;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.sent().len()).sum();
        assert!(bytes <= MAX_PAGE_BYTES, "{bytes} bytes");
    }

    #[test]
    fn spaces_are_left_out_of_code_alone() {
        for (given, sent) in [
            (
                "const a = (b, c) => b ? c : [\"d, e\", 'f = g'];",
                "const a=(b,c)=>b?c:[\"d, e\",'f = g'];",
            ),
            ("say(\"a \\\" = b\", c) || d", "say(\"a \\\" = b\",c)||d"),
            ("const { a } = b - -c", "const{a}=b - -c"),
            ("const a = /b, c/, d = 1", "const a=/b, c/, d = 1"),
            ("f(a, `b, ${c, d}`, e)", "f(a,`b, ${c, d}`, e)"),
        ] {
            assert_eq!(without_spaces(given), sent);
        }
    }

    #[test]
    fn no_line_of_the_style_needs_its_end() {
        for asset in ASSETS.iter().filter(|asset| asset.kind == STYLE) {
            for line in asset.text.lines().filter(|line| !line.is_empty()) {
                assert!(line.ends_with(['{', '}', ';', ',']), "{}: {line}", asset.path);
            }
        }
    }

    #[test]
    fn no_line_of_a_script_is_a_part_of_a_text() {
        // Lines are left out and trimmed, which would change a template of several lines.
        for asset in ASSETS.iter().filter(|asset| asset.kind == SCRIPT) {
            for line in asset.text.lines() {
                assert_eq!(line.matches('`').count() % 2, 0, "{}: {line}", asset.path);
            }
        }
    }
}
