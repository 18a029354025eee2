//! Frames at four sizes, without colour, with no row, one row and many, and with hostile titles.

use agentctl_core::model::Session;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::{Desk, OTHER, WAITING, ask, session};
use crate::tui::app::{Action, Message, PageLine, PageLineKind, PageRequest};
use crate::tui::charset::Charset;
use crate::tui::keys::Key;
use crate::tui::view::{self, Palette};

const ASK: &str = "a7f319c200000000a7f319c200000000";

fn text(cells: &Buffer) -> String {
    let area = cells.area;
    let line = |y: u16| -> String {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..area.width {
            let symbol = cells[(x, y)].symbol();
            if skip == 0 {
                line.push_str(symbol);
                skip = crate::text::columns(symbol).max(1);
            }
            skip -= 1;
        }
        line.trim_end().to_owned()
    };
    (0..area.height).map(line).collect::<Vec<_>>().join("\n")
}

fn sessions() -> Vec<Session> {
    vec![
        session(WAITING, "waiting", 0, "Fix the login test"),
        session(OTHER, "running", 1, "日本語のタイトル and then a very long title that is cut"),
        session("01a1dedb-0000-4000-8000-000000000003", "idle", 75, "Rename the brand"),
    ]
}

fn desk(size: (u16, u16)) -> Desk {
    let mut desk = Desk::new(size);
    desk.look(&sessions(), vec![ask(ASK, WAITING, "npm test -- login\nnpm run lint")]);
    desk.ms = 1_000;
    desk
}

pub(super) fn frame(desk: &Desk) -> String {
    text(&view::draw(&desk.app, Palette::Colours).cells)
}

#[test]
fn frames_at_four_sizes() {
    for size in [(60, 20), (80, 24), (120, 36), (200, 60)] {
        let mut desk = desk(size);
        insta::assert_snapshot!(format!("list_{}x{}", size.0, size.1), frame(&desk));
        desk.press(Key::Enter);
        insta::assert_snapshot!(format!("ask_{}x{}", size.0, size.1), frame(&desk));
    }
}

#[test]
fn groups_and_names_have_columns_where_there_is_room() {
    let mut rows = sessions();
    rows[0].group = Some("login-race".into());
    rows[1].name = Some("docs".into());
    let shown = |columns: u16| {
        let mut desk = Desk::new((columns, 14));
        desk.look(&rows, Vec::new());
        frame(&desk)
    };
    insta::assert_snapshot!("groups_120x14", shown(120));
    assert!(!shown(119).contains("GROUP"), "{}", shown(119));
}

#[test]
fn frames_of_small_terminals() {
    for size in [(60, 11), (40, 8), (30, 6), (29, 6), (80, 5)] {
        let mut desk = desk(size);
        insta::assert_snapshot!(format!("small_{}x{}", size.0, size.1), frame(&desk));
        desk.press(Key::Enter);
        insta::assert_snapshot!(format!("small_ask_{}x{}", size.0, size.1), frame(&desk));
    }
}

/// The keys of the details do what the footer says, also where the list alone is shown.
#[test]
fn a_detail_that_is_chosen_on_a_few_lines_is_opened() {
    for (lines, mut desk) in [6, 8, 11].map(|lines| (lines, desk((60, lines)))) {
        assert!(!frame(&desk).contains("1 talk"), "{}", frame(&desk));
        desk.press(Key::Char('4'));
        let shown = frame(&desk);
        assert!(shown.contains("4 facts") && shown.contains("reading …"), "{lines}: {shown}");
        desk.press(Key::Escape);
        assert!(frame(&desk).contains("STATUS"), "{lines}: {}", frame(&desk));
        desk.press(Key::Char('2'));
        assert!(frame(&desk).contains("permission: Bash: npm test"), "{lines}: {}", frame(&desk));
    }
}

