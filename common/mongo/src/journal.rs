//! Lines of the journal as documents: how they are written, within a native transaction.
//!
//! Owns the form of a line and of the collection `tandem.journal`. A line names each account once,
//! and its entries name accounts by their places in that list, so that long names cost little:
//!
//! ```text
//! { _id, kind, at, application, accounts: [name…], nets: [amount…],
//!   done: [[_id, place, amount, place, amount…]…], canceled: [[_id, place…]…] }
//! ```
//!
//! `nets` has the sum of what the line books on each account, in the same order. `at` is the
//! server's clock. Promises that a line is never written over: a second one of the same name fails
//! and takes the whole transaction with it. `super::lines` reads them. Nothing removes a line but the
//! way back from a ledger ([`Store::remove_lines`]).

use std::collections::BTreeMap;

use ledger::amount::Amount;
use ledger::event::End;
use ledger::journal::{Entry, Line, Net};
use ledger::transaction::AccountId;
use mongodb::ClientSession;
use mongodb::bson::{Decimal128, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::due::note;
use super::index::Index;
use super::names::{BY_ACCOUNT, BY_TIME, EVENTS, JOURNAL};
use super::native::{Halt, Statement, update};
use super::own::{LINE, Own, PAGE, SUM};
use super::read::cstr;
use super::write::DUPLICATE_KEY;
use super::{Store, fault};
use ledger::{Fault, LedgerError};

/// Whether a fresh ledger has the index of lines, where its owner does not choose.
pub(super) const HISTORY_BY_DEFAULT: bool = true;

/// The indexes of lines: by the accounts that they name, oldest first, and by moments, for whoever
/// sums up. Their entries are written once, and no end of a later line changes them.
pub(super) fn indexes() -> Vec<Index> {
    let by_account = doc! { "accounts": 1, "at": 1, "_id": 1 };
    vec![
        Index::new(BY_ACCOUNT, by_account, doc! {}),
        Index::new(BY_TIME, doc! { "at": 1 }, doc! {}),
    ]
}

/// Writes a line, and the note that its events are due if there are any.
pub(super) async fn write(
    store: &Store,
    session: &mut ClientSession,
    operation: &'static str,
    line: &Line,
) -> Result<(), Halt> {
    let written = update(store, session, operation, JOURNAL, vec![statement(line)]).await;
    written.map_err(|halt| of_a_line(operation, halt))?;
    let Some(note) = note(line) else { return Ok(()) };
    let written = update(store, session, operation, EVENTS, vec![note]).await;
    written.map_err(|halt| of_a_line(operation, halt))
}

impl Store {
    /// Removes sums, then pages of the order, then lines, for whoever gives a ledger up: at most so
    /// many of one of them. Returns how many lines there were, and whether anything was left. What
    /// others have put into these collections stays.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn remove_lines(&self, most: u32) -> Result<(usize, bool), LedgerError> {
        for own in [SUM, PAGE] {
            if self.remove_some(own, most).await? > 0 {
                return Ok((0, true));
            }
        }
        let lines = self.remove_some(LINE, most).await?;
        Ok((lines, lines > 0))
    }

    async fn remove_some(&self, own: Own, most: u32) -> Result<usize, LedgerError> {
        const OPERATION: &str = "remove lines";
        let find = rawdoc! {
            "find": own.collection,
            "filter": own.all(),
            "projection": { "_id": 1 },
            // The reach of sums stands before the sums.
            "sort": { "_id": 1 },
            "limit": i64::from(most),
        };
        let id = |found: &RawDocument| Some(RawBson::from(found.get("_id").ok()??.to_owned()));
        let ids = self.find(OPERATION, find, id).await.map_err(LedgerError::without_effect)?;
        if ids.is_empty() {
            return Ok(0);
        }
        let (count, mut filter) = (ids.len(), own.all());
        filter.append(cstr("_id"), rawdoc! { "$in": RawArrayBuf::from_iter(ids) });
        match self.delete(OPERATION, own.collection, filter).await?.pop() {
            Some((_, refused)) => Err(LedgerError::lasting(OPERATION, refused.problem)),
            None => Ok(count),
        }
    }
}

/// What the server says against a line speaks against no transaction in it.
fn of_a_line(operation: &'static str, halt: Halt) -> Halt {
    let (code, problem) = match halt {
        Halt::Refused { code, problem } => (Some(code), problem),
        Halt::Driver(error) => match fault::classify(operation, &error) {
            classified if classified.fault == Fault::Refused => {
                (fault::code_of(&error), classified.message)
            }
            _ => return Halt::Driver(error),
        },
        other => return other,
    };
    // The same line is there: its transactions are final already, which a look shows.
    if code == Some(DUPLICATE_KEY) {
        return Halt::Conflict;
    }
    let message = format!("the journal can't be written: {problem}");
    Halt::Failed(LedgerError { fault: Fault::Denied, ..LedgerError::lasting(operation, message) })
}

/// Inserts the line of a batch.
fn statement(line: &Line) -> Statement {
    (insertion(&line.heading.id, content(line)), 1)
}

