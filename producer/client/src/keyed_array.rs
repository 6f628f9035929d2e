//! Inserting what comes in an array under an idempotency key, until it is known what became of each
//! item.
//!
//! Owns telling apart what stands in the way when such items can't be inserted together: a document
//! that the server refuses, an `_id` that exists by now, or somebody else's open transaction.
//! Promises that the other items are inserted, and that the note of the request names exactly what
//! was ([`mongo::Under`]). Each refused document costs two more commands, however many there are.
//! Fails when MongoDB is away, or when it stays open for seconds who has an `_id`.

use std::time::Duration;

use ledger::LedgerError;
use ledger::retry::{Policy, jitter};
use mongo::{KeyedInsert, Store};
use mongodb::bson::{DateTime, RawDocumentBuf};

use crate::known::{Answer, compare_known};
use crate::submission::Order;

/// How often something may stand in the way in one go.
const TRIES_MAX: u32 = 20;

/// The pauses after something stood in the way, which is decided within milliseconds.
const PAUSES: Policy = Policy { first: Duration::from_millis(5), max: Duration::from_millis(500) };

/// Inserts the orders `at`, all of the same array, which were looked for before, and answers each.
///
/// # Errors
/// When the outcome of some is unknown, or MongoDB is away.
pub(crate) async fn insert(
    store: &Store,
    orders: &[Order],
    at: Vec<usize>,
    created_at: DateTime,
    answers: &mut [Option<Answer>],
) -> Result<(), LedgerError> {
    let inserted = insert_parts(store, orders, at, created_at, answers).await;
    let some_are_there = answers.iter().flatten().any(|answer| *answer == Answer::Submitted);
    inserted.map_err(|error| if some_are_there { error.after_a_write() } else { error })
}

async fn insert_parts(
    store: &Store,
    orders: &[Order],
    at: Vec<usize>,
    created_at: DateTime,
    answers: &mut [Option<Answer>],
) -> Result<(), LedgerError> {
    let (mut parts, mut tries) = (vec![at], 0);
    while let Some(part) = parts.pop() {
        let Some(array) = part.first().and_then(|at| orders[*at].array()) else { continue };
        let documents: Vec<RawDocumentBuf> =
            part.iter().map(|at| orders[*at].to_raw(created_at)).collect();
        let turn = array.turn.acquire().await.expect("it is never closed");
        let inserted = store.insert_together(documents, Some(&array.under)).await?;
        drop(turn);
        match inserted {
            KeyedInsert::Inserted => {
                part.iter().for_each(|at| answers[*at] = Some(Answer::Submitted));
            }
            KeyedInsert::Superseded => {
                compare_known(store, orders, &part, created_at, answers).await?;
                part.iter().for_each(|at| {
                    answers[*at].get_or_insert(Answer::Superseded);
                });
            }
            KeyedInsert::Refused(refused) | KeyedInsert::Taken(refused) => {
                // An earlier attempt may have inserted the document itself, which then stands in
                // its own way.
                let at = part[refused.item];
                compare_known(store, orders, &[at], created_at, answers).await?;
                answers[at].get_or_insert(Answer::Refused(refused.problem));
                // The server has taken those before it, and has not seen those behind it.
                parts.push(part[refused.item + 1..].to_vec());
                parts.push(part[..refused.item].to_vec());
            }
            KeyedInsert::Duplicate | KeyedInsert::Conflict => {
                tries += 1;
                if tries > TRIES_MAX {
                    let message = "an item of the array is being written by another client";
                    return Err(LedgerError::passing("insert", message));
                }
                tokio::time::sleep(PAUSES.delay(tries, jitter())).await;
                compare_known(store, orders, &part, created_at, answers).await?;
                parts.push(part.into_iter().filter(|at| answers[*at].is_none()).collect());
            }
        }
    }
    Ok(())
}
