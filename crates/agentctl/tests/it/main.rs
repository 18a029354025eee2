//! One binary for all tests of the program: real processes, real files, real kernel.
#![allow(clippy::disallowed_methods)]

mod demo;

use testkit::TestHome;

/// A home of a test's own, with the program built for this run.
fn home() -> TestHome {
    TestHome::new(env!("CARGO_BIN_EXE_agentctl"))
}
