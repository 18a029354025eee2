//! The list: selection, filter, history, orders.

use super::frames::frame;
use super::{Desk, NOW_MS, OTHER, WAITING, at, look, session};
use crate::face::{Line, LineKind};
use crate::tui::app::{Action, Detail, FailedOrder, MAX_TALK_LINES, Message, Order, OrderResult};
use crate::tui::keys::{Focus, Key};

const THIRD: &str = "01a1dedb-0000-4000-8000-000000000003";

fn selected(desk: &Desk) -> String {
    desk.app.list.selected_key().and_then(|key| key.id.clone()).unwrap_or_default()
}

fn desk() -> Desk {
    let mut desk = Desk::new((80, 24));
    desk.look(
        &[
            session(WAITING, "waiting", 1, "Fix the login"),
            session(OTHER, "running", 2, "Write docs"),
            session(THIRD, "idle", 3, "Rename the brand"),
        ],
        Vec::new(),
    );
    desk
}

#[test]
fn the_selection_follows_its_session_through_the_list() {
    let mut desk = desk();
    assert_eq!(selected(&desk), WAITING);
    desk.press(Key::Down);
    assert_eq!(selected(&desk), OTHER);
    let moved = [
        session(OTHER, "waiting", 0, "Write docs"),
        session(WAITING, "waiting", 1, "Fix the login"),
        session(THIRD, "idle", 3, "Rename the brand"),
    ];
    desk.look(&moved, Vec::new());
    assert_eq!(selected(&desk), OTHER);
    desk.press(Key::Char('G'));
    assert_eq!(selected(&desk), THIRD);
    desk.press(Key::Char('g'));
    assert_eq!(selected(&desk), OTHER);
}

#[test]
fn a_filter_is_words_and_an_exclamation_mark_and_escape_clears_it() {
    let mut desk = desk();
    desk.type_keys("/codex brand");
    assert_eq!(desk.app.list.shown.len(), 1);
    assert_eq!(selected(&desk), THIRD);
    desk.press(Key::Enter);
    desk.press(Key::Escape);
    assert_eq!(desk.app.list.shown.len(), 3);
    desk.type_keys("/!");
    assert_eq!(selected(&desk), WAITING);
    assert_eq!(desk.app.list.shown.len(), 1);
    desk.press(Key::Escape);
    assert_eq!(desk.app.list.shown.len(), 3);
    desk.type_keys("/nothing has this");
    assert!(desk.app.list.selected().is_none());
}

#[test]
fn every_detail_is_asked_for_once_and_again_when_its_row_changes() {
    let mut desk = desk();
    let actions = desk.press(Key::Char('3'));
    let pages = |actions: &[Action]| {
        actions.iter().filter(|action| matches!(action, Action::ReadPage(_))).count()
    };
    assert_eq!((pages(&actions), desk.app.detail), (1, Detail::Why));
    assert_eq!(pages(&desk.tell(Message::Timer)), 0);
    let same = [session(WAITING, "waiting", 1, "Fix the login")];
    assert_eq!(pages(&desk.look(&same, Vec::new())), 0);
    let changed = [session(WAITING, "running", 0, "Fix the login")];
    assert_eq!(pages(&desk.look(&changed, Vec::new())), 1);
    desk.press(Key::Char(']'));
    assert_eq!(desk.app.detail, Detail::Facts);
    desk.press(Key::Char('1'));
    desk.press(Key::Char('['));
    assert_eq!(desk.app.detail, Detail::Changes);
}

#[test]
fn a_page_is_made_again_when_an_age_in_it_changes() {
    let mut desk = desk();
    let request = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::ReadPage(request) => Some(request.clone()),
            _ => None,
        })
    };
    let request_of_facts = request(&desk.press(Key::Char('4'))).expect("a request");
    let stale_at = Some(at(NOW_MS));
    let page = Message::Page { request: request_of_facts, lines: Vec::new(), stale_at };
    assert_eq!(request(&desk.tell(page)), None);
    assert_eq!(desk.app.next_change(), stale_at);
    assert!(request(&desk.tell(Message::Timer)).is_some());
    assert_eq!(request(&desk.tell(Message::Timer)), None, "once");
}

