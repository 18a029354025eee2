//! Answers to questions: options by their number, words as they stand, and several questions in one ask.

use agentctl_core::model::{Ask, AskChoice, AskField, AskScope, FieldAnswer, Reply};

use super::frames::frame;
use super::{Desk, WAITING, ask, session};
use crate::tui::app::{Action, FailedOrder, Message, Order, OrderResult};
use crate::tui::keys::{Focus, Key};

const ASK: &str = "a7f319c200000000a7f319c200000000";

const TWELVE: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];

fn field(id: &str, options: &[&str]) -> AskField {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    AskField { free_text: true, ..AskField::question(id, format!("{id}?"), options) }
}

fn many(id: &str, options: &[&str]) -> AskField {
    AskField { many: true, ..field(id, options) }
}

fn question(fields: Vec<AskField>) -> Ask {
    let mut ask = ask(ASK, WAITING, "");
    ask.kind = agentctl_core::model::AskKind::Question;
    ask.title = "Some questions".to_owned();
    ask.parts.clear();
    ask.choices.clear();
    ask.fields = fields;
    ask
}

/// A session that asks; the ask has had the focus for long enough.
fn desk_of(ask: &Ask, size: (u16, u16)) -> Desk {
    let mut desk = Desk::new(size);
    desk.look(&[session(WAITING, "waiting", 1, "Fix it")], vec![ask.clone()]);
    desk.ms = 1_000;
    desk.press(Key::Enter);
    assert_eq!(desk.app.focus, Focus::Ask);
    desk
}

fn desk(fields: Vec<AskField>) -> Desk {
    desk_of(&question(fields), (80, 40))
}

fn reply(actions: &[Action]) -> Option<Reply> {
    actions.iter().find_map(|action| match action {
        Action::Order(Order::Answer { reply, .. }) => Some(reply.clone()),
        _ => None,
    })
}

/// Returns the answers to the questions that were delivered, each with the id of its question.
#[track_caller]
fn given(actions: &[Action]) -> Vec<(String, Vec<String>)> {
    let Some(Reply::Fields(fields)) = reply(actions) else { panic!("no answer: {actions:?}") };
    fields.into_iter().map(|FieldAnswer { field, values }| (field, values)).collect()
}

fn answers(expected: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let own = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    expected.iter().map(|(field, values)| ((*field).to_owned(), own(values))).collect()
}

/// Lets the pause pass that each question begins.
fn read(desk: &mut Desk) {
    desk.ms += 1_000;
}

fn words(desk: &mut Desk, text: &str) -> Vec<Action> {
    read(desk);
    desk.press(Key::Char('m'));
    desk.type_keys(text);
    desk.press(Key::Enter)
}

fn refuse(desk: &mut Desk, actions: &[Action]) {
    let order = actions.iter().find_map(|action| match action {
        Action::Order(order) => Some(order.clone()),
        _ => None,
    });
    let lines = vec!["error: another answer is being delivered".to_owned()];
    let lines = Err(FailedOrder { lines, is_unclear: false });
    desk.tell(Message::Done(OrderResult { order: order.expect("an order"), lines }));
    desk.ms += 1_000;
}

fn key_line(desk: &Desk) -> String {
    desk.app.ask_key_lines(78).join(" ")
}

#[test]
fn with_ten_options_a_digit_begins_a_number_and_enter_sends_it() {
    let mut twelve = desk(vec![field("number", &TWELVE)]);
    assert_eq!(reply(&twelve.press(Key::Char('1'))), None, "it may go on: 10, 11, 12");
    assert!(frame(&twelve).contains("option 1-12, Enter chooses: 1"), "{}", frame(&twelve));
    twelve.press(Key::Char('2'));
    assert_eq!(given(&twelve.press(Key::Enter)), answers(&[("number", &["twelve"])]));
    let mut one = desk(vec![field("number", &TWELVE)]);
    one.press(Key::Char('1'));
    assert_eq!(given(&one.press(Key::Enter)), answers(&[("number", &["one"])]));
    let mut nine = desk(vec![field("number", &TWELVE[..9])]);
    assert_eq!(given(&nine.press(Key::Char('1'))), answers(&[("number", &["one"])]));
}

