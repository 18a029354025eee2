//! Guards against what a program in a working tree can write for git: drivers and filters of the configuration, which
//! git would run, and FIFOs in place of files that git reads, for which it would wait.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Git, GitCall, GitError, path_of};

/// The settings by which a repository names programs for its files, or other files with settings.
const PROGRAM_SETTINGS: &str = r"^(filter\.|include\.|includeif\.)";
/// The settings that name programs for merges.
const MERGE_DRIVERS: &str = r"^merge\..*\.driver$";
/// The files with settings in a git directory.
const SETTINGS_FILES: [&str; 2] = ["config", "config.worktree"];
/// The files that git reads in every directory of a working tree.
const RULE_FILES: [&str; 2] = [".gitignore", ".gitattributes"];
/// The file that git reads at the top of a working tree only, also through a link.
const MODULES_FILE: &str = ".gitmodules";

impl Git {
    /// Returns the settings of a git directory that name a program for its files, or further files with settings. No
    /// other configuration is read.
    pub fn program_settings(&self, git_dir: &Path) -> Result<Vec<String>, GitError> {
        let mut found = Vec::new();
        for file in SETTINGS_FILES.map(|name| git_dir.join(name)) {
            if file.symlink_metadata().is_err() {
                continue;
            }
            let call = self.read(Path::new("/")).args(["config", "--no-includes", "-z"]);
            let call = call.arg("--file").arg(&file).args(["--name-only", "--get-regexp"]);
            found.extend(names(call.arg(PROGRAM_SETTINGS))?);
        }
        Ok(found)
    }

    /// Looks for a file of a working tree that git reads by its name and that is not a regular file.
    pub fn check_rule_files(&self, top: &Path) -> Result<(), GitError> {
        let modules = top.join(MODULES_FILE);
        if modules.metadata().is_ok_and(|meta| !meta.is_file()) {
            return Err(GitError::NotRegular { file: MODULES_FILE.into() });
        }
        // git follows no link for the other files.
        let is_rule_file = |name: &OsStr| RULE_FILES.iter().any(|rules| name == *rules);
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(top.join(&folder)).into_iter().flatten().flatten() {
                let (name, kind) = (entry.file_name(), entry.file_type());
                let Ok(kind) = kind else { continue };
                if kind.is_dir() && name != ".git" {
                    folders.push(folder.join(name));
                } else if is_rule_file(&name) && !kind.is_file() && !kind.is_symlink() {
                    return Err(GitError::NotRegular { file: folder.join(name) });
                }
            }
        }
        Ok(())
    }
}

/// Looks for something in a git directory that git would read and that is neither a regular file nor a directory.
pub fn check_git_dir(git_dir: &Path) -> Result<(), GitError> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(git_dir.join(&folder)).into_iter().flatten().flatten() {
            let file = folder.join(entry.file_name());
            // git follows links here. A link that leads nowhere is read as a missing file.
            let Ok(meta) = git_dir.join(&file).metadata() else { continue };
            if meta.is_dir() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(file);
                }
            } else if !meta.is_file() {
                return Err(GitError::NotRegular { file });
            }
        }
    }
    Ok(())
}

impl GitCall<'_> {
    /// Lets every merge driver of the configuration fail, so that git runs none: a file that needs one is a conflict.
    /// It must stand before [`GitCall::args`].
    pub fn without_merge_drivers(self) -> Result<Self, GitError> {
        let mut asked = self.git.read(&self.directory);
        asked.env.extend(self.env.clone());
        let asked = asked.args(["config", "-z", "--name-only"]);
        let drivers = names(asked.args(["--get-regexp", MERGE_DRIVERS]))?;
        // The filters of the repository would run for a merge that changes line ends.
        let mut call = self.setting("merge.renormalize=false");
        // Not by `-c`, where a name must not contain `=`.
        call = call.env("GIT_CONFIG_COUNT", drivers.len().to_string());
        for (number, driver) in drivers.into_iter().enumerate() {
            call = call.env(format!("GIT_CONFIG_KEY_{number}"), driver);
            call = call.env(format!("GIT_CONFIG_VALUE_{number}"), "false");
        }
        Ok(call)
    }
}

/// Returns the names that `git config -z --name-only --get-regexp` lists; its exit code is 1 if there are none.
fn names(call: GitCall<'_>) -> Result<Vec<String>, GitError> {
    let output = call.run()?;
    if output.code > 1 {
        return Err(GitError::of("config".to_owned(), PathBuf::new(), &output));
    }
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<String> =
        names.map(|name| path_of(name).to_string_lossy().into_owned()).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
