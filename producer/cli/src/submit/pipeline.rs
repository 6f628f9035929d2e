//! The second pass: rows → inserted → published.
//!
//! A thread reads the file while chunks are submitted, two at a time, so that one chunk is inserted
//! while the chunk before it is published. With `--in-order`, `in_order` says which rows go together.

use std::sync::Arc;
use std::time::Instant;

use client::{Client, Error as E, Receipt, Submission, TransactionId};
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc::{Receiver, channel};

use super::SubmitArgs;
use super::in_order::{self, Stopped};
use super::rows::{Placed, Transfers};
use crate::console::Progress;
use crate::context::Context;
use crate::exit::Error;
use crate::follow::Pending;
use input::files::SHOWN_MAX;

/// Chunks that were read and wait to be submitted.
const WAITING_MAX: usize = 2;
/// Chunks that are submitted at once.
const UNDERWAY_MAX: usize = 2;

/// What became of a row in this pass. One byte, since there is one a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RowOutcome {
    /// It was left out, because it is invalid or because of an earlier row.
    None,
    /// Inserted and published.
    Submitted,
    /// Known with the same content.
    Unchanged,
    /// Known with other content.
    Conflict,
    /// Another transaction has its exclusive key.
    KeyInUse,
    /// The server does not take it.
    Refused,
}

/// How many rows came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub submitted: u64,
    pub unchanged: u64,
    pub conflicts: u64,
    pub keys_in_use: u64,
    pub refused: u64,
}

impl Counts {
    /// All rows that were submitted, or could not be.
    pub fn total(self) -> u64 {
        self.submitted + self.unchanged + self.conflicts + self.keys_in_use + self.refused
    }
}

/// The result of the pass.
pub(super) struct Progressed {
    pub counts: Counts,
    /// By row.
    pub outcomes: Vec<RowOutcome>,
    /// Every known id, when they are to be followed.
    pub pending: Pending,
    /// Why the last rows were not submitted, if they were not.
    pub stopped: Option<Stopped>,
}

/// Submits every valid row.
///
/// # Errors
/// When the file can't be read again, or a server stays away.
pub(super) async fn run(
    context: &Context,
    transfers: &Arc<Transfers>,
    args: &SubmitArgs,
    deadline: Option<Instant>,
) -> Result<Progressed, Error> {
    let (chunks_in, chunks) = channel(WAITING_MAX);
    let reader = transfers.clone();
    let reading = tokio::task::spawn_blocking(move || reader.send(&chunks_in));
    let reading = async {
        let read = reading.await.map_err(|panic| Error::Failed(panic.to_string())).flatten();
        // The chunks before this one are submitted meanwhile.
        read.map_err(Error::after_a_write)
    };
    let submitting = submit_chunks(context, transfers, args, deadline, chunks);
    let (progressed, ()) = tokio::try_join!(submitting, reading)?;
    Ok(progressed)
}

async fn submit_chunks(
    context: &Context,
    transfers: &Transfers,
    args: &SubmitArgs,
    deadline: Option<Instant>,
    mut chunks: Receiver<Vec<Placed>>,
) -> Result<Progressed, Error> {
    let rows = transfers.checked().rows;
    let progress = context.console.progress("submitted", Some(rows));
    let rows = usize::try_from(rows).expect("the lines of a file fit the memory");
    let mut stage = Submitting {
        transfers,
        context,
        args,
        progress,
        done: Progressed {
            counts: Counts::default(),
            outcomes: vec![RowOutcome::None; rows],
            pending: Pending::default(),
            stopped: None,
        },
    };
    if args.in_order {
        let (client, stops) = (&context.client, args.stop_at_refusal);
        let stopped = in_order::run(&mut stage, chunks, client, stops, deadline).await?;
        stage.done.stopped = stopped;
        return Ok(stage.done);
    }
    let chunks = stream::poll_fn(move |task| chunks.poll_recv(task));
    let submitted = chunks.map(|chunk| submit(&context.client, chunk)).buffered(UNDERWAY_MAX);
    let mut submitted = std::pin::pin!(submitted);
    while let Some((places, results)) = submitted.next().await {
        stage.take_in(places, results)?;
    }
    Ok(stage.done)
}

