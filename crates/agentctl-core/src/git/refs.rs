//! Several refs changed in one transaction: all of them, or none.

use std::path::Path;

use super::{Git, GitCall, GitError};

/// One change of a ref, with the value that it must have before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefEdit {
    /// Creates a ref that must not exist.
    Create {
        /// The full name of the ref.
        name: String,
        /// Its value.
        new: String,
    },
    /// Moves a ref that must have the old value.
    Update {
        /// The full name of the ref.
        name: String,
        /// Its new value.
        new: String,
        /// Its value before.
        old: String,
    },
    /// Deletes a ref that must have the old value.
    Delete {
        /// The full name of the ref.
        name: String,
        /// Its value before.
        old: String,
    },
}

/// Why a transaction changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum RefTransactionError {
    /// A ref of this name exists already, or has another value than expected, or its name collides with
    /// that of another ref (`a` and `a/b` cannot both exist).
    #[error("{words}")]
    Conflict {
        /// git's own words.
        words: String,
    },
    /// A name is no valid name of a ref.
    #[error("`{name}` is not a valid name of a branch")]
    BadName {
        /// The name.
        name: String,
    },
    /// git gave no answer.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl RefEdit {
    fn name(&self) -> &str {
        match self {
            Self::Create { name, .. } | Self::Update { name, .. } | Self::Delete { name, .. } => {
                name
            }
        }
    }

    /// Writes it as a record of `git update-ref --stdin -z`. If the ref is a symbolic one, the ref itself is changed and
    /// never the one that it leads to.
    fn record(&self) -> String {
        let change = match self {
            Self::Create { name, new } => format!("create {name}\0{new}\0"),
            Self::Update { name, new, old } => format!("update {name}\0{new}\0{old}\0"),
            Self::Delete { name, old } => format!("delete {name}\0{old}\0"),
        };
        format!("option no-deref\0{change}")
    }
}

impl Git {
    /// Changes all refs, or none of them.
    pub fn change_refs(
        &self,
        directory: &Path,
        reason: &str,
        edits: &[RefEdit],
    ) -> Result<(), RefTransactionError> {
        let invalid = edits.iter().map(RefEdit::name).find(|name| name.contains(['\0', '\n', ' ']));
        if let Some(name) = invalid {
            return Err(RefTransactionError::BadName { name: name.to_owned() });
        }
        let mut input = String::from("start\0");
        for edit in edits {
            input.push_str(&edit.record());
        }
        input.push_str("prepare\0commit\0");
        let call = self.change(directory).setting("core.logAllRefUpdates=true");
        let call = call.args(["update-ref", "-m", reason, "--stdin", "-z"]).stdin(input);
        match call.ok() {
            Ok(_) => Ok(()),
            Err(GitError::Failed { words, .. }) => Err(match bad_name(edits, &words) {
                Some(name) => RefTransactionError::BadName { name },
                None => RefTransactionError::Conflict { words },
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the object that a ref names; `None` if there is no such ref.
    pub fn ref_value(&self, directory: &Path, name: &str) -> Result<Option<String>, GitError> {
        let call =
            self.read(directory).args(["rev-parse", "--quiet", "--verify", "--end-of-options"]);
        let output = call.arg(name).run()?;
        Ok((output.code == 0).then(|| output.text()).filter(|text| !text.is_empty()))
    }

    /// Deletes a ref that must have the old value. If it is a symbolic one, the ref that it leads to stays. The call
    /// says in which repository.
    pub fn delete_ref(call: GitCall<'_>, name: &str, old: &str) -> Result<(), GitError> {
        call.args(["update-ref", "--no-deref", "-d", name, old]).ok().map(drop)
    }

    /// Returns the full names of all symbolic refs below `refs/` that lead to something. The call says in which
    /// repository.
    pub fn symbolic_refs(call: GitCall<'_>) -> Result<Vec<String>, GitError> {
        let listed = call.args(["for-each-ref", "--format=%(refname) %(symref)"]).text()?;
        let pairs = listed.lines().filter_map(|line| line.split_once(' '));
        let symbolic = pairs.filter(|(_, target)| !target.is_empty());
        Ok(symbolic.map(|(name, _)| name.to_owned()).collect())
    }

    /// Returns the commit of a revision; `None` if it names none.
    pub fn commit(&self, directory: &Path, revision: &str) -> Result<Option<String>, GitError> {
        self.ref_value(directory, &format!("{revision}^{{commit}}"))
    }

    /// Returns the tree of a revision; `None` if it names none.
    pub fn tree(&self, directory: &Path, revision: &str) -> Result<Option<String>, GitError> {
        self.ref_value(directory, &format!("{revision}^{{tree}}"))
    }
}

/// Returns the name that git calls invalid, if that is what it says.
fn bad_name(edits: &[RefEdit], words: &str) -> Option<String> {
    let says_invalid = words.contains("invalid ref format") || words.contains("bad name");
    let named = edits.iter().map(RefEdit::name).find(|name| words.contains(name));
    named.filter(|_| says_invalid).map(str::to_owned)
}
