//! One native MongoDB transaction per transfer, tried again as the driver recommends.
//!
//! As the driver's manual writes it, a transfer costs four commands: an update of each account, the
//! insert of its record, the commit. The lean form changes all accounts by one `update` command.

use futures_util::FutureExt;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{Error, Result};
use mongodb::{ClientSession, Database};

use super::baseline::{matched, transaction_document};
use super::workload::{Transfer, account_id};

/// How the accounts are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `update_one` for each.
    Manual,
    /// One command for all.
    Lean,
}

/// Runs one transfer to its end.
///
/// # Errors
/// The driver's error, if trying again did not help.
pub async fn settle(
    session: &mut ClientSession,
    database: &Database,
    transfer: &Transfer,
    form: Form,
) -> Result<()> {
    let ran = session
        .start_transaction()
        .and_run((database.clone(), transfer.clone()), |session, (database, transfer)| {
            attempt(session, database, transfer, form).boxed()
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

/// An account lacks the money: the transaction is aborted, and not tried again.
struct Refused;

async fn attempt(
    session: &mut ClientSession,
    database: &Database,
    transfer: &Transfer,
    form: Form,
) -> Result<()> {
    let legs = transfer.legs.iter().map(|leg| statement(*leg));
    match form {
        Form::Manual => {
            let accounts = database.collection::<Document>("accounts");
            for (filter, update) in legs {
                let updated = accounts.update_one(filter, update).session(&mut *session).await?;
                if updated.matched_count != 1 {
                    return Err(Error::custom(Refused));
                }
            }
        }
        Form::Lean => {
            let statements: Vec<_> = legs.map(|(q, u)| doc! { "q": q, "u": u }).collect();
            let command = doc! { "update": "accounts", "updates": statements, "ordered": true };
            let reply = database.run_command(command).session(&mut *session).await?;
            if matched(&reply)? != transfer.legs.len() {
                return Err(Error::custom(Refused));
            }
        }
    }
    let mut record = transaction_document(transfer, "done");
    record.insert("lastModified", DateTime::now());
    let transactions = database.collection::<Document>("transactions");
    transactions.insert_one(record).session(session).await.map(|_| ())
}

/// A filter with its guard, and an update.
fn statement((account, amount): (usize, i64)) -> (Document, Document) {
    let mut filter = doc! { "_id": account_id(account) };
    if amount < 0 {
        filter.insert("balance", doc! { "$gte": -amount });
    }
    (filter, doc! { "$inc": { "balance": amount } })
}
