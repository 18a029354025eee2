//! Desktop notifications.
