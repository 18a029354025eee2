//! Answers to questions: options by their number, words as they stand, and several questions in one ask.

use agentctl_core::model::{Ask, AskField, FieldAnswer, Reply};

use super::{Desk, WAITING, ask, session};
use crate::tui::app::{Action, FailedOrder, Message, Order, OrderResult};
use crate::tui::keys::{Focus, Key};

const ASK: &str = "a7f319c200000000a7f319c200000000";

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

fn words(desk: &mut Desk, text: &str) -> Vec<Action> {
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
fn an_option_is_delivered_by_its_place_also_if_its_label_is_a_number() {
    let mut desk = desk(vec![field("first", &["3", "2", "1"]), field("second", &["2", "1"])]);
    assert_eq!(reply(&desk.press(Key::Char('1'))), None);
    let expected = answers(&[("first", &["3"]), ("second", &["1"])]);
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
    assert_eq!(key_line(&desk), "question 2 of 3:   m answer in words");
    desk.press(Key::Char('1'));
    assert!(desk.notice().contains("no options"), "{}", desk.notice());
    assert_eq!(reply(&words(&mut desk, "2")), None);
    assert_eq!(key_line(&desk), "question 3 of 3:   1-2 option");
    let expected = answers(&[("first", &["a", "c"]), ("second", &["2"]), ("last", &["y"])]);
    assert_eq!(given(&desk.press(Key::Char('2'))), expected);
}

#[test]
fn a_refused_answer_keeps_the_answers_to_the_earlier_questions() {
    let mut desk = desk(vec![field("first", &["a", "b"]), field("second", &["c", "d"])]);
    desk.press(Key::Char('2'));
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
    desk.type_keys("21");
    let expected = answers(&[("first", &["3", "1"]), ("second", &["b", "a"])]);
    assert_eq!(given(&desk.press(Key::Enter)), expected);
}
