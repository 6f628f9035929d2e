//! The order of the way back: whether it may be, accounts, transactions, lines.
//!
//! Owns [`undo`]. Promises that nothing is removed while anything of Tandem's is in flight, that
//! balances stay as they are, and that the same again goes on after an interruption. Lines come
//! last, and the numbers of what ended right before them: lines name transactions that name them,
//! so without these they would be wrong in every audit of a later adoption, and numbers name lines.
//! Settings, and what others have put into Tandem's collections, stay.

use std::time::Instant;

use client::Client;
use ledger::remedy::Remedy;
use mongo::{ACCOUNTS, TRANSACTIONS};
use serde::Serialize;

use super::counts::Counts;
use super::course::{Course, How};
use super::look::At;
use super::looked::{Looked, Stored};
use super::pages::estimate;
use super::plan::Plan;
use super::shape::Shape;
use super::walk::Planner;
use super::{Error, ready, removal};

/// What the documents of the collections are called.
const WHAT: [&str; 2] = ["accounts", "transactions"];

/// How many lines are removed with one command.
const LINES_AT_ONCE: u32 = 1_000;

/// How to go back.
#[derive(Clone, Copy, Debug)]
pub struct Undo {
    /// How many documents are read at a time.
    pub piece: u32,
    /// How many documents are written in a second at most; none is no limit.
    pub rate: Option<u32>,
}

/// What was taken away.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Undone {
    /// Whether nothing is left.
    pub complete: bool,
    /// The database.
    pub database: String,
    /// The accounts.
    pub accounts: Counts,
    /// The transactions.
    pub transactions: Counts,
    /// How many lines of the journal were removed.
    pub lines: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Takes away what Tandem has added. `progress` is told after each piece how far it is.
///
/// # Errors
/// [`Error::NotNow`] when nothing was removed because something has to be seen to first; when a
/// server stays away. What was removed stays removed.
pub async fn undo(
    client: &Client,
    how: Undo,
    progress: impl Fn(At) + Send + Sync,
) -> Result<Undone, Error> {
    let begun = Instant::now();
    let layout = ready::layout(client).await?;
    ready::no_worker(client, "it would write again what is taken away").await?;
    no_events(client).await?;
    let names = [ACCOUNTS, TRANSACTIONS].map(|name| client.store().stored_name(name));
    let shapes = [&layout.accounts, &layout.transactions].map(|stored| Shape::new(Some(stored)));
    let fields = [
        shapes[0].plain_projection(removal::of_accounts()),
        shapes[1].plain_projection(removal::of_transactions()),
    ];
    let of_account = |stored: Stored<'_>| removal::of_account(stored, shapes[0]);
    let of_transaction = |stored: Stored<'_>| removal::of_transaction(stored, shapes[1]);
    let Undo { piece, rate } = how;
    let how = How { operation: "undo", piece, rate, of: 2 * estimate(client, names).await? };
    let mut course = Course::new(client, how, progress);
    let planners: [Planner<'_>; 2] = [&of_account, &of_transaction];
    for at in [0, 1] {
        let looking = |stored: Stored<'_>| looked_at(planners[at](stored));
        in_flight(&course.walk(WHAT[at], names[at], fields[at].clone(), &looking).await?)?;
    }
    let [of_accounts, of_transactions] = fields;
    let accounts = course.walk(WHAT[0], names[0], of_accounts, planners[0]).await?;
    let transactions = course.walk(WHAT[1], names[1], of_transactions, planners[1]).await?;
    let complete = accounts.left + transactions.left == 0;
    let mut lines = 0;
    if complete {
        lines = remove_lines(client).await?;
    }
    let database = client.database().to_owned();
    Ok(Undone { complete, database, accounts, transactions, lines, seconds: super::seconds(begun) })
}

/// The same where nothing is written yet.
fn looked_at((looked, plan): (Looked, Plan)) -> (Looked, Plan) {
    match plan {
        Plan::Left => (looked, Plan::Left),
        Plan::Done | Plan::Write(_) => (looked, Plan::Done),
    }
}

fn in_flight(counts: &Counts) -> Result<(), Error> {
    let Some(sample) = counts.reasons.iter().flat_map(|reason| reason.samples.first()).next()
    else {
        return Ok(());
    };
    Err(Error::NotNow(format!(
        "{} documents are in flight, for example {} with {} at `{}`; nothing was removed: let a worker \
         of Tandem end them (confirm or release holds, cancel what is scheduled, unpark what is \
         parked), stop it, then run the same command again",
        counts.left, sample.id, sample.value, sample.path
    )))
}

/// All events were told: they are read from lines.
async fn no_events(client: &Client) -> Result<(), Error> {
    match client.insist(|| client.store().has_notes()).await? {
        false => Ok(()),
        true => Err(Error::NotNow(format!(
            "not all events were told yet, and they are read from what would be taken away; nothing \
             was removed: run a worker until {} shows no event that is due, stop it, then run the \
             same command again",
            Remedy::TopOnce
        ))),
    }
}

async fn remove_lines(client: &Client) -> Result<u64, Error> {
    let mut removed = 0;
    loop {
        let (lines, was_more) =
            client.insist(|| client.store().remove_lines(LINES_AT_ONCE)).await?;
        if !was_more {
            return Ok(removed);
        }
        removed += lines as u64;
    }
}
