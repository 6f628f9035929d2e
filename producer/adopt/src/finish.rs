//! Ends what an old processor has left in flight, one transaction after the other.
//!
//! Owns [`Finishing`]: read a transaction and its two accounts, write the one next step, read again.
//! Promises that each write is one guarded update of one document, so it may be killed at any point
//! and run twice, also at the same time: what is stored says how far a transaction is. Fails when the
//! server stays away; then what was written stays written.

use client::Client;
use layout::Layout;
use ledger::transaction::State;
use mongodb::bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use serde::Serialize;

use super::counts::Counts;
use super::course::Course;
use super::flight::{Flight, PAYEE, PAYER, Problem, Step, becoming, confirming, step};
use super::look::At;
use super::looked::{Looked, id_of};
use super::pages::{Pages, place_of};
use super::plan::path;
use super::shape::{Shape, present};
use super::standing::{Reading, STEPS, Standing};
use super::walk::ROUNDS_MAX;
use super::{Error, account, stored, transaction};

/// What was in flight under an old processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Finished {
    /// How many transactions were brought to `done`.
    pub done: u64,
    /// How many were taken back.
    pub canceled: u64,
    /// All transactions; those that are not in flight needed nothing.
    #[serde(flatten)]
    pub counts: Counts,
}

/// How transactions are ended.
pub(super) struct Finishing<'a> {
    client: &'a Client,
    accounts: Pages<'a>,
    transactions: Pages<'a>,
    reading: Reading<'a>,
    shape: Shape<'a>,
    now: DateTime,
}

/// What has become of a transaction.
enum End {
    /// It was not in flight.
    None,
    Final(State),
    Left(Problem),
    Busy,
    Refused(String),
}

/// What has become of a step.
enum Sent {
    Written,
    /// Somebody has changed the document, or it was written and the reply is lost.
    Missed,
    Refused(String),
}

