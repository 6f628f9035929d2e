//! The steps of the careless neighbour, each a pure function of a random number generator.
//!
//! Owns the kinds of odd transactions, messages and edits, and how each of them must end. Promises
//! that only accounts of the neighbour's own are made unreadable. Its transactions also name the
//! load's accounts: so good accounts are touched by odd transactions, never the other way round.

use harness::laid_out;
use harness::odd::{
    self, AccountFault, FILLING, account_faults, bookkeeping_faults, filled_up, large,
};
use mongo::{Store, TRANSACTIONS};
use mongodb::bson::{Bson, DateTime, Decimal128, Document, RawDocumentBuf, doc};
use queue::{SOLO, WORK};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;

use super::load::{self, CURRENCY};

/// The beginning of all ids of the neighbour.
pub const PREFIX: &str = "neighbour-";

/// The bytes that are left in a transaction without room.
const SPARE: usize = 60;

/// How many accounts the neighbour has.
const ACCOUNTS: usize = 20;

/// The names of its accounts.
#[must_use]
pub fn accounts() -> Vec<String> {
    (0..ACCOUNTS).map(|number| format!("{PREFIX}account-{number:02}")).collect()
}

/// How an odd transaction must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is valid, or becomes valid when its bookkeeping is repaired: done or canceled.
    Either,
    /// Canceled: no worker could settle it.
    Canceled,
    /// The neighbour deletes it at the end: no message can carry its id, or the validator refuses
    /// every change of it. Until then it stays as it was, or is canceled, and then it stays.
    Deleted,
}

/// A change that makes a transaction sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// It gets a date of creation.
    Dated,
    /// It loses this field.
    Without(&'static str),
}

impl Mend {
    /// The update, for documents as their owner stores them.
    #[must_use]
    pub fn stored(self, store: &Store) -> Document {
        let path = |field: &str| laid_out::path(store, TRANSACTIONS, field);
        match self {
            Mend::Dated => doc! { "$set": { path("createdAt"): DateTime::now() } },
            Mend::Without(FILLING) => doc! { "$unset": { FILLING: "" } },
            Mend::Without(field) => doc! { "$unset": { path(field): "" } },
        }
    }
}

/// A transaction of the neighbour.
#[derive(Clone, Debug)]
pub struct OddTransaction {
    /// Its id.
    pub id: Bson,
    /// What is inserted.
    pub document: RawDocumentBuf,
    /// Its changes of balances if it is done.
    pub legs: Vec<(String, i64)>,
    /// How it must end.
    pub end: End,
    /// What makes it possible to claim and read it at the end.
    pub mend: Option<Mend>,
}

impl OddTransaction {
    /// What is inserted, as the owner stores it.
    ///
    /// # Panics
    /// When it can't be stored: a mistake in this file.
    #[must_use]
    pub fn stored(&self, store: &Store) -> RawDocumentBuf {
        if store.layout().is_none() {
            return self.document.clone();
        }
        if self.mend == Some(Mend::Without(FILLING)) {
            // As large again as it was, by a field that is nobody's.
            let mut own = Document::try_from(&self.document).expect("it is sound but for its size");
            own.remove(FILLING);
            let full = filled_up(laid_out::stored(store, TRANSACTIONS, own), SPARE);
            return RawDocumentBuf::try_from(&full).expect("a document has bytes");
        }
        odd::stored(store, TRANSACTIONS, &self.document)
    }
}

