//! Class: hostile SQLite files (S4).
