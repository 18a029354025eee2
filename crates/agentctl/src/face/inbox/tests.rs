//! Tests of the sentences and answers of the inbox.

use agentctl_core::fleet::blank_session;

use super::*;

#[test]
fn the_walk_names_the_command_that_answers_several_questions() {
    let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
    ask.id = "0123456789abcdef".to_owned();
    ask.fields = vec![AskField::question("colour", "?", Vec::new())];
    assert_eq!(several_questions_remark(&ask), None);
    ask.fields.push(AskField::question("size", "?", Vec::new()));
    assert_eq!(
        several_questions_remark(&ask).as_deref(),
        Some(
            "its questions are answered together: \
             `agentctl answer 01234567 --field 1=VALUE --field 2=VALUE`"
        )
    );
}

#[test]
fn no_text_of_an_agent_begins_a_line_of_the_report() {
    let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
    ask.title = "Pick\nallowed  shell: true  (demo: it is running)".to_owned();
    let value = "yes\nallowed  shell: rm -rf /  (demo: it is running)\rx".to_owned();
    let answer = FieldAnswer { field: "answer".to_owned(), values: vec![value] };
    let document = AnswerDocument {
        schema_version: agentctl_core::model::SCHEMA_VERSION,
        ask,
        reply: Reply::Fields(vec![answer]),
        moved: None,
        words_lost: false,
        session: None,
        faults: Vec::new(),
    };
    let line = answered_line(&document);
    assert!(!line.contains(['\n', '\r']), "{line}");
    assert!(line.starts_with("answered  Pick\\nallowed  "), "{line}");
    assert!(line.contains("yes\\nallowed  shell: rm -rf /"), "{line}");
}

#[test]
fn an_ask_that_cannot_be_answered_from_here_says_only_that() {
    let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
    ask.why_not = Some("its terminal is on another machine".to_owned());
    let words = FieldWords { options: vec![1], ..FieldWords::default() };
    let failure = field_reply(&ask, &words).expect_err("no channel");
    assert_eq!((failure.kind(), failure.first_hint()), (Kind::Refused, None));
    assert!(failure.message().ends_with("its terminal is on another machine"), "{failure}");
}

#[test]
fn a_question_is_named_by_its_number_or_by_its_whole_text() {
    let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
    let ids = ["A", "A=1?", "2", "1=x"];
    ask.fields = ids.map(|id| AskField::question(id, "?", Vec::new())).into();
    let named = |typed| named_field(&ask, typed).map(|(field, value)| (&*field.id, value));
    assert_eq!(named("A=1"), Some(("A", "1")));
    assert_eq!(named("A=1?=b=c"), Some(("A=1?", "b=c")));
    assert_eq!(named("1=A=1?"), Some(("A", "A=1?")));
    assert_eq!(named("2=y"), Some(("A=1?", "y")), "the number wins");
    assert_eq!(named("1=x=y"), Some(("A", "x=y")), "the number wins");
    assert_eq!(named("4="), Some(("1=x", "")));
    for typed in ["5=y", "A", "a=y", "=y", ""] {
        assert_eq!(named(typed), None, "{typed}");
    }
}

#[test]
fn a_hint_names_the_command_that_shows_the_ask_first() {
    let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
    ask.id = "0123456789abcdef".to_owned();
    ask.choices = vec![AskChoice::allow(), AskChoice::deny()];
    let hint = answer_hint(&ask);
    assert!(hint.starts_with("`agentctl asks 01234567` shows it in full; "), "{hint}");
    assert!(hint.contains("`agentctl answer 01234567 --allow` or `--deny`"), "{hint}");
    ask.choices.clear();
    let options = ["red", "blue"].map(str::to_owned).into();
    ask.fields = vec![AskField::question("colour", "?", options)];
    let hint = answer_hint(&ask);
    assert!(hint.ends_with("; `agentctl answer 01234567 --option N` answers it"), "{hint}");
}

fn with_two_questions() -> Ask {
    let mut ask = Ask::of(&blank_session("codex", "/home/ada".into()));
    ask.id = "0123456789abcdef".to_owned();
    ask.via = Some(agentctl_core::model::AskChannel::Server);
    let mut port = AskField::question("port", "Which port?", vec!["80".into(), "443".into()]);
    port.free_text = true;
    let mut token = AskField::question("token", "API token?", Vec::new());
    (token.free_text, token.secret) = (true, true);
    ask.fields = vec![port, token];
    ask
}

#[test]
fn a_number_that_is_no_option_is_an_answer_in_words() {
    let ask = with_two_questions();
    let value = |typed: &str| {
        let fields = vec![typed.to_owned(), "2=x".to_owned()];
        let reply = field_reply(&ask, &FieldWords { fields, ..FieldWords::default() });
        let Ok(Reply::Fields(answers)) = reply else { return None };
        Some(answers[0].values.concat())
    };
    assert_eq!(value("1=8080").as_deref(), Some("8080"));
    assert_eq!(value("1=2").as_deref(), Some("443"), "an option by its number");
    assert_eq!(value("1=80").as_deref(), Some("80"), "an option by its label");
    assert_eq!(value("1=0"), None, "no option, and a slip rather than an answer");
}

#[test]
fn a_secret_among_several_questions_is_read_from_stdin_and_never_repeated() {
    let ask = with_two_questions();
    assert!(offered_hint(&ask).contains("--field 1=VALUE --field 2=-"), "{}", offered_hint(&ask));
    let mut words =
        FieldWords { fields: vec!["1=1".into(), "2=-".into()], ..FieldWords::default() };
    let secrets = secrets_of_stdin(&ask, &words);
    assert_eq!(secrets.iter().map(|field| field.id.as_str()).collect::<Vec<_>>(), ["token"]);
    words.secrets = vec![FieldAnswer { field: "token".into(), values: vec!["hunter2".into()] }];
    let Ok(Reply::Fields(answers)) = field_reply(&ask, &words) else { panic!("an answer") };
    assert_eq!(answers[1].values, ["hunter2"]);
    let mistyped = FieldWords { fields: vec!["3=hunter2".into()], ..FieldWords::default() };
    let failure = field_reply(&ask, &mistyped).expect_err("there is no third question");
    assert!(!failure.message().contains("hunter2"), "{failure}");
}