#[test]
fn a_stop_needs_y_and_names_the_session_that_was_selected() {
    let mut desk = desk();
    let orders = |actions: Vec<Action>| -> Vec<Order> {
        let order = |action| if let Action::Order(order) = action { Some(order) } else { None };
        actions.into_iter().filter_map(order).collect()
    };
    desk.press(Key::Char('x'));
    assert_eq!(orders(desk.press(Key::Char('n'))), []);
    assert_eq!(desk.notice(), "nothing was stopped");
    desk.press(Key::Char('x'));
    // The list changes before the answer.
    desk.look(&[session(THIRD, "idle", 3, "Rename the brand")], Vec::new());
    let stopped = orders(desk.press(Key::Char('y')));
    let [Order::Stop(key)] = stopped.as_slice() else { panic!("{stopped:?}") };
    assert_eq!(key.id.as_deref(), Some(WAITING));
    desk.press(Key::Down);
    desk.type_keys("shello there");
    let sent = orders(desk.press(Key::Enter));
    let [Order::Send { session, text }] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((session.id.as_deref(), text.as_str()), (Some(THIRD), "hello there"));
    assert_eq!(orders(desk.press(Key::Char('X'))), [], "it asks first");
    assert!(matches!(orders(desk.press(Key::Char('y'))).as_slice(), [Order::EndTurn(_)]));
}

#[test]
fn history_and_tree_ask_for_another_list() {
    let mut desk = desk();
    let query = |all, children| Action::SetQuery { all, children };
    assert!(desk.press(Key::Char('H')).contains(&query(true, false)));
    assert!(desk.press(Key::Char('t')).contains(&query(true, true)));
    assert!(desk.press(Key::Char('H')).contains(&query(false, true)));
}

#[test]
fn escape_goes_back_one_step_at_a_time() {
    let mut desk = desk();
    desk.press(Key::Enter);
    assert!(desk.app.is_zoomed && desk.app.focus == Focus::Detail, "nothing is asked here");
    desk.press(Key::Escape);
    assert!(!desk.app.is_zoomed && desk.app.focus == Focus::List);
    desk.press(Key::Tab);
    assert_eq!(desk.app.focus, Focus::Detail);
    desk.press(Key::Escape);
    assert_eq!(desk.app.focus, Focus::List);
}

#[test]
fn the_next_change_without_a_message_is_the_next_minute_of_a_visible_age() {
    let mut desk = Desk::new((80, 24));
    assert_eq!(desk.app.next_change(), None);
    let mut young = session(WAITING, "running", 0, "x");
    young.last_activity_at = Some(at(NOW_MS - 20_000));
    desk.look(&[young, session(OTHER, "idle", 300, "y")], Vec::new());
    assert_eq!(desk.app.next_change(), Some(at(NOW_MS + 40_000)));
    desk.press(Key::Down);
    desk.look(&[session(OTHER, "idle", 300, "y")], Vec::new());
    assert_eq!(desk.app.next_change(), Some(at(NOW_MS + 3_600_000)));
}

#[test]
fn columns_are_as_wide_as_the_rows_that_the_filter_admits() {
    let mut long = session(OTHER, "idle", 9, "docs");
    long.name = Some("a-session-with-a-long-name".to_owned());
    let mut desk = Desk::new((120, 24));
    desk.look(&[session(WAITING, "running", 1, "shop"), long], Vec::new());
    assert!(frame(&desk).contains("NAME"), "{}", frame(&desk));
    desk.type_keys("/running");
    assert!(!frame(&desk).contains("NAME"), "{}", frame(&desk));
    desk.press(Key::Escape);
    assert!(frame(&desk).contains("NAME"), "{}", frame(&desk));
}

