//! The order of a look: what is there, accounts, transactions, their ids, what moves now.
//!
//! Owns [`look`]. Promises that it writes nothing to the database, that each piece is a short read
//! of its own, and that a look with a file goes on behind the last piece that was counted.

use std::time::{Duration, Instant};

use client::Client;
use layout::Layout;
use mongo::{ACCOUNTS, TRANSACTIONS};
use mongodb::bson::RawDocument;
use sha2::{Digest, Sha256};

use super::indexes::{self, There};
use super::looked::{Looked, Stored};
use super::pages::{Pages, estimate, place_of};
use super::report::{Documents, Report, notes};
use super::resume::{Kept, LookedAt, Stage, State};
use super::shape::Shape;
use super::watch::{Watched, watch};
use super::{
    Error, Options, account, failed, keys, remaining, seconds, settings, stored, transaction,
    validators,
};

/// How far a look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// How many documents were read, those before an interruption included.
    pub read: u64,
    /// How many there are, as the server guesses.
    pub of: u64,
    /// What is looked at.
    pub what: &'static str,
    /// How long it will take at this speed; none before there is a speed.
    pub remaining: Option<Duration>,
}

/// Looks at a database, and says what fits. `progress` is told after each piece how far it is.
///
/// # Errors
/// When a server is away, the ledger has another schema than the one that is named, or the file of
/// an interrupted look is of something else or can't be written.
pub async fn look(
    client: &Client,
    options: &Options,
    progress: impl Fn(At) + Send + Sync,
) -> Result<Report, Error> {
    let begun = Instant::now();
    let settings = settings(client).await?;
    let there = indexes::look(client).await?;
    let layout = client.store().layout().cloned();
    let of = |name: &str| Shape::new(layout.as_ref().and_then(|layout| layout.of(name)));
    let names = [ACCOUNTS, TRANSACTIONS].map(|name| client.store().stored_name(name));
    let look = Look {
        client,
        options,
        there: &there,
        accounts: (names[0], of(ACCOUNTS)),
        transactions: (names[1], of(TRANSACTIONS)),
        kept: Kept::new(options.resume.as_deref()),
    };
    let mut state = look.kept.load(look.looked_at(layout.as_ref()))?;
    look.walk(&mut state, &progress).await?;
    let report = look.rest(&state, layout.as_ref(), settings.is_some(), &progress).await?;
    look.kept.remove()?;
    Ok(Report { seconds: seconds(begun), ..report }.judged())
}

struct Look<'a> {
    client: &'a Client,
    options: &'a Options,
    there: &'a There,
    accounts: (&'a str, Shape<'a>),
    transactions: (&'a str, Shape<'a>),
    kept: Kept,
}

impl Look<'_> {
    fn looked_at(&self, layout: Option<&Layout>) -> LookedAt {
        let schema = layout.map(Layout::to_toml).unwrap_or_default();
        LookedAt {
            database: self.client.database().to_owned(),
            accounts: self.accounts.0.to_owned(),
            transactions: self.transactions.0.to_owned(),
            schema: ledger::hex::hex(&Sha256::digest(schema.as_bytes())),
            places: self.options.places,
        }
    }

    /// Reads both collections, piece by piece, from where the state is.
    async fn walk(&self, state: &mut State, progress: &impl Fn(At)) -> Result<(), Error> {
        let names = [self.accounts.0, self.transactions.0];
        let names = names.into_iter().filter(|name| self.there.can_be_read(name));
        let of = estimate(self.client, names).await?;
        let (begun, before) = (Instant::now(), state.accounts.read + state.transactions.read);
        while let Some(pages) = self.pages(state.stage) {
            let place = state.place()?;
            let found = match self.there.can_be_read(pages.collection) {
                true => pages.behind(place.as_deref()).await?,
                false => Vec::new(),
            };
            let last = found.iter().rev().find_map(|document| place_of(document));
            match last {
                Some(last) => {
                    self.take(state, &found);
                    state.reached(Some(&last));
                }
                None => state.next(),
            }
            self.kept.save(state)?;
            let read = state.accounts.read + state.transactions.read;
            let remaining = remaining(begun.elapsed(), read - before, of.saturating_sub(read));
            progress(At { read, of, what: what(state.stage), remaining });
        }
        Ok(())
    }

    fn pages(&self, stage: Stage) -> Option<Pages<'_>> {
        let (collection, projection) = match stage {
            Stage::Accounts => {
                let (name, shape) = self.accounts;
                (name, shape.projection(account::fields(), &[]))
            }
            Stage::Transactions => {
                let (name, shape) = self.transactions;
                (name, shape.projection(transaction::fields(), &transaction::ENDED))
            }
            Stage::Rest => return None,
        };
        Some(Pages { client: self.client, collection, projection, most: self.options.piece })
    }

    /// Counts the documents of a piece.
    fn take(&self, state: &mut State, found: &[impl AsRef<RawDocument>]) {
        let places = self.options.places;
        let looked: fn(Stored<'_>, Shape<'_>, Option<u32>) -> Looked;
        let shape;
        match state.stage {
            Stage::Accounts => (looked, shape) = (account::account, self.accounts.1),
            Stage::Transactions | Stage::Rest => {
                (looked, shape) = (transaction::transaction, self.transactions.1);
            }
        }
        let Some(tally) = state.tally() else { return };
        for document in found {
            tally.add(looked(stored(document.as_ref()), shape, places));
        }
    }

    /// What is asked once both collections were read.
    async fn rest(
        &self,
        state: &State,
        layout: Option<&Layout>,
        is_ledger: bool,
        progress: &impl Fn(At),
    ) -> Result<Report, Error> {
        let read = state.accounts.read + state.transactions.read;
        let tell = |what| progress(At { read, of: read, what, remaining: None });
        let database = self.client.store().database();
        let keys = match layout.filter(|layout| layout.key().is_some()) {
            None => None,
            Some(layout) => {
                tell("ids that several accounts have");
                let keys = keys::look(database, &layout.accounts, self.there.has_key());
                Some(keys.await.map_err(|error| failed(&error))?)
            }
        };
        tell("validators");
        let validators = validators::look(database, [self.accounts, self.transactions]).await;
        tell("what moves");
        let watched = Watched {
            database,
            accounts: self.accounts,
            transactions: self.transactions,
            is_ledger,
        };
        let moved = watch(watched, self.options.watch_s).await;
        Ok(Report {
            ready: false,
            database: self.client.database().to_owned(),
            places: self.options.places,
            accounts: Documents::new(self.accounts.0, &state.accounts),
            transactions: Documents::new(self.transactions.0, &state.transactions),
            keys,
            indexes: self.there.noted(),
            validators: validators.map_err(|error| failed(&error))?,
            moved,
            notes: notes(&state.accounts),
            seconds: 0.0,
        })
    }
}

fn what(stage: Stage) -> &'static str {
    match stage {
        Stage::Accounts => "accounts",
        Stage::Transactions | Stage::Rest => "transactions",
    }
}
