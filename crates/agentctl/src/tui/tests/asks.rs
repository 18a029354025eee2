//! The guards before an answer.

use agentctl_core::model::{Reply, Session, Status};
use serde_json::json;

use super::frames::frame;
use super::{Desk, OTHER, WAITING, ask, session};
use crate::tui::app::{Action, FailedOrder, Message, Order, OrderResult, Settlement};
use crate::tui::keys::{Focus, Key};

const FIRST: &str = "a7f319c200000000a7f319c200000000";
const SECOND: &str = "0c41d27e000000000c41d27e00000000";

fn answers(actions: &[Action]) -> Vec<Reply> {
    let reply = |action: &Action| match action {
        Action::Order(Order::Answer { reply, .. }) => Some(reply.clone()),
        _ => None,
    };
    actions.iter().filter_map(reply).collect()
}

/// A waiting session with one ask that was shown at 0 ms, and the focus on it at 1,000 ms.
fn desk(command: &str) -> Desk {
    let mut desk = Desk::new((80, 24));
    desk.look(&[session(WAITING, "waiting", 1, "Fix it")], vec![ask(FIRST, WAITING, command)]);
    desk.ms = 1_000;
    desk.press(Key::Tab);
    assert_eq!(desk.app.focus, Focus::Ask);
    desk
}

#[test]
fn each_key_gives_its_decision_to_the_ask_that_is_shown() {
    for (key, reply) in [
        ('a', Reply::Allow),
        ('d', Reply::Deny { message: None }),
        ('A', Reply::Always("always:1".into())),
    ] {
        let mut desk = desk("npm test");
        let actions = desk.press(Key::Char(key));
        let order = Order::Answer { ask: FIRST.into(), reply };
        assert!(actions.contains(&Action::Order(order)), "{key}: {actions:?}");
        assert!(answers(&desk.press(Key::Char(key))).is_empty(), "it is delivered once");
    }
}

#[test]
fn a_key_answers_only_while_the_ask_has_the_focus() {
    let mut desk = desk("npm test");
    desk.press(Key::Escape);
    assert_eq!(desk.app.focus, Focus::List);
    for key in "adAm19".chars() {
        assert!(answers(&desk.press(Key::Char(key))).is_empty(), "{key}");
    }
    desk.press(Key::Enter);
    assert_eq!(desk.app.focus, Focus::Ask, "Enter on a waiting row goes to its ask");
}

#[test]
fn a_key_within_half_a_second_of_the_ask_answers_nothing() {
    let mut desk = Desk::new((80, 24));
    desk.ms = 5_000;
    desk.look(&[session(WAITING, "waiting", 1, "Fix it")], vec![ask(FIRST, WAITING, "npm test")]);
    desk.press(Key::Enter);
    for ms in [5_000, 5_300, 5_499] {
        desk.ms = ms;
        assert!(answers(&desk.press(Key::Char('a'))).is_empty(), "{ms}");
        assert!(desk.notice().contains("just appeared"), "{}", desk.notice());
    }
    desk.ms = 5_500;
    assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow]);
}

#[test]
fn an_ask_that_moves_is_like_one_that_appears() {
    let mut desk = desk("npm test");
    desk.ms = 9_000;
    desk.tell(Message::Resized(80, 30));
    desk.ms = 9_100;
    assert!(answers(&desk.press(Key::Char('a'))).is_empty());
    desk.ms = 9_500;
    assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow]);
}

fn two_waiting() -> [Session; 2] {
    [session(WAITING, "waiting", 1, "first"), session(OTHER, "waiting", 2, "second")]
}

/// Two sessions that ask; the ask of the first one has the focus.
fn desk_of_two_asks() -> Desk {
    let mut desk = Desk::new((80, 24));
    let asks = vec![ask(FIRST, WAITING, "npm test"), ask(SECOND, OTHER, "rm -r build")];
    desk.look(&two_waiting(), asks);
    desk.ms = 1_000;
    desk.press(Key::Enter);
    desk
}

