//! Lists of a packed row, with a limit: rows may come from another process.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum number of notes, of processes and of pieces of evidence in one row.
pub(super) const MAX_LIST_ELEMENTS: usize = 1 << 16;

/// Reads a list of at most [`MAX_LIST_ELEMENTS`] elements. An element may have a single byte and needs many times
/// that in memory, so the number is limited while the elements are read.
pub(super) fn short_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ShortList<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for ShortList<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_LIST_ELEMENTS} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = elements.next_element()? {
                if list.len() == MAX_LIST_ELEMENTS {
                    return Err(A::Error::invalid_length(list.len() + 1, &self));
                }
                list.push(element);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_seq(ShortList(PhantomData))
}

/// Reads a list as [`short_list`] does.
pub(super) fn short_cow<'de, D, T>(deserializer: D) -> Result<Cow<'static, [T]>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Clone,
{
    short_list(deserializer).map(Cow::Owned)
}
