//! The shells that have completions: how they are installed, and whether they are.

use std::path::{Path, PathBuf};

use super::{Check, CheckState};
use crate::host::Host;
use crate::text::with_tilde;

/// A shell, the places of its completions, and its start-up file.
pub struct CompletionShell {
    /// The name of the shell.
    pub name: &'static str,
    /// The line that loads the completions with every new shell.
    pub line: &'static str,
    /// The start-up file that the line belongs to, below the home directory.
    pub start_up: &'static str,
    /// The place of the line in the start-up file, where it matters.
    pub place: &'static str,
    /// The files below the home directory that the shell loads by itself.
    pub own: &'static [&'static str],
    system: &'static [&'static str],
    /// The directories below the home directory are read only if the start-up file names them.
    needs_mention: bool,
}

/// The shells that have completions. `doctor`, help and docs/COMPLETIONS.md name the same lines and files.
pub const COMPLETION_SHELLS: [CompletionShell; 3] = [
    CompletionShell {
        name: "bash",
        line: "source <(agentctl completions bash)",
        start_up: ".bashrc",
        place: "",
        own: &[".local/share/bash-completion/completions/agentctl"],
        system: &[
            "/usr/share/bash-completion/completions/agentctl",
            "/usr/local/share/bash-completion/completions/agentctl",
            "/etc/bash_completion.d/agentctl",
        ],
        needs_mention: false,
    },
    CompletionShell {
        name: "zsh",
        line: "source <(agentctl completions zsh)",
        start_up: ".zshrc",
        place: "after `compinit`",
        own: &[".zfunc/_agentctl", ".local/share/zsh/site-functions/_agentctl"],
        system: &[
            "/usr/share/zsh/site-functions/_agentctl",
            "/usr/local/share/zsh/site-functions/_agentctl",
            "/usr/share/zsh/vendor-completions/_agentctl",
        ],
        needs_mention: true,
    },
    CompletionShell {
        name: "fish",
        line: "agentctl completions fish | source",
        start_up: ".config/fish/config.fish",
        place: "",
        own: &[".config/fish/completions/agentctl.fish"],
        system: &["/usr/share/fish/vendor_completions.d/agentctl.fish"],
        needs_mention: false,
    },
];

impl CompletionShell {
    /// Returns the file that gives this shell its completions.
    fn installed(&self, host: &Host) -> Option<PathBuf> {
        let start_up = host.home.join(self.start_up);
        let commands = std::fs::read_to_string(&start_up).unwrap_or_default();
        let is_read = |place: &str| {
            let directory = Path::new(place).parent().and_then(Path::to_str).unwrap_or_default();
            !self.needs_mention || commands.contains(directory)
        };
        let own = self.own.iter().filter(|place| is_read(place)).map(|place| host.home.join(place));
        let mut places = own.chain(self.system.iter().map(Into::into));
        let sourced = commands.contains("agentctl completions").then_some(start_up);
        places.find(|path| path.is_file()).or(sourced)
    }
}

/// Checks whether the user's shell completes the commands. An unknown shell is not checked.
pub(super) fn completions(host: &Host) -> Option<Check> {
    let shell = Path::new(host.var("SHELL")?).file_name()?.to_str()?;
    let shell = COMPLETION_SHELLS.iter().find(|known| known.name == shell)?;
    let name = format!("completions for {}", shell.name);
    Some(match shell.installed(host) {
        Some(path) => {
            let shown = with_tilde(&host.home, &path.to_string_lossy());
            Check::new("shell", name, CheckState::Ok, shown)
        }
        None => Check::new("shell", name, CheckState::Absent, "not installed")
            .hint(format!("`echo '{}' >> ~/{}`", shell.line, shell.start_up)),
    })
}