#[test]
fn ten_thousand_rows_are_filtered_and_moved_through() {
    let many: Vec<_> = (0..10_000)
        .map(|n| session(&format!("{n:08x}-0000-4000-8000-000000000000"), "idle", 9, "many"))
        .collect();
    let mut desk = Desk::new((80, 24));
    desk.look(&many, Vec::new());
    desk.press(Key::End);
    assert_eq!(desk.app.list.position(), (10_000, 10_000));
    let layout = desk.app.layout.expect("large enough");
    assert_eq!(desk.app.list.visible(layout.list.height).count(), usize::from(layout.list.height));
    desk.type_keys("/0000270f");
    assert_eq!(desk.app.list.position(), (1, 1));
}

/// Stops the selected session; returns the order.
fn stopping(desk: &mut Desk) -> Order {
    desk.press(Key::Char('x'));
    let actions = desk.press(Key::Char('y'));
    let order = |action: &Action| match action {
        Action::Order(order) => Some(order.clone()),
        _ => None,
    };
    actions.iter().find_map(order).expect("an order")
}

#[test]
fn an_order_under_way_is_delivered_before_top_leaves_and_a_second_q_leaves_at_once() {
    let mut desk = desk();
    let order = stopping(&mut desk);
    assert!(!desk.press(Key::Char('q')).contains(&Action::Leave));
    assert!(desk.notice().contains("is being delivered"), "{}", desk.notice());
    let done = |lines| Message::Done(OrderResult { order: order.clone(), lines });
    assert!(desk.tell(done(Ok(vec!["stopped".to_owned()]))).contains(&Action::Leave));
    let mut desk = self::desk();
    stopping(&mut desk);
    assert!(!desk.tell(Message::Interrupt).contains(&Action::Leave), "Ctrl-C is like q");
    assert!(desk.press(Key::Char('q')).contains(&Action::Leave));
    let mut desk = self::desk();
    stopping(&mut desk);
    desk.press(Key::Char('q'));
    let lines = vec!["error: it is not yours".to_owned()];
    let refused = desk.tell(done(Err(FailedOrder { lines, is_unclear: false })));
    assert!(!refused.contains(&Action::Leave), "a failure is read first");
    assert_eq!(desk.notice(), "error: it is not yours");
    assert!(desk.press(Key::Char('q')).contains(&Action::Leave));
}

#[test]
fn only_the_last_lines_of_a_long_conversation_are_kept() {
    let mut desk = Desk::new((80, 24));
    let actions = desk.look(&[session(WAITING, "running", 1, "x")], Vec::new());
    let request = |action: &Action| match action {
        Action::ReadTalk(request) => Some(request.clone()),
        _ => None,
    };
    let request = actions.iter().find_map(request).expect("a request");
    for is_whole in [true, false, false] {
        let lines = vec![Line { kind: LineKind::Text, spans: Vec::new() }; MAX_TALK_LINES - 1];
        desk.tell(Message::Talk { request: request.clone(), is_whole, lines: Ok(lines) });
    }
    assert_eq!(desk.app.talk.lines.len(), MAX_TALK_LINES);
}

#[test]
fn an_order_names_its_session_also_if_two_homes_share_the_id() {
    let mut other = session(WAITING, "waiting", 2, "a copy");
    other.root = "/mnt/copy/.claude".into();
    let mut desk = Desk::new((80, 24));
    desk.look(&[session(WAITING, "waiting", 1, "the first"), other], Vec::new());
    desk.press(Key::Down);
    let Order::Stop(key) = stopping(&mut desk) else { panic!("a stop") };
    assert_eq!(key.argument(), format!("claude-code:{WAITING}@/mnt/copy/.claude"));
}

