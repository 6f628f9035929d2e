//! Accounts as other programs write them into the database.

use fuzz::bson::{Bson, framed, leaf, leaves, write};
use fuzz::judge::{Memory, told, within};
use fuzz::transfers::names;
use fuzz::tree::{Tree, spoils};
use fuzz::{Verdict, bytes, judge, run};
use ledger::account::{Account, marks_from_raw};
use mongodb::bson::{RawBson, RawDocument};
use proptest::collection::vec;
use proptest::prelude::*;

/// A mark takes at least eight bytes of BSON, and some hundred in a set.
const MEMORY: Memory = Memory { base: 16 << 10, per_byte: 32 };

/// How a refusal begins: with the field.
const FIELDS: [&str; 10] = [
    "_id ",
    "status ",
    "currency ",
    "pendingTransactions ",
    "floor",
    "balance",
    "pendingDebits",
    "pendingCredits",
    "openingBalance",
    "has a field whose name is not valid text",
];

#[test]
fn an_account_that_others_wrote_is_read_or_refused_by_field() {
    run("accounts", &inputs(), check);
}

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let marks = prop_oneof![4 => vec(names(), 0..4), 1 => vec(names(), 100..300)];
    let floor = prop_oneof![Just(RawBson::Null), Just(RawBson::Int64(0)), Just(RawBson::Int32(-9))];
    let currency = proptest::option::of(names());
    let ways = any::<[u8; 6]>();
    let whole = (names(), any::<i32>(), marks, floor, currency, ways).prop_map(
        |(id, balance, marks, floor, currency, ways)| {
            let marks = marks.iter().map(|mark| leaf(mark.as_str())).collect();
            let mut fields = vec![("_id", leaf(id))];
            let numbers = [
                ("balance", balance),
                ("pendingDebits", 0),
                ("pendingCredits", 0),
                ("openingBalance", balance),
            ];
            for ((field, units), way) in numbers.into_iter().zip(ways) {
                fields.extend(written(units, way).map(|value| (field, leaf(value))));
            }
            let [.., has_floor, has_status] = ways;
            fields.extend((has_floor % 4 > 0).then(|| ("floor", leaf(floor))));
            fields.extend((has_status % 4 > 0).then(|| ("status", leaf("open"))));
            fields.push(("pendingTransactions", Tree::List(marks)));
            fields.extend(currency.map(|currency| ("currency", leaf(currency))));
            Bson::object(fields)
        },
    );
    (whole, spoils(leaves(), names(), 3), bytes::spoils(), any::<bool>()).prop_map(
        |(whole, of_tree, of_bytes, in_frame)| {
            let bytes = bytes::spoiled(write(&whole.spoiled(of_tree)), of_bytes);
            if in_frame { framed(bytes) } else { bytes }
        },
    )
}

/// A number as Tandem writes it, or as other programs do; some leave it out.
fn written(units: i32, way: u8) -> Option<RawBson> {
    match way % 8 {
        0 => Some(RawBson::Int32(units)),
        1 => Some(RawBson::Double(units.into())),
        2 => Some(RawBson::Null),
        3 => None,
        _ => Some(RawBson::Int64(units.into())),
    }
}

fn check(input: &[u8]) -> Result<Verdict, String> {
    // The driver hands on only what has the frame of a document.
    let Ok(document) = RawDocument::from_bytes(input) else { return Ok(Verdict::REFUSED) };
    let marks = within(MEMORY, input, || marks_from_raw(document))?;
    match within(MEMORY, input, || Account::from_raw(document))? {
        Ok(account) => {
            judge::account(&account)?;
            // A settlement reads the marks alone: it has to see the same ones.
            match marks == Ok(account.pending_transactions) {
                true => Ok(Verdict::ACCEPTED),
                false => Err("its marks are others when they are read alone".to_owned()),
            }
        }
        Err(problem) => told(&problem, &FIELDS).map(|()| Verdict::REFUSED),
    }
}
