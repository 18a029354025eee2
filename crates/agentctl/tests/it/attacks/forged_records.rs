//! Class: a record or a lock that names a process which is not the agent's own (S1).

mod codex;