#[test]
fn a_selected_session_that_ends_stays_selected_until_the_user_moves() {
    let mut desk = desk();
    desk.press(Key::Down);
    let others = [
        session(WAITING, "waiting", 1, "Fix the login"),
        session(THIRD, "idle", 3, "Rename the brand"),
    ];
    let is_read = |action: &Action| matches!(action, Action::ReadEnd(_));
    for count in [1, 0] {
        let actions = desk.look(&others, Vec::new());
        assert_eq!(selected(&desk), OTHER);
        assert_eq!(actions.iter().filter(|action| is_read(action)).count(), count);
    }
    let row = desk.app.list.selected().expect("a row");
    assert!(row.is_gone && desk.app.list.rows.len() == 3);
    let shown = frame(&desk);
    assert!(shown.contains("ended      claude-code  77aa01c2"), "{shown}");
    assert!(shown.contains("gone · Write docs"), "{shown}");
    // Its record says how it ended.
    let mut ended = session(OTHER, "stopped", 0, "Write docs");
    ended.outcome = Some(agentctl_core::model::Outcome::Finished);
    let row = look(&[ended], Vec::new()).rows.remove(0).row;
    desk.tell(Message::Ended(Box::new(row)));
    desk.look(&others, Vec::new());
    let shown = frame(&desk);
    assert!(shown.contains("stopped    claude-code  77aa01c2"), "{shown}");
    assert!(shown.contains("finished · Write docs"), "{shown}");
    let counted: usize = desk.app.counts().iter().map(|(_, count)| count).sum();
    assert_eq!(counted, 2, "the session that is not listed is not counted");
    desk.type_keys("smore");
    let actions = desk.press(Key::Enter);
    let is_sent = |action: &Action| matches!(action, Action::Order(Order::Send { session, .. }) if session.id.as_deref() == Some(OTHER));
    assert!(actions.iter().any(is_sent), "an order goes to the session that is shown: {actions:?}");
    desk.press(Key::Down);
    assert_eq!((selected(&desk).as_str(), desk.app.list.rows.len()), (THIRD, 2));
}

#[test]
fn a_session_that_ended_leaves_the_list_when_a_filter_takes_the_selection_from_it() {
    let mut desk = desk();
    desk.press(Key::Down);
    let others = [session(WAITING, "waiting", 1, "Fix the login")];
    desk.look(&others, Vec::new());
    desk.type_keys("/!");
    desk.press(Key::Enter);
    assert_eq!(selected(&desk), WAITING);
    desk.press(Key::Escape);
    assert_eq!((selected(&desk).as_str(), desk.app.list.rows.len()), (WAITING, 1));
}

#[test]
fn a_selected_session_that_the_filter_does_not_admit_any_more_stays_selected() {
    let mut desk = desk();
    desk.type_keys("/!");
    desk.press(Key::Enter);
    let changed = [
        session(OTHER, "waiting", 0, "Write docs"),
        session(WAITING, "running", 0, "Fix the login"),
    ];
    desk.look(&changed, Vec::new());
    assert_eq!(selected(&desk), WAITING);
    desk.press(Key::Up);
    assert_eq!((selected(&desk).as_str(), desk.app.list.shown.len()), (OTHER, 1));
}

#[test]
fn a_selected_process_stays_selected_when_its_session_begins() {
    let mut process = session(WAITING, "unknown", 1, "");
    process.id = None;
    let mut begun = session(WAITING, "running", 0, "x");
    let mut other = session(OTHER, "waiting", 0, "y");
    (begun.pid, other.pid) = (Some(42), Some(43));
    let mut desk = Desk::new((80, 24));
    desk.look(&[process], Vec::new());
    desk.look(&[other, begun], Vec::new());
    assert_eq!((selected(&desk).as_str(), desk.app.list.rows.len()), (WAITING, 2));
}

#[test]
fn a_selected_subagent_that_is_hidden_is_not_shown_as_ended() {
    let mut child = session(OTHER, "running", 1, "y");
    child.parent = Some(WAITING.into());
    let parent = session(WAITING, "running", 1, "x");
    let mut desk = Desk::new((80, 24));
    desk.press(Key::Char('t'));
    desk.look(&[parent.clone(), child], Vec::new());
    desk.press(Key::Down);
    assert_eq!(selected(&desk), OTHER);
    desk.press(Key::Char('t'));
    desk.look(&[parent], Vec::new());
    assert_eq!((selected(&desk).as_str(), desk.app.list.rows.len()), (WAITING, 1));
}
