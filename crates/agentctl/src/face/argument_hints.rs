//! Hints of the command line where orders have arguments instead of flags: the page and the MCP server.

/// The ends of the ways that a hint names.
const SEPARATORS: [&str; 2] = ["; ", ", or "];

/// Returns a hint with the names of these arguments instead of their flags. A way that needs another flag is left out;
/// `None` if no way is left. Commands, between backticks, stay as they are; a flag between backticks is no command.
#[must_use]
pub fn hint_with_arguments(hint: &str, arguments: &[&str]) -> Option<String> {
    let mut kept = String::new();
    let mut rest = Some(("", hint));
    while let Some((separator, ways)) = rest {
        let ends = SEPARATORS.iter().filter_map(|end| Some((ways.find(end)?, *end)));
        let (way, after) = match ends.min() {
            Some((at, end)) => (&ways[..at], Some((end, &ways[at + end.len()..]))),
            None => (ways, None),
        };
        if let Some(way) = with_arguments(way, arguments) {
            kept.push_str(if kept.is_empty() { "" } else { separator });
            kept.push_str(&way);
        }
        rest = after;
    }
    Some(kept).filter(|hint| !hint.is_empty())
}

fn with_arguments(way: &str, arguments: &[&str]) -> Option<String> {
    let parts = way.split('`').enumerate().map(|(at, part)| {
        if at % 2 == 1 {
            let argument = part.strip_prefix("--").map(|flag| arguments.contains(&flag));
            return argument
                .unwrap_or(true)
                .then(|| format!("`{}`", part.trim_start_matches("--")));
        }
        let words = part.split(' ').map(|word| {
            let Some(flag) = word.strip_prefix("--") else { return Some(word.to_owned()) };
            let name = flag.trim_end_matches([',', ';', '.', ':']);
            arguments.contains(&name).then(|| format!("`{name}`{}", &flag[name.len()..]))
        });
        Some(words.collect::<Option<Vec<_>>>()?.join(" "))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::hint_with_arguments;

    #[test]
    fn ways_keep_their_separators_and_those_with_a_flag_without_an_argument_are_left_out() {
        for (given, told) in [
            ("name another directory with --cwd", Some("name another directory with `cwd`")),
            (
                "choose --cwd, or raise [limits]; or wait",
                Some("choose `cwd`, or raise [limits]; or wait"),
            ),
            ("try again; --force does it, or leave it out", Some("try again, or leave it out")),
            ("--force does it; try again", Some("try again")),
            ("`agentctl stop 1 --force` ends it", Some("`agentctl stop 1 --force` ends it")),
            ("without --strict it is a warning", None),
            ("name a model, or give options after `--`", Some("name a model")),
            ("`--cwd` names it; `--force` does it", Some("`cwd` names it")),
        ] {
            assert_eq!(hint_with_arguments(given, &["cwd"]).as_deref(), told);
        }
    }
}
