//! Matrix files that are read, and matrix files that are refused with line and key.

use std::path::Path;

use super::*;

fn parse(text: &str) -> Result<Matrix, MatrixError> {
    let source = Source { file: Path::new("m.toml"), folder: Path::new("/d"), text };
    Matrix::parse(&source, FilePrompt::Used)
}

#[test]
fn lists_multiply_and_slots_stand_for_themselves() {
    let matrix = parse(
        r#"
prompt = "Fix it"
base = "main"
cwd = "shop"
files = ["docs/*.md"]
spec = "spec.md"
group = "morning"
max = 20
verify = ["cargo", "test"]
adapter = ["claude-code", "codex"]
permissions = "edits"
prompt_suffix = ["", "Write the test first."]
env = { A = "1" }
[hooks]
on_create = ["true"]
on_complete = ["sh", "-c", "x"]
[[slot]]
adapter = "claude-code"
model = "opus"
branch = "best"
base = "v1"
[[slot]]
adapter = "pi"
prompt = "Other"
permissions = "bypass"
env = { B = "2" }
"#,
    )
    .expect("a matrix");
    assert_eq!(matrix.slots.len(), 6);
    let shown: Vec<_> = matrix
        .slots
        .iter()
        .map(|s| (s.adapter.as_deref().unwrap_or("-"), s.prompt_suffix.as_deref().unwrap_or("-")))
        .collect();
    let test = "Write the test first.";
    let product = [("claude-code", ""), ("claude-code", test), ("codex", ""), ("codex", test)];
    assert_eq!(shown, [&product[..], &[("claude-code", "-"), ("pi", "-")]].concat());
    let opus = &matrix.slots[4];
    assert_eq!((opus.model.as_deref(), opus.branch.as_deref()), (Some("opus"), Some("best")));
    assert_eq!(
        (opus.prompt.as_deref(), opus.permissions),
        (Some("Fix it"), Some(Permissions::Edits))
    );
    assert_eq!(opus.env, [("A".to_owned(), "1".to_owned())]);
    assert_eq!(opus.base.as_deref(), Some("v1"));
    let place = |keys: &[&str], text| matrix.origins.place_of(keys, text);
    assert_eq!(place(&["base"], "v1").as_deref(), Some("m.toml line 21: [[slot]] 1: base"));
    assert_eq!(place(&["adapter"], "codex").as_deref(), Some("m.toml line 10: adapter"));
    assert_eq!(place(&["max"], "20").as_deref(), Some("m.toml line 8: max"));
    assert_eq!(place(&["files"], "elsewhere"), None);
    let pi = &matrix.slots[5];
    assert_eq!((pi.prompt.as_deref(), pi.permissions), (Some("Other"), Some(Permissions::Bypass)));
    assert_eq!(pi.env, [("B".to_owned(), "2".to_owned())]);
    assert_eq!(matrix.cwd.as_deref(), Some(Path::new("shop")));
    assert_eq!((matrix.base.as_deref(), matrix.max), (Some("main"), Some(20)));
    assert_eq!(matrix.on_complete.expect("a hook"), ["sh", "-c", "x"]);
    assert_eq!(matrix.verify.expect("a command"), ["cargo", "test"]);
}

#[test]
fn a_wrong_file_is_refused_with_line_and_key() {
    let table = [
        ("prompt = \"x\"\nadaptor = \"demo\"", "m.toml line 2: adaptor: unknown key"),
        (
            "prompt = \"x\"\n\n[[slot]]\nadapter = \"demo\"\nmodels = \"y\"",
            "m.toml line 5: [[slot]] 1: models: unknown key",
        ),
        ("prompt = 3", "m.toml line 1: prompt: it must be a text"),
        ("prompt = \"x\"\nmodel = [\"a\",\n 3]", "m.toml line 3: model: it must be a text"),
        ("prompt = \"x\"\nmodel = []", "m.toml line 2: model: the list is empty"),
        ("prompt = \" \"", "m.toml line 1: prompt: it is empty"),
        (
            "prompt = \"x\"\npermissions = \"all\"",
            "m.toml line 2: permissions: `all` is not one of its values",
        ),
        ("prompt = \"x\"\nmax = 65", "m.toml line 2: max: it must be a number from 1 to 64"),
        ("prompt = \"x\"\nmax = \"2\"", "m.toml line 2: max: it must be a number from 1 to 64"),
        ("prompt = \"x\"\nslot = 1", "m.toml line 2: slot: write it as [[slot]]"),
        (
            "prompt = \"x\"\n[hooks]\non_create = \"ls -l\"",
            "m.toml line 3: hooks.on_create: it must be a list of texts",
        ),
        (
            "prompt = \"x\"\n[hooks]\non_start = [\"x\"]",
            "m.toml line 3: hooks.on_start: unknown key",
        ),
        (
            "prompt = \"x\"\nenv = \"A=1\"",
            "m.toml line 2: env: it must be a table of texts: `{ NAME = \"VALUE\" }`",
        ),
        (
            "prompt = \"x\"\nprompt_file = \"y\"",
            "m.toml line 2: prompt_file: `prompt` is given as well",
        ),
        (
            "prompt_file = \"gone\"",
            "m.toml line 1: prompt_file: `gone`: it cannot be read: No such file or directory (os error 2)",
        ),
        ("adapter = \"demo\"", "m.toml: no prompt is given"),
        (
            "prompt = [\"a\", \"b\"]\n[[slot]]\nadapter = \"demo\"",
            "m.toml line 2: [[slot]] 1: it has no prompt: of several prompts in the file it takes none",
        ),
        (
            "prompt = \"x\"\nmodel = \"y\"\n[[slot]]\nadapter = \"demo\"",
            "m.toml line 2: model: it needs `adapter` beside it, or belongs into a [[slot]]",
        ),
        ("prompt = \"x\"\nprompt = \"y\"", "m.toml line 2: it is not valid TOML: duplicate key"),
        ("= 1", "m.toml line 1: it is not valid TOML: unquoted keys cannot be empty"),
    ];
    for (text, expected) in table {
        let refused = parse(text).expect_err(text).to_string();
        assert!(refused.starts_with(expected), "{text}\n{refused}");
    }
    let many = format!("prompt = \"x\"\nmodel = [{}]", "\"m\",".repeat(65));
    let refused = parse(&many).expect_err("65 slots").to_string();
    assert_eq!(refused, "m.toml: its lists make 65 slots; at most 64 are allowed");
    let lists = ["adapter", "model", "prompt", "prompt_suffix"];
    let huge: String = lists.map(|key| format!("{key} = [{}]\n", "\"m\",".repeat(20_000))).concat();
    assert!(parse(&huge).expect_err("too many").to_string().contains("at most 64"));
}

#[test]
fn a_prompt_of_the_caller_replaces_that_of_the_file() {
    let source = |text| Source { file: Path::new("m.toml"), folder: Path::new("/d"), text };
    let slots = |text| Matrix::parse(&source(text), FilePrompt::Overridden).expect("read").slots;
    assert_eq!(slots("prompt = [\"a\", \"b\"]\nadapter = \"demo\"").len(), 1);
    assert_eq!(slots("adapter = [\"demo\", \"pi\"]").len(), 2);
    let own = slots("prompt = \"a\"\n[[slot]]\nprompt = \"own\"");
    assert_eq!(own[0].prompt.as_deref(), Some("own"), "a slot keeps its own prompt");
}