#[test]
fn the_header_shows_the_filter_and_the_modes_before_the_words_of_the_counts() {
    let statuses = [("waiting", 3), ("running", 15), ("idle", 2), ("unknown", 1), ("stopped", 40)];
    let rows: Vec<Session> = statuses
        .iter()
        .flat_map(|(status, count)| (0..*count).map(move |n| (status, n)))
        .map(|(status, n)| session(&format!("{n:04}{status:0>4.4}-0000"), status, 1, "shop"))
        .collect();
    for (columns, counts, words) in [
        (
            120,
            " agentctl  3 waiting · 15 running · 2 idle · 1 unknown · 40 stopped ",
            " /shop demo (0) · history · tree · ? help",
        ),
        (80, " 3! 15 run 2 idle 1? 40 stop ", " /shop demo (0) · history · tree · ? help"),
        (60, " 3! 15 run 2 idle 1? 40 stop ", " /shop d… (0) · history · tree"),
    ] {
        let mut desk = Desk::new((columns, 24));
        desk.look(&rows, Vec::new());
        desk.type_keys("Ht");
        let header = |desk: &Desk| frame(desk).lines().next().unwrap_or_default().to_owned();
        assert!(header(&desk).contains(" history · tree"), "{}", header(&desk));
        desk.type_keys("/shop demo");
        let header = header(&desk);
        assert!(header.starts_with(counts) && header.ends_with(words), "{header}");
    }
}

#[test]
fn frames_of_other_states() {
    let mut empty = Desk::new((80, 24));
    insta::assert_snapshot!("starting", frame(&empty));
    empty.look(&[], Vec::new());
    insta::assert_snapshot!("empty", frame(&empty));
    empty.press(Key::Char('?'));
    insta::assert_snapshot!("help", frame(&empty));
    let mut plain = Desk::new((80, 24));
    plain.app.charset = Charset::Ascii;
    plain.look(&sessions(), vec![ask(ASK, WAITING, "npm test -- login\nnpm run lint")]);
    let plain = frame(&plain);
    assert!(plain.is_ascii(), "{plain}");
    insta::assert_snapshot!("ascii", plain);
    let mut settled = desk((80, 24));
    settled.press(Key::Enter);
    settled.look(&sessions()[1..], Vec::new());
    insta::assert_snapshot!("settled", frame(&settled));
}

