//! Rules 1 to 5 of `ARCHITECTURE.md`, which hold at rest, checked from the documents alone.
//!
//! A second, independent audit: it reads whole documents and shares no code with the audit of
//! `producer` but the translation of those that somebody else has designed, so each of the two
//! tests the other. What is scheduled or held may be left: nothing of the one is posted, and of the
//! other its debits. Returns a sentence for each violation.

use std::collections::BTreeMap;

use ledger::amount::Amount;
use mongo::{ACCOUNTS, JOURNAL, Store, TRANSACTIONS};
use mongodb::bson::{Bson, Document, doc};

use crate::laid_out::each;

/// What is left of transactions that are not final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pending {
    debits: i128,
    credits: i128,
    marks: usize,
    holds: i64,
}

/// What an account should hold and what it holds, in units of 10^-9.
#[derive(Default)]
struct Books {
    pending: BTreeMap<String, Pending>,
    held: BTreeMap<String, Pending>,
    opening: BTreeMap<String, i128>,
    balance: BTreeMap<String, i128>,
    currency: BTreeMap<String, String>,
    problems: Vec<String>,
}

/// Everything that breaks a rule in this database.
///
/// # Panics
/// When the database can't be read.
pub async fn problems(store: &Store) -> Vec<String> {
    let mut books = Books::default();
    let all = each(store, ACCOUNTS, doc! {}, |account| books.account(&account)).await;
    all.expect("the accounts can be read");
    let all = each(store, TRANSACTIONS, doc! {}, |found| books.transaction(&found)).await;
    all.expect("the transactions can be read");
    let lines = doc! { "filter": { "adjustment": { "$exists": true } } };
    let all = each(store, JOURNAL, lines, |line| books.adjustment(&line)).await;
    all.expect("the journal can be read");
    books.close()
}

impl Books {
    fn account(&mut self, account: &Document) {
        let id = account.get_str("_id").unwrap_or("?").to_owned();
        let stored = |field: &str| account.get(field).filter(|value| **value != Bson::Null);
        let amount = |field: &str| match stored(field) {
            None => 0,
            value => nanos(value).unwrap_or(i128::MIN / 4),
        };
        let balance = amount("balance");
        // What others have made and Tandem has not written yet opened with what it holds.
        let opening = match stored("openingBalance") {
            None => balance + amount("pendingDebits"),
            Some(_) => amount("openingBalance"),
        };
        let pending = Pending {
            debits: amount("pendingDebits"),
            credits: amount("pendingCredits"),
            marks: account.get_array("pendingTransactions").map_or(0, Vec::len),
            holds: match account.get("pendingHolds") {
                Some(Bson::Int32(holds)) => (*holds).into(),
                Some(Bson::Int64(holds)) => *holds,
                Some(_) => -1,
                None => 0,
            },
        };
        self.pending.insert(id.clone(), pending);
        let floor = account.get("floor").unwrap_or(&Bson::Int32(0));
        if *floor != Bson::Null && nanos(Some(floor)).is_none_or(|floor| balance < floor) {
            self.problems.push(format!("account {id}: {balance} is below its floor"));
        }
        let currency = account.get_str("currency").unwrap_or_default().to_owned();
        self.currency.insert(id.clone(), currency);
        self.balance.insert(id.clone(), balance);
        self.opening.insert(id, opening);
    }

    fn transaction(&mut self, transaction: &Document) {
        let id = transaction.get_str("_id").unwrap_or("?");
        match transaction.get_str("state").unwrap_or("?") {
            "done" => {
                for (account, change) in effect(transaction) {
                    match self.opening.get_mut(&account) {
                        Some(expected) => *expected += change,
                        None => self.problems.push(format!("{id}: done, without {account}")),
                    }
                }
            }
            "canceled" => {
                let code = transaction.get_document("reason").and_then(|r| r.get_str("code"));
                if code.is_err() {
                    self.problems.push(format!("{id}: canceled without a reason"));
                }
            }
            "held" => return self.hold(transaction),
            "scheduled" => return,
            state => self.problems.push(format!("{id}: not final, but {state}")),
        }
        if let Some(left) =
            ["claim", "leaseUntil", "takeoverAt"].iter().find(|f| transaction.contains_key(**f))
        {
            self.problems.push(format!("{id}: final, but still has {left}"));
        }
    }

    /// What others had moved, and somebody has booked.
    fn adjustment(&mut self, line: &Document) {
        let part = |field: &str| line.get_array(field).ok().and_then(|parts| parts.first());
        let account = part("accounts").and_then(Bson::as_str).unwrap_or("?").to_owned();
        *self.opening.entry(account).or_default() += nanos(part("nets")).unwrap_or(i128::MIN / 4);
    }

    /// Of a hold that rests, the debits are posted.
    fn hold(&mut self, transaction: &Document) {
        let id = transaction.get_str("_id").unwrap_or("?");
        if let Some(left) = ["claim", "leaseUntil"].iter().find(|f| transaction.contains_key(**f)) {
            self.problems.push(format!("{id}: held, but still has {left}"));
        }
        for (account, change) in legs(transaction).into_iter().filter(|(_, change)| *change < 0) {
            let held = self.held.entry(account.clone()).or_default();
            held.debits -= change;
            held.marks += 1;
            held.holds += 1;
            *self.opening.entry(account).or_default() += change;
        }
    }

