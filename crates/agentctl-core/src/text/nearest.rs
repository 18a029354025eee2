//! Finds the word that was meant by a word with a typing error.

/// Returns the known name that is nearest to a name with a typing error; `None` if none is near.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).clamp(1, 3);
    let distances = known.into_iter().map(|word| (distance(name, word), word));
    distances.filter(|(steps, _)| *steps <= limit).min_by_key(|(steps, _)| *steps).map(|(_, w)| w)
}

/// Counts the insertions, deletions, replacements and swaps of neighbours between two words.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut best = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_is_recognised_and_another_word_is_not() {
        let known = ["model", "adapter", "roots", "metrics"];
        for (typed, meant) in [
            ("modle", Some("model")),
            ("adpter", Some("adapter")),
            ("root", Some("roots")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
    }
}
