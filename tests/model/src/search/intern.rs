//! Small numbers for large values, so that a state is a few bytes and can be hashed quickly.
//!
//! Values are compared by their debug form, which names every field: a field that is added to the
//! ledger's types counts without any change here.

use std::collections::HashMap;
use std::fmt::Debug;

/// Values as numbers: equal values have the same number.
#[derive(Debug)]
pub struct Interner<T> {
    numbers: HashMap<String, u32>,
    values: Vec<T>,
}

impl<T> Default for Interner<T> {
    fn default() -> Interner<T> {
        Interner { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Debug> Interner<T> {
    /// The number of a value.
    pub fn number(&mut self, value: T) -> u32 {
        let next = u32::try_from(self.values.len()).expect("fewer than 2^32 values");
        *self.numbers.entry(format!("{value:?}")).or_insert_with(|| {
            self.values.push(value);
            next
        })
    }

    /// The value of a number.
    pub fn value(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }
}
