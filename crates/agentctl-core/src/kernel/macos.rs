//! macOS: written next.
