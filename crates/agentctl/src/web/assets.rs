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
