//! Which documents the database accepts in `accounts` and `transactions`, whoever writes them.
//!
//! Owns the two validators. Promises that an accepted account can be read
//! ([`Account::from_raw`](ledger::account::Account::from_raw)), and that the `_id` of a transaction
//! inserted as `initial` fits a message ([`Message::parse`](ledger::message::Message::parse)).
//! Finer rules on a transaction's content are those of [`Body`](ledger::transaction::Body): a
//! worker cancels transactions that break them.
//!
//! Ids are checked by their kind: under a schema they may be ObjectIds or whole numbers. The rules
//! name Tandem's fields all the same; they are translated when they are sent.
//!
//! Each of the five writes of a transfer pays for them. A `$jsonSchema` would cost 2 µs more than a
//! plain query; for five numbers of an account one `$expr` costs less than plain comparisons.
//! Comparisons of a plain query like `{$gt: ""}` never cross types, and NaN is neither above nor
//! below anything. A list matches where one of its elements does, so lists are ruled out by name.

use layout::IdKind;
use ledger::account::Status;
use ledger::amount::Amount;
use ledger::limits::{LEGS_MAX, NAME_BYTES_MAX};
use ledger::transaction::{DUE_AT, State, UNPUBLISHED};
use mongodb::bson::{Bson, Document, Regex, doc};

use super::numbers::{self, Yields};

/// Not empty, and without control characters, also those beyond ASCII. `$` would match before a
/// line feed at the end; `\z` does not. Text that is not valid UTF-8 matches nothing.
const NAME: &str = r"^[^\x00-\x1f\x7f-\x9f]{1,200}\z";

// The pattern counts characters, each of at least one byte; see `short_id` for the bytes.
const _: () = assert!(NAME_BYTES_MAX == 200);

/// Which documents are accounts, if their ids are of this kind.
pub(super) fn accounts(ids: IdKind) -> Document {
    let expression = |raw: mongodb::bson::RawDocumentBuf| {
        Document::try_from(raw).expect("an expression of ours is valid BSON")
    };
    let statuses = Status::ALL.map(Status::as_str);
    let balance = doc! { "$ifNull": ["$balance", 0] };
    let mut rules = is_id("_id", ids);
    let expression = doc! {
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
    };
    also(&mut rules, expression);
    rules
}

/// Which documents are transactions, if the ids of accounts and their own are of these kinds. Fields
/// that never change are checked only while a transaction is `scheduled` or `initial`. That costs
/// the insert a little, and the other four writes of a transfer nothing.
pub(super) fn transactions(accounts: IdKind, own: IdKind) -> Document {
    let mut value = in_range();
    value.extend(of_type(&["long", "int", "decimal", "double"]));
    let mut transfer = doc! { "value": value };
    also(&mut transfer, is_id("source", accounts));
    also(&mut transfer, is_id("destination", accounts));
    also(&mut transfer, doc! { "legs": null });
    let first = [State::Scheduled, State::Initial];
    let later: Vec<Bson> =
        State::ALL.into_iter().filter(|state| !first.contains(state)).map(Bson::from).collect();
    let mut rules = is_id("_id", own);
    let further = doc! {
        "state": { "$in": State::ALL.map(Bson::from).to_vec(), "$not": of_type(&["array"]) },
        "createdAt": of_type(&["date"]),
        "lastModified": of_type(&["date"]),
        "$or": [transfer, { "legs": of_type(&["array"]), "value": null }],
        "$and": [
            { "$or": [{ "state": { "$in": later } }, new_transaction(accounts, own)] },
            // Otherwise no sweeper would find it.
            { "$or": [{ "state": { "$ne": State::Scheduled } }, { DUE_AT: of_type(&["date"]) }] },
        ],
    };
    also(&mut rules, further);
    rules
}

/// The checks on a new transaction only.
fn new_transaction(accounts: IdKind, own: IdKind) -> Document {
    let mut rules = match own {
        IdKind::Text => doc! { "_id": name() },
        IdKind::ObjectId | IdKind::Int64 => doc! {},
    };
    let named = [
        ("source", accounts),
        ("destination", accounts),
        ("currency", IdKind::Text),
        ("reverses", own),
    ];
    for (field, kind) in named {
        also(&mut rules, no_id_or(field, kind));
    }
    let further = doc! {
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
        // Any other value would mean nothing to a worker, and something to who has written it.
        UNPUBLISHED: {
            "$in": [Bson::Null, Bson::Boolean(true), Bson::Boolean(false)],
            "$not": of_type(&["array"]),
        },
    };
    also(&mut rules, further);
    let short_id = (own == IdKind::Text).then(short_id);
    let once: Vec<Document> =
        short_id.into_iter().chain([exact_value(), each_field_once()]).collect();
    also(&mut rules, doc! { "$expr": { "$and": once } });
    rules
}

/// Adds conditions. One by an operator that stands there already goes into `$and`.
fn also(rules: &mut Document, more: Document) {
    for (name, condition) in more {
        if !rules.contains_key(&name) {
            rules.insert(name, condition);
        } else if let Some(Bson::Array(all)) = rules.get_mut("$and") {
            all.push(doc! { name: condition }.into());
        } else {
            rules.insert("$and", [doc! { name: condition }]);
        }
    }
}

/// Whether a field has an id of this kind. A double is an id where it is a whole number that no
/// other one is rounded to; an expression reads null in place of one that is not whole.
fn is_id(field: &str, kind: IdKind) -> Document {
    let no_list = of_type(&["array"]);
    match kind {
        IdKind::Text => doc! { field: { "$gt": "" } },
        IdKind::ObjectId => doc! { field: { "$type": ["objectId"], "$not": no_list } },
        IdKind::Int64 => {
            let most = Amount::DOUBLE_MAX;
            let in_range = doc! {
                "$type": ["double"], "$not": no_list.clone(), "$gt": -most, "$lt": most,
            };
            let is_whole = doc! { "$ne": [format!("${field}"), null] };
            doc! { "$or": [
                { field: { "$type": ["int", "long"], "$not": no_list } },
                { field: in_range, "$expr": is_whole },
            ] }
        }
    }
}

/// Whether a field has no id, or one that fits a message. `null` also stands for a field that is not
/// there.
fn no_id_or(field: &str, kind: IdKind) -> Document {
    match kind {
        IdKind::Text => doc! { field: { "$in": [Bson::Null, name()] } },
        IdKind::ObjectId | IdKind::Int64 => doc! { "$or": [{ field: null }, is_id(field, kind)] },
    }
}

/// A text that fits a message.
fn name() -> Bson {
    Bson::RegularExpression(Regex {
        pattern: NAME.try_into().expect("the pattern has no zero byte"),
        options: "".try_into().expect("no options"),
    })
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