#[test]
fn a_number_that_is_no_option_is_typed_on_and_escape_answers_nothing() {
    let mut desk = desk(vec![field("number", &TWELVE)]);
    for wrong in ["13", "1x", "1,2", "184467440737095516160"] {
        assert_eq!(reply(&desk.type_keys(wrong)), None);
        assert_eq!(reply(&desk.press(Key::Enter)), None, "{wrong}");
        assert!(desk.notice().contains("there is no option"), "{}", desk.notice());
        assert!(desk.app.typed.is_some(), "{wrong} can be changed");
        desk.press(Key::Escape);
        assert!(desk.app.typed.is_none());
    }
    desk.type_keys("13");
    desk.press(Key::Enter);
    desk.press(Key::Backspace);
    desk.press(Key::Char('1'));
    assert_eq!(given(&desk.press(Key::Enter)), answers(&[("number", &["eleven"])]));
}

#[test]
fn the_guards_hold_before_a_number_is_typed_and_before_it_is_sent() {
    let ask = question(vec![field("number", &TWELVE)]);
    let mut desk = Desk::new((80, 40));
    desk.look(&[session(WAITING, "waiting", 1, "Fix it")], vec![ask.clone()]);
    desk.press(Key::Char('7'));
    assert!(desk.app.typed.is_none(), "the list has the focus");
    desk.press(Key::Enter);
    desk.press(Key::Char('7'));
    assert!(desk.app.typed.is_none(), "the ask has just appeared");
    desk.ms = 1_000;
    desk.type_keys("12");
    desk.tell(Message::Resized(80, 36));
    assert_eq!(reply(&desk.press(Key::Enter)), None, "the ask has moved");
    assert!(desk.notice().contains("just appeared"), "{}", desk.notice());
    desk.ms = 3_000;
    assert_eq!(given(&desk.press(Key::Enter)), answers(&[("number", &["twelve"])]));
    // The ask is settled while the number is typed.
    let mut settled = desk_of(&ask, (80, 40));
    settled.type_keys("12");
    settled.look(&[session(WAITING, "running", 0, "Fix it")], Vec::new());
    assert_eq!(reply(&settled.press(Key::Enter)), None);
    // The end of the ask has not been shown.
    let mut unread = desk_of(&ask, (80, 12));
    unread.press(Key::Char('1'));
    assert!(unread.app.typed.is_none(), "{}", frame(&unread));
    assert!(unread.notice().contains("goes on below"), "{}", unread.notice());
}

#[test]
fn with_ten_rules_a_digit_begins_a_number_too() {
    let mut many_rules = ask(ASK, WAITING, "npm test");
    let rule = |number| AskChoice::always(number, format!("rule {number}"), AskScope::Session);
    many_rules.choices = (1..=11).map(rule).collect();
    let mut desk = desk_of(&many_rules, (80, 50));
    assert_eq!(reply(&desk.press(Key::Char('1'))), None);
    assert!(frame(&desk).contains("rule 1-11, Enter allows always: 1"), "{}", frame(&desk));
    desk.press(Key::Char('1'));
    assert_eq!(reply(&desk.press(Key::Enter)), Some(Reply::Always("always:11".into())));
    many_rules.choices.truncate(9);
    let mut nine = desk_of(&many_rules, (80, 50));
    assert_eq!(reply(&nine.press(Key::Char('1'))), Some(Reply::Always("always:1".into())));
}

#[test]
fn numbers_of_two_digits_mark_options_where_several_may_be_chosen() {
    let mut desk = desk(vec![many("numbers", &TWELVE)]);
    for number in ["12", "3", "11", "11"] {
        desk.type_keys(number);
        assert_eq!(reply(&desk.press(Key::Enter)), None, "it is marked");
    }
    assert!(key_line(&desk).contains("chosen: 12, 3 "), "{}", key_line(&desk));
    assert_eq!(given(&desk.press(Key::Enter)), answers(&[("numbers", &["three", "twelve"])]));
}

