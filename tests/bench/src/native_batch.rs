//! What an expert would write: one native transaction per batch, netted per account, with one
//! writer.
//!
//! One writer alone meets no write conflicts. It first assumes that nothing is refused, which costs
//! one `update` command. If an account lacks the money, it reads the accounts, decides each
//! transfer in order, and from then on reads first until a whole batch passes.

use std::collections::{BTreeMap, HashMap};

use futures_util::{FutureExt, TryStreamExt};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{Error, Result};
use mongodb::{ClientSession, Database};

use super::baseline::{internal, matched, transaction_document};
use super::workload::{Transfer, account_id};

/// The one writer.
pub struct Writer {
    session: ClientSession,
    database: Database,
    /// Whether the last batch had a refused transfer.
    careful: bool,
}

/// An account does not have the money for the whole batch.
struct Refused;

impl Writer {
    /// A writer with a session of its own.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn new(database: &Database) -> Result<Writer> {
        let session = database.client().start_session().await?;
        Ok(Writer { session, database: database.clone(), careful: false })
    }

    /// Runs a batch to its end.
    ///
    /// # Errors
    /// The driver's error, if trying again did not help.
    pub async fn settle(&mut self, transfers: &[Transfer]) -> Result<()> {
        let context = (self.database.clone(), transfers.to_vec());
        if !self.careful {
            let ran = self
                .session
                .start_transaction()
                .and_run(context.clone(), |session, (database, transfers)| {
                    hopeful(session, database, transfers).boxed()
                })
                .await;
            match ran {
                Err(error) if error.get_custom::<Refused>().is_some() => {}
                ran => return ran,
            }
        }
        let refused = self
            .session
            .start_transaction()
            .and_run(context, |session, (database, transfers)| {
                careful(session, database, transfers).boxed()
            })
            .await?;
        self.careful = refused > 0;
        Ok(())
    }
}

/// All of them at once, or an error.
async fn hopeful(
    session: &mut ClientSession,
    database: &Database,
    transfers: &[Transfer],
) -> Result<()> {
    let net = netted(transfers);
    let statements: Vec<_> = net.iter().map(|(account, sum)| statement(*account, *sum)).collect();
    let command = doc! { "update": "accounts", "updates": statements, "ordered": true };
    let reply = database.run_command(command).session(&mut *session).await?;
    if matched(&reply)? != net.len() {
        return Err(Error::custom(Refused));
    }
    record(session, database, transfers, &[]).await
}

/// Decides each transfer on the balances that this transaction sees; returns how many are refused.
async fn careful(
    session: &mut ClientSession,
    database: &Database,
    transfers: &[Transfer],
) -> Result<usize> {
    let balances = read(session, database, &netted(transfers)).await?;
    let refused = decide(transfers, balances);
    let accepted: Vec<Transfer> = transfers
        .iter()
        .zip(&refused)
        .filter(|(_, refused)| !**refused)
        .map(|(transfer, _)| transfer.clone())
        .collect();
    let statements: Vec<_> =
        netted(&accepted).iter().map(|(account, sum)| statement(*account, *sum)).collect();
    if !statements.is_empty() {
        let command = doc! { "update": "accounts", "updates": statements, "ordered": true };
        matched(&database.run_command(command).session(&mut *session).await?)?;
    }
    record(session, database, transfers, &refused).await?;
    Ok(refused.into_iter().filter(|refused| *refused).count())
}

async fn read(
    session: &mut ClientSession,
    database: &Database,
    accounts: &BTreeMap<usize, i64>,
) -> Result<HashMap<String, i64>> {
    let ids: Vec<String> = accounts.keys().map(|account| account_id(*account)).collect();
    let batch = u32::try_from(ids.len()).unwrap_or(u32::MAX).max(2);
    let collection = database.collection::<Document>("accounts");
    let mut found = collection
        .find(doc! { "_id": { "$in": ids } })
        .projection(doc! { "balance": 1 })
        .batch_size(batch)
        .session(&mut *session)
        .await?;
    let found: Vec<Document> = found.stream(session).try_collect().await?;
    let entry = |account: Document| {
        Some((account.get_str("_id").ok()?.to_owned(), account.get_i64("balance").ok()?))
    };
    Ok(found.into_iter().filter_map(entry).collect())
}

/// Which transfers are refused, in order; money that came in earlier in the batch may be spent.
fn decide(transfers: &[Transfer], mut balances: HashMap<String, i64>) -> Vec<bool> {
    let decision = |transfer: &Transfer| {
        let after = |(account, amount): &(usize, i64)| {
            let id = account_id(*account);
            balances.get(&id).map(|balance| (id, balance + amount, *amount))
        };
        let Some(after) = transfer.legs.iter().map(after).collect::<Option<Vec<_>>>() else {
            return true;
        };
        if after.iter().any(|(_, balance, amount)| *amount < 0 && *balance < 0) {
            return true;
        }
        balances.extend(after.into_iter().map(|(id, balance, _)| (id, balance)));
        false
    };
    transfers.iter().map(decision).collect()
}

/// In the order of the accounts.
fn netted(transfers: &[Transfer]) -> BTreeMap<usize, i64> {
    let mut net = BTreeMap::new();
    for (account, amount) in transfers.iter().flat_map(|transfer| &transfer.legs) {
        *net.entry(*account).or_insert(0) += amount;
    }
    net
}

fn statement(account: usize, sum: i64) -> Document {
    let mut filter = doc! { "_id": account_id(account) };
    if sum < 0 {
        filter.insert("balance", doc! { "$gte": -sum });
    }
    doc! { "q": filter, "u": { "$inc": { "balance": sum } } }
}

async fn record(
    session: &mut ClientSession,
    database: &Database,
    transfers: &[Transfer],
    refused: &[bool],
) -> Result<()> {
    let now = DateTime::now();
    let records = transfers.iter().enumerate().map(|(at, transfer)| {
        let is_refused = refused.get(at).copied().unwrap_or(false);
        let mut record =
            transaction_document(transfer, if is_refused { "canceled" } else { "done" });
        if is_refused {
            record.insert("reason", "insufficient_funds");
        }
        record.insert("lastModified", now);
        record
    });
    let transactions = database.collection::<Document>("transactions");
    let inserted = transactions.insert_many(records).session(session).await?;
    if inserted.inserted_ids.len() == transfers.len() {
        Ok(())
    } else {
        Err(internal(&"not every record was inserted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(from: usize, to: usize, value: i64) -> Transfer {
        Transfer { id: "t".into(), legs: vec![(from, -value), (to, value)], refused: false }
    }

    #[test]
    fn a_batch_changes_each_account_once() {
        let net = netted(&[transfer(0, 1, 5), transfer(1, 2, 3), transfer(0, 2, 1)]);
        assert_eq!(net, BTreeMap::from([(0, -6), (1, 2), (2, 4)]));
    }

    #[test]
    fn transfers_are_decided_in_order_on_what_came_before() {
        let balances = |amounts: &[i64]| {
            amounts.iter().enumerate().map(|(n, balance)| (account_id(n), *balance)).collect()
        };
        let transfers =
            [transfer(0, 1, 5), transfer(1, 0, 5), transfer(1, 0, 1), transfer(0, 9, 1)];
        assert_eq!(decide(&transfers, balances(&[5, 0])), [false, false, true, true]);
        assert_eq!(decide(&transfers, balances(&[4, 0])), [true, true, true, true]);
    }
}