    fn close(mut self) -> Vec<String> {
        for (id, pending) in &self.pending {
            let held = self.held.get(id).copied().unwrap_or_default();
            if *pending != held {
                let problem =
                    format!("account {id}: has {pending:?}, and what is held is {held:?}");
                self.problems.push(problem);
            }
        }
        let mut created: BTreeMap<&str, i128> = BTreeMap::new();
        for (id, balance) in &self.balance {
            let expected = self.opening[id];
            *created.entry(&self.currency[id]).or_default() += balance - expected;
            if *balance != expected {
                self.problems.push(format!(
                    "account {id}: holds {balance}, but its opening balance and what was done \
                     make {expected}"
                ));
            }
        }
        for (currency, created) in created {
            if created != 0 {
                self.problems.push(format!("{created} of currency {currency:?} came from nowhere"));
            }
        }
        self.problems
    }
}

fn nanos(value: Option<&Bson>) -> Option<i128> {
    Amount::from_bson(value?).ok().map(Amount::nanos)
}

/// The signed changes that a done transaction has made: of a hold, what was captured.
fn effect(transaction: &Document) -> Vec<(String, i128)> {
    match transaction.get_array("captured") {
        Ok(captured) => list(captured),
        Err(_) => legs(transaction),
    }
}

fn text(document: &Document, field: &str) -> String {
    document.get_str(field).map(str::to_owned).unwrap_or_default()
}

fn list(legs: &[Bson]) -> Vec<(String, i128)> {
    let legs = legs.iter().filter_map(Bson::as_document);
    legs.map(|leg| (text(leg, "account"), nanos(leg.get("amount")).unwrap_or(0))).collect()
}

/// The signed changes that a transaction document asks for.
fn legs(transaction: &Document) -> Vec<(String, i128)> {
    if let Ok(legs) = transaction.get_array("legs") {
        return list(legs);
    }
    let value = nanos(transaction.get("value")).unwrap_or(0);
    vec![(text(transaction, "source"), -value), (text(transaction, "destination"), value)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(id: &str, opening: i64, balance: i64) -> Document {
        doc! {
            "_id": id, "openingBalance": opening, "balance": balance, "pendingDebits": 0_i64,
            "pendingCredits": 0_i64, "pendingTransactions": [], "floor": 0_i64, "status": "open",
        }
    }

    fn transfer(state: &str) -> Document {
        doc! { "_id": "t", "source": "a", "destination": "b", "value": 3_i64, "state": state }
    }

    fn found(accounts: &[Document], transaction: &Document) -> String {
        let mut books = Books::default();
        accounts.iter().for_each(|account| books.account(account));
        books.transaction(transaction);
        books.close().join("\n")
    }

    #[test]
    fn a_ledger_that_adds_up_has_no_problems() {
        let accounts = [account("a", 10, 7), account("b", 0, 3)];
        assert_eq!(found(&accounts, &transfer("done")), "");
    }

    #[test]
    fn every_broken_rule_is_found() {
        let good = [account("a", 10, 7), account("b", 0, 3)];
        assert!(found(&good, &transfer("pending")).contains("not final"));
        let mut owned = transfer("done");
        owned.insert("claim", "x");
        assert!(found(&good, &owned).contains("still has claim"));
        assert!(found(&good, &transfer("canceled")).contains("without a reason"));
        assert!(found(&good[..1], &transfer("done")).contains("without b"));
        let twice = [account("a", 10, 4), account("b", 0, 6)];
        assert!(found(&twice, &transfer("done")).contains("account a: holds"));
        let made = [account("a", 10, 7), account("b", 0, 6)];
        assert!(found(&made, &transfer("done")).contains("came from nowhere"));
        let below = [account("a", 2, -1), account("b", 0, 3)];
        assert!(found(&below, &transfer("done")).contains("below its floor"));
        let mut marked = good.clone();
        marked[0].insert("pendingTransactions", vec!["t"]);
        assert!(found(&marked, &transfer("done")).contains("marks: 1"));
        marked[0].insert("pendingCredits", 1_i64);
        assert!(found(&marked, &transfer("done")).contains("credits: 1"));
    }

    #[test]
    fn a_hold_may_be_left_with_its_debits_and_has_captured_what_it_says() {
        let (mut held, b) = (account("a", 10, 7), account("b", 0, 0));
        held.insert("pendingDebits", 3_i64);
        held.insert("pendingTransactions", vec!["t"]);
        held.insert("pendingHolds", 1);
        assert_eq!(found(&[held.clone(), b.clone()], &transfer("held")), "");
        assert!(found(&[account("a", 10, 10), b.clone()], &transfer("held")).contains("account a"));
        held.insert("pendingHolds", 0);
        assert!(found(&[held, b], &transfer("held")).contains("holds: 1"));

        let mut part = transfer("done");
        let leg = |account: &str, amount: i64| doc! { "account": account, "amount": amount };
        part.insert("captured", vec![leg("a", -2), leg("b", 2)]);
        assert_eq!(found(&[account("a", 10, 8), account("b", 0, 2)], &part), "");
        let remainder_lost = [account("a", 10, 7), account("b", 0, 2)];
        assert!(found(&remainder_lost, &part).contains("account a: holds 7"));
    }
}
