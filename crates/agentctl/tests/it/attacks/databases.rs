//! Class: hostile `SQLite` files (S4).

use rusqlite::Connection;
use testkit::{TestHome, eventually, sandboxed};

use crate::codex::{A, rollout, started};
use crate::opencode::{self, DATA, Store};
use crate::{configure, daemon, home};

/// Rows without end, and without a single row in the file.
const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n)";
/// Memory that an honest answer never needs.
const ENOUGH_MIB: u32 = 1024;

fn codex_index(home: &TestHome, sql: &str) {
    let index = Connection::open(home.at(".codex/state_1.sqlite")).expect("made");
    index.execute_batch(sql).expect("filled");
}

/// The number of threads of a process that bear this name.
fn threads_named(pid: u32, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|comm| comm.trim() == name).count()
}

/// S4: an endless view has the name of Codex's table of threads. The rollouts hold the same facts.
#[test]
fn an_endless_view_of_codex_is_not_read() {
    sandboxed(|| {
        for table in ["threads", "thread_spawn_edges"] {
            let home = home();
            rollout(&home, A, &[started()]);
            let threads = format!(
                "create view threads as {ENDLESS} select 'thread-' || x as id, '/w' as cwd from n;"
            );
            let edges = format!(
                "create table threads (id text primary key, cwd text);
                 insert into threads values ('{A}', '/w');
                 create view thread_spawn_edges as {ENDLESS}
                   select '{A}' as parent_thread_id, 'thread-' || x as child_thread_id from n;"
            );
            codex_index(&home, if table == "threads" { &threads } else { &edges });
            let listed =
                home.run_within(ENOUGH_MIB, &["list", "-a", "--since", "all", "--tree", "--json"]);
            assert_eq!(listed.code, Some(0), "{table}: {}", listed.stderr);
            assert_eq!(listed.session(A)["status"], "stopped", "{table}");
            let status = home.run_within(ENOUGH_MIB, &["status", A, "--json"]);
            assert_eq!(status.code, Some(0), "{table}: {}", status.stderr);
        }
    });
}

/// S4: the same where OpenCode keeps its sessions, its messages or their parts: the store is a fault, and
/// the other agents are listed as they are.
#[test]
fn an_endless_view_of_opencode_costs_its_own_rows() {
    sandboxed(|| {
        for table in ["session", "message", "part"] {
            let home = home();
            rollout(&home, A, &[started()]);
            let store = Store::new(&home, &format!("{DATA}/opencode.db"));
            store.session(opencode::A, "/w", None);
            let message = store.message(opencode::A, 0, &opencode::working());
            store.part(opencode::A, &message, &serde_json::json!({"type": "text", "text": "x"}));
            let view = format!(
                "alter table {table} rename to honest;
                 create view {table} as {ENDLESS} select honest.* from n, honest;"
            );
            store.connection.execute_batch(&view).expect("hidden behind a view");
            let listed = home.run_within(ENOUGH_MIB, &["list", "-a", "--since", "all", "--json"]);
            assert_eq!(listed.code, Some(3), "{table}: {}", listed.stderr);
            assert!(listed.stderr.contains("not an ordinary table"), "{table}: {}", listed.stderr);
            assert_eq!(listed.session(A)["adapter"], "codex", "{table}");
        }
    });
}

/// S4: ordinary tables that take hours to read, in the daemon: the answer comes in time, and the threads that
/// were given up end by themselves, so that nothing keeps a processor busy.
#[test]
fn a_statement_that_takes_hours_ends_at_the_deadline_in_the_daemon() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("live", "5s"), ("all", "5s")], "");
        rollout(&home, A, &[started()]);
        let store = Store::new(&home, &format!("{DATA}/opencode.db"));
        // Without its index each session means reading every message.
        let slow = "drop index m;
             with recursive n(x) as (select 1 union all select x + 1 from n where x < 200000)
               insert into session select 'ses_' || x, 's', null, '/w', 't', null, 0, 0, 0, 0, 0, 0, 1, 1
               from n;
             with recursive n(x) as (select 1 union all select x + 1 from n where x < 200000)
               insert into message select 'msg_' || x, 'nobody', 1, 1, '{}' from n;";
        store.connection.execute_batch(slow).expect("filled");
        let pid = daemon::started(&home);
        for _ in 0..3 {
            let listed = home.run(&["list", "-a", "--since", "all", "--json"]);
            assert_eq!(listed.code, Some(3), "{}", listed.stderr);
            assert_eq!(listed.session(A)["adapter"], "codex");
        }
        eventually("the threads that were given up have ended", || {
            (threads_named(pid, "opencode") == 0).then_some(())
        });
    });
}

/// S4: the number of rows is limited, and so is the number of subagents of one thread.
#[test]
fn the_number_of_rows_of_a_database_is_limited() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started()]);
        // Each of a million rows names the same thread as the parent of a thread that has no rollout.
        codex_index(
            &home,
            &format!(
                "create table threads (id text primary key, cwd text, title text);
                 insert into threads values ('{A}', '/w', 't');
                 create table thread_spawn_edges (parent_thread_id text, child_thread_id text primary key);
                 with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000000)
                   insert into thread_spawn_edges select '{A}', 'thread-' || x from n;
                 with recursive n(x) as (select 1 union all select x + 1 from n where x < 300000)
                   insert into threads select 'thread-' || x, '/w', 't' from n;"
            ),
        );
        let listed =
            home.run_within(ENOUGH_MIB, &["list", "-a", "--since", "all", "--tree", "--json"]);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        assert_eq!(listed.sessions().len(), 1);
    });
}
