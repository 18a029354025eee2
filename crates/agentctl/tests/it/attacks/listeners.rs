//! Class: a listener, a daemon or a client that is not the one it pretends to be (S6, S9, S13, S14, S16).
