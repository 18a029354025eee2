//! The places of the values in a matrix file, for failures that are found after the file was read.

use std::path::PathBuf;

/// The values of a file whose check needs more than the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatrixOrigins {
    pub(super) file: PathBuf,
    pub(super) settings: Vec<MatrixSetting>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MatrixSetting {
    /// The key, without the table that it stands in.
    pub(super) key: &'static str,
    pub(super) text: String,
    /// The key as it is shown.
    pub(super) shown: String,
    pub(super) line: usize,
}

impl MatrixOrigins {
    /// Leaves out a key whose value the command line replaces.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.settings.retain(|setting| setting.key != key);
        self
    }

    /// Returns file, line and key of the first setting with one of these keys and this value; `None` if the value does
    /// not come from the file.
    #[must_use]
    pub fn place_of(&self, keys: &[&str], text: &str) -> Option<String> {
        self.place(|setting| keys.contains(&setting.key) && setting.text == text)
    }

    /// Returns file, line and key of a setting that a file has only once.
    #[must_use]
    pub fn place_of_only(&self, key: &str) -> Option<String> {
        self.place(|setting| setting.key == key)
    }

    fn place(&self, is_meant: impl Fn(&MatrixSetting) -> bool) -> Option<String> {
        let MatrixSetting { shown, line, .. } = self.settings.iter().find(|s| is_meant(s))?;
        Some(format!("{} line {line}: {shown}", self.file.display()))
    }
}
