//! `--in-order`: each row sees what the rows before it did.
//!
//! Owns which rows are under way at the same time: those that have no account and no exclusive key in
//! common ([`Sequence`]). A row is decided when it is done, canceled or held, and its effect can be seen,
//! or when it can't be submitted; one that is scheduled for later is passed over. Promises that a
//! row is submitted only after each earlier one with an account of it is decided, also through
//! crashes and repetitions: ids are the same each time, and what is known already is waited for as
//! what is new. Memory is bounded: at most [`ROWS_MAX`] rows or [`BYTES_MAX`] bytes of rows are
//! read ahead. Fails when a server stays away; the same command goes on.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use client::{AccountId, Client, Error as E, Outcome, Receipt, State, TransactionId};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::Receiver;

use super::pipeline::{Place, Submitting, submit};
use super::rows::Placed;
use super::sequence::Sequence;
use crate::exit::Error;

/// The most rows that are read ahead.
const ROWS_MAX: usize = 20_000;
/// The most bytes of rows that are read ahead, as read from the file.
const BYTES_MAX: usize = 32 << 20;
/// The most rows of one insert.
const CHUNK_ROWS: usize = 1_000;
/// Inserts that are under way at once.
const UNDERWAY_MAX: usize = 2;

/// After so long without an end it is said which row is waited for.
const SILENCE: Duration = Duration::from_secs(10);

/// The account that all rows have in common where each waits for the one before it.
const ALL: &str = "";

/// Why rows were not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// An earlier row was refused.
    AtRefusal,
    /// The time was over.
    AtDeadline,
}

/// Submits rows in their order, as long as nothing stops that. With `stop_at_refusal` nothing is
/// submitted behind a row that is refused, so no two rows are under way together.
///
/// # Errors
/// When a server stays away.
pub(super) async fn run(
    stage: &mut Submitting<'_>,
    mut chunks: Receiver<Vec<Placed>>,
    client: &Client,
    stop_at_refusal: bool,
    deadline: Option<Instant>,
) -> Result<Option<Stopped>, Error> {
    let mut flow = Flow::new(stage, stop_at_refusal);
    let (mut submitting, mut awaited) = (FuturesUnordered::new(), FuturesUnordered::new());
    let mut is_read = false;
    loop {
        while flow.stopped.is_none() && submitting.len() < UNDERWAY_MAX {
            let chunk = flow.waiting.take();
            if chunk.is_empty() {
                break;
            }
            submitting.push(submit(client, chunk));
        }
        let is_submitted = is_read && flow.waiting.rows.is_empty();
        let is_late = flow.stopped == Some(Stopped::AtDeadline);
        let is_over = (is_submitted || flow.stopped.is_some()) && submitting.is_empty();
        if is_over && (awaited.is_empty() || is_late) {
            return Ok(flow.stopped.filter(|_| !(is_late && is_submitted)));
        }
        tokio::select! {
            chunk = chunks.recv(), if !is_read && flow.waiting.has_room() => match chunk {
                Some(chunk) => flow.waiting.add(chunk),
                None => is_read = true,
            },
            Some((places, results)) = submitting.next() => {
                for (row, id) in flow.submitted(places, results)? {
                    awaited.push(ended(client, row, id));
                }
            }
            Some(first) = awaited.next() => {
                let mut next = Some(first);
                // All that are known by now: what they free goes together.
                while let Some((row, outcome)) = next {
                    flow.ended(row, outcome)?;
                    next = awaited.next().now_or_never().flatten();
                }
            }
            () = at(deadline), if !is_late => flow.stopped = Some(Stopped::AtDeadline),
            () = tokio::time::sleep(SILENCE) => flow.tell_what_is_waited_for(),
        }
    }
}

/// A row of the file.
#[derive(Clone, Copy)]
struct Row {
    place: usize,
    line: u32,
}

/// A file on its way, row by row.
struct Flow<'a, 'b> {
    stage: &'a mut Submitting<'b>,
    waiting: Waiting,
    /// The rows whose ends are awaited, with their lines and transactions.
    undecided: BTreeMap<usize, (u32, TransactionId)>,
    stop_at_refusal: bool,
    /// Why nothing more is submitted.
    stopped: Option<Stopped>,
    /// Whether it was said, since the last end, what is waited for.
    is_told: bool,
}

impl<'a, 'b> Flow<'a, 'b> {
    fn new(stage: &'a mut Submitting<'b>, stop_at_refusal: bool) -> Flow<'a, 'b> {
        let (waiting, undecided) = (Waiting::new(stop_at_refusal), BTreeMap::new());
        Flow { stage, waiting, undecided, stop_at_refusal, stopped: None, is_told: false }
    }