/// The position of an order in the file, and its id.
pub(super) struct Place {
    pub line: u32,
    pub ordinal: usize,
    id: TransactionId,
}

/// Submits rows together; the answers are in their order.
pub(super) async fn submit(
    client: &Client,
    chunk: Vec<Placed>,
) -> (Vec<Place>, Vec<Result<Receipt, E>>) {
    let place = |placed: &Placed| {
        let Placed { line, ordinal, order, .. } = placed;
        Place { line: *line, ordinal: *ordinal, id: order.id.clone() }
    };
    let places = chunk.iter().map(place).collect();
    let submissions = chunk.into_iter().map(|placed| Submission::from(placed.order));
    (places, client.submit_all(submissions).await)
}

/// A file that is being submitted.
pub(super) struct Submitting<'a> {
    transfers: &'a Transfers,
    context: &'a Context,
    args: &'a SubmitArgs,
    progress: Progress<'a>,
    done: Progressed,
}

impl Submitting<'_> {
    /// Notes what became of a chunk.
    ///
    /// # Errors
    /// When a server stays away; that is no fault of a row.
    pub fn take_in(
        &mut self,
        places: Vec<Place>,
        results: Vec<Result<Receipt, E>>,
    ) -> Result<(), Error> {
        // Others may have been submitted: rows of this chunk, the chunks before it and beside it.
        let is_all = self.transfers.checked().rows == places.len() as u64;
        let is_alone = is_all && results.iter().all(Result::is_err);
        for (place, result) in places.iter().zip(results) {
            let outcome = self.count(place, result);
            let outcome = outcome.map_err(|e| if is_alone { e } else { e.after_a_write() })?;
            // A row beyond the count means that the file has grown; the reader will report that.
            if let Some(slot) = self.done.outcomes.get_mut(place.ordinal) {
                *slot = outcome;
            }
        }
        self.progress.at(self.done.counts.total(), "");
        Ok(())
    }

    fn count(&mut self, place: &Place, result: Result<Receipt, E>) -> Result<RowOutcome, Error> {
        let counts = &mut self.done.counts;
        match result {
            // For a file, transactions that the broker does not have are a failure: it may have
            // many more.
            Ok(Receipt { unpublished: Some(error), .. }) => Err(error.into()),
            Ok(Receipt { known: None, .. }) => {
                counts.submitted += 1;
                self.follow(place);
                Ok(RowOutcome::Submitted)
            }
            Ok(Receipt { known: Some(_), .. }) => {
                counts.unchanged += 1;
                self.follow(place);
                Ok(RowOutcome::Unchanged)
            }
            Err(E::Conflict { problem, .. }) => {
                counts.conflicts += 1;
                let problem = format!("{problem}; submit this row under an id of its own");
                self.complain(place, &problem);
                Ok(RowOutcome::Conflict)
            }
            Err(E::KeyInUse { key, holder, .. }) => {
                counts.keys_in_use += 1;
                let problem = format!(
                    "exclusiveKey {key:?} is in use by transaction {holder}; submit this row again \
                     when that is decided"
                );
                self.complain(place, &problem);
                Ok(RowOutcome::KeyInUse)
            }
            Err(E::WithoutKeys(why)) => {
                counts.refused += 1;
                self.complain(place, why);
                Ok(RowOutcome::Refused)
            }
            Err(E::Refused { problem, .. }) => {
                counts.refused += 1;
                self.complain(place, &problem);
                Ok(RowOutcome::Refused)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn follow(&mut self, place: &Place) {
        if self.args.wait.wait {
            self.done.pending.push(&place.id);
        }
    }

    /// Tells something of a line.
    pub fn note(&self, line: u32, told: &str) {
        self.context.console.note(format!("{}:{line}: {told}", self.transfers.name()));
    }

    fn complain(&self, place: &Place, problem: &str) {
        let Counts { conflicts, keys_in_use, refused, .. } = self.done.counts;
        let told = conflicts + keys_in_use + refused;
        if told <= SHOWN_MAX as u64 {
            self.note(place.line, &format!("id {:?}: {problem}", place.id));
        }
    }
}
