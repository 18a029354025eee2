//! File patterns: `*`, `?`, `[a-z]` and `[!a-z]` within a name, `**` for any number of directories.
//!
//! A name that begins with a dot is matched only by a part that begins with a dot, as in a shell. Links to directories
//! are not followed, so a walk ends.

use std::path::{Path, PathBuf};

/// Most directory entries that one pattern looks at.
const MAX_ENTRIES: usize = 100_000;

/// Says whether a text has a wildcard.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A pattern, part by part.
pub(super) struct Pattern<'a> {
    parts: Vec<&'a str>,
    absolute: bool,
}

/// A walk through directories, which stops at the limit.
struct Walk {
    entries: usize,
    found: Vec<PathBuf>,
}

impl<'a> Pattern<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        Self { parts, absolute: text.starts_with('/') }
    }

    /// Returns the files that match, sorted: relative to the directory, or absolute if the pattern is.
    pub(super) fn files(&self, cwd: &Path) -> Result<Vec<PathBuf>, &'static str> {
        let mut walk = Walk { entries: 0, found: Vec::new() };
        let (base, shown) = if self.absolute { ("/", "/") } else { ("", "") };
        walk.step(&cwd.join(base), Path::new(shown), &self.parts)?;
        walk.found.sort();
        walk.found.dedup();
        Ok(walk.found)
    }
}

impl Walk {
    /// Matches the rest of a pattern in a directory. `shown` is the directory as the caller sees it.
    fn step(&mut self, directory: &Path, shown: &Path, parts: &[&str]) -> Result<(), &'static str> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        if !is_pattern(part) {
            let (path, shown) = (directory.join(part), shown.join(part));
            return self.arrive(&path, shown, rest);
        }
        let any_depth = *part == "**";
        if any_depth {
            // No directory at all matches as well; `**` at the end means every file.
            let rest = if rest.is_empty() { &["*"][..] } else { rest };
            self.step(directory, shown, rest)?;
        }
        // A directory that cannot be listed has no match.
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err("its directories have more than 100,000 entries");
            }
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_hidden = name.starts_with('.') && !part.starts_with('.');
            if is_hidden {
                continue;
            }
            let (path, shown) = (entry.path(), shown.join(name));
            if any_depth {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.step(&path, &shown, parts)?;
                }
            } else if matches(part, name) {
                self.arrive(&path, shown, rest)?;
            }
        }
        Ok(())
    }

    /// Goes on below a matched entry, or takes it if the pattern ends here and it is a file.
    fn arrive(&mut self, path: &Path, shown: PathBuf, rest: &[&str]) -> Result<(), &'static str> {
        if !rest.is_empty() {
            return self.step(path, &shown, rest);
        }
        if path.is_file() {
            self.found.push(shown);
        }
        Ok(())
    }
}

/// Says whether a name matches one part of a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // The position of the last `*`, and the length of the name that it has taken.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        let one = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(p + 1),
            Some('[') => class(&pattern[p..], name[n]).map_or_else(
                || (name[n] == '[').then_some(p + 1),
                |(is_in, length)| is_in.then_some(p + length),
            ),
            Some(c) => (*c == name[n]).then_some(p + 1),
            None => None,
        };
        match (one, star) {
            (Some(next), _) => (p, n) = (next, n + 1),
            (None, Some((at, taken))) => {
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Says whether a character is in the class at the start of a pattern, and how long the class is. `None` for a `[`
/// that is not closed.
fn class(pattern: &[char], wanted: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    // A `]` at the start is a member.
    let end = (start + 1..pattern.len()).find(|at| pattern[*at] == ']')?;
    let (members, mut at, mut found) = (&pattern[start..end], 0, false);
    while at < members.len() {
        if let [from, '-', to, ..] = &members[at..] {
            found |= (*from..=*to).contains(&wanted);
            at += 3;
        } else {
            found |= members[at] == wanted;
            at += 1;
        }
    }
    Some((found != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        let yes = [
            ("*.rs", "a.rs"),
            ("*", "x"),
            ("a*b*c", "a1b2b3c"),
            ("?.md", "ü.md"),
            ("[ab].x", "b.x"),
            ("[a-c]*", "beta"),
            ("[!a-c]*", "delta"),
            ("[]]", "]"),
            ("a[", "a["),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        let no = [("*.rs", "a.rst"), ("?", ""), ("[!a]", "a"), ("a*b", "acbd"), ("[a-c]", "d")];
        for (pattern, name) in no {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_find_files_below_the_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.md", ".git/e.rs", "src/.f.rs"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, "x").expect("written");
        }
        std::os::unix::fs::symlink("..", folder.path().join("src/loop")).expect("a link");
        let found = |pattern: &str| -> Vec<String> {
            let found = Pattern::of(pattern).files(folder.path()).expect("found");
            found.iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found("*.rs"), ["a.rs"]);
        assert_eq!(found("**/*.rs"), ["a.rs", "src/b.rs", "src/deep/c.rs"]);
        assert_eq!(found("src/**"), ["src/b.rs", "src/d.md", "src/deep/c.rs"]);
        assert_eq!(found("./src/*.[mr]?"), ["src/b.rs", "src/d.md"]);
        assert_eq!(found("src/.*"), ["src/.f.rs"]);
        assert_eq!(found("*/nothing*"), [""; 0]);
        let absolute = format!("{}/src/*.md", folder.path().display());
        assert_eq!(found(&absolute), [format!("{}/src/d.md", folder.path().display())]);
    }
}
