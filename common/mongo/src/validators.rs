//! Which documents the database accepts in `accounts` and `transactions`, whoever writes them.
//!
//! Owns the two validators. Promises that an accepted account can be read
//! ([`Account::from_raw`](ledger::account::Account::from_raw)), and that the `_id` of a transaction
//! inserted as `initial` fits a message ([`Message::parse`](ledger::message::Message::parse)).
//! Finer rules on a transaction's content are those of [`Body`](ledger::transaction::Body): a
//! worker cancels transactions that break them.
//!
//! Each of the five writes of a transfer pays for them. A `$jsonSchema` would cost 2 µs more than a
//! plain query; for five numbers of an account one `$expr` costs less than plain comparisons.
//! Comparisons of a plain query like `{$gt: ""}` never cross types, and NaN is neither above nor
//! below anything. A list matches where one of its elements does, so lists are ruled out by name.

use ledger::account::Status;
use ledger::amount::Amount;
use ledger::limits::{LEGS_MAX, NAME_BYTES_MAX};
use ledger::transaction::{DUE_AT, State};
use mongodb::bson::{Bson, Document, Regex, doc};

use super::numbers::{self, Yields};

/// Not empty, and without control characters, also those beyond ASCII. `$` would match before a
/// line feed at the end; `\z` does not. Text that is not valid UTF-8 matches nothing.
const NAME: &str = r"^[^\x00-\x1f\x7f-\x9f]{1,200}\z";

// The pattern counts characters, each of at least one byte; see `short_id` for the bytes.
const _: () = assert!(NAME_BYTES_MAX == 200);

/// Which documents are accounts.
pub(super) fn accounts() -> Document {
    let expression = |raw: mongodb::bson::RawDocumentBuf| {
        Document::try_from(raw).expect("an expression of ours is valid BSON")
    };
    let statuses = Status::ALL.map(Status::as_str);
    let balance = doc! { "$ifNull": ["$balance", 0] };
    doc! {
        "_id": { "$gt": "" },
        "$expr": { "$and": [
            { "$or": [
                expression(numbers::whole_account(Yields::Whether)),
                expression(numbers::decimal_account(Yields::Whether)),
            ] },
            { "$in": [{ "$ifNull": ["$status", Status::Open.as_str()] }, &statuses[..]] },
            { "$in": [{ "$type": "$currency" }, ["missing", "string", "null"]] },
            // These conditions hold when an account is inserted: no marks, and the opening balance
            // or none. Only then the fields are checked for repetition; an existing account was
            // checked at its insert.
            { "$or": [
                { "$ne": [&balance, { "$ifNull": ["$openingBalance", &balance] }] },
                { "$ne": [{ "$ifNull": ["$pendingTransactions", []] }, []] },
                each_field_once(),
            ] },
        ] },
    }
}

/// Which documents are transactions. Fields that never change are checked only while a transaction
/// is `scheduled` or `initial`. That costs the insert a little, and the other four writes of a
/// transfer nothing.
pub(super) fn transactions() -> Document {
    let text = doc! { "$gt": "" };
    let mut value = in_range();
    value.extend(of_type(&["long", "int", "decimal", "double"]));
    let first = [State::Scheduled, State::Initial];
    let later: Vec<Bson> =
        State::ALL.into_iter().filter(|state| !first.contains(state)).map(Bson::from).collect();
    doc! {
        "_id": &text,
        "state": { "$in": State::ALL.map(Bson::from).to_vec(), "$not": of_type(&["array"]) },
        "createdAt": of_type(&["date"]),
        "lastModified": of_type(&["date"]),
        "$or": [
            { "value": value, "source": &text, "destination": &text, "legs": null },
            { "legs": of_type(&["array"]), "value": null },
        ],
        "$and": [
            { "$or": [{ "state": { "$in": later } }, new_transaction()] },
            // Otherwise no sweeper would find it.
            { "$or": [{ "state": { "$ne": State::Scheduled } }, { DUE_AT: of_type(&["date"]) }] },
        ],
    }
}

/// The checks on a new transaction only.
fn new_transaction() -> Document {
    let name = Bson::RegularExpression(Regex {
        pattern: NAME.try_into().expect("the pattern has no zero byte"),
        options: "".try_into().expect("no options"),
    });
    // `null` also stands for a field that is not there.
    let no_name_or = |name: &Bson| doc! { "$in": [Bson::Null, name.clone()] };
    doc! {
        "_id": &name,
        "source": no_name_or(&name),
        "destination": no_name_or(&name),
        "currency": no_name_or(&name),
        "reverses": no_name_or(&name),
        format!("legs.{LEGS_MAX}"): { "$exists": false },
        // A claim does not depend on this rule: it replaces a wrong value by a whole number. The
        // rule tells the writer of a wrong value at once.
        "$nor": [
            { "attempts": { "$exists": true, "$not": of_type(&["long", "int"]) } },
            { "attempts": of_type(&["array"]) },
            { "attempts": { "$lt": 0 } },
            { "attempts": { "$gt": i32::MAX } },
        ],
        "$or": [{ "metadata": null }, { "metadata": of_type(&["object"]) }],
        "$expr": { "$and": [short_id(), exact_value(), each_field_once()] },
    }
}

/// A value that is a double is whole, and below 2^53.
fn exact_value() -> Document {
    let is_exact = doc! { "$and": [
        { "$eq": ["$value", { "$trunc": "$value" }] },
        { "$lt": [{ "$abs": "$value" }, Amount::DOUBLE_MAX] },
    ] };
    doc! { "$or": [{ "$ne": [{ "$type": "$value" }, "double"] }, is_exact] }
}

fn short_id() -> Document {
    let most = i64::try_from(NAME_BYTES_MAX).unwrap_or(i64::MAX);
    doc! { "$lte": [{ "$strLenBytes": "$_id" }, most] }
}

/// No field of the document occurs twice: `$mergeObjects` of the document alone keeps only the
/// first of each name. A pipeline update of a repeated field makes MongoDB 6.0 abort (an invariant
/// in `document_diff_serialization.cpp`), and claims and postings are such updates.
fn each_field_once() -> Document {
    doc! { "$eq": ["$$ROOT", { "$mergeObjects": ["$$ROOT"] }] }
}

fn in_range() -> Document {
    doc! { "$gte": -Amount::MAX, "$lte": Amount::MAX }
}

fn of_type(types: &[&str]) -> Document {
    doc! { "$type": types }
}