#[test]
fn the_next_ask_begins_its_own_half_second() {
    let mut desk = desk_of_two_asks();
    desk.press(Key::Char('n'));
    assert_eq!(desk.app.ask.as_ref().map(|shown| shown.ask.id.as_str()), Some(SECOND));
    assert!(answers(&desk.press(Key::Char('a'))).is_empty());
    desk.ms = 1_500;
    let actions = desk.press(Key::Char('a'));
    let order = Order::Answer { ask: SECOND.into(), reply: Reply::Allow };
    assert!(actions.contains(&Action::Order(order)), "{actions:?}");
}

#[test]
fn a_long_ask_is_allowed_only_after_its_end_was_shown_and_denied_at_any_time() {
    let long = (0..200).map(|line| format!("echo {line}")).collect::<Vec<_>>().join("\n");
    let mut first = desk(&long);
    for key in ['a', 'A'] {
        assert!(answers(&first.press(Key::Char(key))).is_empty());
        assert!(first.notice().contains("goes on below"), "{}", first.notice());
    }
    first.press(Key::Char('G'));
    assert_eq!(answers(&first.press(Key::Char('a'))), [Reply::Allow]);
    let mut second = desk(&long);
    assert_eq!(answers(&second.press(Key::Char('d'))), [Reply::Deny { message: None }]);
}

/// An ask that was read may be allowed on a small screen too, which still says that it goes on.
#[test]
fn an_ask_that_is_cut_off_says_so_also_after_it_was_read() {
    let long = (0..12).map(|line| format!("echo {line}")).collect::<Vec<_>>().join("\n");
    let mut desk = desk(&long);
    desk.tell(Message::Resized(80, 50));
    assert!(!frame(&desk).contains("more below"), "{}", frame(&desk));
    desk.tell(Message::Resized(80, 14));
    assert!(frame(&desk).contains("more below"), "{}", frame(&desk));
    desk.press(Key::Char('G'));
    assert!(!frame(&desk).contains("more below"), "{}", frame(&desk));
    desk.press(Key::Char('g'));
    assert!(frame(&desk).contains("more below"), "{}", frame(&desk));
    desk.ms = 9_000;
    assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow]);
}

#[test]
fn a_settled_ask_stays_until_a_key_and_the_key_does_nothing_else() {
    let mut desk = desk("npm test");
    let running = [session(WAITING, "running", 0, "Fix it")];
    desk.look(&running, Vec::new());
    let settled = |desk: &Desk| desk.app.ask.as_ref().and_then(|shown| shown.settled);
    assert_eq!(settled(&desk), Some(Settlement::Elsewhere(Some(Status::Running))));
    // The next ask of the same session does not slide under the finger.
    let next = vec![ask(SECOND, WAITING, "rm -r build")];
    desk.look(&[session(WAITING, "waiting", 0, "Fix it")], next);
    assert_eq!(settled(&desk), Some(Settlement::Elsewhere(Some(Status::Waiting))));
    desk.ms = 60_000;
    desk.press(Key::Char('x'));
    assert!(desk.app.typed.is_none(), "no stop is asked for");
    assert_eq!(desk.app.ask.as_ref().map(|shown| shown.ask.id.as_str()), Some(SECOND));
    desk.ms = 61_000;
    assert!(answers(&desk.press(Key::Char('a'))).is_empty(), "the list has the focus");
    desk.press(Key::Enter);
    assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow]);
}

#[test]
fn a_filter_that_selects_another_session_takes_the_focus_from_its_ask() {
    let mut desk = desk_of_two_asks();
    desk.type_keys("/second");
    desk.press(Key::Enter);
    assert_eq!(desk.app.ask.as_ref().map(|shown| shown.ask.id.as_str()), Some(SECOND));
    desk.ms = 60_000;
    assert!(answers(&desk.press(Key::Char('a'))).is_empty());
    assert_eq!(desk.app.focus, Focus::List);
}

#[test]
fn n_goes_from_a_settled_ask_to_the_next_one_and_keeps_the_focus() {
    let mut desk = desk_of_two_asks();
    desk.look(&two_waiting(), vec![ask(SECOND, OTHER, "rm -r build")]);
    desk.press(Key::Char('n'));
    assert_eq!(desk.app.ask.as_ref().map(|shown| shown.ask.id.as_str()), Some(SECOND));
    desk.ms = 60_000;
    assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow]);
}

