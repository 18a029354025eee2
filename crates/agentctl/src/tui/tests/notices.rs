//! Notices, hints and typed lines: nothing that must be read is lost.

use super::frames::frame;
use super::{Desk, OTHER, WAITING, ask, session};
use crate::tui::app::{Action, FailedOrder, Message, Order, OrderResult};
use crate::tui::keys::{Focus, Key};

const ASK: &str = "a7f319c200000000a7f319c200000000";
const SECOND: &str = "0c41d27e000000000c41d27e00000000";

/// A session at work and one that waits.
fn desk(size: (u16, u16)) -> Desk {
    let mut desk = Desk::new(size);
    let sessions =
        [session(OTHER, "running", 1, "Write docs"), session(WAITING, "waiting", 2, "Fix it")];
    desk.look(&sessions, vec![ask(ASK, WAITING, "npm test")]);
    desk.ms = 1_000;
    desk
}

fn order(actions: &[Action]) -> Option<Order> {
    actions.iter().find_map(|action| match action {
        Action::Order(order) => Some(order.clone()),
        _ => None,
    })
}

/// Sends `hello` to the selected session.
fn sent(desk: &mut Desk) -> Order {
    desk.type_keys("shello");
    order(&desk.press(Key::Enter)).expect("an order")
}

fn refused(order: Order, lines: &[&str]) -> Message {
    failed(order, lines, false)
}

fn failed(order: Order, lines: &[&str], is_unclear: bool) -> Message {
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    Message::Done(OrderResult { order, lines: Err(FailedOrder { lines, is_unclear }) })
}

#[test]
fn a_result_that_comes_while_a_line_is_typed_or_help_is_shown_is_read_afterwards() {
    let mut typing = desk((80, 24));
    let order = sent(&mut typing);
    typing.press(Key::Char('/'));
    typing.tell(refused(order, &["error: the session is not yours", "hint: ask its owner"]));
    typing.type_keys("do");
    let shown = frame(&typing);
    assert!(shown.contains("error: the session is not yours"), "{shown}");
    let lines: Vec<&str> = shown.lines().rev().take(3).collect();
    assert_eq!(lines, [" /do", " s: the text of the message is kept", " hint: ask its owner"]);
    typing.press(Key::Enter);
    assert!(frame(&typing).contains("error: the session is not yours"));
    typing.press(Key::Down);
    assert_eq!(typing.notice(), "");
    let mut helped = desk((80, 24));
    let order = sent(&mut helped);
    helped.press(Key::Char('?'));
    helped.tell(refused(order, &["error: the session is not yours"]));
    helped.press(Key::Escape);
    assert!(frame(&helped).contains("error: the session is not yours"));
}

#[test]
fn a_long_failure_is_shown_with_its_hint_and_a_cut_is_marked() {
    let mut desk = desk((60, 24));
    let order = sent(&mut desk);
    let long = format!("error: {}", "the hook has said a lot about it ".repeat(10));
    desk.tell(refused(order.clone(), &[&long, "hint: read its file"]));
    let shown = frame(&desk);
    assert!(shown.contains("hint: read its file"), "{shown}");
    let endless = format!("error: {}", "the hook has said a lot about it ".repeat(100));
    desk.tell(refused(order, &[&endless, "hint: read its file"]));
    let shown = frame(&desk);
    assert!(shown.lines().rev().nth(1).is_some_and(|line| line.ends_with('…')), "{shown}");
    assert!(shown.contains("STATUS"), "the list stays: {shown}");
}

#[test]
fn the_text_of_a_refused_message_is_typed_again() {
    let mut desk = desk((80, 24));
    let sent = sent(&mut desk);
    desk.tell(refused(sent, &["error: the session takes no message now"]));
    let shown = frame(&desk);
    assert!(shown.contains("error: the session takes no message now"), "{shown}");
    assert!(shown.lines().last().is_some_and(|line| line.ends_with(": hello")), "{shown}");
    desk.type_keys("!");
    let Some(Order::Send { text, .. }) = order(&desk.press(Key::Enter)) else { panic!("sent") };
    assert_eq!(text, "hello!");
}

