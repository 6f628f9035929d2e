//! Inserting orders so that a repetition changes nothing.
//!
//! Promises an answer for each order, and that what has an exclusive key or comes under the key of
//! an array is inserted by the module that owns that. Fails with an error of a command; then all of
//! them are inserted again.

use ledger::LedgerError;
use mongo::{Store, TRANSACTIONS};
use mongodb::bson::DateTime;
use tokio::sync::Semaphore;

use crate::known::{Answer, compare_known};
use crate::submission::Order;
use crate::{keyed, keyed_array};

/// How to find out which orders exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Insert, and look up those that are refused as duplicates.
    New,
    /// Look them up first, and insert the rest: inserting a known `_id` costs the server five times
    /// as much as looking it up.
    Known,
}

/// Inserts orders; an answer for each, in order. After an error, insert all of them again with the
/// same `created_at`: by it this submission's own documents are recognized. All of them come under
/// the key of the same array, or none does. Each look and each insert of one with an exclusive key
/// takes a permit of `keys` while it is on its way.
///
/// # Errors
/// When the server is away, or what exists under an id is not durable yet.
pub async fn insert(
    store: &Store,
    orders: &[Order],
    created_at: DateTime,
    expect: Expect,
    keys: &Semaphore,
) -> Result<Vec<Answer>, LedgerError> {
    let mut answers = vec![None; orders.len()];
    let is_keyed = |at: &usize| orders[*at].has_key();
    let is_of_array = orders.first().is_some_and(|order| order.array().is_some());
    // What is inserted in a native transaction may be our own, whose answer was lost; then nothing
    // is to be sent.
    let looked_at =
        (0..orders.len()).filter(|at| expect == Expect::Known || is_of_array || is_keyed(at));
    let looked_at: Vec<usize> = looked_at.collect();
    // A call of many keys would send as many looks at once, for which all others would wait.
    let permit = match orders.iter().any(Order::has_key) {
        true => Some(keys.acquire().await.expect("it is never closed")),
        false => None,
    };
    compare_known(store, orders, &looked_at, created_at, &mut answers).await?;
    let left = (0..orders.len()).filter(|at| answers[*at].is_none());
    let (keyed, new): (Vec<usize>, Vec<usize>) = left.partition(is_keyed);
    let without_keys = if keyed.is_empty() { None } else { store.without_keys().await? };
    drop(permit);
    for at in keyed {
        answers[at] = Some(match without_keys {
            Some(why) => Answer::WithoutKeys(why),
            None => keyed::insert(store, &orders[at], created_at, keys).await?,
        });
    }
    if is_of_array {
        keyed_array::insert(store, orders, new, created_at, &mut answers).await?;
    } else if !new.is_empty() {
        let documents = new.iter().map(|at| orders[*at].to_raw(created_at));
        let left = store.insert(TRANSACTIONS, documents).await?;
        for refused in left.refused {
            answers[new[refused.item]] = Some(Answer::Refused(refused.problem));
        }
        let existing: Vec<usize> = left.existing.into_iter().map(|at| new[at]).collect();
        let compared = compare_known(store, orders, &existing, created_at, &mut answers).await;
        compared.map_err(LedgerError::after_a_write)?;
        // An earlier attempt may have inserted the document itself, which then stands in its own
        // way.
        let taken: Vec<usize> = left.taken.iter().map(|taken| new[taken.item]).collect();
        let compared = compare_known(store, orders, &taken, created_at, &mut answers).await;
        compared.map_err(LedgerError::after_a_write)?;
        for (at, taken) in taken.into_iter().zip(left.taken) {
            answers[at].get_or_insert(Answer::Refused(taken.problem));
        }
        if let Some(at) = existing.into_iter().find(|at| answers[*at].is_none()) {
            let message = format!("{} exists and is not durable yet", orders[at].id);
            return Err(LedgerError::passing("insert", message));
        }
    }
    Ok(answers.into_iter().map(|answer| answer.unwrap_or(Answer::Submitted)).collect())
}
