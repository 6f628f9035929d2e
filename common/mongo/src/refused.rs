//! What is wrong with transactions that the server refuses to write.
//!
//! The server says that a document failed validation, and that helps nobody. So the refused
//! documents are read, and what Tandem finds wrong in them is said first: field, value, kind and
//! remedy. Only what was refused pays for the read. Promises that a read that fails changes
//! nothing: then the server's words stay alone.

use std::collections::HashMap;

use ledger::transaction::TransactionId;
use ledger::{LedgerError, Written};

use super::names::TRANSACTIONS;
use super::{Store, read};

/// The same, and for each transaction that was refused what is wrong with it. `id_of` is the
/// transaction of an item.
pub(super) async fn explained<'a>(
    store: &Store,
    mut written: Written,
    id_of: impl Fn(usize) -> &'a TransactionId,
) -> Written {
    if written.refused.is_empty() {
        return written;
    }
    let of: Vec<TransactionId> = written.refused.iter().map(|r| id_of(r.item).clone()).collect();
    let wrong = wrong_with(store, &of).await;
    for (refused, id) in written.refused.iter_mut().zip(&of) {
        if let Some(problem) = wrong.get(id) {
            refused.problem = told(problem, &refused.problem);
        }
    }
    written
}

/// The same of an error that one transaction has caused.
pub(super) async fn explained_error(
    store: &Store,
    id: &TransactionId,
    error: LedgerError,
) -> LedgerError {
    let wrong = wrong_with(store, std::slice::from_ref(id)).await;
    match wrong.get(id) {
        Some(problem) => LedgerError { message: told(problem, &error.message), ..error },
        None => error,
    }
}

fn told(problem: &str, said: &str) -> String {
    format!("{problem} (the server says: {said})")
}

/// What Tandem finds wrong with these transactions, as far as they can be read.
async fn wrong_with(store: &Store, ids: &[TransactionId]) -> HashMap<TransactionId, String> {
    let pipeline = read::contents(ids);
    let contents = store.aggregate("refused", TRANSACTIONS, pipeline, ids.len(), read::content);
    match contents.await {
        Ok(contents) => {
            let contents = store.told_of_contents(contents).into_iter();
            contents.filter_map(|(id, body)| Some((id, body.err()?))).collect()
        }
        Err(error) => {
            tracing::debug!(%error, "what was refused can't be read");
            HashMap::new()
        }
    }
}