#[test]
fn asks_are_walked_through_in_the_order_of_their_numbers_also_after_an_answer() {
    const THIRD: &str = "01a1dedb-0000-4000-8000-000000000003";
    const LAST: &str = "5d5d5d5d000000005d5d5d5d00000000";
    let rows = [
        session(THIRD, "waiting", 0, "third"),
        session(OTHER, "waiting", 1, "second"),
        session(WAITING, "waiting", 2, "first"),
    ];
    let mut third = ask(LAST, THIRD, "make");
    third.adapter = "codex";
    let asks = [ask(FIRST, WAITING, "npm test"), ask(SECOND, OTHER, "rm -r build"), third];
    let mut desk = Desk::new((80, 24));
    desk.look(&rows, asks.to_vec());
    let shown = |desk: &Desk| desk.app.ask.as_ref().map(|shown| shown.ask.id.clone());
    assert_eq!(shown(&desk).as_deref(), Some(LAST), "the first row is selected");
    let place = |desk: &Desk, words: &str| frame(desk).contains(words);
    assert!(place(&desk, "3 of 3"), "{}", frame(&desk));
    for (key, id) in [('n', FIRST), ('n', SECOND), ('N', FIRST), ('n', SECOND)] {
        desk.press(Key::Char(key));
        assert_eq!(shown(&desk).as_deref(), Some(id));
    }
    // The second of three is settled: the next one is the third, and the one before is the first.
    for (key, id) in [('n', LAST), ('N', FIRST)] {
        let mut desk = Desk::new((80, 24));
        desk.look(&rows, asks.to_vec());
        desk.type_keys("nn");
        desk.look(&rows, vec![asks[0].clone(), asks[2].clone()]);
        desk.press(Key::Char(key));
        assert_eq!(shown(&desk).as_deref(), Some(id), "{key}");
    }
}

#[test]
fn a_rule_that_does_not_fit_beside_its_key_is_shown_whole() {
    let sessions = [session(WAITING, "waiting", 1, "first")];
    let mut desk = Desk::new((80, 24));
    let mut long = ask(FIRST, WAITING, "npm test");
    let rule = format!("Bash({}end:*)", "npm test ".repeat(40));
    for choice in &mut long.choices {
        if choice.key.starts_with("always:") {
            choice.rule = Some(rule.clone());
        }
    }
    desk.look(&sessions, vec![long]);
    let shown = desk.app.ask.as_ref().expect("an ask");
    let text: String = shown.lines.iter().map(|line| line.text.as_str()).collect();
    assert!(text.contains(&rule), "{text}");
}

/// On a few lines the keys have fewer lines than words, and the rule would be stored unseen.
#[test]
fn a_rule_whose_key_is_not_drawn_must_be_read_at_the_end_of_the_ask() {
    let mut desk = Desk::new((40, 6));
    desk.look(&[session(WAITING, "waiting", 1, "Fix it")], vec![ask(FIRST, WAITING, "ls")]);
    desk.press(Key::Enter);
    desk.ms = 9_000;
    let rule = "A always: Bash(npm test:*)";
    assert!(!frame(&desk).contains(rule), "{}", frame(&desk));
    assert!(answers(&desk.press(Key::Char('A'))).is_empty());
    assert!(desk.notice().contains("goes on below"), "{}", desk.notice());
    // The one line of text shows only the end of the rule.
    desk.press(Key::Char('G'));
    assert!(!frame(&desk).contains(rule), "{}", frame(&desk));
    assert!(answers(&desk.press(Key::Char('A'))).is_empty());
    assert!(desk.notice().contains("not every line of the rule"), "{}", desk.notice());
    desk.press(Key::Char('k'));
    assert!(frame(&desk).contains(rule), "{}", frame(&desk));
    assert_eq!(answers(&desk.press(Key::Char('A'))), [Reply::Always("always:1".into())]);
}

