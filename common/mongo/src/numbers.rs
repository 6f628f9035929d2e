//! What the numbers of an account must be, as expressions for the server.
//!
//! The guard of a post and the validator of accounts are made of these expressions, and accept the
//! same accounts as [`Account::from_raw`](ledger::account::Account::from_raw). Promises that no
//! expression fails, whatever the fields hold, provided that [`in_range`] comes first: `$and`
//! evaluates its operands in order and stops at the first that is false.

use ledger::amount::Amount;
use mongodb::bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

/// The numbers of an account. The floor is the last, and may be null.
pub(super) const NUMBERS: [&str; 5] =
    ["$balance", "$pendingDebits", "$pendingCredits", "$openingBalance", "$floor"];

/// The numbers between which money moves.
pub(super) const HOLDINGS: [&str; 3] = ["$balance", "$pendingDebits", "$pendingCredits"];

/// Each of the fields is null, missing, or a number within the limits of an amount. The server
/// compares values of any types: NaN and null are below all numbers; text, lists and the like are
/// above them. `$min` and `$max` leave out what is null or missing.
pub(super) fn in_range(fields: &[&str]) -> RawDocumentBuf {
    let fields: RawArrayBuf = fields.iter().copied().collect();
    rawdoc! { "$and": [
        { "$gte": [{ "$min": fields.clone() }, -Amount::MAX] },
        { "$lte": [{ "$max": fields }, Amount::MAX] },
    ] }
}

/// All numbers are there and whole; the floor may be null.
pub(super) fn whole() -> RawDocumentBuf {
    rawdoc! { "$and": [
        sum_is_whole(&NUMBERS[..4]),
        { "$in": [{ "$type": "$floor" }, ["long", "int", "null"]] },
    ] }
}

/// All of the fields are there and are whole numbers. The type of a sum shows the types of its
/// operands: it is a float or a decimal if one of them is, and null if one of them is null or
/// missing. The sum of numbers in range never overflows.
pub(super) fn sum_is_whole(fields: &[&str]) -> RawDocumentBuf {
    let fields: RawArrayBuf = fields.iter().copied().collect();
    rawdoc! { "$in": [{ "$type": { "$add": fields } }, ["long", "int"]] }
}

/// All numbers are there (the floor may be null), the balance is decimal, none of the others is a
/// float, and none has more decimal places than an amount.
pub(super) fn decimal() -> RawDocumentBuf {
    let mut all = RawArrayBuf::new();
    all.push(rawdoc! { "$eq": [{ "$type": "$balance" }, "decimal"] });
    all.push(no_floats(&NUMBERS[1..4]));
    all.push(rawdoc! { "$in": [{ "$type": "$floor" }, ["decimal", "long", "int", "null"]] });
    for field in NUMBERS {
        all.push(rawdoc! { "$eq": [{ "$round": [field, i64::from(Amount::PLACES_MAX)] }, field] });
    }
    rawdoc! { "$and": all }
}

/// All of the fields are there and exact numbers.
pub(super) fn no_floats(fields: &[&str]) -> RawDocumentBuf {
    let types: RawArrayBuf = fields.iter().map(|field| rawdoc! { "$type": *field }).collect();
    rawdoc! { "$setIsSubset": [types, ["decimal", "long", "int"]] }
}
