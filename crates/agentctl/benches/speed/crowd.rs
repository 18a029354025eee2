//! 100,000 small sessions: the memory of an answer about all of them, here and in the daemon.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::measure::{ours, peak};
use crate::promises::{Bench, HISTORY};

const SESSIONS: usize = 100_000;
const MOST: u64 = 150 << 20;

/// Creates a home of this many sessions of two lines each, half of them of each agent; or reuses an
/// earlier one.
fn small(place: &Path) -> std::io::Result<()> {
    let done = place.join("made");
    if done.exists() {
        return Ok(());
    }
    let at = "2026-11-15T08:00:00Z";
    for number in 0..SESSIONS {
        let id = format!("01a1de32-5fe1-74e1-aa0a-{number:012x}");
        let cwd = format!("/projects/{}", number / 200);
        let prompt = format!("Please mend test number {number} of the login module, and say why");
        let (folder, name, lines) = if number % 2 == 0 {
            let user = json!({"type": "user", "cwd": cwd, "timestamp": at, "message": {"role": "user", "content": prompt}});
            let answer = json!({"type": "assistant", "timestamp": at, "message": {"id": "m", "model": "a-model", "stop_reason": "end_turn", "content": [{"type": "text", "text": "done"}]}});
            let folder = format!(".claude/projects/-projects-{}", number / 200);
            (folder, format!("{id}.jsonl"), vec![user, answer])
        } else {
            let meta = json!({"timestamp": at, "type": "session_meta", "payload": {"id": id, "cwd": cwd, "timestamp": at, "source": "exec"}});
            let event = |payload| json!({"timestamp": at, "type": "event_msg", "payload": payload});
            let asked = event(json!({"type": "user_message", "message": prompt}));
            let over = event(json!({"type": "task_complete", "turn_id": "t"}));
            let folder = format!(".codex/sessions/2026/11/{:02}", 1 + number / 4000);
            (folder, format!("rollout-2026-11-15T08-00-00-{id}.jsonl"), vec![meta, asked, over])
        };
        let folder = place.join("home").join(folder);
        std::fs::create_dir_all(&folder)?;
        let mut file = std::fs::File::create(folder.join(name))?;
        for line in lines {
            writeln!(file, "{line}")?;
        }
    }
    std::fs::write(done, "")
}

impl Bench<'_> {
    /// Memory of an answer about 100,000 sessions.
    pub(crate) fn crowd(&mut self) {
        let here = "peak memory of `list -a --since all`, 100,000 sessions".to_owned();
        let document = "peak memory of it with `--json`, 100,000 sessions".to_owned();
        let daemon = "peak memory of the daemon that is asked it, 100,000 sessions".to_owned();
        let told =
            "peak memory of the daemon that is asked it with `--json`, 100,000 sessions".to_owned();
        let wanted = [&here, &document, &daemon, &told].map(|what| self.wanted(what));
        if !wanted.contains(&true) {
            return;
        }
        let place = self.directory.join("crowd");
        small(&place).expect("made");
        let home = place.join("home");
        let json = [&HISTORY[..], &["--json"]].concat();
        // A first answer from the disk may take longer than the deadline: every figure is of a warm page cache.
        ours(&home, &HISTORY).output().expect("starts");
        if wanted[0] {
            let bytes = peak(ours(&home, &HISTORY).env("AGENTCTL_NO_DAEMON", "1")).1;
            self.at_most_bytes(here, bytes, MOST);
        }
        if wanted[1] {
            let bytes = peak(ours(&home, &json).env("AGENTCTL_NO_DAEMON", "1")).1;
            self.at_most_bytes(document, bytes, MOST);
        }
        if wanted[2] {
            let bytes = crate::awake::peak_when_asked(&home, &HISTORY);
            self.at_most_bytes(daemon, bytes, MOST);
        }
        if wanted[3] {
            let bytes = crate::awake::peak_when_asked(&home, &json);
            self.at_most_bytes(told, bytes, MOST);
        }
    }
}
