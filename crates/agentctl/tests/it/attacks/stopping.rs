//! Class: descendants that hide from a stop, and bystanders that a stop must not reach (S7, S8).
