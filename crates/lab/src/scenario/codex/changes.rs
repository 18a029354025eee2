//! Codex changes files, with patches and with other shell commands.

use super::{Exec, exec};
use crate::scenario::changes::{Files, Told};
use crate::stage::{Stage, Trouble};

/// A command that applies a patch: Codex carries it out itself.
fn patch(text: &str) -> String {
    format!("[[tool:apply_patch <<'EOF'\n*** Begin Patch\n{text}\n*** End Patch\nEOF]]")
}

/// Patches are recorded with their lines. What other commands change is missing, and they are counted.
pub(super) fn told(stage: &mut Stage) -> Result<(), Trouble> {
    let files = Files::make(stage)?;
    let steps = [
        patch("*** Update File: a.txt\n@@\n one\n-two\n+TWO\n+TWO and a half\n three"),
        patch(
            "*** Update File: a.txt\n@@\n-nine\n+NINE\n*** Add File: new/w.txt\n+hello\n+world\n\
             *** Delete File: gone.txt\n*** Update File: old.txt\n*** Move to: moved.txt\n@@\n-move\n+MOVED",
        ),
        patch("*** Update File: a.txt\n@@\n-not there\n+x"),
        patch("*** Update File: end.txt\n@@\n-no newline\n+still no newline"),
        "[[tool:sed -i s/tool/shell/ shell.txt]][[tool:echo by shell > s.txt]][[tool:false]]"
            .to_owned(),
    ];
    let prompt = format!("edit {}[[say:done]]", steps.concat());
    let mut agent: Exec = exec(stage, &files.cwd, &prompt)?;
    agent.ended()?;
    files.compare(
        stage,
        &Told { id: &agent.id, commands: 3, missing: &["s.txt", "shell.txt"], unsure: &[] },
    )
}
