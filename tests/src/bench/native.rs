//! One native MongoDB transaction per transfer, tried again as the driver recommends.
//!
//! One `update` command changes all accounts, so a transfer costs three commands: the update, the
//! insert of its record, the commit.

use futures_util::FutureExt;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{Error, Result};
use mongodb::{ClientSession, Database};

use super::baseline::{matched, transaction_document};
use super::workload::{Transfer, account_id};

/// Runs one transfer to its end.
///
/// # Errors
/// What the driver says, when trying again did not help.
pub async fn settle(
    session: &mut ClientSession,
    database: &Database,
    transfer: &Transfer,
) -> Result<()> {
    let ran = session
        .start_transaction()
        .and_run((database.clone(), transfer.clone()), |session, (database, transfer)| {
            attempt(session, database, transfer).boxed()
        })
        .await;
    match ran {
        Err(error) if error.get_custom::<Refused>().is_some() => {
            let mut record = transaction_document(transfer, "canceled");
            record.insert("reason", "insufficient_funds");
            record.insert("lastModified", DateTime::now());
            database.collection::<Document>("transactions").insert_one(record).await.map(|_| ())
        }
        ran => ran,
    }
}

/// An account does not have the money: the transaction is aborted, and not tried again.
struct Refused;

async fn attempt(
    session: &mut ClientSession,
    database: &Database,
    transfer: &Transfer,
) -> Result<()> {
    let statements: Vec<_> = transfer.legs.iter().map(|leg| statement(*leg)).collect();
    let command = doc! { "update": "accounts", "updates": statements, "ordered": true };
    let reply = database.run_command(command).session(&mut *session).await?;
    if matched(&reply)? != transfer.legs.len() {
        return Err(Error::custom(Refused));
    }
    let mut record = transaction_document(transfer, "done");
    record.insert("lastModified", DateTime::now());
    let transactions = database.collection::<Document>("transactions");
    transactions.insert_one(record).session(session).await.map(|_| ())
}

fn statement((account, amount): (usize, i64)) -> Document {
    let mut filter = doc! { "_id": account_id(account) };
    if amount < 0 {
        filter.insert("balance", doc! { "$gte": -amount });
    }
    doc! { "q": filter, "u": { "$inc": { "balance": amount } } }
}
