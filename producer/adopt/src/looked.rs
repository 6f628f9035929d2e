//! What a look says of one document, and what is the same for accounts and transactions.
//!
//! Owns ids, sizes, fields that stand twice, and what stands on the way to fields. Promises that a
//! document gets each class at most once for each path. Pure.

use ledger::limits::echo;
use ledger::transaction::check_name;
use mongodb::bson::{Bson, RawBson, RawBsonRef, RawDocument};
use serde::{Deserialize, Serialize};

use super::class::{Class, Verdict};
use super::number::{Number, classify, shown};
use super::shape::{Shape, at, present};

/// A document has to leave so much room for marks and for what Tandem adds: 1 MiB of 16.
pub const BYTES_MAX: u64 = 15 << 20;

/// A document as it was read, and what the server has said of it.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its fields, as they are stored.
    pub document: &'a RawDocument,
    /// The size of the whole document.
    pub bytes: u64,
    /// Whether a field of it stands twice.
    pub repeats: bool,
}

/// Something that was seen, to be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The id of the document, as text.
    pub id: String,
    /// Where it was seen.
    pub path: String,
    /// What stands there.
    pub value: String,
    /// What it would become.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub becomes: Option<String>,
}

/// What is said of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Its id, as text.
    pub id: String,
    /// Its classes, each with what was seen.
    pub classes: Vec<(Class, Sample)>,
    /// Whether its balance is whole or a decimal, if it is read as it stands.
    pub unit: Option<Unit>,
}

/// In which way a balance counts that fits as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole minor units.
    Whole,
    /// A decimal.
    Decimal,
}

impl Looked {
    pub(super) fn new(id: String) -> Looked {
        Looked { id, classes: Vec::new(), unit: None }
    }

    /// The worst of its verdicts.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let verdicts = self.classes.iter().map(|(class, _)| class.verdict());
        verdicts.max().unwrap_or(Verdict::Fits)
    }

    pub(super) fn add(&mut self, class: Class, path: &str, value: String) {
        self.push(class, path, value, None);
    }

    fn push(&mut self, class: Class, path: &str, value: String, becomes: Option<String>) {
        let sample = Sample { id: self.id.clone(), path: path.to_owned(), value, becomes };
        self.classes.push((class, sample));
    }

    /// Classifies a number, and returns what it is.
    pub(super) fn number(
        &mut self,
        document: &RawDocument,
        path: &str,
        places: Option<u32>,
    ) -> Number {
        let value = at(document, path);
        let number = classify(value, places);
        if let (Number::Odd(class, becomes), Some(value)) = (&number, value) {
            self.push(*class, path, shown(value), becomes.map(|becomes| becomes.to_string()));
        }
        number
    }

    /// Size, fields that stand twice, and the first thing that stands on the way to fields.
    pub(super) fn whole(&mut self, stored: Stored<'_>, shape: Shape<'_>) {
        if stored.bytes > BYTES_MAX {
            self.add(Class::Large, "", format!("{} bytes", stored.bytes));
        }
        if stored.repeats {
            self.add(Class::FieldTwice, "", "a field stands twice".to_owned());
        }
        for parent in shape.parents() {
            let class = match at(stored.document, parent) {
                None | Some(RawBsonRef::Document(_)) => continue,
                Some(RawBsonRef::Array(_)) => Class::ArrayOnTheWay,
                Some(_) => Class::ScalarOnTheWay,
            };
            let value = at(stored.document, parent).map(shown).unwrap_or_default();
            self.add(class, parent, value);
            return;
        }
    }

    /// The id by which the document is known.
    pub(super) fn id(&mut self, document: &RawDocument, shape: Shape<'_>) {
        let path = shape.path("_id");
        let Some(id) = present(document, &path) else {
            self.add(Class::NoId, &path, "missing".to_owned());
            return;
        };
        match shape.id_kind().text(id) {
            None => self.add(Class::IdOfAnotherKind, &path, shown(id)),
            Some(text) if check_name("_id", &text).is_err() => {
                self.add(Class::IdLength, &path, shown(id));
            }
            Some(_) => {}
        }
    }
}

/// The id of a document as text: its key, where it has one of the schema's kind, else its `_id`.
pub(super) fn id_of(document: &RawDocument, shape: Shape<'_>) -> String {
    let key = present(document, &shape.path("_id"));
    if let Some(text) = key.and_then(|key| shape.id_kind().text(key)) {
        return echo(&text).into_owned();
    }
    let id = document.get("_id").ok().flatten().map(RawBson::from);
    match id.map(Bson::try_from) {
        Some(Ok(Bson::String(id))) => echo(&id).into_owned(),
        Some(Ok(id)) => echo(&id.to_string()).into_owned(),
        Some(Err(_)) | None => "an _id that can't be read".to_owned(),
    }
}
