//! Submitting within the caller's own MongoDB transaction: an order and its payment are stored
//! together, or neither is.
//!
//! Promises that nothing of it is seen by anybody before the caller's commit, and nothing ever after
//! its abort. What is inserted says itself that nobody has published it, so a worker that looks
//! finds it after the commit: the caller sends no message and may die at any moment. Fails with
//! [`InSessionError`], which the driver's `and_run2` understands: a race with somebody else is an
//! error for which it runs the callback again, and anything else ends the transaction.

use std::time::Duration;

use ledger::transaction::{State, TransactionId, UNPUBLISHED};
use mongo::{InSession, KeyedInsert};
use mongodb::bson::DateTime;
use mongodb::bson::raw::CStr;
use mongodb::{ClientSession, ClusterTime};

use crate::client::Client;
use crate::error::{Effect, Error, Server};
use crate::group::result;
use crate::known::{Answer, compare, find_one};
use crate::submission::{Order, Receipt, Submission};

/// A submission that is durable as soon as the caller has committed the transaction, and is nothing
/// if it is aborted.
#[derive(Clone, Debug)]
pub struct ReceiptInSession {
    /// The transaction's id.
    pub id: TransactionId,
    /// The state in which it was there before, with the same content: then nothing was inserted.
    pub known: Option<State>,
    /// Its state: that in which it was inserted, or was found.
    pub state: State,
    /// The cluster's time as the session knew it after the insert. The commit is later: see
    /// [`Client::read_after`].
    pub cluster_time: Option<ClusterTime>,
}

/// Why a submission within a session failed. The caller's transaction can't be committed any more,
/// except after [`Error::Invalid`], [`Error::Conflict`] and [`Error::WithoutKeys`], which are told
/// before anything is written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InSessionError {
    /// The driver's error. Its labels say whether the transaction may be run again.
    #[error(transparent)]
    Driver(mongodb::error::Error),
    /// What is wrong with the submission, or why it can't be done.
    #[error(transparent)]
    Submission(#[from] Error),
}

/// For `?` in a callback of the driver's `and_run2`. [`Error`] comes back by
/// `error.get_custom::<client::Error>()`.
impl From<InSessionError> for mongodb::error::Error {
    fn from(error: InSessionError) -> mongodb::error::Error {
        match error {
            InSessionError::Driver(error) => error,
            InSessionError::Submission(error) => mongodb::error::Error::custom(error),
        }
    }
}

impl From<InSession> for InSessionError {
    fn from(error: InSession) -> InSessionError {
        match error {
            InSession::Driver(error) => InSessionError::Driver(error),
            InSession::Ledger(error) => {
                InSessionError::Submission(Error::of_server(&error, Duration::ZERO, Effect::None))
            }
        }
    }
}

impl Client {
    /// The driver's client, of which the sessions are that [`Client::submit_in`] takes. The crate is
    /// [`mongodb`](crate::mongodb).
    #[must_use]
    pub fn mongodb(&self) -> mongodb::Client {
        self.store().database().client().clone()
    }