#[test]
fn words_of_an_ask_are_broken_between_words_and_a_command_at_the_last_column() {
    let command = "npm run a-test-with-a-very-long-name -- --and --its --arguments";
    let mut ask = ask(FIRST, WAITING, command);
    ask.title = "May this test with a very long name and all its arguments run?".to_owned();
    let mut desk = Desk::new((40, 24));
    desk.look(&[session(WAITING, "waiting", 1, "x")], vec![ask]);
    let shown = desk.app.ask.as_ref().expect("an ask");
    let lines: Vec<&str> = shown.lines.iter().map(|line| line.text.trim_end()).collect();
    assert_eq!(lines[0], "permission: May this test with a very");
    let at = lines.iter().position(|line| line.starts_with("  npm")).expect("the command");
    assert_eq!(lines[at], "  npm run a-test-with-a-very-long-name");
    assert_eq!(lines[at + 1], " -- --and --its --arguments", "{lines:?}");
}

#[test]
fn a_cut_ask_with_the_focus_gets_the_lines_of_the_list_and_of_an_empty_detail() {
    let long = (0..40).map(|line| format!("echo {line}")).collect::<Vec<_>>().join("\n");
    let mut rows = vec![session(WAITING, "waiting", 1, "first")];
    rows.extend((2..9).map(|at| session(&format!("{at}{OTHER}"), "running", 1, "other")));
    for (lines, text) in [(12, 5), (14, 7), (24, 17)] {
        let mut desk = Desk::new((80, lines));
        desk.look(&rows, vec![ask(FIRST, WAITING, &long)]);
        desk.press(Key::Enter);
        let layout = desk.app.layout.expect("a layout");
        let heights = (layout.list.height, layout.bar.height, layout.ask.height);
        assert_eq!(heights, (1, 0, text), "{}", frame(&desk));
        assert!(frame(&desk).contains("▸ ! waiting"), "{}", frame(&desk));
    }
}

#[test]
fn an_ask_without_the_focus_is_shown_from_its_beginning() {
    let long = (0..40).map(|line| format!("echo {line}.")).collect::<Vec<_>>().join("\n");
    for back in [Key::Escape, Key::Tab] {
        let mut desk = desk(&long);
        desk.press(Key::Char('G'));
        assert!(!frame(&desk).contains("echo 0."), "{}", frame(&desk));
        desk.press(back);
        assert!(frame(&desk).contains("echo 0."), "{}", frame(&desk));
        desk.press(Key::BackTab);
        desk.press(if back == Key::Escape { Key::BackTab } else { Key::Up });
        assert_eq!(desk.app.focus, Focus::Ask);
        assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow], "it was read");
    }
}

#[test]
fn a_refusal_belongs_to_its_ask_and_the_ask_stays_open() {
    let mut desk = desk("npm test");
    desk.press(Key::Char('a'));
    let order = Order::Answer { ask: FIRST.into(), reply: Reply::Allow };
    let lines = vec!["error: agents may not answer".to_owned()];
    let lines = Err(FailedOrder { lines, is_unclear: false });
    desk.tell(Message::Done(OrderResult { order, lines }));
    assert_eq!(desk.notice(), "error: agents may not answer");
    // Its keys are shown again, which moves it.
    desk.ms = 2_000;
    assert_eq!(answers(&desk.press(Key::Char('d'))), [Reply::Deny { message: None }]);
}

#[test]
fn an_answer_that_may_have_arrived_is_not_called_refused() {
    for (is_unclear, said) in [
        (true, "settled: it is not known whether by this answer"),
        (false, "settled otherwise: this answer was not taken"),
    ] {
        let mut desk = desk("npm test");
        desk.press(Key::Char('a'));
        desk.look(&[session(WAITING, "running", 0, "Fix it")], Vec::new());
        let order = Order::Answer { ask: FIRST.into(), reply: Reply::Allow };
        let lines = vec!["error: the socket was closed".to_owned()];
        let lines = Err(FailedOrder { lines, is_unclear });
        desk.tell(Message::Done(OrderResult { order, lines }));
        let settled = desk.app.ask.as_ref().and_then(|shown| shown.settled);
        assert_eq!(settled.map(Settlement::sentence).as_deref(), Some(said));
    }
}

