//! The order and the number of rows: `--sort`, `--reverse`, `-n`.

use std::cmp::Ordering;

use super::{Field, FieldValue, ListRow, RowContext, UnknownField, field};

/// A field by which rows are sorted.
pub struct SortKey<R: 'static> {
    field: &'static Field<R>,
    is_descending: bool,
}

impl<R: ListRow> SortKey<R> {
    /// Reads a key: the name of a field, with `-` in front of it for descending order.
    pub fn parse(text: &str) -> Result<Self, UnknownField> {
        let (name, is_descending) = match text.strip_prefix('-') {
            Some(name) => (name, true),
            None => (text, false),
        };
        Ok(Self { field: field(name)?, is_descending })
    }

    /// Returns the name of the field.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.field.name
    }
}

/// The order of rows and their number.
pub struct Arrangement<R: 'static> {
    /// The key; without one the order of the document stays.
    pub sort: Option<SortKey<R>>,
    /// The last row first.
    pub is_reversed: bool,
    /// At most this many rows.
    pub limit: Option<usize>,
}

impl<R: ListRow> Arrangement<R> {
    /// Returns the positions of the rows to show, in order; `None` if all rows stay where they are.
    ///
    /// Rows without a value come last in either direction.
    #[must_use]
    pub fn places(
        &self,
        count: usize,
        value: impl Fn(usize, &Field<R>) -> FieldValue,
    ) -> Option<Vec<usize>> {
        if self.sort.is_none() && !self.is_reversed && self.limit.is_none_or(|n| n >= count) {
            return None;
        }
        let mut places: Vec<usize> = (0..count).collect();
        if let Some(key) = &self.sort {
            let values: Vec<FieldValue> = places.iter().map(|at| value(*at, key.field)).collect();
            let is_descending = key.is_descending != self.is_reversed;
            places.sort_by(|a, b| compare(&values[*a], &values[*b], is_descending));
        } else if self.is_reversed {
            places.reverse();
        }
        places.truncate(self.limit.unwrap_or(usize::MAX));
        Some(places)
    }

    /// Sorts and cuts the rows of a document.
    pub fn apply(&self, context: &RowContext<'_>, rows: &mut Vec<R>) {
        let places = self.places(rows.len(), |at, field| (field.value)(context, &rows[at]));
        let Some(places) = places else { return };
        let mut taken: Vec<Option<R>> = std::mem::take(rows).into_iter().map(Some).collect();
        rows.extend(places.into_iter().filter_map(|at| taken[at].take()));
    }
}

fn compare(a: &FieldValue, b: &FieldValue, is_descending: bool) -> Ordering {
    match (a, b) {
        (FieldValue::Missing, FieldValue::Missing) => Ordering::Equal,
        (FieldValue::Missing, _) => Ordering::Greater,
        (_, FieldValue::Missing) => Ordering::Less,
        _ if is_descending => b.order(a),
        _ => a.order(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_value_come_last_in_both_directions() {
        let values = [FieldValue::Missing, FieldValue::Number(1), FieldValue::Number(2)];
        let sorted = |is_descending| {
            let mut places = vec![0, 1, 2];
            places.sort_by(|a, b| compare(&values[*a], &values[*b], is_descending));
            places
        };
        assert_eq!(sorted(false), [1, 2, 0]);
        assert_eq!(sorted(true), [2, 1, 0]);
    }
}
