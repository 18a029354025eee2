//! The thread that makes the pages of the detail: why, facts, changes.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use agentctl_core::ask::{ChangesDocument, ChangesRequest, DiffRequest, TextOrBytes, WorkDiff};
use agentctl_core::model::{Fault, FileChanges, Time};

use super::World;
use super::app::{Detail, Message, PageLine, PageLineKind, PageRequest};
use crate::face::{
    AgeForm, ListRow, RowContext, changes_not_told, columns_table_with, diff_files, diff_heading,
    diff_remarks, fault_text, next_minute_of_age, no_diff, status_lines, unrecorded_lines,
    unresolved, why_lines,
};
use crate::failure::Failure;
use crate::text::{break_line, clean, wrap};
use crate::ui::Canvas;

/// Time between two readings for the same page.
const PACE: Duration = Duration::from_secs(1);
/// Most lines of a patch that are shown.
const MAX_PATCH_LINES: usize = 5_000;

/// The handle of the thread.
pub(crate) struct Pages {
    requests: Sender<PageRequest>,
}

impl Pages {
    /// Starts the thread.
    pub(crate) fn spawn(world: World, messages: Sender<Message>) -> Self {
        let (requests, wanted) = channel::<PageRequest>();
        std::thread::spawn(move || {
            let mut made: Option<(PageRequest, Instant)> = None;
            while let Ok(mut request) = wanted.recv() {
                // A page of a session at work is made again at most once a second.
                if let Some((_, at)) = made.as_ref().filter(|(last, _)| *last == request) {
                    let left = PACE.saturating_sub(at.elapsed());
                    request = wanted.recv_timeout(left).unwrap_or(request);
                }
                // Only the newest request matters.
                let request = wanted.try_iter().last().unwrap_or(request);
                made = Some((request.clone(), Instant::now()));
                let MadePage { lines, times } = page(&world, &request);
                let now = world.fleet.host.now();
                let changes = times.into_iter().filter_map(|then| next_minute_of_age(now, then));
                let stale_at = changes.min();
                if messages.send(Message::Page { request, lines, stale_at }).is_err() {
                    return;
                }
            }
        });
        Self { requests }
    }

    /// Makes another page.
    pub(crate) fn read(&self, request: PageRequest) {
        let _gone = self.requests.send(request);
    }
}

/// The lines of a page, and the times whose ages it shows.
#[derive(Default)]
struct MadePage {
    lines: Vec<PageLine>,
    times: Vec<Time>,
}

impl From<Vec<PageLine>> for MadePage {
    fn from(lines: Vec<PageLine>) -> Self {
        Self { lines, times: Vec::new() }
    }
}

/// Makes a page. A failure has the sentence of the command line.
fn page(world: &World, request: &PageRequest) -> MadePage {
    let made = match request.detail {
        Detail::Talk | Detail::Ask => Ok(MadePage::default()),
        Detail::Why => why(world, request).map(MadePage::from),
        Detail::Facts => facts(world, request),
        Detail::Changes => Ok(changes(world, request)),
    };
    made.unwrap_or_else(|failure| {
        let sentences = wrapped(failure.message(), request.width).into_iter();
        let hint = failure.first_hint().map(|hint| format!("hint: {hint}"));
        let hints = hint.map(|hint| wrapped(&hint, request.width)).unwrap_or_default();
        let error = |text| PageLine { kind: PageLineKind::Error, text };
        sentences.map(error).chain(hints.into_iter().map(dimmed)).collect::<Vec<_>>().into()
    })
}

fn why(world: &World, request: &PageRequest) -> Result<Vec<PageLine>, Failure> {
    let id = request.session.argument();
    let explained = world.fleet.why(&id);
    let explained = explained.map_err(|not_one| unresolved(&world.fleet, &id, not_one))?;
    let lines = why_lines(&explained, request.width).into_iter();
    let mut lines: Vec<PageLine> = lines.map(text).collect();
    for line in lines.iter_mut().take_while(|line| !line.text.is_empty()) {
        line.kind = PageLineKind::Heading;
    }
    lines.extend(fault_lines(&explained.faults, request.width));
    Ok(lines)
}

fn facts(world: &World, request: &PageRequest) -> Result<MadePage, Failure> {
    let id = request.session.argument();
    let found = world.fleet.status(&id);
    let found = found.map_err(|not_one| unresolved(&world.fleet, &id, not_one))?;
    let width = Some(request.width);
    let lines = status_lines(&world.fleet.host, &found.document, width, AgeForm::Minutes);
    let mut lines: Vec<PageLine> = lines.into_iter().map(text).collect();
    lines.extend(fault_lines(&found.faults, request.width));
    let session = &found.document.session;
    let times = [session.started_at, session.last_activity_at, session.ended_at];
    Ok(MadePage { lines, times: times.into_iter().flatten().collect() })
}

