//! What needs somebody awake. It owns no session: every answer is a fresh look.

pub mod fuses;
