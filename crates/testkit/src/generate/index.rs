//! Codex's index of its threads, with its own schema, at rest: checkpointed and not open.

use std::io;
use std::path::Path;

use rusqlite::{Connection, named_params};

use super::{Thread, codex};

const SCHEMA: &str = include_str!("codex_index.sql");
const INSERT: &str = "insert into threads (id, rollout_path, created_at, updated_at, source, model_provider, \
     cwd, title, sandbox_policy, approval_mode, tokens_used, cli_version, first_user_message, model, \
     created_at_ms, updated_at_ms, thread_source, preview, recency_at, recency_at_ms, history_mode, originator, \
     agent_nickname) values (:id, :path, :start / 1000, :end / 1000, :source, 'openai', :cwd, :prompt, \
     '{\"type\":\"disabled\"}', 'never', :tokens, '0.166.0', :prompt, 'gpt-6-codex', :start, :end, :thread_source, \
     :prompt, :end / 1000, :end, 'paginated', 'codex_exec', :nickname)";

/// Writes the index of these threads.
pub(super) fn write(path: &Path, threads: &[Thread]) -> io::Result<()> {
    std::fs::create_dir_all(path.parent().expect("a folder"))?;
    fill(path, threads).map_err(io::Error::other)
}

fn fill(path: &Path, threads: &[Thread]) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    let work = connection.transaction()?;
    work.execute_batch(SCHEMA)?;
    {
        let mut insert = work.prepare(INSERT)?;
        let mut edge =
            work.prepare("insert into thread_spawn_edges values (:parent, :child, 'open')")?;
        for thread in threads {
            let parent = thread.parent.as_deref();
            // The index names a plain source without the quotes of its JSON.
            let source = codex::source(parent, false).trim_matches('"').to_owned();
            insert.execute(named_params! {
                ":id": thread.id,
                ":path": thread.path.to_string_lossy(),
                ":start": thread.start_ms,
                ":end": thread.end_ms,
                ":source": source,
                ":cwd": thread.cwd,
                ":prompt": thread.prompt,
                ":tokens": i64::try_from(thread.tokens).unwrap_or(i64::MAX),
                ":thread_source": if parent.is_some() { "subagent" } else { "user" },
                ":nickname": parent.map(|_| "Faraday"),
            })?;
            if let Some(parent) = parent {
                edge.execute(named_params! { ":parent": parent, ":child": thread.id })?;
            }
        }
    }
    work.commit()?;
    connection.close().map_err(|(_, error)| error)
}