/// One step of the neighbour.
#[derive(Clone, Debug)]
pub enum Mischief {
    /// Makes an account of its own unreadable.
    Spoil(String, AccountFault),
    /// Repairs an account that it has made unreadable.
    Mend(String),
    /// Inserts a transaction past the validator, and publishes it if it has a message.
    Insert(Box<OddTransaction>, Option<Vec<u8>>),
    /// Publishes something to the queue of a routing key.
    Publish(&'static str, Vec<u8>),
}

/// The next step; `number` is unique.
#[must_use]
pub fn next(rng: &mut StdRng, number: u32) -> Mischief {
    let own = || format!("{PREFIX}account-{:02}", number as usize % ACCOUNTS);
    match rng.random_range(0..10) {
        0 => {
            let faults: Vec<_> = account_faults().into_iter().filter(|f| !f.decimal).collect();
            Mischief::Spoil(own(), faults[rng.random_range(0..faults.len())].clone())
        }
        1 => Mischief::Mend(own()),
        2 => {
            let key = if rng.random_bool(0.3) { SOLO } else { WORK };
            Mischief::Publish(key, message(rng))
        }
        _ => {
            let transaction = transaction(rng, number);
            // Sweepers have to find the transactions that are not published.
            let published = rng.random_bool(0.5);
            let message = published.then(|| beside(rng, transaction.id.as_str())).flatten();
            Mischief::Insert(Box::new(transaction), message)
        }
    }
}

/// A message with an id among others that may or may not exist.
fn beside(rng: &mut StdRng, id: Option<&str>) -> Option<Vec<u8>> {
    let mut ids = stray(rng);
    ids.insert(ids.len() / 2, id?.to_owned());
    Some(json!({ "ids": ids }).to_string().into_bytes())
}

/// Ids of the load's rows.
fn stray(rng: &mut StdRng) -> Vec<String> {
    (0..10)
        .map(|_| {
            let (chunk, place) = (rng.random_range(0..600), rng.random_range(0..100));
            format!("p{}-{chunk:06}-{place:04}", rng.random_range(0..2))
        })
        .collect()
}

fn message(rng: &mut StdRng) -> Vec<u8> {
    match rng.random_range(0..8) {
        0 => b"not JSON".to_vec(),
        1 => format!("{{\"ids\":\"{}\"}}", "x".repeat(200_000)).into_bytes(),
        2 => vec![0xff; 1_000_000],
        3 => json!({ "ids": vec!["x"; 1_001] }).to_string().into_bytes(),
        4 => json!({ "ids": stray(rng), "tries": u32::MAX }).to_string().into_bytes(),
        5 => json!({ "ids": stray(rng), "strikes": u32::MAX }).to_string().into_bytes(),
        // Sweepers send such markers, with the present time.
        6 => json!({ "ids": [], "marker": i64::MAX }).to_string().into_bytes(),
        _ => {
            let mut ids = stray(rng);
            ids.extend(["line\nbreak".to_owned(), "x".repeat(300), String::new()]);
            json!({ "ids": ids }).to_string().into_bytes()
        }
    }
}

fn transaction(rng: &mut StdRng, number: u32) -> OddTransaction {
    let own = format!("{PREFIX}account-{:02}", rng.random_range(0..ACCOUNTS));
    let theirs = load::any(rng);
    let (from, to) = if rng.random_bool(0.5) { (own, theirs) } else { (theirs, own) };
    let value = rng.random_range(1..=50);
    let sound = Sound { id: format!("{PREFIX}{number:07}"), from, to, value };
    match rng.random_range(0..1_000) {
        0..550 => sound.with(&doc! {}, End::Either, None),
        550..700 => {
            let faults = bookkeeping_faults();
            let (_, fields) = &faults[rng.random_range(0..faults.len())];
            let mend = if fields.contains_key("createdAt") {
                Mend::Dated
            } else {
                Mend::Without("attempts")
            };
            let mend = Some(mend);
            sound.with(fields, End::Either, mend)
        }
        700..850 => {
            let (field, value) = invalid(rng, &sound);
            sound.with(&doc! { field: value }, End::Deleted, None)
        }
        850..900 => sound.repeating_keys(),
        900..940 => sound.with_bytes_that_are_no_text(),
        940..995 => {
            let id: Bson = match rng.random_range(0..3) {
                0 => format!("{}\n", sound.id).into(),
                1 => format!("{}{}", sound.id, "x".repeat(200)).into(),
                _ => doc! { "neighbour": i64::from(number) }.into(),
            };
            sound.with(&doc! { "_id": id }, End::Deleted, None)
        }
        995..998 => sound.with(&doc! { "currency": large() }, End::Canceled, None),
        _ => sound.without_room(),
    }
}

/// A field that makes a transfer invalid.
fn invalid(rng: &mut StdRng, sound: &Sound) -> (&'static str, Bson) {
    let nan: Decimal128 = "NaN".parse().expect("a Decimal128");
    let mut wrong = vec![
        ("value", Bson::from(-1_i64)),
        ("value", 0_i64.into()),
        ("value", 0.5.into()),
        ("value", nan.into()),
        ("value", i64::MIN.into()),
        ("value", "5".into()),
        ("destination", sound.from.as_str().into()),
        ("destination", 7.into()),
        ("source", "a\u{1}b".into()),
        ("currency", 978.into()),
        ("legs", "none".into()),
    ];
    wrong.swap_remove(rng.random_range(0..wrong.len()))
}

/// A valid transfer.
struct Sound {
    id: String,
    from: String,
    to: String,
    value: i64,
}

impl Sound {
    fn document(&self) -> Document {
        let mut document = odd::transfer(&self.id, &self.from, &self.to, self.value);
        document.insert("currency", CURRENCY);
        document
    }

    fn with(&self, fields: &Document, end: End, mend: Option<Mend>) -> OddTransaction {
        let mut document = self.document();
        document.extend(fields.clone());
        self.odd(&document, end, mend)
    }

    fn odd(&self, document: &Document, end: End, mend: Option<Mend>) -> OddTransaction {
        OddTransaction {
            id: document.get("_id").cloned().unwrap_or(Bson::Null),
            document: RawDocumentBuf::try_from(document).expect("a document has bytes"),
            legs: vec![(self.from.clone(), -self.value), (self.to.clone(), self.value)],
            end,
            mend,
        }
    }

    /// It is so large that no claim can be written into it.
    fn without_room(&self) -> OddTransaction {
        self.odd(&filled_up(self.document(), SPARE), End::Either, Some(Mend::Without(FILLING)))
    }

    fn with_bytes_that_are_no_text(&self) -> OddTransaction {
        let odd = self.with(&doc! {}, End::Canceled, Some(Mend::Without("currency")));
        OddTransaction { document: odd::with_bytes_that_are_no_text(self.document()), ..odd }
    }

    fn repeating_keys(&self) -> OddTransaction {
        let document = odd::with_repeated_keys(&self.id, &self.from, &self.to);
        OddTransaction { document, ..self.with(&doc! {}, End::Canceled, None) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_kind_of_mischief_comes_and_only_its_own_accounts_are_spoiled() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for number in 0..2_000 {
            let kind = match next(&mut rng, number) {
                Mischief::Spoil(account, _) | Mischief::Mend(account) => {
                    assert!(accounts().contains(&account), "{account} is not its own");
                    "edit"
                }
                Mischief::Publish(..) => "publish",
                Mischief::Insert(odd, _) => {
                    assert_eq!(odd.legs.iter().map(|(_, amount)| amount).sum::<i64>(), 0);
                    match (odd.end, odd.mend.is_some()) {
                        (End::Either, false) => "sound",
                        (End::Either, true) => "unclaimable",
                        (End::Canceled, false) => "unreadable",
                        (End::Canceled, true) => "no text",
                        (End::Deleted, _) => "never",
                    }
                }
            };
            *seen.entry(kind).or_default() += 1;
        }
        assert_eq!(seen.len(), 7, "{seen:?}");
    }
}