    /// Notes what became of rows that were submitted; returns those whose ends are to be awaited.
    fn submitted(
        &mut self,
        places: Vec<Place>,
        results: Vec<Result<Receipt, E>>,
    ) -> Result<Vec<(Row, TransactionId)>, Error> {
        let mut awaited = Vec::new();
        for (place, after) in places.iter().zip(results.iter().map(after)) {
            let row = Row { place: place.ordinal, line: place.line };
            match after {
                After::Awaited(id) => {
                    self.undecided.insert(row.place, (row.line, id.clone()));
                    awaited.push((row, id));
                }
                After::Decided { is_refused } => {
                    self.decided(row, is_refused.then_some("is refused"))
                }
            }
        }
        self.stage.take_in(places, results)?;
        Ok(awaited)
    }

    /// Notes how a row has ended.
    fn ended(&mut self, row: Row, outcome: Result<Outcome, E>) -> Result<(), Error> {
        self.is_told = false;
        self.undecided.remove(&row.place);
        let refusal = refusal(outcome)?.map(|why| format!("was refused: {why}"));
        self.decided(row, refusal.as_deref());
        Ok(())
    }

    /// Nothing more comes of a row.
    fn decided(&mut self, row: Row, refusal: Option<&str>) {
        self.waiting.sequence.decided(row.place);
        if let Some(refusal) = refusal.filter(|_| self.stop_at_refusal) {
            self.stage.note(row.line, &format!("{refusal}; nothing behind it is submitted"));
            self.stopped = Some(Stopped::AtRefusal);
        }
    }

    fn tell_what_is_waited_for(&mut self) {
        if let Some((line, id)) = self.undecided.values().next().filter(|_| !self.is_told) {
            self.stage.note(*line, &format!("is waited for: {id} is not decided yet"));
            self.is_told = true;
        }
    }
}

/// Rows that were read and not submitted.
struct Waiting {
    sequence: Sequence<AccountId>,
    rows: HashMap<usize, Placed>,
    bytes: usize,
    one_by_one: bool,
}

impl Waiting {
    fn new(one_by_one: bool) -> Waiting {
        Waiting { sequence: Sequence::new(), rows: HashMap::new(), bytes: 0, one_by_one }
    }

    fn has_room(&self) -> bool {
        self.sequence.len() < ROWS_MAX && self.bytes < BYTES_MAX
    }

    fn add(&mut self, chunk: Vec<Placed>) {
        for placed in chunk {
            let body = &placed.order.body;
            let accounts = body.legs().iter().map(|leg| leg.account.clone());
            // No account has a control character in its name.
            let key = body.terms().exclusive_key.as_ref().map(|key| format!("\n{key}").into());
            let common = self.one_by_one.then(|| ALL.into());
            self.sequence.add(placed.ordinal, accounts.chain(key).chain(common));
            self.bytes += placed.bytes;
            self.rows.insert(placed.ordinal, placed);
        }
    }

    /// Rows that may go together.
    fn take(&mut self) -> Vec<Placed> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_ROWS
            && let Some(place) = self.sequence.take()
        {
            let Some(placed) = self.rows.remove(&place) else { continue };
            self.bytes -= placed.bytes;
            chunk.push(placed);
        }
        chunk
    }
}

/// What follows from the answer to a submission.
enum After {
    /// Nothing more comes of the row.
    Decided { is_refused: bool },
    /// Its end is waited for.
    Awaited(TransactionId),
}

fn after(result: &Result<Receipt, E>) -> After {
    match result {
        Ok(receipt) => match receipt.state {
            State::Done | State::Held | State::Scheduled => After::Decided { is_refused: false },
            State::Canceled => After::Decided { is_refused: true },
            State::Initial | State::Pending | State::Applied | State::Canceling => {
                After::Awaited(receipt.id.clone())
            }
        },
        // It ends the command when it is taken in.
        Err(E::Unavailable { .. }) => After::Decided { is_refused: false },
        // The row is named when it is taken in.
        Err(_) => After::Decided { is_refused: true },
    }
}

async fn ended(client: &Client, row: Row, id: TransactionId) -> (Row, Result<Outcome, E>) {
    (row, client.outcome(&id).await)
}

/// Why a row was refused, if it was. One whose document is gone has no effect, either.
fn refusal(outcome: Result<Outcome, E>) -> Result<Option<String>, Error> {
    match outcome {
        Ok(Outcome::Canceled { message, .. }) => Ok(Some(message)),
        Ok(Outcome::Done | Outcome::Held) => Ok(None),
        Err(E::NotFound { .. }) => Ok(Some("its document is gone".to_owned())),
        Err(error) => Err(Error::from(error).after_a_write()),
    }
}

/// Returns at a moment, if there is one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
