//! JSON values in which no object names a field twice, and which are no crowd.
//!
//! `serde_json` keeps the last of two fields with the same name, so a leg with two accounts would
//! silently pay only one of them. And a tree of many tiny values takes sixty times the memory of its
//! text: reading ends at the first value beyond [`VALUES_MAX`]. Fails with the name of the field, or
//! with that limit.

use std::cell::Cell;
use std::fmt;

use ledger::limits::echo;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most values within one value. Metadata of more values is larger than it may be: each of them
/// takes four bytes there at least.
pub const VALUES_MAX: usize = 1 << 16;

/// A JSON value in which no object names a field twice.
pub struct Unique(pub Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unique, D::Error> {
        let left = Cell::new(VALUES_MAX);
        AnyValue { left: &left }.deserialize(deserializer).map(Unique)
    }
}

/// Reads a value, as long as there may be more of them.
#[derive(Clone, Copy)]
struct AnyValue<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(D::Error::custom(format!("has more than {VALUES_MAX} values")));
        };
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Value, S::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Value, M::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(self)?;
            if fields.contains_key(&name) {
                return Err(M::Error::custom(format!("{}: is given twice", echo(&name))));
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_values_is_refused_before_it_is_a_tree() {
        let crowd = |values: usize| format!("[{}1]", "1,".repeat(values - 2));
        let read = |text: &str| serde_json::from_str::<Unique>(text);
        assert!(read(&crowd(VALUES_MAX)).is_ok());
        let refused = read(&crowd(VALUES_MAX + 1)).err().expect("it is one too many").to_string();
        assert!(refused.starts_with("has more than 65536 values"), "{refused}");
        let nested = format!("{{\"a\":{{\"b\":{}}}}}", crowd(VALUES_MAX));
        assert!(read(&nested).is_err(), "values count on each level");
    }
}
