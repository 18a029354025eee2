//! The pictures of the README exist, are XML or small PNG files, and can be made anew.

use std::path::Path;
use std::process::Command;

use testkit::sandboxed;

use crate::source::workspace;

/// Largest picture of the page, in bytes.
const MAX_PNG_BYTES: usize = 200 << 10;

/// The pictures that do not move.
const STILLS: [&str; 4] = ["list", "why", "status", "logs"];

/// Returns the paths of the pictures that the README embeds.
fn embedded() -> Vec<String> {
    let readme = std::fs::read_to_string(workspace().join("README.md")).expect("the README");
    let images = readme.split("![").skip(1).filter_map(|rest| rest.split_once("]("));
    images.filter_map(|(_, rest)| rest.split(')').next()).map(str::to_owned).collect()
}

/// Returns the text of an XML document, or what is wrong with it. Comments, sections and declarations are not known.
fn xml_text(document: &str) -> Result<String, String> {
    let (mut open, mut text) = (Vec::<&str>::new(), String::new());
    let mut rest = document;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(&plain(before)?);
        let (tag, behind) = after.split_once('>').ok_or("a tag does not end")?;
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> ends nothing"));
            }
        } else if tag.matches('"').count() % 2 == 1 {
            return Err(format!("<{tag}> has an open quote"));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or(tag));
        }
    }
    let is_done = open.is_empty() && rest.trim().is_empty();
    if is_done { Ok(text) } else { Err(format!("{open:?} stay open")) }
}

fn plain(text: &str) -> Result<String, String> {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "")];
    let text = entities.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    if text.contains('&') { Err(format!("an unknown entity: {text}")) } else { Ok(text) }
}

#[test]
fn every_picture_of_the_readme_exists_and_is_xml_or_a_small_png() {
    let pictures = embedded();
    assert!(pictures.len() >= 2, "{pictures:?}");
    for picture in pictures {
        if Path::new(&picture).extension().is_some_and(|kind| kind == "png") {
            let bytes = std::fs::read(workspace().join(&picture)).expect(&picture);
            assert!(bytes.starts_with(b"\x89PNG") && bytes.len() <= MAX_PNG_BYTES, "{picture}");
            continue;
        }
        let document = std::fs::read_to_string(workspace().join(&picture)).expect(&picture);
        let text = xml_text(&document).unwrap_or_else(|why| panic!("{picture}: {why}"));
        assert!(text.contains("agentctl") && text.contains("demo"), "{picture}: {text}");
    }
    assert!(xml_text("<svg><g></svg>").is_err() && xml_text("<a>R&D</a>").is_err());
    assert!(xml_text("<svg><text>a</text>").is_err() && xml_text("<a b=\"c></a>").is_err());
}

#[test]
fn every_still_picture_shows_what_the_demo_prints_now() {
    sandboxed(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_agentctl"));
        let shots = program.with_file_name("shots");
        assert!(shots.is_file(), "no {}: test the whole workspace", shots.display());
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(shots);
        command.arg(program).arg(folder.path()).args(STILLS);
        let made = command.output().expect("runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let listed = std::fs::read_dir(folder.path()).expect("listed").flatten();
        assert_eq!(listed.count(), STILLS.len(), "the pictures that were asked for, no other");
        for name in STILLS {
            let file = format!("{name}.svg");
            let text = |folder: &Path| {
                let picture = std::fs::read_to_string(folder.join(&file)).expect(&file);
                xml_text(&picture).expect("XML")
            };
            let kept = text(&workspace().join("docs/pictures"));
            assert_eq!(kept, text(folder.path()), "docs/pictures/{file}: run `just shots`");
        }
    });
}
