//! The configuration file as text: its syntax, its keys with their lines, and the findings about them. A key that
//! is unknown or has the wrong type is reported and left out, so that the other settings stay in force.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentctl_core::adapters;
use agentctl_core::text::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Span;
use super::finding::{Finding, Problem};
use super::keys::{Key, KeyType, MAX_COUNT, Part, keys};

/// A configuration file whose keys are known and have the right types.
#[derive(Debug, Default)]
pub(super) struct Document {
    path: PathBuf,
    /// The content without the keys that have a finding.
    pub(super) table: toml::Table,
    /// The line of every key and table, by its display name.
    lines: BTreeMap<String, usize>,
    pub(super) findings: Vec<Finding>,
}

impl Document {
    /// Returns the document of a file that does not exist.
    pub(super) fn missing(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    /// Returns the document of a file that cannot be read.
    pub(super) fn unreadable(path: &Path, problem: Problem) -> Self {
        let mut document = Self::missing(path);
        document.add(problem, Part::Any);
        document
    }

    /// Parses a file, and checks the name and the type of every key.
    pub(super) fn parse(path: &Path, text: &str) -> Self {
        let mut document = Self::missing(path);
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let parsed = DeTable::parse(text)
            .and_then(|table| Ok((table.into_inner(), toml::from_str::<toml::Table>(text)?)));
        match parsed {
            Ok((spanned, table)) => {
                document.table = table;
                Walk { document: &mut document, keys: keys(), line: &line }.root(&spanned);
            }
            Err(error) => {
                let message = error.message().replace('\n', " ");
                let problem = Problem::new("", format!("it is not valid TOML: {message}"));
                document.add(problem.hint("no setting of this file is used"), Part::Any);
                let line = error.span().map(|span| line(span.start));
                document.findings.iter_mut().for_each(|finding| finding.line = line);
            }
        }
        document
    }

    /// Adds a finding, with the line of its key or of its table.
    pub(super) fn add(&mut self, problem: Problem, part: Part) {
        let line = self.line(&problem.key);
        let Problem { key, what, hint } = problem;
        self.findings.push(Finding { file: self.path.clone(), line, key, what, hint, part });
    }

    /// Returns the line of a key; of its table if the key is not there.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        let mut name = key;
        loop {
            if let Some(line) = self.lines.get(name) {
                return Some(*line);
            }
            name = &name[..name.rfind(['.', ':'])?];
        }
    }
}

/// The place in the file that is being checked.
#[derive(Clone, Default)]
struct Place {
    /// The prefix of the names in the list of keys: `webhooks[].`.
    prefix: String,
    /// The prefix of the names that people read: `[[webhooks]] 2: `.
    shown: String,
    /// The path of the table in the document; it ends before the first list of tables.
    path: Vec<String>,
    /// Inside a list of tables: a finding removes the whole list.
    in_list: bool,
}

struct Walk<'a> {
    document: &'a mut Document,
    keys: Vec<Key>,
    line: &'a dyn Fn(usize) -> usize,
}

