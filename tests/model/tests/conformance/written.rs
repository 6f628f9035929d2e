//! How accounts stand in the database as long as others have written them: whole numbers of other
//! types, and fields left out.
//!
//! Owns which ways there are, and which fields an operation writes anew. The model keeps what an
//! account means, so the notes here say how it is stored.

use std::collections::BTreeMap;

use ledger::account::{Account, Status};
use ledger::amount::Amount;
use model::sim::request::Request;
use mongodb::bson::{Bson, DateTime, Document};

use crate::terms::FOREIGN;

/// The fields that may be written in other ways.
const FIELDS: [&str; 7] = [
    "balance",
    "pendingDebits",
    "pendingCredits",
    "openingBalance",
    "floor",
    "status",
    "pendingTransactions",
];

/// A way for each of the fields.
pub type Ways = [u8; FIELDS.len()];

/// The ways in which Tandem writes.
const ITS_OWN: u8 = 4;

/// Fields of an account as others have written them; none is one that is left out.
pub type Others = BTreeMap<&'static str, Option<Bson>>;

/// The fields that are not as Tandem would write them.
pub fn others(account: &Account, ways: &Ways) -> Others {
    let fields = FIELDS.into_iter().zip(ways).filter(|(_, way)| **way < ITS_OWN);
    fields.filter_map(|(field, way)| Some((field, in_a_way(account, field, *way)?))).collect()
}

/// The field in this way, if that means the same.
fn in_a_way(account: &Account, field: &str, way: u8) -> Option<Option<Bson>> {
    let nothing = if way == 0 { None } else { Some(Bson::Null) };
    let is_nothing = |amount: Amount| amount.is_int() && amount.is_zero();
    let number = |amount: Amount, may_lack: bool| match (amount, way) {
        (_, 0 | 1) => may_lack.then(|| nothing.clone()),
        (Amount::Int(units), 2) => Some(Some(Bson::Int32(i32::try_from(units).ok()?))),
        (Amount::Int(units), _) => {
            // Beside a decimal balance no double is read.
            let is_exact = account.balance.is_int() && units.abs() < Amount::DOUBLE_MAX;
            is_exact.then_some(Some(Bson::Double(units as f64)))
        }
        (Amount::Decimal(_), _) => None,
    };
    let balance = account.balance;
    match field {
        "balance" => number(balance, is_nothing(balance)),
        "pendingDebits" => number(account.pending_debits, is_nothing(account.pending_debits)),
        "pendingCredits" => number(account.pending_credits, is_nothing(account.pending_credits)),
        // The guard leaves an Int32 as it is if nothing else is odd.
        "openingBalance" => number(account.opening_balance, true).filter(|_| way != 2),
        // A floor of null is another one.
        "floor" => number(account.floor?, way == 0 && is_nothing(account.floor?)),
        "status" => (account.status == Status::Open && way < 2).then_some(nothing),
        _ => (way < 2).then_some(nothing),
    }
}

/// The account as it is stored.
pub fn document(account: &Account, others: &Others) -> Document {
    let mut document = account.to_document(DateTime::from_millis(0));
    document.insert(FOREIGN.0, FOREIGN.1);
    for (field, value) in others {
        match value {
            Some(value) => document.insert(*field, value.clone()),
            None => document.remove(field),
        };
    }
    document
}

/// Which fields a request writes anew in an account that it has changed.
pub fn written_by(request: &Request) -> &'static [&'static str] {
    match request {
        Request::Post(..) => {
            &["balance", "pendingDebits", "pendingCredits", "openingBalance", "pendingTransactions"]
        }
        Request::Remove(..) => {
            &["balance", "pendingDebits", "pendingCredits", "pendingTransactions"]
        }
        Request::Transact(..) => &["balance", "openingBalance"],
        Request::SetStatus(..) => &["status"],
        _ => &[],
    }
}