#[test]
fn an_option_is_delivered_by_its_place_also_if_its_label_is_a_number() {
    let mut desk = desk(vec![field("first", &["3", "2", "1"]), field("second", &["2", "1"])]);
    assert_eq!(reply(&desk.press(Key::Char('1'))), None);
    read(&mut desk);
    let expected = answers(&[("first", &["3"]), ("second", &["1"])]);
    assert_eq!(given(&desk.press(Key::Char('2'))), expected);
}

#[test]
fn a_key_that_is_pressed_twice_answers_one_question() {
    let mut desk = desk(vec![field("first", &["a", "b"]), field("second", &["c", "d"])]);
    assert_eq!(reply(&desk.press(Key::Char('1'))), None);
    assert_eq!(reply(&desk.press(Key::Char('1'))), None, "the next question has just appeared");
    assert!(desk.notice().contains("just appeared"), "{}", desk.notice());
    assert!(key_line(&desk).starts_with("question 2 of 2:"), "{}", key_line(&desk));
    read(&mut desk);
    let expected = answers(&[("first", &["a"]), ("second", &["d"])]);
    assert_eq!(given(&desk.press(Key::Char('2'))), expected);
}

#[test]
fn words_are_delivered_as_they_stand_also_if_they_are_a_number() {
    for text in ["2", "8080", "0", "1=x"] {
        let mut desk = desk(vec![field("first", &["a", "b"]), field("second", &["c", "d"])]);
        assert_eq!(reply(&words(&mut desk, text)), None);
        let expected = answers(&[("first", &[text]), ("second", &[text])]);
        assert_eq!(given(&words(&mut desk, text)), expected);
        let mut single = self::desk(vec![field("only", &["a", "b"])]);
        assert_eq!(given(&words(&mut single, text)), answers(&[("only", &[text])]));
    }
}

#[test]
fn blank_words_answer_no_question() {
    let mut desk = desk(vec![field("first", &[]), field("second", &[])]);
    for blank in ["", "  "] {
        words(&mut desk, blank);
        assert!(desk.notice().contains("is empty"), "{}", desk.notice());
    }
    assert_eq!(reply(&words(&mut desk, "x")), None, "the first question was still open");
    let expected = answers(&[("first", &["x"]), ("second", &["y"])]);
    assert_eq!(given(&words(&mut desk, "y")), expected);
}

#[test]
fn the_keys_are_those_of_the_question_that_is_answered_next() {
    let closed = AskField { free_text: false, ..field("last", &["x", "y"]) };
    let mut desk = desk(vec![many("first", &["a", "b", "c"]), field("second", &[]), closed]);
    let keys = "question 1 of 3:   1-3 option, Enter goes on   m answer in words";
    assert_eq!(key_line(&desk), keys);
    desk.type_keys("31");
    assert!(key_line(&desk).contains("chosen: 3, 1 (Enter goes on)"), "{}", key_line(&desk));
    assert_eq!(reply(&desk.press(Key::Enter)), None);
    assert_eq!(key_line(&desk), "question 2 of 3:   m answer in words   u question before");
    read(&mut desk);
    desk.press(Key::Char('1'));
    assert!(desk.notice().contains("no options"), "{}", desk.notice());
    assert_eq!(reply(&words(&mut desk, "2")), None);
    assert_eq!(key_line(&desk), "question 3 of 3:   1-2 option   u question before");
    read(&mut desk);
    let expected = answers(&[("first", &["a", "c"]), ("second", &["2"]), ("last", &["y"])]);
    assert_eq!(given(&desk.press(Key::Char('2'))), expected);
}

#[test]
fn a_refused_answer_keeps_the_answers_to_the_earlier_questions() {
    let mut desk = desk(vec![field("first", &["a", "b"]), field("second", &["c", "d"])]);
    desk.press(Key::Char('2'));
    read(&mut desk);
    let delivered = desk.press(Key::Char('1'));
    assert_eq!(given(&delivered), answers(&[("first", &["b"]), ("second", &["c"])]));
    refuse(&mut desk, &delivered);
    assert!(key_line(&desk).starts_with("question 2 of 2:"), "{}", key_line(&desk));
    let again = desk.press(Key::Char('2'));
    assert_eq!(given(&again), answers(&[("first", &["b"]), ("second", &["d"])]));
}

