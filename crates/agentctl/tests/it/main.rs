//! One binary for all tests of the program: real processes, real files, real kernel.
// Helpers of tests panic as the tests themselves do.
#![allow(clippy::disallowed_methods, clippy::expect_used)]

mod demo;

use testkit::TestHome;

/// A home of a test's own, with the program built for this run.
fn home() -> TestHome {
    TestHome::new(env!("CARGO_BIN_EXE_agentctl"))
}
