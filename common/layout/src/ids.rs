//! Kinds of ids: what the `_id`s of a collection are in the database, and their text everywhere
//! else.
//!
//! Promises that two different values have two different texts, and that the text of a value is
//! read back as a value that the server takes for the same. Whole numbers of all types are the same
//! number to the server, and here.

use std::cmp::Ordering;

use bson::oid::ObjectId;
use bson::{RawBson, RawBsonRef, RawDocumentBuf, rawdoc};
use ledger::hex::{from_hex, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the ids of a collection are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdKind {
    /// Texts.
    #[default]
    #[serde(rename = "text")]
    Text,
    /// `ObjectId`s, whose text has 24 digits and small letters.
    #[serde(rename = "objectId")]
    ObjectId,
    /// Whole numbers.
    #[serde(rename = "int64")]
    Int64,
}

impl IdKind {
    /// The id in the database. What is no text of this kind stays a text, which no id of the
    /// collection equals.
    #[must_use]
    pub fn stored(self, text: &str) -> RawBson {
        let stored = match self {
            IdKind::Text => None,
            IdKind::ObjectId => from_hex(text).map(ObjectId::from_bytes).map(RawBson::ObjectId),
            IdKind::Int64 => text
                .parse::<i64>()
                .ok()
                .filter(|number| number.to_string() == text)
                .map(RawBson::Int64),
        };
        stored.unwrap_or_else(|| RawBson::String(text.to_owned()))
    }

    /// The server's types that an id of this kind may have.
    #[must_use]
    pub fn types(self) -> &'static [&'static str] {
        match self {
            IdKind::Text => &["string"],
            IdKind::ObjectId => &["objectId"],
            IdKind::Int64 => &["int", "long", "double", "decimal"],
        }
    }

    /// Whether a text is one of an id of this kind.
    #[must_use]
    pub fn takes(self, text: &str) -> bool {
        self == IdKind::Text || !matches!(self.stored(text), RawBson::String(_))
    }

    /// An id that is made from a text, and always the same one: the text itself, the beginning of
    /// its SHA-256 as an `ObjectId`, or a number below zero of the same.
    #[must_use]
    pub fn derived(self, text: String) -> String {
        match self {
            IdKind::Text => text,
            IdKind::ObjectId => hex(&Sha256::digest(text.as_bytes())[..12]),
            IdKind::Int64 => {
                let digest = Sha256::digest(text.as_bytes());
                let mut bytes: [u8; 8] = digest[..8].try_into().expect("the digest is longer");
                bytes[0] |= 0x80;
                i64::from_be_bytes(bytes).to_string()
            }
        }
    }

    /// What an id of this kind is, for people.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            IdKind::Text => "a text",
            IdKind::ObjectId => "an ObjectId (24 digits, 0-9 and a-f)",
            IdKind::Int64 => "a whole number",
        }
    }

    /// The text of an id in the database; none where it is of another kind.
    #[must_use]
    pub fn text(self, stored: RawBsonRef<'_>) -> Option<String> {
        match (self, stored) {
            (IdKind::Text, RawBsonRef::String(text)) => Some(text.to_owned()),
            (IdKind::ObjectId, RawBsonRef::ObjectId(id)) => Some(hex(&id.bytes())),
            (IdKind::Int64, RawBsonRef::Int64(id)) => Some(id.to_string()),
            (IdKind::Int64, RawBsonRef::Int32(id)) => Some(id.to_string()),
            (IdKind::Int64, RawBsonRef::Double(id)) => whole_double(id).map(|id| id.to_string()),
            (IdKind::Int64, RawBsonRef::Decimal128(id)) => whole_decimal(&id.to_string()),
            _ => None,
        }
    }

    /// The id in the database, as the server computes it from the path of a text. What is no text
    /// of this kind stays as it is: the server would cut 1.5 down to 1.
    #[must_use]
    pub fn stored_of(self, path: &str) -> RawBson {
        let to = match self {
            IdKind::Text => return RawBson::String(path.to_owned()),
            IdKind::ObjectId => "objectId",
            IdKind::Int64 => "long",
        };
        let id =
            rawdoc! { "$convert": { "input": path, "to": to, "onError": null, "onNull": null } };
        let is_text = rawdoc! { "$eq": [{ "$toString": "$$id" }, path] };
        let either = rawdoc! { "$cond": [is_text, "$$id", path] };
        rawdoc! { "$let": { "vars": { "id": id }, "in": either } }.into()
    }

    /// The order of two ids on the server, by their texts. What is no text of this kind comes last.
    #[must_use]
    pub fn order(self, one: &str, other: &str) -> Ordering {
        match self {
            // The server compares texts byte by byte, as Rust does, and so it does with the bytes
            // that the digits of an `ObjectId` stand for.
            IdKind::Text | IdKind::ObjectId => one.cmp(other),
            IdKind::Int64 => {
                let number = |text: &str| text.parse::<i64>().map_err(|_| text.to_owned());
                number(one).cmp(&number(other))
            }
        }
    }

    /// The same text as the server computes it from a path; null where the id is of another kind.
    #[must_use]
    pub fn text_of(self, path: &str) -> RawBson {
        let is_kind = match self {
            IdKind::Text => return RawBson::String(path.to_owned()),
            IdKind::ObjectId => rawdoc! { "$eq": [{ "$type": path }, "objectId"] },
            IdKind::Int64 => rawdoc! { "$eq": [path, whole(path)] },
        };
        let id = match self {
            IdKind::Text | IdKind::ObjectId => RawBson::String(path.to_owned()),
            IdKind::Int64 => RawBson::Document(whole(path)),
        };
        RawBson::Document(rawdoc! { "$cond": [is_kind, { "$toString": id }, null] })
    }
}