#[test]
fn the_text_of_a_refused_message_is_kept_for_a_user_who_went_on() {
    let mut desk = desk((80, 24));
    let sent = sent(&mut desk);
    desk.press(Key::Down);
    desk.tell(refused(sent, &["error: the session takes no message now"]));
    assert!(desk.app.typed.is_none(), "no line opens under the finger");
    assert!(desk.notice().ends_with("s: the text of the message is kept"), "{}", desk.notice());
    desk.press(Key::Up);
    desk.press(Key::Char('s'));
    let Some(Order::Send { text, .. }) = order(&desk.press(Key::Enter)) else { panic!("sent") };
    assert_eq!(text, "hello");
}

#[test]
fn the_text_of_a_message_that_may_have_arrived_is_not_typed_again() {
    let mut desk = desk((80, 24));
    let sent = sent(&mut desk);
    desk.tell(failed(sent, &["error: whether the message arrived is not known"], true));
    assert!(desk.app.typed.is_none(), "Enter sends nothing");
    assert!(desk.notice().ends_with("s: the text of the message is kept"), "{}", desk.notice());
    assert_eq!(order(&desk.press(Key::Enter)), None);
    desk.press(Key::Escape);
    desk.press(Key::Char('s'));
    let Some(Order::Send { text, .. }) = order(&desk.press(Key::Enter)) else { panic!("sent") };
    assert_eq!(text, "hello", "a second message is a decision of its own");
}

#[test]
fn words_that_a_guard_refuses_stay_typed() {
    let mut desk = desk((80, 24));
    desk.press(Key::Down);
    desk.ms = 2_000;
    desk.press(Key::Enter);
    desk.press(Key::Char('m'));
    desk.type_keys("use pnpm");
    // The ask moves while the words are typed.
    desk.tell(Message::Resized(80, 30));
    assert_eq!(order(&desk.press(Key::Enter)), None);
    assert!(frame(&desk).contains("has just appeared or moved"));
    desk.ms = 3_000;
    assert!(order(&desk.press(Key::Enter)).is_some(), "the words are sent at last");
}

#[test]
fn a_waiting_session_takes_no_message_and_says_so_at_the_key() {
    let mut desk = desk((80, 24));
    desk.press(Key::Down);
    desk.press(Key::Char('s'));
    assert!(desk.app.typed.is_none());
    assert_eq!(desk.notice(), "it waits for an answer: Enter goes to its ask");
    desk.press(Key::Enter);
    desk.press(Key::Char('s'));
    assert_eq!(desk.notice(), "it waits for an answer, not for a message");
    desk.press(Key::Escape);
    desk.press(Key::Char('3'));
    desk.press(Key::Tab);
    desk.press(Key::Tab);
    assert_eq!(desk.app.focus, Focus::Detail);
    assert!(!frame(&desk).contains("s send"), "{}", frame(&desk));
}

#[test]
fn a_session_that_has_ended_is_not_stopped_and_no_key_says_so() {
    let mut desk = Desk::new((80, 24));
    desk.look(&[session(OTHER, "stopped", 1, "Write docs")], Vec::new());
    assert!(!frame(&desk).contains("x stop"), "{}", frame(&desk));
    assert!(frame(&desk).contains("s send"), "a message resumes it: {}", frame(&desk));
    for (key, told) in [('x', "there is nothing to stop"), ('X', "there is no turn to end")] {
        desk.press(Key::Char(key));
        assert!(desk.app.typed.is_none());
        assert!(desk.notice().contains(told), "{}", desk.notice());
    }
}

#[test]
fn hints_at_a_settled_ask_name_only_keys_that_do_something() {
    let mut in_list = desk((80, 24));
    in_list.press(Key::Down);
    let running =
        [session(OTHER, "running", 1, "Write docs"), session(WAITING, "running", 0, "Fix it")];
    in_list.look(&running, Vec::new());
    let shown = frame(&in_list);
    assert!(shown.contains("settled: the session is running"), "{shown}");
    for wrong in ["running now", "Enter answer", "goes back to the list", "next ask"] {
        assert!(!shown.contains(wrong), "{wrong}: {shown}");
    }
    let mut in_ask = desk((80, 24));
    in_ask.press(Key::Down);
    in_ask.press(Key::Enter);
    assert_eq!(in_ask.app.focus, Focus::Ask);
    in_ask.look(&running, Vec::new());
    let shown = frame(&in_ask);
    assert!(shown.contains("any key goes back to the list"), "{shown}");
    for wrong in ["next ask", "j k scroll"] {
        assert!(!shown.contains(wrong), "{wrong}: {shown}");
    }
    let mut one_more = desk((80, 24));
    one_more.press(Key::Down);
    one_more.press(Key::Enter);
    one_more.look(&running, vec![ask(SECOND, OTHER, "npm test")]);
    assert!(frame(&one_more).contains("n to the next ask"));
}