impl<'a> Finishing<'a> {
    pub(super) fn new(
        client: &'a Client,
        layout: &'a Layout,
        places: Option<u32>,
        now: DateTime,
    ) -> Finishing<'a> {
        const SOME: u32 = 10;
        let [of_accounts, shape] =
            [&layout.accounts, &layout.transactions].map(|stored| Shape::new(Some(stored)));
        let pages = |collection, projection| Pages { client, collection, projection, most: SOME };
        Finishing {
            client,
            accounts: pages(
                layout.accounts.name(),
                of_accounts.projection(account::fields().chain([STEPS]), &[]),
            ),
            transactions: pages(
                layout.transactions.name(),
                shape.plain_projection(transaction::fields().chain(["lastModified"])),
            ),
            reading: Reading { shape: of_accounts, marks: shape.id_kind(), places },
            shape,
            now,
        }
    }

    /// Ends all that are in flight.
    pub(super) async fn all<P: Fn(At)>(
        &self,
        course: &mut Course<'_, P>,
    ) -> Result<Finished, Error> {
        let mut finished = Finished::default();
        let Pages { collection, projection, .. } = &self.transactions;
        let one = async |document: &RawDocument| self.one(document, &mut finished).await;
        let read = course.each("transactions in flight", collection, projection.clone(), one);
        finished.counts.read = read.await?;
        Ok(finished)
    }

    /// Ends a transaction that was found, if it is in flight.
    async fn one(&self, found: &RawDocument, finished: &mut Finished) -> Result<(), Error> {
        let end = self.ended(found).await?;
        let (id, counts) = (id_of(found, self.shape), &mut finished.counts);
        match end {
            End::None => counts.done_before += 1,
            End::Final(state) => {
                counts.write(&[]);
                let of_state = match state {
                    State::Done => &mut finished.done,
                    _ => &mut finished.canceled,
                };
                *of_state += 1;
            }
            End::Left(Problem { class, path, told }) => {
                let mut looked = Looked::new(id);
                looked.add(class, &path, told);
                counts.leave(looked);
            }
            End::Busy => counts.busy(id),
            End::Refused(problem) => counts.refuse(id, problem),
        }
        Ok(())
    }

    /// Writes one step after the other until there is none.
    async fn ended(&self, found: &RawDocument) -> Result<End, Error> {
        let (mut document, mut missed, mut reached) = (found.to_owned(), 0, None);
        while missed <= ROUNDS_MAX {
            let accounts = self.reading.shape.id_kind();
            let flight = match Flight::of(&document, self.shape, accounts) {
                Ok(Some(flight)) => flight,
                Ok(None) => return Ok(reached.map_or(End::None, End::Final)),
                Err(problem) => return Ok(End::Left(problem)),
            };
            let [payer, payee] =
                [self.standing(&flight, PAYER).await?, self.standing(&flight, PAYEE).await?];
            let step = step(flight.state, [&payer, &payee]);
            reached = match &step {
                Step::Left(problem) => return Ok(End::Left(problem.clone())),
                Step::Become(state, _) if state.is_final() => Some(*state),
                _ => None,
            };
            match self.take(&document, step).await? {
                Sent::Written => {}
                Sent::Missed => missed += 1,
                Sent::Refused(problem) => return Ok(End::Refused(problem)),
            }
            let Some(again) = self.again(&document).await? else { return Ok(End::None) };
            document = again;
        }
        Ok(End::Busy)
    }

    /// Writes a step. The accounts were read before a posting is confirmed, and after that somebody
    /// else's step changes what the posting compares: so nobody posts to what has ended meanwhile.
    async fn take(&self, document: &RawDocument, step: Step) -> Result<Sent, Error> {
        let (accounts, transactions) = (self.accounts.collection, self.transactions.collection);
        let mut updates = Vec::new();
        match step {
            Step::Left(_) => {}
            Step::Account(update) => updates.push((accounts, Some(update))),
            Step::Post(update) => {
                updates.push((transactions, confirming(document, self.shape)));
                updates.push((accounts, Some(update)));
            }
            Step::Become(state, fences) => {
                updates.extend(fences.into_iter().map(|fence| (accounts, Some(fence))));
                updates.push((transactions, becoming(document, self.shape, state, self.now)));
            }
        }
        for (collection, update) in updates {
            let Some(update) = update else { return Ok(Sent::Missed) };
            match self.send(collection, update).await? {
                Sent::Written => {}
                missed_or_refused => return Ok(missed_or_refused),
            }
        }
        Ok(Sent::Written)
    }

    /// How an end of a transaction stands to it, as the account is now.
    async fn standing(&self, flight: &Flight<'_>, end: usize) -> Result<Standing, Error> {
        let (shape, id) = (self.reading.shape, flight.ends[end]);
        let (key, text) = (shape.path("_id"), shape.id_kind().text(id));
        let mut filter = RawDocumentBuf::new();
        filter.append(path(shape, "_id"), rawdoc! { "$eq": RawBson::from(id) });
        let found = self.accounts.named(filter).await?;
        // A list of ids, or a collation, matches what is another account.
        let is_it = |found: &&RawDocumentBuf| {
            let key = present(found, &key).and_then(|key| shape.id_kind().text(key));
            key == text
        };
        let standing = |found: &RawDocumentBuf| self.reading.standing(stored(found), flight, end);
        Ok(found.iter().find(is_it).map_or(Standing::Refuses { fence: None }, standing))
    }

    async fn again(&self, document: &RawDocument) -> Result<Option<RawDocumentBuf>, Error> {
        let Some(place) = place_of(document) else { return Ok(None) };
        let id = place.get("_id").ok().flatten().unwrap_or(RawBsonRef::Null);
        let found = self.transactions.named(rawdoc! { "_id": { "$eq": RawBson::from(id) } });
        Ok(found.await?.into_iter().next())
    }

    async fn send(&self, collection: &str, statement: RawDocumentBuf) -> Result<Sent, Error> {
        let (store, statements) = (self.client.store(), [statement]);
        let send = || store.change_stored("finish", collection, &statements);
        let mut written = self.client.insist(send).await?;
        Ok(match (written.refused.pop(), written.count) {
            (Some(refused), _) => Sent::Refused(refused.problem),
            (None, 0) => Sent::Missed,
            (None, _) => Sent::Written,
        })
    }
}