/// What a line says, beside its name and its moment. Whoever writes lines of the past gives them
/// both by himself.
#[must_use]
pub fn content(line: &Line) -> RawDocumentBuf {
    let nets = line.nets();
    let places: BTreeMap<&AccountId, i32> = nets.keys().zip(0..).collect();
    let entries = |end, of_an_entry: fn(&Entry, &BTreeMap<&AccountId, i32>) -> RawArrayBuf| {
        line.entries_of(end).map(|entry| of_an_entry(entry, &places)).collect::<RawArrayBuf>()
    };
    rawdoc! {
        "kind": LINE.kind,
        "application": line.heading.application.as_str(),
        "accounts": nets.keys().map(|account| account.as_ref()).collect::<RawArrayBuf>(),
        "nets": nets.values().map(net).collect::<RawArrayBuf>(),
        "done": entries(End::Done, done),
        "canceled": entries(End::Canceled, canceled),
    }
}

/// Inserts a line of this content: an upsert, because only an update takes the server's date. Where a
/// line of this name is there, it does not match, and the insert fails.
pub(super) fn insertion(id: &str, content: RawDocumentBuf) -> RawDocumentBuf {
    rawdoc! {
        "q": { "_id": id, "at": { "$exists": false } },
        "u": { "$setOnInsert": content, "$currentDate": { "at": true } },
        "upsert": true,
    }
}

/// A sum as it is stored: of minor units beyond Int64 as a decimal.
pub(super) fn net(net: &Net) -> RawBson {
    match Amount::from_nanos(net.nanos, !net.is_decimal) {
        Some(amount) => amount.into(),
        None => {
            let decimal = ledger::transaction::format_nanos(net.nanos).parse::<Decimal128>();
            RawBson::Decimal128(decimal.expect("it is a number of at most 34 digits"))
        }
    }
}

fn done(entry: &Entry, places: &BTreeMap<&AccountId, i32>) -> RawArrayBuf {
    let mut written = RawArrayBuf::new();
    written.push(entry.id.as_ref());
    for leg in &entry.legs {
        written.push(places[&leg.account]);
        written.push(RawBson::from(leg.amount));
    }
    written
}

fn canceled(entry: &Entry, places: &BTreeMap<&AccountId, i32>) -> RawArrayBuf {
    let mut written = RawArrayBuf::new();
    written.push(entry.id.as_ref());
    entry.legs.iter().for_each(|leg| written.push(places[&leg.account]));
    written
}

#[cfg(test)]
mod tests {
    use ledger::journal::Heading;
    use ledger::transaction::{Leg, NAME_BYTES_MAX, TransactionId};
    use mongodb::bson::RawBsonRef;

    use super::*;

    /// Of a batch.
    const LEGS_MAX: usize = 16_384;

    fn line(entries: Vec<Entry>) -> RawDocumentBuf {
        let application = "w".repeat(NAME_BYTES_MAX);
        let heading = Heading { id: "l".repeat(36), application, events_due_at: None };
        statement(&Line { heading, entries }).0
    }

    fn entry(id: &str, legs: &[(&str, i64)]) -> Entry {
        let leg = |(account, amount): &(&str, i64)| Leg {
            account: (*account).into(),
            amount: Amount::Int(*amount),
        };
        Entry { id: id.into(), end: End::Done, legs: legs.iter().map(leg).collect() }
    }

    #[test]
    fn the_largest_line_with_the_longest_names_is_half_of_what_the_server_takes() {
        let name = |n: usize| format!("{n:0>NAME_BYTES_MAX$}");
        let one = |n: usize| -> Entry {
            let id: TransactionId = name(n).into();
            let amount =
                Amount::Decimal("-999999999999999999.999999999".parse().expect("a number"));
            let leg = |side| Leg { account: name(2 * n + side).into(), amount };
            Entry { id, end: End::Done, legs: [0, 1].map(leg).to_vec() }
        };
        let bytes = line((0..LEGS_MAX / 2).map(one).collect()).as_bytes().len();
        assert!((5 << 20..8 << 20).contains(&bytes), "{bytes} bytes");
    }

    #[test]
    fn a_line_names_each_account_once_and_its_entries_name_places() {
        let mut refused = entry("v", &[("a", -7), ("d", 7)]);
        refused.end = End::Canceled;
        let line = line(vec![entry("t", &[("b", -5), ("a", 5)]), refused]);
        let content = line.get_document("u").and_then(|u| u.get_document("$setOnInsert"));
        let content: mongodb::bson::Document =
            content.expect("it inserts").try_into().expect("plain BSON");
        let array = |name: &str| content.get_array(name).expect(name).clone();
        let written = |value: mongodb::bson::Bson| value.as_array().expect("an array").clone();
        assert_eq!(
            written(doc! { "_": ["a", "b", "d"] }.remove("_").expect("it")),
            array("accounts")
        );
        assert_eq!(
            written(doc! { "_": [5_i64, -5_i64, 0_i64] }.remove("_").expect("it")),
            array("nets")
        );
        let entries = doc! { "_": [["t", 1, -5_i64, 0, 5_i64]] }.remove("_").expect("it");
        assert_eq!(written(entries), array("done"));
        assert_eq!(
            written(doc! { "_": [["v", 0, 2]] }.remove("_").expect("it")),
            array("canceled")
        );
    }

    #[test]
    fn a_sum_beyond_the_whole_numbers_is_a_decimal() {
        let legs = |n: usize| entry(&n.to_string(), &[("a", -Amount::MAX), ("b", Amount::MAX)]);
        let line = line((0..20).map(legs).collect());
        let content = line.get_document("u").and_then(|u| u.get_document("$setOnInsert"));
        let nets = content.expect("it inserts").get_array("nets").expect("an array");
        let Ok(Some(RawBsonRef::Decimal128(sum))) = nets.get(1) else { panic!("{nets:?}") };
        assert_eq!(sum.to_string(), "20000000000000000000");
    }
}
