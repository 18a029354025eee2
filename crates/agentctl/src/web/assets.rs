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
    /// Returns what browsers get: a script without its comments, no file with its indentation.
    #[must_use]
    pub fn sent(&self) -> String {
        let is_script = self.kind == SCRIPT;
        let lines = self.text.lines().map(str::trim_start);
        let is_left_out = |line: &str| line.is_empty() || is_script && line.starts_with("//");
        let lines = lines.filter(|line| !is_left_out(line));
        lines.flat_map(|line| [line, "\n"]).collect()
    }
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
    fn no_line_of_a_script_is_a_part_of_a_text() {
        // Lines are left out and trimmed, which would change a template of several lines.
        for asset in ASSETS.iter().filter(|asset| asset.kind == SCRIPT) {
            for line in asset.text.lines() {
                assert_eq!(line.matches('`').count() % 2, 0, "{}: {line}", asset.path);
            }
        }
    }
}