impl Walk<'_> {
    fn root(&mut self, table: &DeTable<'_>) {
        self.table(table, &Place::default());
    }

    fn table(&mut self, table: &DeTable<'_>, place: &Place) {
        for (name, value) in table {
            let line = (self.line)(name.span().start);
            let name = name.get_ref().as_ref();
            self.document.lines.insert(format!("{}{name}", place.shown), line);
            if let Err(problem) = self.entry(place, name, value) {
                let part = match Part::of(&format!("{}{name}", place.prefix)) {
                    Part::Any => self.unknown_part(name, value),
                    part => part,
                };
                self.document.add(problem, part);
                self.remove(place, name);
            }
        }
        let required = self.keys.iter().filter(|key| key.required);
        let fields = required.filter_map(|key| key.name.strip_prefix(&place.prefix));
        let absent = fields.filter(|f| !f.contains(['.', '[']) && !table.contains_key(*f));
        let absent: Vec<String> = absent.map(str::to_owned).collect();
        for field in absent {
            let problem = Problem::new(format!("{}{field}", place.shown), "it is missing");
            self.document.add(problem, Part::of(&place.prefix));
            self.remove(place, &field);
        }
    }

    /// Checks one key: a value, a table or a list of tables.
    fn entry(
        &mut self,
        place: &Place,
        name: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Problem> {
        let shown = &format!("{}{name}", place.shown);
        let known = &format!("{}{name}", place.prefix);
        if let Some(key) = self.keys.iter().find(|key| key.name == *known) {
            return check(key, shown, value.get_ref());
        }
        let mut path = place.path.clone();
        if !place.in_list {
            path.push(name.to_owned());
        }
        let is_prefix = |prefix: &str| self.keys.iter().any(|key| key.name.starts_with(prefix));
        let list = format!("{known}[].");
        if is_prefix(&list) {
            let expected = || Problem::new(shown, format!("write it as [[{shown}]]"));
            let items = value.get_ref().as_array().ok_or_else(expected)?;
            for (index, item) in items.iter().enumerate() {
                let title = format!("[[{shown}]] {}", index + 1);
                self.document.lines.insert(title.clone(), (self.line)(item.span().start));
                let table = item.get_ref().as_table().ok_or_else(expected)?;
                let prefix = list.clone();
                let path = path.clone();
                self.table(
                    table,
                    &Place { prefix, shown: format!("{title}: "), path, in_list: true },
                );
            }
            return Ok(());
        }
        let prefix = format!("{known}.");
        if is_prefix(&prefix) {
            let expected = || Problem::new(shown, format!("it is a table: write [{shown}]"));
            let table = value.get_ref().as_table().ok_or_else(expected)?;
            self.table(
                table,
                &Place { shown: format!("{shown}."), prefix, path, in_list: place.in_list },
            );
            return Ok(());
        }
        Err(self.unknown(place, shown, name))
    }

    /// Returns the names that may stand in a table.
    fn siblings(&self, prefix: &str) -> Vec<String> {
        let below = self.keys.iter().filter_map(|key| key.name.strip_prefix(prefix));
        let mut names: Vec<String> =
            below.filter_map(|rest| rest.split(['.', '[']).next()).map(str::to_owned).collect();
        names.dedup();
        names
    }

    fn unknown(&self, place: &Place, shown: &str, name: &str) -> Problem {
        let siblings = self.siblings(&place.prefix);
        let what =
            if place.prefix == "roots." { "there is no such adapter" } else { "unknown key" };
        let problem = Problem::new(shown, what);
        let called = adapters::adapter_called(adapters::ALL, name).map(adapters::Adapter::name);
        let called = called.filter(|meant| siblings.iter().any(|known| known == meant));
        match called.or_else(|| nearest(name, siblings.iter().map(String::as_str))) {
            Some(meant) => problem.hint(format!("did you mean `{meant}`?")),
            None => problem.hint(format!("keys: {}", siblings.join(", "))),
        }
    }

    /// Returns the settings that an unknown key of the file may have meant. An unknown table may name a source.
    fn unknown_part(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Part {
        let siblings = self.siblings("");
        match nearest(name, siblings.iter().map(String::as_str)) {
            Some(meant) => Part::of(meant),
            None if value.get_ref().is_table() || value.get_ref().is_array() => Part::Any,
            None => Part::Launch,
        }
    }

    /// Removes a key, or the list of tables that it stands in, from the document.
    fn remove(&mut self, place: &Place, name: &str) {
        let mut path: Vec<&str> = place.path.iter().map(String::as_str).collect();
        if !place.in_list {
            path.push(name);
        }
        let Some((last, tables)) = path.split_last() else { return };
        let mut table = &mut self.document.table;
        for name in tables {
            match table.get_mut(*name).and_then(toml::Value::as_table_mut) {
                Some(next) => table = next,
                None => return,
            }
        }
        table.remove(*last);
    }
}

/// Checks the value of a key. The finding does not contain the value of a secret.
fn check(key: &Key, shown: &str, value: &DeValue<'_>) -> Result<(), Problem> {
    let texts = || {
        let items = value.as_array();
        items.is_some_and(|items| items.iter().all(|item| item.get_ref().is_str()))
    };
    let fits = match &key.kind {
        KeyType::Text | KeyType::Secret | KeyType::Url | KeyType::Path | KeyType::Choice(_) => {
            value.is_str()
        }
        KeyType::Span => value.is_str(),
        KeyType::Flag => value.is_bool(),
        KeyType::Count => count(value).is_some_and(|count| (0..=MAX_COUNT).contains(&count)),
        KeyType::Texts | KeyType::Paths => texts(),
    };
    if !fits {
        let what = format!("{}, found {}", key.kind.expected(), described(value));
        return Err(Problem::new(shown, what));
    }
    let text = value.as_str().unwrap_or_default();
    match &key.kind {
        KeyType::Span => text.parse::<Span>().map(drop).map_err(|why| Problem::new(shown, why)),
        KeyType::Choice(_) if shown == "adapter" && is_adapter(text) => Ok(()),
        KeyType::Choice(words) if !words.contains(&text) => {
            let what = match shown {
                "adapter" => format!("`{text}`: there is no such adapter"),
                _ => format!("`{text}` is not one of its values"),
            };
            let hint = match nearest(text, words.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("write {}", words.join(" or ")),
            };
            Err(Problem::new(shown, what).hint(hint))
        }
        KeyType::Text | KeyType::Path if text.trim().is_empty() => {
            Err(Problem::new(shown, "it is empty").hint("leave the key out for the default"))
        }
        _ => Ok(()),
    }
}

/// Returns a whole number.
fn count(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Says whether a text is the name or an alias of an adapter.
fn is_adapter(text: &str) -> bool {
    adapters::adapter_called(adapters::ALL, text).is_some()
}

/// Names the type of a value.
fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list of something else",
        DeValue::Table(_) => "a table",
    }
}