#[test]
fn words_of_a_denial_go_to_the_ask_they_were_typed_for() {
    let mut first = desk("npm test");
    first.press(Key::Char('m'));
    first.type_keys("use pnpm");
    let actions = first.press(Key::Enter);
    assert_eq!(answers(&actions), [Reply::Deny { message: Some("use pnpm".into()) }]);
    // The ask is settled while the words are typed.
    let mut second = desk("npm test");
    second.press(Key::Char('m'));
    second.type_keys("use");
    second.look(&[session(WAITING, "running", 0, "Fix it")], Vec::new());
    assert!(answers(&second.press(Key::Enter)).is_empty());
}

#[test]
fn digits_choose_options_of_a_question() {
    let mut question = serde_json::to_value(ask(FIRST, WAITING, "")).expect("JSON");
    let options = json!([{"label": "Red", "about": null}, {"label": "Blue", "about": null}]);
    question["kind"] = json!("question");
    question["choices"] = json!([]);
    question["parts"] = json!([]);
    question["fields"] = json!([{"id": "colour", "header": null, "text": "Which?",
        "options": options, "many": false, "free_text": true, "secret": false}]);
    let question: agentctl_core::model::Ask = serde_json::from_value(question).expect("an ask");
    let desk = || {
        let mut desk = Desk::new((80, 24));
        desk.look(&[session(WAITING, "waiting", 1, "x")], vec![question.clone()]);
        desk.ms = 1_000;
        desk.press(Key::Enter);
        desk
    };
    let values = |actions: &[Action]| match answers(actions).as_slice() {
        [Reply::Fields(fields)] => fields[0].values.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(values(&desk().press(Key::Char('2'))), ["Blue"]);
    assert!(answers(&desk().press(Key::Char('3'))).is_empty(), "there is no third option");
    assert!(answers(&desk().press(Key::Char('a'))).is_empty(), "a question takes no allow");
    let mut typed = desk();
    typed.press(Key::Char('m'));
    typed.type_keys("green, a bit");
    assert_eq!(values(&typed.press(Key::Enter)), ["green, a bit"]);
}

#[test]
fn pasted_text_answers_nothing() {
    let mut desk = desk("npm test");
    assert!(answers(&desk.tell(Message::Paste("aaaa\ny".into()))).is_empty());
    desk.press(Key::Char('x'));
    assert!(
        !desk
            .tell(Message::Paste("y".into()))
            .iter()
            .any(|action| matches!(action, Action::Order(_)))
    );
}

#[test]
fn changes_of_an_open_ask_are_shown_and_other_choices_are_like_another_ask() {
    let waiting = [session(WAITING, "waiting", 1, "Fix it")];
    let mut desk = desk("npm test");
    let mut changed = ask(FIRST, WAITING, "npm test");
    (changed.via, changed.why_not) = (None, Some("the prompt is on another screen".into()));
    desk.look(&waiting, vec![changed.clone()]);
    desk.ms = 2_000;
    assert!(answers(&desk.press(Key::Char('a'))).is_empty());
    let shown = desk.app.ask.as_ref().expect("an ask");
    assert_eq!(shown.ask.why_not, changed.why_not);
    assert!(shown.lines.iter().any(|line| line.text.contains("another screen")));
    // A change of the time alone needs no pause.
    let mut desk = self::desk("npm test");
    let mut later = ask(FIRST, WAITING, "npm test");
    later.since = later.since.and_then(|t| agentctl_core::model::Time::from_millis(t.millis() + 1));
    desk.look(&waiting, vec![later]);
    assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow]);
    // Without its rule the same key would mean something else.
    let mut desk = self::desk("npm test");
    let mut fewer = ask(FIRST, WAITING, "npm test");
    fewer.choices.truncate(2);
    desk.look(&waiting, vec![fewer]);
    assert!(answers(&desk.press(Key::Char('a'))).is_empty());
    assert!(desk.notice().contains("just appeared"), "{}", desk.notice());
    desk.ms = 1_500;
    assert!(answers(&desk.press(Key::Char('A'))).is_empty(), "the rule is not offered any more");
    assert_eq!(answers(&desk.press(Key::Char('a'))), [Reply::Allow]);
}
