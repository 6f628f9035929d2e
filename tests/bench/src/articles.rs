//! The articles' two-phase commit, one operation at a time, as the manual and the schema-design
//! book write it: states, marks, and the funds in the debit's filter.
//!
//! The conditions are the best for it: the transaction is given, so nothing searches for work;
//! nothing is recovered; and the updates find their documents by `_id`.

use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::Result;

use super::baseline::transaction_document;
use super::workload::{Transfer, account_id};

/// Runs one transfer to its end.
///
/// # Errors
/// What the driver says.
pub async fn settle(
    accounts: &Collection<Document>,
    transactions: &Collection<Document>,
    transfer: &Transfer,
) -> Result<()> {
    let mut document = transaction_document(transfer, "initial");
    document.insert("lastModified", DateTime::now());
    transactions.insert_one(document).await?;
    advance(transactions, transfer, "initial", "pending").await?;
    if !post(accounts, transfer).await? {
        return cancel(accounts, transactions, transfer).await;
    }
    advance(transactions, transfer, "pending", "applied").await?;
    for (account, _) in &transfer.legs {
        let marked = doc! { "_id": account_id(*account), "pendingTransactions": &transfer.id };
        let unmark = doc! { "$pull": { "pendingTransactions": &transfer.id } };
        accounts.update_one(marked, unmark).await?;
    }
    advance(transactions, transfer, "applied", "done").await
}

/// Debits first; returns whether every account was updated.
async fn post(accounts: &Collection<Document>, transfer: &Transfer) -> Result<bool> {
    for (account, amount) in &transfer.legs {
        let mut unmarked =
            doc! { "_id": account_id(*account), "pendingTransactions": { "$ne": &transfer.id } };
        if *amount < 0 {
            unmarked.insert("balance", doc! { "$gte": -amount });
        }
        let change = doc! { "$inc": { "balance": amount }, "$push": { "pendingTransactions": &transfer.id } };
        if accounts.update_one(unmarked, change).await?.matched_count == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn cancel(
    accounts: &Collection<Document>,
    transactions: &Collection<Document>,
    transfer: &Transfer,
) -> Result<()> {
    advance(transactions, transfer, "pending", "canceling").await?;
    for (account, amount) in &transfer.legs {
        let marked = doc! { "_id": account_id(*account), "pendingTransactions": &transfer.id };
        let undo = doc! {
            "$inc": { "balance": -amount }, "$pull": { "pendingTransactions": &transfer.id },
        };
        accounts.update_one(marked, undo).await?;
    }
    advance(transactions, transfer, "canceling", "canceled").await
}

async fn advance(
    transactions: &Collection<Document>,
    transfer: &Transfer,
    from: &str,
    to: &str,
) -> Result<()> {
    let change = doc! { "$set": { "state": to }, "$currentDate": { "lastModified": true } };
    transactions.update_one(doc! { "_id": &transfer.id, "state": from }, change).await.map(|_| ())
}
