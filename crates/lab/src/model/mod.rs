//! The scripted model server.
