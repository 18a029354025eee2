//! The values of a matrix file, each with the line that it stands in.

use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::origins::MatrixSetting;
use super::{MatrixError, is_table};
use crate::adapters::control::Permissions;
use crate::text::nearest;

/// The text of a file.
pub(super) struct Source<'a> {
    /// The file, as it was named.
    pub(super) file: &'a Path,
    /// The folder of the file.
    pub(super) folder: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    /// Says what is wrong with the whole file.
    pub(super) fn whole(&self, what: &str, hint: &str) -> MatrixError {
        MatrixError {
            file: self.file.to_owned(),
            line: None,
            key: String::new(),
            what: what.to_owned(),
            hint: Some(hint.to_owned()),
        }
    }

    pub(super) fn not_toml(&self, error: &toml::de::Error) -> MatrixError {
        let message = error.message().replace('\n', " ");
        MatrixError {
            line: error.span().map(|span| self.line(span.start)),
            hint: None,
            ..self.whole(&format!("it is not valid TOML: {message}"), "")
        }
    }

    /// Refuses keys that do not exist.
    pub(super) fn check_keys(
        &self,
        table: &DeTable<'_>,
        prefix: &str,
        known: &[&str],
    ) -> Result<(), MatrixError> {
        let mut unknown: Vec<_> =
            table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())).collect();
        // The table is sorted by name; the first one in the file is reported.
        unknown.sort_by_key(|key| key.span().start);
        let Some(key) = unknown.first() else { return Ok(()) };
        let name = key.get_ref().as_ref();
        let hint = match nearest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("keys: {}", known.join(", ")),
        };
        Err(MatrixError {
            file: self.file.to_owned(),
            line: Some(self.line(key.span().start)),
            key: format!("{prefix}{name}"),
            what: "unknown key".to_owned(),
            hint: Some(hint),
        })
    }
}

