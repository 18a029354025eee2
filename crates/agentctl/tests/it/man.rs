//! Manual pages: one for every visible command, complete, and no page names one that is not there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use testkit::sandboxed;

use crate::home;

/// The sections of every page, in their order.
const SECTIONS: [&str; 9] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "OPTIONS",
    "EXAMPLES",
    "\"EXIT STATUS\"",
    "FILES",
    "ENVIRONMENT",
    "\"SEE ALSO\"",
];

fn sections(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect()
}

#[test]
fn the_page_of_a_command_is_complete() {
    sandboxed(|| {
        let home = home();
        for (args, name, synopsis) in [
            (&["man"][..], "agentctl", "\\fBagentctl\\fR"),
            (&["man", "list"], "agentctl\\-list", "\\fBagentctl list\\fR"),
            (&["man", "ps"], "agentctl\\-list", "\\fBagentctl list\\fR"),
            (&["man", "fuse", "set"], "agentctl\\-fuse\\-set", "\\fBagentctl fuse set\\fR"),
            (&["man", "fuse-set"], "agentctl\\-fuse\\-set", "\\fBagentctl fuse set\\fR"),
            (
                &["man", "worktree-clean"],
                "agentctl\\-worktree\\-clean",
                "\\fBagentctl worktree clean\\fR",
            ),
        ] {
            let page = home.run(args);
            assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""), "{args:?}");
            let text = page.stdout;
            assert_eq!(text.matches(".SH NAME").count(), 1, "{args:?}");
            let found = sections(&text);
            let known = found.iter().copied().filter(|title| SECTIONS.contains(title));
            assert_eq!(known.collect::<Vec<_>>(), SECTIONS, "{args:?}: {found:?}");
            let line = text.split(".SH NAME\n").nth(1).unwrap_or_default();
            assert!(line.starts_with(&format!("{name} \\- ")), "{args:?}: {line:.80}");
            let line = text.split(".SH SYNOPSIS\n").nth(1).unwrap_or_default();
            assert!(line.starts_with(synopsis), "{args:?}: {line:.80}");
        }
        let fuse = home.run(&["man", "fuse", "set"]).stdout;
        for words in ["\\-\\-on\\-expire", "\\-\\-max\\-cost", "fuse.expired", "agentctl\\-fuses"] {
            assert!(fuse.contains(words), "{words} is not in: {fuse}");
        }
        let unknown = home.run(&["man", "fuse", "sett"]);
        assert_eq!(unknown.code, Some(2));
        assert!(unknown.stderr.contains("no manual page for `fuse sett`"), "{}", unknown.stderr);
        assert!(unknown.stderr.contains("did you mean `set`?"), "{}", unknown.stderr);
        assert_eq!(home.run(&["man", "demo-agent"]).code, Some(2), "it is hidden");
        for word in ["fuse-", "-fuse", "-", "fuse-sett"] {
            assert_eq!(home.run(&["man", "--", word]).code, Some(2), "{word}");
        }
    });
}

#[test]
fn all_pages_are_installed_and_name_only_pages_that_exist() {
    sandboxed(|| {
        let home = home();
        let installed = home.run(&["man", "--install", "share/man1"]);
        assert_eq!((installed.code, installed.stderr.as_str()), (Some(0), ""));
        let folder = home.path().join("share/man1");
        let names: BTreeSet<String> = fs::read_dir(&folder)
            .expect("listed")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let said = format!("installed {} pages in share/man1\n", names.len());
        assert_eq!(installed.stdout, said);
        assert!(names.len() > 40, "{names:?}");
        for name in ["agentctl.1", "agentctl-list.1", "agentctl-fuse-set.1", "agentctl-version.1"] {
            assert!(names.contains(name), "{name}");
        }
        for name in &names {
            let page = fs::read_to_string(folder.join(name)).expect("read");
            assert_eq!(page.matches(".SH NAME").count(), 1, "{name}");
            for section in SECTIONS {
                assert!(sections(&page).contains(&section), "{name} has no {section}");
            }
            let plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
            assert!(!plain.contains("demo-agent"), "{name} names a hidden command");
            assert!(!plain.contains("agentctl-help"), "{name}");
            assert!(!plain.contains('`') && page.is_ascii(), "{name}");
            for (at, _) in plain.match_indices("(1)") {
                let begin = plain[..at].rfind([' ', '\n', ',']).map_or(0, |begin| begin + 1);
                let other = format!("{}.1", &plain[begin..at]);
                assert!(names.contains(&other), "{name} names {other}");
            }
        }
        // Installing again replaces every page.
        fs::write(folder.join("agentctl.1"), "old").expect("written");
        assert_eq!(home.run(&["man", "--install", "share/man1"]).code, Some(0));
        let page = fs::read_to_string(folder.join("agentctl.1")).expect("read");
        assert!(page.contains(".SH NAME"), "{page}");
        assert_eq!(fs::read_dir(&folder).expect("listed").count(), names.len(), "no leftover");
    });
}

#[test]
fn a_directory_that_cannot_be_written_is_one_sentence() {
    sandboxed(|| {
        let home = home();
        home.write("file", "x");
        let refused = home.run(&["man", "--install", "file"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
        let lines: Vec<&str> = refused.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{}", refused.stderr);
        assert!(lines[0].starts_with("error: the pages cannot be written to file: "), "{lines:?}");
        // A page that cannot be replaced leaves no part of itself behind.
        let folder = home.path().join("pages");
        fs::create_dir_all(folder.join("agentctl.1/inside")).expect("made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("set");
        assert_eq!(home.run(&["man", "--install", "pages"]).code, Some(1));
        let left = fs::read_dir(&folder).expect("listed");
        let left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
    });
}
