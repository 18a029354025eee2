//! Named fields of a row, and their values as text and in order.

use std::cmp::Ordering;

use agentctl_core::host::Host;
use agentctl_core::model::Time;

use super::ListRow;
use crate::face::{AgeForm, age};
use crate::text::{byte_size, one_line};

/// The data that the fields of every row share.
#[derive(Clone, Copy)]
pub struct RowContext<'a> {
    /// The host whose home directory is shortened to `~`.
    pub host: &'a Host,
    /// The time to which ages refer.
    pub now: Time,
}

/// A named field of a row.
pub struct Field<R: 'static> {
    /// Its name in templates and as a sort key.
    pub name: &'static str,
    /// Returns the value of a row.
    pub value: fn(&RowContext<'_>, &R) -> FieldValue,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// A text.
    Text(String),
    /// Texts in a row, with two blanks between them.
    Texts(Vec<String>),
    /// A number.
    Number(u64),
    /// A number of bytes, shown in a unit that fits.
    Size(u64),
    /// A moment, shown as in JSON.
    Moment(Time),
    /// The time since a moment: `12m`.
    Age(Time),
    /// The time until a moment: `12m`, and `due` afterwards.
    Remaining(Time),
    /// A word that has a place in an order of its own, such as a status.
    Ranked(u8, &'static str),
    /// The row has no such value.
    Missing,
}

impl FieldValue {
    /// Returns a text, or [`FieldValue::Missing`].
    pub fn text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Missing, |text| Self::Text(text.into()))
    }

    /// Returns a moment, or [`FieldValue::Missing`].
    #[must_use]
    pub fn moment(time: Option<Time>) -> Self {
        time.map_or(Self::Missing, Self::Moment)
    }

    /// Returns an age, or [`FieldValue::Missing`].
    #[must_use]
    pub fn age(time: Option<Time>) -> Self {
        time.map_or(Self::Missing, Self::Age)
    }

    /// Returns `yes`, or [`FieldValue::Missing`].
    #[must_use]
    pub fn yes(yes: bool) -> Self {
        if yes { Self::Text("yes".into()) } else { Self::Missing }
    }

    /// Returns the value as one line; empty if it is missing.
    #[must_use]
    pub fn line(&self, now: Time) -> String {
        self.line_with(AgeForm::Seconds, now)
    }

    /// Returns the value as one line, with ages of this form.
    pub(super) fn line_with(&self, ages: AgeForm, now: Time) -> String {
        match self {
            Self::Text(text) => one_line(text),
            Self::Texts(texts) => {
                texts.iter().map(|text| one_line(text)).collect::<Vec<_>>().join("  ")
            }
            Self::Number(number) => number.to_string(),
            Self::Size(bytes) => byte_size(*bytes),
            Self::Moment(time) => time.0.to_string(),
            Self::Age(time) => ages.text(now, *time),
            Self::Remaining(time) if *time > now => age(*time, now),
            Self::Remaining(_) => "due".to_owned(),
            Self::Ranked(_, word) => (*word).to_owned(),
            Self::Missing => String::new(),
        }
    }

    /// Returns the text by which two lists are compared; `None` for ages and sizes, whose change alone is no news.
    #[must_use]
    pub fn compared(&self, now: Time) -> Option<String> {
        match self {
            Self::Age(_) | Self::Size(_) => None,
            Self::Remaining(time) if *time > now => None,
            _ => Some(self.line(now)),
        }
    }

    /// Compares two values of one field. A missing value is not compared by this.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.to_lowercase().cmp(&b.to_lowercase()),
            (Self::Texts(a), Self::Texts(b)) => {
                a.join(" ").to_lowercase().cmp(&b.join(" ").to_lowercase())
            }
            (Self::Number(a), Self::Number(b)) | (Self::Size(a), Self::Size(b)) => a.cmp(b),
            (Self::Moment(a), Self::Moment(b)) | (Self::Remaining(a), Self::Remaining(b)) => {
                a.cmp(b)
            }
            // A word instead of the time that is left: the time is over.
            (Self::Text(_), Self::Remaining(_)) => Ordering::Less,
            (Self::Remaining(_), Self::Text(_)) => Ordering::Greater,
            // The youngest has the smallest age.
            (Self::Age(a), Self::Age(b)) => b.cmp(a),
            (Self::Ranked(a, _), Self::Ranked(b, _)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

/// A name that is no field of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The name.
    pub name: String,
    /// The fields that exist.
    pub known: Vec<&'static str>,
}

/// Returns the field of this name.
pub(super) fn field<R: ListRow>(name: &str) -> Result<&'static Field<R>, UnknownField> {
    let found = R::FIELDS.iter().find(|field| field.name == name);
    found.ok_or_else(|| UnknownField { name: name.to_owned(), known: field_names::<R>() })
}

/// Returns the names of all fields.
#[must_use]
pub fn field_names<R: ListRow>() -> Vec<&'static str> {
    R::FIELDS.iter().map(|field| field.name).collect()
}
