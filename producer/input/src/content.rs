//! The content of a row or of an item of an array without an id, as a digest that does not depend
//! on how the row is written.
//!
//! Two rows have the same digest if a transaction made from one counts as unchanged for the other
//! (see `submission`): the order of legs, the order of metadata fields and unneeded zeros of a
//! decimal do not count. Ids are made from these digests, so their definition must never change:
//! otherwise a file that was submitted with an older version would be paid again.

use bson::{Bson, Document, RawDocument, serialize_to_vec};
use ledger::transaction::{Body, Terms};
use sha2::{Digest, Sha256};

/// The first 96 bits of a digest. Among ten million rows, the chance that two different contents
/// have the same digest is 10^-15; even then they get two ids, as two rows of the same content do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentDigest(pub [u8; 12]);

impl ContentDigest {
    /// The digest of a transaction's content.
    ///
    /// # Errors
    /// When the metadata can't be written as BSON.
    pub fn of(body: &Body) -> Result<ContentDigest, String> {
        let mut fields = Fields(Sha256::new());
        let mut legs: Vec<_> = body.legs().iter().collect();
        // No account has two legs, so sorting by account gives one order only.
        legs.sort_unstable_by_key(|leg| &leg.account);
        fields.add(&(legs.len() as u64).to_le_bytes());
        for leg in legs {
            fields.add(leg.account.as_bytes());
            fields.add(if leg.amount.is_int() { b"int" } else { b"decimal" });
            fields.add(&leg.amount.nanos().to_le_bytes());
        }
        fields.add_optional("currency", body.currency.as_deref().map(str::as_bytes));
        fields.add_optional("reverses", body.reverses.as_deref().map(str::as_bytes));
        let metadata = body.metadata.as_ref().map(|raw| in_order(raw)).transpose();
        let metadata = metadata.map_err(|error| format!("metadata: {error}"))?;
        fields.add_optional("metadata", metadata.as_deref());
        fields.add_terms(body.terms());
        let mut bits = [0; 12];
        bits.copy_from_slice(&fields.0.finalize()[..12]);
        Ok(ContentDigest(bits))
    }
}

/// A digest of fields. Each field is preceded by its length, so different lists of fields never
/// give the same bytes.
struct Fields(Sha256);

impl Fields {
    fn add(&mut self, field: &[u8]) {
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
    }

    fn add_optional(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.add(name.as_bytes());
            self.add(value);
        }
    }

    /// A row without terms has the digest that it had before there were any.
    fn add_terms(&mut self, terms: &Terms) {
        self.add_optional("hold", terms.hold.then_some(&[1]));
        for (name, moment) in [
            ("holdExpiresAt", terms.hold_expires_at),
            ("notBefore", terms.not_before),
            ("expiresAt", terms.expires_at),
        ] {
            let millis = moment.map(|moment| moment.timestamp_millis().to_le_bytes());
            self.add_optional(name, millis.as_ref().map(<[u8; 8]>::as_slice));
        }
        self.add_optional("exclusiveKey", terms.exclusive_key.as_deref().map(str::as_bytes));
    }
}

/// The bytes of a document with its fields in the order of their names, on every level.
fn in_order(raw: &RawDocument) -> Result<Vec<u8>, bson::error::Error> {
    serialize_to_vec(&sorted(Document::try_from(raw)?))
}

/// The same document with its fields in the order of their names, on every level.
fn sorted(document: Document) -> Document {
    let mut fields: Vec<(String, Bson)> = document.into_iter().collect();
    fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    fields.into_iter().map(|(name, value)| (name, sorted_value(value))).collect()
}

fn sorted_value(value: Bson) -> Bson {
    match value {
        Bson::Document(document) => Bson::Document(sorted(document)),
        Bson::Array(values) => Bson::Array(values.into_iter().map(sorted_value).collect()),
        scalar => scalar,
    }
}

/// A digest of many texts that does not depend on their order, in memory of a fixed size: the sum
/// of their digests.
#[derive(Debug, Default)]
pub struct Multiset {
    count: u64,
    sum: [u64; 4],
}

impl Multiset {
    /// One more, by its SHA-256.
    pub fn add(&mut self, digest: &[u8]) {
        self.count += 1;
        let mut carried = false;
        for (limb, bytes) in self.sum.iter_mut().zip(digest.chunks_exact(8)) {
            let added = bytes.iter().rev().fold(0, |all, byte| (all << 8) | u64::from(*byte));
            let (sum, over) = limb.overflowing_add(added);
            let (sum, again) = sum.overflowing_add(u64::from(carried));
            (*limb, carried) = (sum, over || again);
        }
    }

    /// The digest of all.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut all = Sha256::new().chain_update(self.count.to_le_bytes());
        self.sum.iter().for_each(|limb| all.update(limb.to_le_bytes()));
        all.finalize().into()
    }
}

/// The contents that occur more than once, sorted: only their rows have to be counted.
pub fn repeated(mut digests: Vec<ContentDigest>) -> Vec<ContentDigest> {
    digests.sort_unstable();
    let same = digests.chunk_by(|one, other| one == other);
    same.filter(|same| same.len() > 1).map(|same| same[0]).collect()
}

/// Numbers the rows of the same content in one reading of a file, from 1.
#[derive(Debug)]
pub struct Occurrences<'a> {
    /// Sorted.
    repeated: &'a [ContentDigest],
    seen: Vec<u32>,
}

