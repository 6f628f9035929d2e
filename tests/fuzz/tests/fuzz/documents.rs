//! Transactions as other programs write them into the database.

use fuzz::bson::{Bson, framed, leaf, leaves, write};
use fuzz::judge::{Memory, told, within};
use fuzz::transfers::{Given, names, transactions};
use fuzz::tree::{Tree, spoils};
use fuzz::{Verdict, bytes, judge, run};
use ledger::transaction::Body;
use mongodb::bson::{DateTime, Decimal128, RawBson, RawDocument};
use proptest::prelude::*;

/// A value of metadata takes at least two bytes of BSON, and some hundred as a tree.
const MEMORY: Memory = Memory { base: 16 << 10, per_byte: 128 };

/// How a refusal begins: with the field.
const FIELDS: [&str; 10] = [
    "source: ",
    "destination: ",
    "value: ",
    "legs: ",
    "legs[",
    "currency: ",
    "reverses: ",
    "metadata: ",
    "fields: ",
    "amount: ",
];

/// The fields that the protocol reads, not the body: they may not stand twice.
const OTHERS: [&str; 7] =
    ["_id: ", "state: ", "claim: ", "leaseUntil: ", "takeoverAt: ", "attempts: ", "createdAt: "];

#[test]
fn a_transaction_that_others_wrote_is_read_or_refused_by_field() {
    run("transactions", &inputs(), check);
}

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let metadata = prop_oneof![
        3 => Just(None),
        1 => leaves().prop_map(|value| Some(Bson::object([("note", Tree::Leaf(value))]))),
    ];
    let whole = (transactions(), metadata).prop_map(|(given, metadata)| document(&given, metadata));
    (whole, spoils(leaves(), names(), 3), bytes::spoils(), any::<bool>()).prop_map(
        |(whole, of_tree, of_bytes, in_frame)| {
            let bytes = bytes::spoiled(write(&whole.spoiled(of_tree)), of_bytes);
            if in_frame { framed(bytes) } else { bytes }
        },
    )
}

/// Minor units below a thousand are written in all ways in which others write them.
fn amount(text: &str) -> RawBson {
    match text.parse::<i64>() {
        Ok(whole @ -999..=-1) => RawBson::Double(whole as f64),
        Ok(whole @ 1..=99) => RawBson::Int32(i32::try_from(whole).expect("it is small")),
        Ok(whole @ 100..=500) => RawBson::Double(whole as f64),
        Ok(whole) => RawBson::Int64(whole),
        Err(_) => RawBson::Decimal128(text.parse::<Decimal128>().expect("a decimal")),
    }
}

fn document(given: &Given, metadata: Option<Bson>) -> Bson {
    let mut fields = vec![("_id", leaf(given.id.clone().unwrap_or_else(|| "t".to_owned())))];
    match given.legs.as_slice() {
        [(source, _), (destination, value)] => fields.extend([
            ("source", leaf(source.as_str())),
            ("destination", leaf(destination.as_str())),
            ("value", leaf(amount(value))),
        ]),
        legs => {
            let leg = |(account, sum): &(String, String)| {
                Bson::object([("account", leaf(account.as_str())), ("amount", leaf(amount(sum)))])
            };
            fields.push(("legs", Tree::List(legs.iter().map(leg).collect())));
        }
    }
    fields.push(("state", leaf("initial")));
    fields.extend(given.currency.as_deref().map(|currency| ("currency", leaf(currency))));
    fields.extend(metadata.map(|metadata| ("metadata", metadata)));
    fields.push(("createdAt", leaf(RawBson::DateTime(DateTime::from_millis(0)))));
    Bson::object(fields)
}

fn check(input: &[u8]) -> Result<Verdict, String> {
    // The driver hands on only what has the frame of a document.
    let Ok(document) = RawDocument::from_bytes(input) else { return Ok(Verdict::REFUSED) };
    match within(MEMORY, input, || Body::from_raw(document))? {
        Ok(body) => judge::body(&body).map(|()| Verdict::ACCEPTED),
        Err(error) => {
            let beginnings: Vec<&str> = FIELDS.into_iter().chain(OTHERS).collect();
            told(&error.to_string(), &beginnings).map(|()| Verdict::REFUSED)
        }
    }
}