#[test]
fn without_a_session_no_key_for_sessions_is_offered() {
    let mut desk = Desk::new((80, 24));
    desk.look(&[], Vec::new());
    let footer = frame(&desk).lines().last().unwrap_or_default().to_owned();
    assert!(footer.contains("H history") && footer.contains("q quit"), "{footer}");
    for wrong in ["Enter", "1-5", "send", "stop"] {
        assert!(!footer.contains(wrong), "{footer}");
    }
}

#[test]
fn the_help_page_is_scrolled_by_every_key_that_it_names_and_stops_at_its_end() {
    let mut desk = desk((80, 12));
    desk.press(Key::Char('?'));
    for key in [Key::Char('G'), Key::End] {
        desk.press(key);
        assert!(frame(&desk).contains("Ctrl-Z suspends"), "{key:?}");
        desk.press(Key::PageDown);
        desk.press(Key::Up);
        assert!(!frame(&desk).contains("Ctrl-Z suspends"), "one line up is seen");
    }
    for key in [Key::Char('g'), Key::Home] {
        desk.press(Key::Char('G'));
        desk.press(key);
        assert!(frame(&desk).contains("Keys of agentctl top"), "{key:?}");
    }
    desk.press(Key::Char('x'));
    assert!(desk.app.help.is_none() && desk.app.typed.is_none());
}

#[test]
fn a_question_before_a_stop_fits_60_columns_with_its_id() {
    let mut desk = Desk::new((60, 20));
    let mut named = session(OTHER, "running", 1, "Write docs");
    named.name = Some("a-rather-long-name-that-somebody-gave-it".into());
    desk.look(&[named], Vec::new());
    for key in ['x', 'X'] {
        desk.press(Key::Char(key));
        let shown = frame(&desk);
        let line = shown.lines().last().unwrap_or_default();
        assert!(line.contains("77aa01c2") && line.ends_with("any other key cancels"), "{line}");
        desk.press(Key::Char('n'));
    }
}

#[test]
fn the_tree_is_named_with_all_that_it_places() {
    let mut desk = desk((80, 24));
    desk.press(Key::Char('t'));
    assert_eq!(desk.notice(), "subagents are listed, and launched sessions below their launcher");
    desk.press(Key::Char('t'));
    assert_eq!(desk.notice(), "subagents are hidden");
}

#[test]
fn escape_and_the_key_behind_it_are_two_keys_unless_a_text_is_typed() {
    let mut desk = desk((80, 24));
    desk.type_keys("/docs");
    desk.press(Key::Enter);
    desk.tell(Message::AfterEscape(Key::Char('/')));
    desk.type_keys("shop");
    assert_eq!(desk.app.list.filter.text, "shop", "the filter before was cleared");
    desk.press(Key::Escape);
    desk.type_keys("shello");
    for key in [Key::Backspace, Key::Char('b'), Key::Enter] {
        let actions = desk.tell(Message::AfterEscape(key));
        assert_eq!(order(&actions), None);
        assert!(desk.notice().contains("with Alt"), "{}", desk.notice());
    }
    assert_eq!(desk.app.typed.as_ref().map(|typed| typed.text.as_str()), Some("hello"));
    desk.press(Key::Escape);
    desk.press(Key::Char('x'));
    let actions = desk.tell(Message::AfterEscape(Key::Char('y')));
    assert_eq!((order(&actions), desk.app.typed.is_none()), (None, true), "Escape cancels first");
}

#[test]
fn a_key_behind_escape_answers_no_ask() {
    let mut desk = desk((80, 24));
    desk.press(Key::Char('n'));
    desk.press(Key::Enter);
    desk.ms += 1_000;
    assert_eq!(desk.app.focus, Focus::Ask);
    for key in ['a', 'A', 'd'] {
        let actions = desk.tell(Message::AfterEscape(Key::Char(key)));
        assert_eq!((order(&actions), desk.app.focus), (None, Focus::List), "{key}");
        desk.press(Key::Enter);
        desk.ms += 1_000;
        assert_eq!(desk.app.focus, Focus::Ask);
    }
}
