//! Class: foreign text that reaches a terminal, a log or an event (S17, S19, S20, S21).
