//! The order of an adoption: whether it may be, what is in flight, accounts, transactions.
//!
//! Owns [`adopt`]. Promises that nothing is written when it refuses, that each write is a guarded
//! update of one document, and that the same again goes on after an interruption and changes
//! nothing after an end.

use std::time::Instant;

use client::Client;
use layout::Collection;
use mongo::{ACCOUNTS, TRANSACTIONS};
use mongodb::bson::DateTime;
use serde::Serialize;

use super::counts::Counts;
use super::course::{Course, How};
use super::finish::{Finished, Finishing};
use super::look::At;
use super::pages::estimate;
use super::plan::{Repairs, plan};
use super::shape::Shape;
use super::watch::{Moved, Watched, watch};
use super::{Error, account, dating, ready};

/// How to adopt.
#[derive(Clone, Copy, Debug)]
pub struct Adoption {
    /// Which numbers are repaired.
    pub repairs: Repairs,
    /// How many documents are read at a time.
    pub piece: u32,
    /// How many documents are written in a second at most; none is no limit.
    pub rate: Option<u32>,
    /// How long to watch for an old processor before anything is written, in seconds; 0 does not.
    pub watch_s: u64,
    /// Whether to end first what an old processor has left in flight.
    pub finish: bool,
}

/// What an adoption has done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Adopted {
    /// Whether nothing is left.
    pub complete: bool,
    /// The database.
    pub database: String,
    /// How many decimal places numbers were said to have.
    pub places: Option<u32>,
    /// The accounts. Those that were written have an opening now.
    pub accounts: Counts,
    /// The transactions. Those that were written have a date now.
    pub transactions: Counts,
    /// What an old processor had left in flight, where it was to be ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Finished>,
    /// What moved while it was watched.
    pub moved: Moved,
    /// How long it took.
    pub seconds: f64,
}

/// Adopts what can be adopted. `progress` is told after each piece how far it is.
///
/// # Errors
/// [`Error::NotNow`] when nothing was written because something has to be seen to first; when a
/// server stays away. What was written stays written.
pub async fn adopt(
    client: &Client,
    adoption: Adoption,
    progress: impl Fn(At) + Send + Sync,
) -> Result<Adopted, Error> {
    let begun = Instant::now();
    let layout = ready::layout(client).await?;
    if adoption.finish {
        ready::no_worker(client, "nobody else may move what an old processor has begun").await?;
    }
    if adoption.repairs.places.is_some() {
        ready::no_worker(client, "it would read numbers as minor units that are none").await?;
    }
    let (accounts, transactions) = (&layout.accounts, &layout.transactions);
    let moved = no_processor(client, (accounts, transactions), adoption.watch_s).await?;
    let now = DateTime::from_millis(client.database_now().await?);
    let names = [ACCOUNTS, TRANSACTIONS].map(|name| client.store().stored_name(name));
    let Adoption { piece, rate, .. } = adoption;
    let read_first = names.last().filter(|_| adoption.finish);
    let of = estimate(client, names.iter().chain(read_first).copied()).await?;
    let mut course = Course::new(client, How { operation: "adopt", piece, rate, of }, progress);
    let places = adoption.repairs.places;
    let finished = match adoption.finish {
        true => Some(Finishing::new(client, layout, places, now).all(&mut course).await?),
        false => None,
    };

    let shape = Shape::new(Some(accounts));
    let fields = shape.projection(account::fields(), &[]);
    let of_accounts = |stored: super::Stored<'_>| plan(stored, shape, adoption.repairs);
    let accounts = course.walk("accounts", names[0], fields, &of_accounts).await?;

    let shape = Shape::new(Some(transactions));
    let fields = shape.projection(dating::fields(), &super::transaction::ENDED);
    let of_transactions = |stored: super::Stored<'_>| dating::dating(stored, shape, places, now);
    let transactions = course.walk("transactions", names[1], fields, &of_transactions).await?;
    Ok(Adopted {
        complete: accounts.left + transactions.left == 0,
        finished,
        database: client.database().to_owned(),
        places,
        accounts,
        transactions,
        moved,
        seconds: super::seconds(begun),
    })
}

/// Watches, and refuses where an old processor is at work. A program that only adds to balances is
/// none.
async fn no_processor(
    client: &Client,
    (accounts, transactions): (&Collection, &Collection),
    seconds: u64,
) -> Result<Moved, Error> {
    let watched = Watched {
        database: client.store().database(),
        accounts: (accounts.name(), Shape::new(Some(accounts))),
        transactions: (transactions.name(), Shape::new(Some(transactions))),
        is_ledger: true,
    };
    let moved = watch(watched, seconds).await;
    if let Some(why) = moved.not_looked_at.as_ref().filter(|_| seconds > 0) {
        return Err(Error::NotNow(format!(
            "whether an old processor is at work could not be looked at ({why}); make sure that none \
             is, and say --watch 0"
        )));
    }
    if !moved.is_processor() {
        return Ok(moved);
    }
    let sample = moved.samples.iter().map(|sample| {
        format!(", for example `{}` of {}: {}", sample.path, sample.id, sample.value)
    });
    let replacing = moved.replacing().map(|told| format!("; {told}")).unwrap_or_default();
    Err(Error::NotNow(format!(
        "an old processor is at work: {} changes of transactions and {} of accounts without a claim \
         of Tandem's in {} s{}{replacing}; nothing was written: stop it, then run the same command \
         again",
        moved.transactions,
        moved.accounts,
        moved.seconds,
        sample.take(1).collect::<String>()
    )))
}
