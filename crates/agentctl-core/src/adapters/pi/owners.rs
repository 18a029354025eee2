//! Assigns session files to processes where only directory and time are known.
//!
//! Pure: no file is read here. A pair is named only if no other assignment fits; two processes that fit
//! one file, or two files that fit one process, stay unjoined.

use super::Kind;

/// Longest time between the start of a process and its session's header: 0.2 to 2.2 s were measured on
/// a loaded machine. A later header belongs to another session, or to one that was begun later
/// (`/new`).
const BEGINS_WITHIN_MS: i64 = 5_000;
/// Tolerance between a start time and other clocks: start times have a grain of 10 ms.
const GRAIN_MS: i64 = 20;

/// A process: its kind and its start time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) kind: Kind,
    pub(super) began_ms: i64,
}

/// A session file of the same directory that no process is known to serve.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// The program that began it.
    pub(super) kind: Kind,
    /// When the session began, from its header.
    pub(super) began_ms: i64,
    /// Its newest entry.
    pub(super) last_ms: i64,
}

impl Process {
    /// Says whether this process may have written the file.
    pub(super) fn may_serve(self, file: File) -> bool {
        file.last_ms.saturating_add(GRAIN_MS) >= self.began_ms
            && (self.kind == file.kind || self.continued(file))
    }

    /// Says whether the session began with the process.
    fn began(self, file: File) -> bool {
        let moment = self.began_ms - GRAIN_MS..=self.began_ms + BEGINS_WITHIN_MS;
        self.kind == file.kind && moment.contains(&file.began_ms)
    }

    /// Says whether the session is older than the process, which may have continued it.
    fn continued(self, file: File) -> bool {
        file.began_ms < self.began_ms - GRAIN_MS
            && file.last_ms.saturating_add(GRAIN_MS) >= self.began_ms
    }
}

/// Returns for each process of one directory the index of its file, where that is certain.
pub(super) fn decide(processes: &[Process], files: &[File]) -> Vec<Option<usize>> {
    let begun: Vec<Option<usize>> =
        processes.iter().map(|process| begun_alone(*process, processes, files)).collect();
    let is_taken = |file: &usize| begun.contains(&Some(*file));
    let unsettled = begun.iter().filter(|own| own.is_none()).count();
    let settle = |(process, begun): (&Process, &Option<usize>)| {
        let mut free = (0..files.len()).filter(|f| process.may_serve(files[*f]) && !is_taken(f));
        match *begun {
            // A process writes one session at a time: if it had moved to another one, that file would
            // be newer.
            Some(own) => free.all(|f| files[f].last_ms <= files[own].last_ms).then_some(own),
            None => {
                let only = free.next().filter(|_| free.next().is_none() && unsettled == 1)?;
                process.continued(files[only]).then_some(only)
            }
        }
    };
    processes.iter().zip(&begun).map(settle).collect()
}

/// Returns the only file that began with this process, if no other process began with it too.
fn begun_alone(process: Process, all: &[Process], files: &[File]) -> Option<usize> {
    let mut begun = (0..files.len()).filter(|f| process.began(files[*f]));
    let own = begun.next().filter(|_| begun.next().is_none())?;
    let rivals = all.iter().filter(|other| other.began(files[own])).count();
    (rivals == 1).then_some(own)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(began_ms: i64) -> Process {
        Process { kind: Kind::Pi, began_ms }
    }

    fn file(began_ms: i64, last_ms: i64) -> File {
        File { kind: Kind::Pi, began_ms, last_ms }
    }

    #[test]
    fn a_session_that_began_with_a_process_is_its_own() {
        let two = [process(1_000), process(60_000)];
        let files = [file(1_400, 90_000), file(60_900, 80_000)];
        assert_eq!(decide(&two, &files), [Some(0), Some(1)]);
        // One of them has written nothing yet.
        assert_eq!(decide(&two, &files[..1]), [Some(0), None]);
    }

    #[test]
    fn an_ambiguous_pair_is_not_joined() {
        // Two processes, one file.
        let close = [process(1_000), process(2_000)];
        assert_eq!(decide(&close, &[file(2_500, 9_000)]), [None, None]);
        // One process, two files of its first moments.
        let files = [file(1_200, 5_000), file(1_900, 4_000)];
        assert_eq!(decide(&[process(1_000)], &files), [None]);
        // Two processes, one older session continued by one of them.
        let apart = [process(100_000), process(200_000)];
        assert_eq!(decide(&apart, &[file(5, 300_000)]), [None, None]);
    }

    #[test]
    fn a_session_written_beside_it_makes_it_doubtful_until_it_writes_again() {
        let own = [process(1_000)];
        let beside = file(50_000, 60_000);
        assert_eq!(decide(&own, &[file(1_300, 40_000), beside]), [None]);
        assert_eq!(decide(&own, &[file(1_300, 70_000), beside]), [Some(0)]);
        // It has no file of its own: the other may be `/new`, or belong to another process.
        assert_eq!(decide(&own, &[beside]), [None]);
    }

    #[test]
    fn an_older_session_that_only_it_can_have_continued_is_its_own() {
        let own = [process(100_000)];
        assert_eq!(decide(&own, &[file(5, 100_500)]), [Some(0)]);
        assert_eq!(decide(&own, &[file(5, 99_000)]), [None]);
        assert_eq!(decide(&own, &[file(5, 100_500), file(7, 100_600)]), [None]);
    }

    #[test]
    fn the_other_program_begins_no_session_of_this_one_but_may_continue_it() {
        let other = Process { kind: Kind::PiRust, began_ms: 1_000 };
        assert_eq!(decide(&[other], &[file(1_300, 9_000)]), [None]);
        assert_eq!(decide(&[other], &[file(5, 9_000)]), [Some(0)]);
        assert_eq!(decide(&[process(1_000), other], &[file(1_300, 9_000)]), [Some(0), None]);
    }

    proptest! {
        #[test]
        fn no_file_is_given_twice_and_none_that_the_process_cannot_have_written(
            begun in proptest::collection::vec(0_i64..30_000, 0..5),
            files in proptest::collection::vec((0_i64..30_000, 0_i64..30_000), 0..6),
        ) {
            let processes: Vec<Process> = begun.into_iter().map(process).collect();
            let files: Vec<File> = files.into_iter().map(|(a, b)| file(a, a + b)).collect();
            let decided = decide(&processes, &files);
            prop_assert_eq!(decided.len(), processes.len());
            let mut given: Vec<usize> = decided.iter().flatten().copied().collect();
            given.sort_unstable();
            let count = given.len();
            given.dedup();
            prop_assert_eq!(given.len(), count);
            for (process, own) in processes.iter().zip(decided) {
                if let Some(own) = own {
                    prop_assert!(files[own].last_ms + GRAIN_MS >= process.began_ms);
                }
            }
        }
    }
}
