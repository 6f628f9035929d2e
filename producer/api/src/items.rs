//! An array of JSON, item by item.
//!
//! Promises that one item at a time is a tree in memory: as one tree, a body of many small values
//! would take many times its size. Fails as a whole where the array is not JSON.

use std::fmt;

use input::Unique;
use input::crowd::is_crowd;
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// What was read of an array.
pub struct Items<T> {
    /// The first items, at most as many as were asked for.
    pub read: Vec<T>,
    /// How many there are.
    pub count: usize,
}

/// Why an item is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMuch {
    /// It has so many bytes.
    Bytes(usize),
    /// It has more values than it may have.
    Values,
}

/// Reads an array of at most `most` items; further ones are only counted. `each` gets an item, or
/// why it is too much: it is longer than `bytes_max`, or a crowd of values.
pub fn read<T>(
    body: &[u8],
    most: usize,
    bytes_max: usize,
    each: impl FnMut(Result<Value, TooMuch>) -> T,
) -> Result<Items<T>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let items = deserializer.deserialize_seq(Each { most, bytes_max, each })?;
    deserializer.end().map(|()| items)
}

struct Each<F> {
    most: usize,
    bytes_max: usize,
    each: F,
}

impl<'de, T, F: FnMut(Result<Value, TooMuch>) -> T> Visitor<'de> for Each<F> {
    type Value = Items<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut list: S) -> Result<Items<T>, S::Error> {
        let mut items = Items { read: Vec::new(), count: 0 };
        while items.count < self.most {
            let Some(text) = list.next_element::<&RawValue>()? else { return Ok(items) };
            let (at, text) = (items.count, text.get());
            let item = match text.len() {
                bytes if bytes > self.bytes_max => Err(TooMuch::Bytes(bytes)),
                _ if is_crowd(text.as_bytes()) => Err(TooMuch::Values),
                _ => Ok(value(text).map_err(|e| S::Error::custom(format!("item {at}: {e}")))?),
            };
            items.read.push((self.each)(item));
            items.count += 1;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            items.count += 1;
        }
        Ok(items)
    }
}

fn value(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Unique>(text).map(|Unique(value)| value)
}

#[cfg(test)]
mod tests {
    use input::crowd::VALUES_MAX;

    use super::*;

    #[test]
    fn items_come_one_by_one_and_those_beyond_the_limit_are_counted() {
        let told = |item: Result<Value, TooMuch>| match item {
            Ok(item) => item.to_string(),
            Err(why) => format!("{why:?}"),
        };
        let items = read(br#"[1, "four", {"a":[]}, "long text", 5, [6]] "#, 5, 9, told);
        let items = items.expect("an array");
        let expected = ["1", "\"four\"", "{\"a\":[]}", "Bytes(11)", "5"];
        assert_eq!((items.read, items.count), (expected.map(str::to_owned).to_vec(), 6));
        for broken in ["[", "[1]x", "[1,]", "{}", r#"[{"a":1,"a":2}]"#, "[01]", r#"["\ud800"]"#] {
            assert!(read(broken.as_bytes(), 5, 100, told).is_err(), "{broken}");
        }
        let crowd = format!("[1, [{}1], 2]", "1,".repeat(VALUES_MAX));
        let items = read(crowd.as_bytes(), 5, usize::MAX, told).expect("an array");
        assert_eq!(items.read, ["1", "Values", "2"], "its neighbours are read");
    }
}