#[test]
fn several_options_of_several_questions_are_delivered_in_their_order() {
    let mut desk = desk(vec![many("first", &["3", "2", "1"]), many("second", &["b", "a"])]);
    desk.type_keys("31");
    assert_eq!(reply(&desk.press(Key::Enter)), None);
    read(&mut desk);
    desk.type_keys("21");
    let expected = answers(&[("first", &["3", "1"]), ("second", &["b", "a"])]);
    assert_eq!(given(&desk.press(Key::Enter)), expected);
}

#[test]
fn the_question_before_is_answered_again() {
    let mut desk =
        desk(vec![field("one", &["a", "b"]), many("two", &["c", "d"]), field("three", &["e"])]);
    desk.press(Key::Char('u'));
    assert_eq!(desk.notice(), "there is no question before this one");
    assert!(!key_line(&desk).contains("question before"), "{}", key_line(&desk));
    desk.press(Key::Char('1'));
    read(&mut desk);
    desk.press(Key::Char('2'));
    assert!(key_line(&desk).contains("u question before"), "{}", key_line(&desk));
    desk.press(Key::Char('u'));
    assert!(key_line(&desk).contains("question 1 of 3"), "{}", key_line(&desk));
    desk.press(Key::Char('2'));
    assert!(desk.notice().contains("just appeared"), "the pause counts again: {}", desk.notice());
    read(&mut desk);
    desk.press(Key::Char('2'));
    read(&mut desk);
    // The option that was chosen before is not chosen any more.
    desk.press(Key::Char('1'));
    desk.press(Key::Enter);
    read(&mut desk);
    let actions = desk.press(Key::Char('1'));
    let expected: [(&str, &[&str]); 3] = [("one", &["b"]), ("two", &["c"]), ("three", &["e"])];
    assert_eq!(given(&actions), answers(&expected));
    desk.press(Key::Char('u'));
    assert_eq!(desk.notice(), "an answer is being delivered");
    refuse(&mut desk, &actions);
    desk.press(Key::Char('u'));
    assert!(key_line(&desk).contains("question 2 of 3"), "{}", key_line(&desk));
}

#[test]
fn a_settled_ask_that_is_cut_says_so() {
    let ask = question(vec![field("number", &TWELVE)]);
    for size in [(120, 20), (80, 20), (60, 15)] {
        for status in ["running", "waiting", "idle"] {
            let mut desk = Desk::new(size);
            desk.look(&[session(WAITING, "waiting", 1, "Fix it")], vec![ask.clone()]);
            assert!(frame(&desk).contains("more below"), "{}", frame(&desk));
            desk.look(&[session(WAITING, status, 1, "Fix it")], Vec::new());
            let settled = frame(&desk);
            assert!(settled.contains(&format!("settled: the session is {status}")), "{settled}");
            assert!(settled.contains("more below"), "{settled}");
        }
    }
    let mut whole = Desk::new((80, 50));
    whole.look(&[session(WAITING, "waiting", 1, "Fix it")], vec![ask]);
    whole.look(&[session(WAITING, "running", 1, "Fix it")], Vec::new());
    assert!(!frame(&whole).contains("more below"), "{}", frame(&whole));
}

/// The longest sentences leave no room for the words on a narrow screen.
#[test]
fn a_settled_ask_that_is_cut_says_so_on_60_columns_after_each_end() {
    let ask = question(vec![AskField { many: true, ..field("number", &TWELVE) }]);
    for is_unclear in [false, true] {
        let mut desk = desk_of(&ask, (60, 15));
        desk.press(Key::Char('G'));
        let actions = words(&mut desk, "thirteen");
        desk.look(&[session(WAITING, "running", 0, "Fix it")], Vec::new());
        let order = Order::Answer { ask: ASK.into(), reply: reply(&actions).expect("an answer") };
        let lines = Err(FailedOrder { lines: vec!["error: lost".into()], is_unclear });
        desk.tell(Message::Done(OrderResult { order, lines }));
        desk.app.ask.as_mut().expect("a settled ask").first = 0;
        let shown = frame(&desk);
        let bar = shown.lines().find(|line| line.contains("settled")).unwrap_or_default();
        assert!(bar.contains("more below") || bar.contains('↓'), "{shown}");
    }
}