/// The files that the agent recorded, and below them the work that git sees.
fn changes(world: &World, request: &PageRequest) -> MadePage {
    let (id, width) = (request.session.argument(), request.width);
    let MadePage { mut lines, mut times } = MadePage::default();
    let asked = ChangesRequest { session: id.clone(), patch: false };
    match world.fleet.changes(&asked) {
        Ok(document) => {
            times.extend(document.files.iter().filter_map(|file| file.last_at));
            lines.extend(recorded(world, &document, width));
        }
        Err(why) => {
            let failure = changes_not_told(&world.fleet, &id, why);
            lines.extend(wrapped(failure.message(), width).into_iter().map(dimmed));
        }
    }
    lines.push(text(String::new()));
    let asked = DiffRequest {
        of: id.clone(),
        base: None,
        patch: true,
        prefix: world.defaults.worktree.prefix.clone(),
    };
    match world.fleet.diff(&asked) {
        Ok(document) => {
            for diff in &document.diffs {
                lines.extend(git_lines(world, diff, width));
            }
            lines.extend(fault_lines(&document.faults, width));
        }
        Err(why) => {
            let failure = no_diff(&world.fleet, &id, why);
            lines.extend(wrapped(failure.message(), width).into_iter().map(dimmed));
        }
    }
    MadePage { lines, times }
}

fn recorded(world: &World, document: &ChangesDocument, width: usize) -> Vec<PageLine> {
    let host = &world.fleet.host;
    let heading = |text: &str| PageLine { kind: PageLineKind::Heading, text: text.to_owned() };
    if document.files.is_empty() {
        let mut lines = vec![dimmed("no change of a file is recorded".to_owned())];
        lines.extend(unrecorded_lines(document).into_iter().map(dimmed));
        return lines;
    }
    let context = RowContext { host, now: host.now() };
    let files = document.files.iter();
    let table = columns_table_with(AgeForm::Minutes, &context, FileChanges::COLUMNS, files);
    let drawn = table.draw(Canvas { width: Some(width), colour: false }, true);
    let mut rows = drawn.lines();
    let mut lines: Vec<PageLine> = rows.next().map(heading).into_iter().collect();
    lines.extend(rows.map(|row| text(row.to_owned())));
    lines.extend(unrecorded_lines(document).into_iter().map(dimmed));
    lines.extend(fault_lines(&document.faults, width));
    lines
}

fn git_lines(world: &World, diff: &WorkDiff, width: usize) -> Vec<PageLine> {
    let heading = wrapped(&diff_heading(&world.fleet.host, diff), width).into_iter();
    let heading = heading.map(|text| PageLine { kind: PageLineKind::Heading, text });
    let mut lines: Vec<PageLine> = heading.collect();
    let files = diff_files(diff).into_iter().flat_map(|file| break_line(&file, width));
    lines.extend(files.map(text));
    let remarks = diff_remarks(diff).into_iter().flat_map(|remark| wrapped(&remark, width));
    lines.extend(remarks.map(dimmed));
    let patch = diff.patch.clone().map(TextOrBytes::into_bytes).unwrap_or_default();
    let patch = String::from_utf8_lossy(&patch).into_owned();
    if !patch.is_empty() {
        lines.push(text(String::new()));
    }
    lines.extend(patch_lines(&patch, width));
    if patch.lines().nth(MAX_PATCH_LINES).is_some() {
        lines.push(dimmed("… `agentctl diff --patch` shows the rest".to_owned()));
    }
    lines
}

/// Returns the lines of a patch, broken at the width of the page.
fn patch_lines(patch: &str, width: usize) -> Vec<PageLine> {
    let mut lines = Vec::new();
    for line in patch.lines().take(MAX_PATCH_LINES) {
        let kind = match line.as_bytes().first() {
            Some(b'+') => PageLineKind::Added,
            Some(b'-') => PageLineKind::Removed,
            Some(b'd') => PageLineKind::Heading,
            Some(b'@') => PageLineKind::Dimmed,
            _ => PageLineKind::Text,
        };
        let cleaned = clean(line).replace('\t', "    ");
        let broken = break_line(&cleaned, width).into_iter();
        lines.extend(broken.map(|text| PageLine { kind, text }));
    }
    lines
}

fn fault_lines(faults: &[Fault], width: usize) -> Vec<PageLine> {
    let texts = faults.iter().map(|fault| format!("warning: {}", fault_text(fault)));
    texts.flat_map(|fault| wrapped(&fault, width)).map(dimmed).collect()
}

fn wrapped(line: &str, width: usize) -> Vec<String> {
    wrap(&clean(line).replace('\n', " "), width)
}

fn text(text: String) -> PageLine {
    PageLine { kind: PageLineKind::Text, text }
}

fn dimmed(text: String) -> PageLine {
    PageLine { kind: PageLineKind::Dimmed, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_of_a_patch_is_broken_and_nothing_of_it_is_lost() {
        let long = format!("+{}  end", "x".repeat(150));
        let lines = patch_lines(&format!("@@ -1 +1 @@\n-\told\n{long}\n"), 60);
        let added: Vec<&PageLine> =
            lines.iter().filter(|line| line.kind == PageLineKind::Added).collect();
        assert_eq!(added.iter().map(|line| line.text.as_str()).collect::<String>(), long);
        assert!(added.len() == 3 && added.iter().all(|line| line.text.len() <= 60), "{added:?}");
        assert_eq!(lines[1].text, "-    old");
    }
}
