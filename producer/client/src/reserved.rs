//! How much of an account is on hold, told apart from what other transactions in flight take out.
//!
//! Promises a sum of the moment at which the account was read: a hold's mark stands for its leg,
//! and legs never change, so it does not matter that its transactions are read later. Reads as many
//! transactions as the account has marks, and none if it has no holds.

use ledger::amount::Amount;
use ledger::transaction::Body;
use mongo::{Fields, TRANSACTIONS};
use mongodb::bson::{Bson, Document};

use crate::client::Client;
use crate::error::Error;

/// The most marks that are looked at.
const MARKS_MAX: usize = 10_000;
/// How many transactions are read at once.
const READ_AT_ONCE: usize = 1_000;
/// What has to be known of each.
const FIELDS: [&str; 6] = ["source", "destination", "value", "legs", "hold", "captured"];

/// What the holds of an account have reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// How many holds debit the account.
    pub holds: u64,
    /// What they hold together; a part of the account's pending debits. `None` if the account has
    /// too many marks to look at, or one of the transactions can't be read.
    pub amount: Option<Amount>,
}

impl Client {
    /// What the holds of an account have reserved, by the account's document.
    ///
    /// # Errors
    /// When MongoDB stays away.
    pub async fn reserved(&self, account: &Document) -> Result<Reserved, Error> {
        let holds = holds(account);
        let name = account.get_str("_id").unwrap_or_default();
        let mut sum = Sum::default();
        let marks = account.get_array("pendingTransactions").map_or(&[][..], Vec::as_slice);
        let marks: Vec<&str> = marks.iter().filter_map(Bson::as_str).take(MARKS_MAX).collect();
        for ids in marks.chunks(READ_AT_ONCE) {
            if sum.holds >= holds {
                break;
            }
            let read =
                || self.store().documents("reserved", TRANSACTIONS, ids, Fields::Only(&FIELDS));
            for document in self.insist(read).await? {
                if let Ok(body) = Body::from_raw(&document) {
                    sum.add(name, &body);
                }
            }
        }
        let is_int = !matches!(account.get("balance"), Some(Bson::Decimal128(_)));
        let amount = Amount::from_nanos(sum.nanos, is_int).filter(|_| sum.holds == holds);
        Ok(Reserved { holds, amount })
    }
}

/// How many holds an account's document says that it has. Most have no such field.
pub fn holds(account: &Document) -> u64 {
    let holds = match account.get("pendingHolds") {
        Some(Bson::Int32(holds)) => i64::from(*holds),
        Some(Bson::Int64(holds)) => *holds,
        Some(_) | None => 0,
    };
    u64::try_from(holds).unwrap_or_default()
}

/// The debits of holds on an account.
#[derive(Debug, Default)]
struct Sum {
    holds: u64,
    nanos: i128,
}

impl Sum {
    fn add(&mut self, account: &str, body: &Body) {
        let own = body.legs().iter().find(|leg| *leg.account == *account);
        let held = own.filter(|leg| body.terms().hold && leg.amount.is_negative());
        if let Some(leg) = held {
            self.holds += 1;
            self.nanos -= leg.amount.nanos();
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::transaction::{Leg, Terms};
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn only_debits_of_holds_count_and_in_full() {
        let leg =
            |account: &str, amount| Leg { account: account.into(), amount: Amount::Int(amount) };
        let plain = Body::transfer("card", "shop", Amount::Int(7)).expect("valid");
        let hold = |captured| {
            let terms = Terms { hold: true, captured, ..Terms::default() };
            let body = Body::transfer("card", "shop", Amount::Int(50)).expect("valid");
            body.with_terms(terms).expect("valid")
        };
        let confirmed = hold(Some(vec![leg("card", -30), leg("shop", 30)]));
        let of = |account: &str| {
            let mut sum = Sum::default();
            for body in [&plain, &hold(None), &confirmed] {
                sum.add(account, body);
            }
            (sum.holds, sum.nanos / 1_000_000_000)
        };
        assert_eq!(of("card"), (2, 100));
        assert_eq!(of("shop"), (0, 0));
        assert_eq!(of("else"), (0, 0));
    }

    #[test]
    fn an_account_without_the_field_has_no_holds() {
        let of = |value: Bson| holds(&doc! { "pendingHolds": value });
        assert_eq!(holds(&doc! {}), 0);
        assert_eq!(
            [of(2_i32.into()), of(3_i64.into()), of((-1).into()), of("2".into())],
            [2, 3, 0, 0]
        );
    }
}
