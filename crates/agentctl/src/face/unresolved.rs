//! The sentences for a text that names no single session.

use agentctl_core::ask::{Candidate, Fleet, NotOne, SessionOfWorktree};
use agentctl_core::resolve::{HERE, PREFIX_CHARS};
use agentctl_core::text::shell_word;

use crate::failure::{Failure, Kind};
use crate::text::{fit, one_line, with_tilde};

/// Says why a text names no single session.
#[must_use]
pub fn unresolved(fleet: &Fleet, text: &str, not_one: NotOne) -> Failure {
    match not_one {
        NotOne::Nothing => no_session(fleet, text),
        NotOne::Several { candidates, faults } => {
            ambiguous(fleet, text, &candidates).beside(faults)
        }
        NotOne::Unknown(faults) => Failure::new(
            Kind::Unanswered,
            format!("cannot tell whether `{text}` exists: not every source could be read"),
        )
        .beside(faults),
        NotOne::Unreadable(faults) => {
            Failure::new(Kind::Unanswered, format!("the state of `{text}` is unknown"))
                .beside(faults)
        }
    }
}

/// Returns the hint for a group that is not known: those that are.
#[must_use]
pub fn groups_hint(groups: impl IntoIterator<Item = String>) -> String {
    let groups: Vec<String> = groups.into_iter().collect();
    if groups.is_empty() {
        "there is no group; `agentctl group ID GROUP` makes one".to_owned()
    } else {
        format!("groups: {}", groups.join(", "))
    }
}

/// Says that there is no group with this name, and names those that are.
#[must_use]
pub fn no_group(group: &str, groups: impl IntoIterator<Item = String>) -> Failure {
    Failure::new(Kind::NotFound, format!("there is no group `{group}`")).hint(groups_hint(groups))
}

fn no_session(fleet: &Fleet, text: &str) -> Failure {
    if text == HERE {
        return Failure::new(Kind::NotFound, "there is no session in this directory")
            .hint("name a session: `agentctl list --all` shows them");
    }
    if text.trim().is_empty() {
        return Failure::new(Kind::NotFound, "the id is empty, so it names no session")
            .hint("name a session, or leave the id out for the only session of this directory");
    }
    let failure = Failure::new(Kind::NotFound, format!("no session matches `{text}`"));
    match fleet.session_of_worktree(text) {
        SessionOfWorktree::NoWorktree => {}
        SessionOfWorktree::NoSession => {
            return failure.hint(format!("`{text}` is a worktree; no session is known in it"));
        }
        SessionOfWorktree::Session(id) => {
            return failure.hint(format!("`{text}` is a worktree; its session is {id}"));
        }
    }
    if text.starts_with(['.', '~']) || text.contains('/') {
        return failure.hint(
            "no agent has worked in exactly that directory; `agentctl list --all --since all` shows where \
             sessions are",
        );
    }
    if fleet.host.cwd.join(text).is_dir() {
        let directory = shell_word(&format!("./{text}"));
        return failure.hint(format!("write `{directory}` for the directory"));
    }
    if text == "@last" {
        return failure.hint(
            "`@last` is the newest launch that has a session; `agentctl runs` lists all launches",
        );
    }
    if text.chars().count() < PREFIX_CHARS {
        return failure.hint(format!("a prefix needs at least {PREFIX_CHARS} characters"));
    }
    failure.hint("`agentctl list --all --since all` shows finished sessions too")
}

fn ambiguous(fleet: &Fleet, text: &str, candidates: &[Candidate]) -> Failure {
    const MAX_CANDIDATES_SHOWN: usize = 10;
    let count = candidates.len();
    let message = match text {
        HERE => format!("there are {count} sessions in this directory"),
        text => format!("`{text}` matches {count} sessions"),
    };
    let mut failure = Failure::new(Kind::Ambiguous, message);
    for candidate in candidates.iter().take(MAX_CANDIDATES_SHOWN) {
        failure = failure.candidate(candidate_line(fleet, candidate));
    }
    if candidates.len() > MAX_CANDIDATES_SHOWN {
        failure =
            failure.candidate(format!("and {} more", candidates.len() - MAX_CANDIDATES_SHOWN));
    }
    // More characters of an id that is in several homes do not help.
    let in_several_homes = candidates.iter().any(|c| c.in_several_homes) && text != HERE;
    if let Some(first) = candidates.first().filter(|_| in_several_homes) {
        let home = with_tilde(&fleet.host.home, &first.target.root);
        let word = shell_word(&format!("{text}@{home}"));
        return failure.hint(format!("name it by its pid, or with its home: `{word}`"));
    }
    if text == HERE {
        return failure.hint("name one of them, or `.` for the newest");
    }
    failure.hint("give more characters, or `adapter:id`")
}

/// Shows a session that may be meant; with its home where its id is in several.
fn candidate_line(fleet: &Fleet, Candidate { target, in_several_homes }: &Candidate) -> String {
    let what = match (&target.session, target.pid) {
        (Some(locator), _) => locator.id.clone(),
        (None, Some(pid)) => pid.to_string(),
        (None, None) => target.root.clone(),
    };
    let mut line = format!("{}:{what}", target.adapter);
    if *in_several_homes {
        line.push_str(&format!("@{}", with_tilde(&fleet.host.home, &target.root)));
    }
    if let Some(session) = fleet.inspect(target).session {
        let pid = session.pid.map(|pid| format!("  pid {pid}")).unwrap_or_default();
        let title = session.name.or(session.title).map(|t| one_line(&t)).unwrap_or_default();
        let status = session.status.word();
        line.push_str(&format!("  {status}{pid}  {}", fit(&title, 30)));
    }
    line
}
