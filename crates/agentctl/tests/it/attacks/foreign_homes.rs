//! Class: a home that only a process named: nothing there is resumed, executed or given a secret (S2, S3).
