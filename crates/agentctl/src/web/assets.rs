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

/// All files of the page.
pub const ASSETS: &[Asset] =
    &[Asset { path: "/", kind: HTML, text: include_str!("page/index.html") }];