    /// Submits a transaction within the caller's transaction: it is durable when that is committed
    /// with `w: "majority"`, and nothing if that is aborted. A worker takes it up within about a
    /// tenth of a second after the commit; [`Client::publish`] with its id, after the commit, saves
    /// even that, and may be left out.
    ///
    /// The submission has its id before the call. So clone it for each run of the callback, and
    /// none pays twice. What the session sees under the id already is known if it has the same
    /// content, and refused if not. An exclusive key needs a session with a transaction: outside of
    /// one, a statement whose answer is lost may take the key later.
    ///
    /// ```no_run
    /// use client::mongodb::bson::doc;
    /// use client::{Client, Submission};
    ///
    /// # async fn example(client: Client) -> Result<(), client::mongodb::error::Error> {
    /// let orders = client.mongodb().database("shop").collection("orders");
    /// let payment = Submission::transfer("alice", "shop", 12_50).with_id("payment-17");
    /// let mut session = client.mongodb().start_session().await?;
    /// session
    ///     .start_transaction()
    ///     .and_run2(async |session| {
    ///         orders.insert_one(doc! { "_id": 17, "paid_by": "payment-17" }).session(&mut *session).await?;
    ///         client.submit_in(session, payment.clone()).await?;
    ///         Ok(())
    ///     })
    ///     .await?;
    /// client.read_after(&session);
    /// println!("{:?}", client.outcome("payment-17").await);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InSessionError::Driver`] as the driver says. [`Error::Invalid`], [`Error::Conflict`],
    /// [`Error::KeyInUse`], [`Error::WithoutKeys`] and [`Error::Refused`] are about this
    /// submission: nothing of it is ever written.
    pub async fn submit_in(
        &self,
        session: &mut ClientSession,
        submission: Submission,
    ) -> Result<ReceiptInSession, InSessionError> {
        let ids = self.known_rules().await?;
        let (order, _span) = self.entry(submission, &ids)?;
        if order.array().is_some() {
            let problem = "comes in an array under a key, which the API alone submits";
            return Err(Error::invalid("submission", problem).into());
        }
        let created_at = DateTime::now();
        let answer = self.answer_in(session, &order, created_at).await?;
        let first = order.body.first_state(created_at);
        let Receipt { id, known, state, .. } = result(order.id, answer, first, None)?;
        let cluster_time = session.cluster_time().cloned();
        Ok(ReceiptInSession { id, known, state, cluster_time })
    }

    /// Has all looks of this client see what the session has read and written so far: called after
    /// its commit, what was submitted in it.
    pub fn read_after(&self, session: &ClientSession) {
        self.store().read_after(session);
    }

    async fn answer_in(
        &self,
        session: &mut ClientSession,
        order: &Order,
        created_at: DateTime,
    ) -> Result<Answer, InSessionError> {
        if order.has_key()
            && let Some(why) = self.insist(|| self.store().without_keys()).await?
        {
            return Ok(Answer::WithoutKeys(why));
        }
        if let Some(existing) = self.store().document_in(session, &order.id).await? {
            return Ok(compare(order, created_at, &existing));
        }
        let mut document = order.to_raw(created_at);
        if order.body.first_state(created_at) == State::Initial {
            let name: &CStr = UNPUBLISHED.try_into().expect("it has no zero byte");
            document.append(name, true);
        }
        match self.store().insert_in(session, document).await? {
            KeyedInsert::Inserted => Ok(Answer::Submitted),
            KeyedInsert::Refused(refused) | KeyedInsert::Taken(refused) => {
                Ok(Answer::Refused(refused.problem))
            }
            KeyedInsert::Duplicate => self.in_the_way(session, order, created_at).await,
            KeyedInsert::Conflict | KeyedInsert::Superseded => {
                Err(self.run_again(session, order).await)
            }
        }
    }

    /// What stands in the way of an insert. It has ended the caller's transaction.
    async fn in_the_way(
        &self,
        session: &mut ClientSession,
        order: &Order,
        created_at: DateTime,
    ) -> Result<Answer, InSessionError> {
        let known = self.insist(|| find_one(self.store(), order, created_at)).await?;
        if let (None, Some(key)) = (known, &order.body.terms().exclusive_key) {
            let holder = self.insist(|| self.store().holder_of_key(key)).await?;
            if let Some(holder) = holder.filter(|holder| **holder != *order.id) {
                return Ok(Answer::KeyInUse { key: key.clone(), holder });
            }
        }
        // The next run sees what stood in the way, or it is gone.
        Err(self.run_again(session, order).await)
    }

    /// The error for which the driver runs the caller's transaction again. Only the server gives
    /// such an error its label: it does so for any statement of a transaction that it has ended.
    async fn run_again(&self, session: &mut ClientSession, order: &Order) -> InSessionError {
        match self.store().document_in(session, &order.id).await {
            Err(error) => error.into(),
            Ok(_) => {
                let problem = format!("{}: another client writes it at the same moment", order.id);
                let (server, after, effect) = (Server::MongoDb, Duration::ZERO, Effect::None);
                Error::Unavailable { server, problem, after, effect }.into()
            }
        }
    }
}
