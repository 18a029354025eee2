//! Class: hooks and commands that an agent or another user can prevent or replace (S10, S15).