/// The value of a key.
pub(super) struct Entry<'a> {
    source: &'a Source<'a>,
    shown: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Entry<'a> {
    /// Returns the value of a key, if it is there.
    pub(super) fn of(
        source: &'a Source<'a>,
        table: &'a DeTable<'a>,
        prefix: &str,
        key: &str,
    ) -> Option<Self> {
        let value = table.get(key)?;
        Some(Self { source, shown: format!("{prefix}{key}"), value })
    }

    fn at(&self, value: &Spanned<DeValue<'_>>, what: impl Into<String>) -> MatrixError {
        MatrixError {
            file: self.source.file.to_owned(),
            line: Some(self.source.line(value.span().start)),
            key: self.shown.clone(),
            what: what.into(),
            hint: None,
        }
    }

    /// Returns where each text of the value stands.
    pub(super) fn settings(&self, key: &'static str) -> Vec<MatrixSetting> {
        let items = self.items().unwrap_or_default();
        let setting = |item: &Spanned<DeValue<'_>>| {
            let text = match item.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                _ => return None,
            };
            let line = self.source.line(item.span().start);
            Some(MatrixSetting { key, text, shown: self.shown.clone(), line })
        };
        items.into_iter().filter_map(setting).collect()
    }

    /// Says what is wrong with the value.
    pub(super) fn wrong(&self, what: impl Into<String>) -> MatrixError {
        self.at(self.value, what)
    }

    fn string_of(&self, value: &Spanned<DeValue<'_>>) -> Result<String, MatrixError> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.at(value, "it must be a text"))
    }

    fn text_of(&self, value: &Spanned<DeValue<'_>>) -> Result<String, MatrixError> {
        let text = self.string_of(value)?;
        if text.trim().is_empty() { Err(self.at(value, "it is empty")) } else { Ok(text) }
    }

    /// Returns a text, which may be empty.
    pub(super) fn string(&self) -> Result<String, MatrixError> {
        self.string_of(self.value)
    }

    /// Returns a text.
    pub(super) fn text(&self) -> Result<String, MatrixError> {
        self.text_of(self.value)
    }

    /// Returns a prompt.
    pub(super) fn prompt(&self) -> Result<String, MatrixError> {
        self.text()
    }

    /// Returns the items of a list; the value itself if it is none.
    fn items(&self) -> Result<Vec<&'a Spanned<DeValue<'a>>>, MatrixError> {
        let items: Vec<_> = match self.value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => return Ok(vec![self.value]),
        };
        if items.is_empty() { Err(self.wrong("the list is empty")) } else { Ok(items) }
    }

    /// Returns a text or a list of texts, any of which may be empty.
    pub(super) fn strings(&self) -> Result<Vec<String>, MatrixError> {
        self.items()?.into_iter().map(|item| self.string_of(item)).collect()
    }

    /// Returns a text or a list of texts.
    pub(super) fn one_or_more(&self) -> Result<Vec<String>, MatrixError> {
        self.items()?.into_iter().map(|item| self.text_of(item)).collect()
    }

    /// Returns a prompt or a list of prompts.
    pub(super) fn prompts(&self) -> Result<Vec<String>, MatrixError> {
        self.one_or_more()
    }

    /// Returns a list of texts.
    pub(super) fn texts(&self) -> Result<Vec<String>, MatrixError> {
        match self.value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| self.text_of(item)).collect(),
            _ => Err(self.wrong("it must be a list of texts")),
        }
    }

    /// Returns a program and its arguments.
    pub(super) fn argv(&self) -> Result<Vec<String>, MatrixError> {
        let hint = "write a list, for example `[\"sh\", \"-c\", \"…\"]`: no shell runs it";
        let with_hint = |error: MatrixError| MatrixError { hint: Some(hint.to_owned()), ..error };
        let DeValue::Array(items) = self.value.get_ref() else {
            return Err(with_hint(self.wrong("it must be a list of texts")));
        };
        let argv: Vec<String> =
            items.iter().map(|item| self.string_of(item)).collect::<Result<_, _>>()?;
        match argv.first() {
            Some(program) if !program.is_empty() => Ok(argv),
            _ => Err(with_hint(self.wrong("it names no program"))),
        }
    }

    /// Returns a number in a range.
    pub(super) fn number(&self, range: RangeInclusive<usize>) -> Result<usize, MatrixError> {
        let number = self.value.get_ref().as_integer();
        let number = number.and_then(|number| {
            usize::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
        });
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            self.wrong(format!("it must be a number from {} to {}", range.start(), range.end()))
        })
    }

    fn permission_of(&self, value: &Spanned<DeValue<'_>>) -> Result<Permissions, MatrixError> {
        match self.text_of(value)?.as_str() {
            "default" => Ok(Permissions::Default),
            "edits" => Ok(Permissions::Edits),
            "bypass" => Ok(Permissions::Bypass),
            other => Err(MatrixError {
                hint: Some("write default, edits or bypass".to_owned()),
                ..self.at(value, format!("`{other}` is not one of its values"))
            }),
        }
    }

    /// Returns permissions.
    pub(super) fn permission(&self) -> Result<Permissions, MatrixError> {
        self.permission_of(self.value)
    }

    /// Returns permissions, or a list of them.
    pub(super) fn permissions(&self) -> Result<Vec<Permissions>, MatrixError> {
        self.items()?.into_iter().map(|item| self.permission_of(item)).collect()
    }

    /// Returns a table.
    pub(super) fn table(&self) -> Result<&'a DeTable<'a>, MatrixError> {
        let expected = || self.wrong(format!("it is a table: write [{}]", self.shown));
        self.value.get_ref().as_table().ok_or_else(expected)
    }

    /// Returns a list of tables.
    pub(super) fn tables(&self) -> Result<Vec<&'a DeTable<'a>>, MatrixError> {
        let expected = || self.wrong(format!("write it as [[{}]]", self.shown));
        let items = self.value.get_ref().as_array().ok_or_else(expected)?;
        items.iter().map(|item| item.get_ref().as_table().ok_or_else(expected)).collect()
    }

    /// Says what is wrong with one of its tables.
    pub(super) fn wrong_table(&self, number: usize, what: &str) -> MatrixError {
        let tables = self.value.get_ref().as_array();
        let table = tables.and_then(|tables| tables.get(number)).unwrap_or(self.value);
        let key = format!("[[{}]] {}", self.shown, number + 1);
        MatrixError { key, ..self.at(table, what) }
    }

    fn variables_in(
        &self,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Result<Vec<(String, String)>, MatrixError> {
        let expected = || self.at(value, "it must be a table of texts: `{ NAME = \"VALUE\" }`");
        let table = value.get_ref().as_table().ok_or_else(expected)?;
        let pair = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = name.get_ref();
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(self.at(value, format!("`{name}` cannot be the name of a variable")));
            }
            let text = self.string_of(value)?;
            if text.contains('\0') {
                return Err(self.at(value, "it has a zero byte"));
            }
            Ok((name.to_string(), text))
        };
        table.iter().map(pair).collect()
    }

    /// Returns the variables of one table.
    pub(super) fn variables_of_one(&self) -> Result<Vec<(String, String)>, MatrixError> {
        self.variables_in(self.value)
    }

    /// Returns the variables of one table, or of each table of a list.
    pub(super) fn variables(&self) -> Result<Vec<Vec<(String, String)>>, MatrixError> {
        if is_table(self.value.get_ref()) {
            return Ok(vec![self.variables_of_one()?]);
        }
        self.items()?.into_iter().map(|item| self.variables_in(item)).collect()
    }
}
