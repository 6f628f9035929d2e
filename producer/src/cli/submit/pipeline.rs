//! The second pass: rows → inserted → published.
//!
//! Three stages joined by short channels: a thread reads, one future inserts, one publishes. So a
//! chunk is inserted while the one before is published, and never published before it is durable.

use std::sync::Arc;
use std::time::Instant;

use common::message::Message;
use common::queue::Outgoing;
use common::transaction::TransactionId;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::SubmitArgs;
use super::rows::{Placed, Transfers};
use crate::console::Progress;
use crate::context::Context;
use crate::error::Error;
use crate::follow::Pending;
use crate::input::SHOWN_MAX;
use crate::submission::{Answer, Expect, Order, insert};
use crate::transactions::at;

/// Chunks that wait between two stages.
const WAITING_MAX: usize = 2;

/// What became of a row in this pass. One byte, since there is one a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Outcome {
    /// It was left out.
    Invalid,
    /// Inserted and published.
    Submitted,
    /// Known with the same content.
    Unchanged,
    /// Known with other content.
    Conflict,
    /// The server does not take it.
    Refused,
}

/// How many rows came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub submitted: u64,
    pub unchanged: u64,
    pub conflicts: u64,
    pub refused: u64,
}

impl Counts {
    fn total(self) -> u64 {
        self.submitted + self.unchanged + self.conflicts + self.refused
    }
}

/// What the pass leaves.
pub(super) struct Progressed {
    pub counts: Counts,
    /// By row.
    pub outcomes: Vec<Outcome>,
    /// Every known id, when they are to be followed.
    pub pending: Pending,
}

/// Submits every valid row.
///
/// # Errors
/// When the file can't be read again, or a server stays away.
pub(super) async fn run(
    context: &Context,
    transfers: &Arc<Transfers>,
    args: &SubmitArgs,
) -> Result<Progressed, Error> {
    let (chunks_in, chunks) = channel(WAITING_MAX);
    let (ids_in, ids) = channel(WAITING_MAX);
    let reader = transfers.clone();
    let reading = tokio::task::spawn_blocking(move || reader.send(&chunks_in));
    let reading = async { reading.await.map_err(|panic| Error::Failed(panic.to_string()))? };
    let (progressed, (), ()) = tokio::try_join!(
        insert_chunks(context, transfers, args, chunks, ids_in),
        publish_ids(context, ids, args.batch_ids.into()),
        reading,
    )?;
    Ok(progressed)
}

async fn insert_chunks(
    context: &Context,
    transfers: &Transfers,
    args: &SubmitArgs,
    mut chunks: Receiver<Vec<Placed>>,
    ids: Sender<Vec<TransactionId>>,
) -> Result<Progressed, Error> {
    let rows = transfers.checked().rows;
    let progress = context.console.progress("submitted", Some(rows));
    let rows = usize::try_from(rows).expect("the lines of a file fit the memory");
    let mut stage = Inserting {
        transfers,
        context,
        args,
        progress,
        done: Progressed {
            counts: Counts::default(),
            outcomes: vec![Outcome::Invalid; rows],
            pending: Pending::default(),
        },
    };
    let server_now = context.insist(|| context.store.server_now()).await?;
    let begun = Instant::now();
    let mut expect = Expect::New;
    while let Some(chunk) = chunks.recv().await {
        let created_at = at(server_now, begun.elapsed());
        let (places, orders): (Vec<(u32, usize)>, Vec<Order>) =
            chunk.into_iter().map(|placed| ((placed.line, placed.ordinal), placed.order)).unzip();
        let store = &context.store;
        let answers = context.insist(|| insert(store, &orders, created_at, expect)).await?;
        expect = expectation(&answers);
        let waiting = stage.take_in(&places, &orders, answers);
        if !waiting.is_empty() && ids.send(waiting).await.is_err() {
            // The publisher has failed, and says why.
            break;
        }
    }
    Ok(stage.done)
}

/// A file that was interrupted is known up to some row, and new from there on.
fn expectation(answers: &[Answer]) -> Expect {
    let new = answers.iter().filter(|answer| **answer == Answer::Submitted).count();
    if new * 2 < answers.len() { Expect::Known } else { Expect::New }
}

struct Inserting<'a> {
    transfers: &'a Transfers,
    context: &'a Context,
    args: &'a SubmitArgs,
    progress: Progress<'a>,
    done: Progressed,
}

impl Inserting<'_> {
    /// Notes what became of a chunk; returns the ids to publish.
    fn take_in(
        &mut self,
        places: &[(u32, usize)],
        orders: &[Order],
        answers: Vec<Answer>,
    ) -> Vec<TransactionId> {
        let mut waiting = Vec::with_capacity(orders.len());
        for (((line, ordinal), order), answer) in places.iter().zip(orders).zip(answers) {
            if answer.is_waiting() {
                waiting.push(order.id.clone());
            }
            let outcome = self.count(*line, order, answer);
            // A row beyond the count stands in a file that grew; the reader will say so.
            if let Some(slot) = self.done.outcomes.get_mut(*ordinal) {
                *slot = outcome;
            }
        }
        self.progress.at(self.done.counts.total(), "");
        waiting
    }

    fn count(&mut self, line: u32, order: &Order, answer: Answer) -> Outcome {
        let counts = &mut self.done.counts;
        match answer {
            Answer::Submitted => {
                counts.submitted += 1;
                self.follow(order);
                Outcome::Submitted
            }
            Answer::Unchanged(_) => {
                counts.unchanged += 1;
                self.follow(order);
                Outcome::Unchanged
            }
            Answer::Conflict(other) => {
                counts.conflicts += 1;
                let problem =
                    format!("is taken by {other}; submit this row under an id of its own");
                self.complain(line, order, &problem);
                Outcome::Conflict
            }
            Answer::Refused(problem) => {
                counts.refused += 1;
                self.complain(line, order, &problem);
                Outcome::Refused
            }
        }
    }

    fn follow(&mut self, order: &Order) {
        if self.args.wait.wait {
            self.done.pending.push(&order.id);
        }
    }

    fn complain(&self, line: u32, order: &Order, problem: &str) {
        let told = self.done.counts.conflicts + self.done.counts.refused;
        if told <= SHOWN_MAX as u64 {
            let file = self.transfers.name();
            self.context.console.note(format!("{file}:{line}: id {:?}: {problem}", order.id));
        }
    }
}

async fn publish_ids(
    context: &Context,
    mut ids: Receiver<Vec<TransactionId>>,
    batch_ids: usize,
) -> Result<(), Error> {
    while let Some(ids) = ids.recv().await {
        let messages: Vec<Outgoing> =
            Message::chunked(&ids, batch_ids).map(|message| Outgoing::work(&message)).collect();
        context.insist(|| context.publisher.publish(&messages)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use common::transaction::State;

    use super::*;

    #[test]
    fn a_chunk_that_was_known_lets_the_next_be_looked_at_first() {
        let known = Answer::Unchanged(State::Initial);
        assert_eq!(expectation(&[Answer::Submitted, Answer::Submitted]), Expect::New);
        assert_eq!(expectation(&[known.clone(), known, Answer::Submitted]), Expect::Known);
    }
}