#[test]
fn without_colour_no_cell_has_one() {
    let mut desk = desk((80, 24));
    desk.press(Key::Enter);
    let cells = view::draw(&desk.app, Palette::Plain).cells;
    assert!(cells.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn every_id_has_six_characters_at_60_columns() {
    let shown = frame(&desk((60, 20)));
    for id in ["3e1add", "77aa01", "01a1de"] {
        assert!(shown.contains(id), "{shown}");
    }
}

#[test]
fn hostile_texts_are_harmless_at_every_size() {
    let hostile = [
        "\x1b]0;title\x07",
        "\x1b[2J\x1b[H",
        "\u{202e}evil\u{2066}",
        "a\r\nb\tc\0d",
        "\u{9b}31m",
        "e\u{301}\u{301}\u{301}\u{301} 👩‍👩‍👧 日本",
        &"x".repeat(100_000),
    ];
    let rows: Vec<Session> = (0..)
        .zip(hostile)
        .map(|(n, title)| session(&format!("{n:08}-0000"), "running", 1, title))
        .chain([session(WAITING, "waiting", 0, hostile[0])])
        .collect();
    for size in [(30, 6), (60, 20), (80, 24), (200, 60)] {
        let mut desk = Desk::new(size);
        desk.look(&rows, vec![ask(ASK, WAITING, &hostile[..6].join("\n"))]);
        desk.type_keys("n");
        for keys in ["", "\t", "\t"] {
            desk.type_keys(keys);
            let cells = view::draw(&desk.app, Palette::Colours).cells;
            for cell in cells.content() {
                let is_bad = |c: char| c.is_control() || ('\u{202a}'..='\u{2069}').contains(&c);
                assert!(!cell.symbol().chars().any(is_bad), "{:?}", cell.symbol());
            }
        }
    }
}

#[test]
fn a_thousand_sizes_are_drawn() {
    let mut desk = desk((80, 24));
    for n in 0..1_000_u16 {
        let keys = [Key::Down, Key::Tab, Key::Enter, Key::Escape, Key::Char('2'), Key::Char('?')];
        desk.press(keys[usize::from(n) % keys.len()]);
        desk.tell(Message::Resized(n * 7 % 211, n * 13 % 67));
        let frame = view::draw(&desk.app, Palette::Colours);
        assert_eq!((frame.cells.area.width, frame.cells.area.height), desk.app.size);
    }
}

#[test]
fn a_command_is_shown_whole_in_a_locale_without_utf_8() {
    let mut desk = Desk::new((80, 60));
    desk.app.charset = Charset::Ascii;
    let command = format!("echo a{}; touch HIDDEN; echo 日本語 end", "\u{301}".repeat(120));
    desk.look(&sessions(), vec![ask(ASK, WAITING, &command)]);
    desk.press(Key::Enter);
    let shown = frame(&desk);
    assert!(shown.is_ascii(), "{shown}");
    let joined: String = shown.lines().map(|line| line.trim_start_matches(' ')).collect();
    assert!(joined.contains("; touch HIDDEN; echo ?????? end"), "{shown}");
    assert_eq!(joined.matches("\\u{301}").count(), 120, "{shown}");
}

#[test]
fn rows_are_aligned_in_a_locale_without_utf_8() {
    let mut wide = session(OTHER, "running", 1, "x");
    wide.name = Some("日本語".into());
    let mut marked = session("01a1dedb-0000-4000-8000-000000000003", "idle", 75, "x");
    marked.name = Some("e\u{301}e\u{301}".into());
    let mut desk = Desk::new((80, 24));
    desk.app.charset = Charset::Ascii;
    desk.look(&[wide, marked], Vec::new());
    let shown = frame(&desk);
    let columns: Vec<Option<usize>> =
        shown.lines().skip(1).take(3).map(|line| line.find(['S', 'r', 'i'])).collect();
    assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{shown}");
    assert!(shown.contains("??????  running"), "{shown}");
}

#[test]
fn the_line_ends_and_tabs_of_a_rule_are_shown() {
    let mut desk = Desk::new((80, 40));
    let mut rule = ask(ASK, WAITING, "npm test");
    rule.choices[2].rule = Some("echo one\nrm -rf two\techo three".into());
    desk.look(&sessions(), vec![rule.clone()]);
    desk.press(Key::Enter);
    let shown = frame(&desk);
    assert!(shown.contains("echo one\\nrm -rf two\\techo three"), "{shown}");
    // A rule that does not fit beside its key.
    rule.choices[2].rule = Some(format!("echo one\nrm -rf two\techo {}", "three".repeat(20)));
    desk.look(&sessions(), vec![rule]);
    let shown = frame(&desk);
    let joined: String = shown.lines().map(|line| line.trim_start_matches(' ')).collect();
    assert!(joined.contains("echo one\\nrm -rf two\\techo threethree"), "{shown}");
}

/// Twenty sessions, of which the first and the last wait.
fn many(size: (u16, u16)) -> Desk {
    let mut rows: Vec<Session> = (0..20)
        .map(|n| session(&format!("{n:08x}-0000-4000-8000-000000000000"), "idle", 9, "many"))
        .collect();
    rows[0] = session(WAITING, "waiting", 0, "first");
    rows[19] = session(OTHER, "waiting", 0, "last");
    let mut desk = Desk::new(size);
    desk.look(&rows, Vec::new());
    desk
}

#[test]
fn a_list_that_goes_on_says_so_and_names_what_waits_out_of_sight() {
    let mut desk = many((80, 24));
    let heading = |desk: &Desk| frame(desk).lines().nth(1).unwrap_or_default().to_owned();
    assert!(heading(&desk).ends_with("1/20 ↓12 !1"), "{}", heading(&desk));
    desk.press(Key::End);
    assert!(heading(&desk).ends_with("20/20 ↑12 !1"), "{}", heading(&desk));
    let few = self::desk((80, 24));
    assert!(heading(&few).ends_with("WHAT"), "{}", heading(&few));
}

#[test]
fn a_page_that_goes_on_says_so() {
    let mut desk = desk((80, 24));
    desk.press(Key::Down);
    let actions = desk.press(Key::Char('3'));
    let request = actions.iter().find_map(|action| match action {
        Action::ReadPage(request) => Some(request.clone()),
        _ => None,
    });
    let line = |n| PageLine { kind: PageLineKind::Text, text: format!("line {n}") };
    let lines: Vec<PageLine> = (0..40).map(line).collect();
    desk.tell(page(request.expect("a request"), lines));
    assert!(frame(&desk).contains("─ ↓23 ─"), "{}", frame(&desk));
    desk.press(Key::Tab);
    desk.press(Key::End);
    let shown = frame(&desk);
    assert!(shown.contains("line 39") && shown.contains("─ ↑23 ─"), "{shown}");
}

fn page(request: PageRequest, lines: Vec<PageLine>) -> Message {
    Message::Page { request, lines, stale_at: None }
}