/// The whole number that a value is or is cut down to; null where there is none.
fn whole(path: &str) -> RawDocumentBuf {
    rawdoc! { "$convert": { "input": path, "to": "long", "onError": null, "onNull": null } }
}

/// A double that is a whole number is exactly that number, however large it is.
fn whole_double(id: f64) -> Option<i64> {
    let text = format!("{:.0}", id + 0.0);
    (id.fract() == 0.0).then(|| text.parse().ok()).flatten()
}

/// Decimals are equal to whole numbers, too, whatever their exponent is.
fn whole_decimal(id: &str) -> Option<String> {
    let id: rust_decimal::Decimal = id.parse().or_else(|_| from_scientific(id)).ok()?;
    id.is_integer().then(|| id.normalize().to_string()).filter(|id| id.parse::<i64>().is_ok())
}

fn from_scientific(id: &str) -> Result<rust_decimal::Decimal, rust_decimal::Error> {
    rust_decimal::Decimal::from_scientific(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_and_its_text_are_the_same_both_ways() {
        let id = ObjectId::from_bytes([7; 12]);
        for (kind, stored, text) in [
            (IdKind::Text, RawBson::from("a b"), "a b"),
            (IdKind::ObjectId, RawBson::ObjectId(id), "070707070707070707070707"),
            (IdKind::Int64, RawBson::Int64(-5), "-5"),
            (IdKind::Int64, RawBson::Int64(i64::MAX), "9223372036854775807"),
        ] {
            assert_eq!(kind.text(stored.as_raw_bson_ref()).as_deref(), Some(text));
            assert_eq!(kind.stored(text), stored);
            assert!(kind.takes(text));
        }
    }

    #[test]
    fn numbers_of_all_types_are_one_id_and_what_is_no_id_has_no_text() {
        let text = |stored: RawBson| IdKind::Int64.text(stored.as_raw_bson_ref());
        let decimal = |text: &str| RawBson::Decimal128(text.parse().expect("a decimal"));
        let same = [RawBson::Int32(1), RawBson::Int64(1), RawBson::Double(1.0), decimal("1.00")];
        for one in same.into_iter().chain([decimal("10E-1")]) {
            assert_eq!(text(one).as_deref(), Some("1"));
        }
        assert_eq!(text(RawBson::Double(1e16)).as_deref(), Some("10000000000000000"));
        assert_eq!(text(RawBson::Double(-0.0)).as_deref(), Some("0"));
        let nan = RawBson::Double(f64::NAN);
        for none in [RawBson::Double(1.5), RawBson::Double(1e19), nan, decimal("0.5"), "1".into()] {
            assert_eq!(text(none), None);
        }
        let hex = "070707070707070707070707";
        assert_eq!(IdKind::ObjectId.text(RawBson::from(hex).as_raw_bson_ref()), None);
        for (kind, text) in [
            (IdKind::ObjectId, "07070707070707070707070A"),
            (IdKind::ObjectId, "7"),
            (IdKind::Int64, "01"),
            (IdKind::Int64, "+1"),
            (IdKind::Int64, "-0"),
            (IdKind::Int64, "9223372036854775808"),
        ] {
            assert_eq!(kind.stored(text), RawBson::from(text), "{text}");
            assert!(!kind.takes(text), "{text}");
        }
    }

    #[test]
    fn ids_are_in_the_order_of_the_server() {
        let order = |kind: IdKind, one: &str, other: &str| kind.order(one, other);
        assert_eq!(order(IdKind::Text, "10", "9"), Ordering::Less);
        assert_eq!(order(IdKind::Int64, "10", "9"), Ordering::Greater);
        assert_eq!(order(IdKind::Int64, "-10", "-9"), Ordering::Less);
        assert_eq!(order(IdKind::Int64, "x", "9"), Ordering::Greater);
        let (low, high) = (ObjectId::from_bytes([9; 12]), ObjectId::from_bytes([10; 12]));
        assert_eq!(order(IdKind::ObjectId, &low.to_hex(), &high.to_hex()), low.cmp(&high));
    }
}
