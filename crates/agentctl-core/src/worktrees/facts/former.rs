//! The names that a branch had before it was renamed, by its reflog.

use super::Reader;

/// The beginning of a line in the reflog of a branch that was renamed.
pub(super) const RENAMED: &str = "Branch: renamed ";

impl Reader<'_> {
    /// Returns the names that a branch of ours had before it was renamed, by its reflog. A name that another branch has
    /// now is not among them.
    pub(in crate::worktrees) fn former_names(&self, branch: &str) -> Vec<String> {
        let args = ["reflog", "show", "--format=%gs", branch, "--"];
        let said = self.git.read(&self.repository.common).args(args).ok();
        let said = said.map(|output| output.text()).unwrap_or_default();
        let from = |line: &str| Some(line.strip_prefix(RENAMED)?.split_once(" to ")?.0.to_owned());
        let former = said.lines().filter_map(from).filter(|former| !self.refs.contains_key(former));
        former.filter_map(|former| self.name_of(&former).map(str::to_owned)).collect()
    }
}
