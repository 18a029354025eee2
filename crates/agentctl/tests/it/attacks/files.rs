//! Class: files and folders with the wrong owner, mode or lock (S18, S22, S23).