impl Occurrences<'_> {
    /// Nothing read so far; `repeated` is sorted.
    pub fn new(repeated: &[ContentDigest]) -> Occurrences<'_> {
        Occurrences { repeated, seen: vec![0; repeated.len()] }
    }

    /// The number of the next row, which has this content.
    pub fn next(&mut self, content: ContentDigest) -> u32 {
        let Ok(at) = self.repeated.binary_search(&content) else { return 1 };
        // A file has fewer lines than a u32 can count.
        self.seen[at] += 1;
        self.seen[at]
    }
}

#[cfg(test)]
mod tests {
    use ledger::notation::{Form, Notation};

    use super::*;
    use crate::{Defaults, Record, TRANSFER, parse_transfer};

    fn digest(line: &str) -> ContentDigest {
        // Of a ledger that takes it.
        let form = if line.contains('.') { Form::Decimals } else { Form::MinorUnits };
        let notation = Notation { form, ..Notation::default() }.into();
        let defaults = Defaults { currency: Some("EUR".into()), notation };
        let record = Record::from_json(line, TRANSFER).expect(line);
        let transfer = parse_transfer(record, &defaults).expect(line);
        assert_eq!(transfer.id, None, "{line}");
        ContentDigest::of(&transfer.body).expect(line)
    }

    #[test]
    fn the_same_content_has_one_digest_however_it_is_spelled() {
        for (one, other) in [
            (
                r#"{"source":"a","destination":"b","value":"12.5"}"#,
                r#"{"currency":"EUR","value":"12.50","destination":"b","source":"a"}"#,
            ),
            (
                r#"{"source":"a","destination":"b","value":5}"#,
                r#"{"legs":[{"account":"b","amount":5},{"amount":"-5","account":"a"}]}"#,
            ),
            (
                r#"{"source":"a","destination":"b","value":5,"metadata":{"x":[{"p":1,"q":2}],"y":1}}"#,
                r#"{"source":"a","destination":"b","value":5,"metadata":{"y":1,"x":[{"q":2,"p":1}]}}"#,
            ),
            (
                r#"{"source":"a","destination":"b","value":5,"notBefore":"2026-11-01T00:00:00Z"}"#,
                r#"{"source":"a","destination":"b","value":5,"notBefore":"2026-11-01T01:00:00+01:00",
                    "hold":false}"#,
            ),
        ] {
            assert_eq!(digest(one), digest(other), "{one} and {other}");
        }
    }

    #[test]
    fn other_content_has_another_digest() {
        let lines = [
            r#"{"source":"a","destination":"b","value":5}"#,
            r#"{"source":"b","destination":"a","value":5}"#,
            r#"{"source":"a","destination":"b","value":6}"#,
            r#"{"source":"a","destination":"b","value":"5.0"}"#,
            r#"{"source":"a","destination":"c","value":5}"#,
            r#"{"source":"a","destination":"b","value":5,"currency":"USD"}"#,
            r#"{"source":"a","destination":"b","value":5,"metadata":{}}"#,
            r#"{"source":"a","destination":"b","value":5,"metadata":{"n":1}}"#,
            r#"{"source":"a","destination":"b","value":5,"metadata":{"n":"1"}}"#,
            r#"{"source":"a","destination":"b","value":5,"metadata":{"n":[1,2]}}"#,
            r#"{"source":"a","destination":"b","value":5,"metadata":{"n":[2,1]}}"#,
            r#"{"source":"a","destination":"b","value":5,"hold":true}"#,
            r#"{"source":"a","destination":"b","value":5,"notBefore":"2026-11-01T00:00:00Z"}"#,
            r#"{"source":"a","destination":"b","value":5,"expiresAt":"2026-11-01T00:00:00Z"}"#,
            r#"{"source":"a","destination":"b","value":5,"exclusiveKey":"a-for-b"}"#,
            r#"{"source":"a","destination":"b","value":5,"exclusiveKey":"b-for-a"}"#,
        ];
        let mut digests: Vec<ContentDigest> = lines.iter().map(|line| digest(line)).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), lines.len());
    }

    #[test]
    fn a_digest_of_many_depends_on_what_they_are_and_how_often_not_on_their_order() {
        let digest = |texts: &[&str]| {
            let mut all = Multiset::default();
            texts.iter().for_each(|text| all.add(&Sha256::digest(text.as_bytes())));
            all.digest()
        };
        let all = digest(&["a", "b", "b", "c"]);
        assert_eq!(all, digest(&["b", "c", "a", "b"]));
        for other in [&["a", "b", "c"][..], &["a", "b", "b", "c", "c"], &["a", "b", "b", "d"], &[]]
        {
            assert_ne!(all, digest(other), "{other:?}");
        }
    }

    #[test]
    fn rows_of_the_same_content_are_numbered_and_the_others_are_the_first() {
        let [a, b, c] = [1, 2, 3].map(|n| ContentDigest([n; 12]));
        let repeated = repeated(vec![c, a, b, c, a, c]);
        assert_eq!(repeated, [a, c]);
        let mut occurrences = Occurrences::new(&repeated);
        let numbers = [c, a, b, c, a, c].map(|content| occurrences.next(content));
        assert_eq!(numbers, [1, 1, 1, 2, 2, 3]);
    }
}
