//! The worker's side of the simulation: ledger, broker and environment for the real engine.
//!
//! Owns nothing but a handle on what is shared with the scheduler. Every call becomes a request
//! that the scheduler delivers, answers, loses or delays as it likes.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use common::ledger::{
    AccountRead, Advance, Claim, Ledger, LedgerError, Posting, Removal, Seen, ServerMs, Transacted,
};
use common::netting::Order;
use common::queue::{Outgoing, QueueError};
use common::transaction::{AccountId, Reason, TransactionId};
use worker::acknowledge::Broker;
use worker::engine::Environment;

use super::planted::Planted;
use super::server::{Reply, Request};

/// Which life of which worker.
pub type Owner = (usize, u32);

/// Something on its way from a worker.
#[derive(Debug)]
pub enum Sent {
    /// To the database.
    Request(Request),
    /// To the broker, to be confirmed.
    Publish(Vec<Outgoing>),
}

/// What tasks and the scheduler share.
#[derive(Debug, Default)]
pub struct Shared {
    /// The time, in milliseconds.
    pub now: i64,
    next: u64,
    random: u64,
    /// Sent and not yet taken by the scheduler.
    pub sent: VecDeque<(u64, Owner, Sent)>,
    /// Answers not yet taken by the tasks. `None` is a connection that broke.
    pub answers: BTreeMap<u64, Option<Reply>>,
    /// Receipts acknowledged (true) or given back, not yet taken by the scheduler.
    pub receipts: VecDeque<(u64, bool)>,
    /// When sleepers want to be woken.
    pub alarms: Vec<i64>,
}

/// The worker's end.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Mutex<Shared>>,
    owner: Owner,
    /// By how much the worker's wall clock is wrong.
    clock_error: i64,
    planted: Option<Planted>,
}

impl Client {
    /// A client for one life of a worker.
    #[must_use]
    pub fn new(
        shared: Arc<Mutex<Shared>>,
        owner: Owner,
        clock_error: i64,
        planted: Option<Planted>,
    ) -> Client {
        Client { shared, owner, clock_error, planted }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("one thread only")
    }

    fn send(&self, sent: Sent) -> impl Future<Output = Option<Reply>> + Send + use<> {
        let id = {
            let mut shared = self.shared();
            shared.next += 1;
            let id = shared.next;
            shared.sent.push_back((id, self.owner, sent));
            id
        };
        let shared = self.shared.clone();
        poll_fn(move |_| match shared.lock().expect("one thread only").answers.remove(&id) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
    }

    async fn request(&self, request: Request) -> Result<Reply, LedgerError> {
        let operation = request.name();
        let message = "the connection broke".to_owned();
        let lost = LedgerError { operation, message, transient: true };
        self.send(Sent::Request(request)).await.ok_or(lost)
    }

    async fn count(&self, request: Request) -> Result<usize, LedgerError> {
        match self.request(request).await? {
            Reply::Count(count) => Ok(count),
            Reply::Seen(_) | Reply::Accounts(_) | Reply::Transacted(_) => {
                unreachable!("a write answers a count")
            }
        }
    }

    async fn posted(&self, postings: &[Posting], before: ServerMs) -> Result<usize, LedgerError> {
        self.count(Request::Post(postings.to_vec(), before)).await
    }
}

impl Ledger for Client {
    async fn claim(&self, ids: &[TransactionId], claim: &Claim) -> Result<Vec<Seen>, LedgerError> {
        let worker_now = self.shared().now + self.clock_error;
        self.count(Request::Claim(ids.to_vec(), claim.clone(), worker_now)).await?;
        self.read(ids).await
    }

    async fn post(&self, postings: &[Posting], before: ServerMs) -> Result<usize, LedgerError> {
        match self.planted {
            Some(Planted::UnknownPostResentAndSettledAtOnce) => {
                let first = self.posted(postings, before).await;
                if first.is_ok() { first } else { self.posted(postings, before).await }
            }
            Some(Planted::CommitBeforeAllLegsArePosted) => {
                self.posted(postings, before).await.map(|_| postings.len())
            }
            Some(Planted::SettleBeforeCommit) => {
                let took = self.posted(postings, before).await?;
                self.remove(Removal::Settle, postings).await?;
                Ok(took)
            }
            Some(Planted::RideLeftBehind) => {
                let alone = |posting: &Posting| Posting { ride: None, ..posting.clone() };
                let alone: Vec<_> = postings.iter().map(alone).collect();
                self.posted(&alone, before).await
            }
            _ => self.posted(postings, before).await,
        }
    }

    async fn remove(&self, removal: Removal, postings: &[Posting]) -> Result<usize, LedgerError> {
        self.count(Request::Remove(removal, postings.to_vec())).await
    }

    async fn advance(
        &self,
        step: Advance,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> Result<usize, LedgerError> {
        self.count(Request::Advance(step, ids.to_vec(), claim.clone())).await
    }

    async fn cancel(
        &self,
        refused: &[(TransactionId, Reason)],
        claim: &Claim,
    ) -> Result<usize, LedgerError> {
        self.count(Request::Cancel(refused.to_vec(), claim.clone())).await
    }

    async fn release(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        after_ms: i64,
        not_before: ServerMs,
    ) -> Result<(), LedgerError> {
        let request = Request::Release(ids.to_vec(), claim.clone(), after_ms, not_before);
        self.count(request).await.map(|_| ())
    }

    async fn read(&self, ids: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
        match self.request(Request::Read(ids.to_vec())).await? {
            Reply::Seen(seen) => Ok(seen),
            Reply::Count(_) | Reply::Accounts(_) | Reply::Transacted(_) => {
                unreachable!("a read answers documents")
            }
        }
    }

    async fn accounts(&self, ids: &[AccountId]) -> Result<Vec<AccountRead>, LedgerError> {
        match self.request(Request::Accounts(ids.to_vec())).await? {
            Reply::Accounts(accounts) => Ok(accounts),
            Reply::Count(_) | Reply::Seen(_) | Reply::Transacted(_) => {
                unreachable!("a read answers documents")
            }
        }
    }

    async fn transact(
        &self,
        orders: &[Order],
        application: &str,
    ) -> Result<Transacted, LedgerError> {
        let number = {
            let mut shared = self.shared();
            shared.next += 1;
            shared.next
        };
        match self
            .request(Request::Transact(number, orders.to_vec(), application.to_owned()))
            .await?
        {
            Reply::Transacted(transacted) => Ok(transacted),
            Reply::Count(_) | Reply::Seen(_) | Reply::Accounts(_) => {
                unreachable!("a transaction answers what became of it")
            }
        }
    }
}

impl Environment for Client {
    fn now_ms(&self) -> i64 {
        // Counts from somewhere else than the server's, as a monotonic clock does.
        self.shared().now - 1_000_000
    }

    fn sleep(&self, delay: Duration) -> impl Future<Output = ()> + Send {
        let until = self.shared().now + i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        self.shared().alarms.push(until);
        let shared = self.shared.clone();
        poll_fn(move |_| {
            let now = shared.lock().expect("one thread only").now;
            if now >= until { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn jitter(&self) -> f64 {
        // A Weyl sequence is spread well enough, and costs no state beyond a counter.
        let mut shared = self.shared();
        shared.random = shared.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (shared.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn token(&self) -> String {
        let mut shared = self.shared();
        shared.next += 1;
        format!("w{}.{}.{}", self.owner.0, self.owner.1, shared.next)
    }
}

impl Broker for Client {
    type Receipt = u64;

    async fn publish(&self, messages: &[Outgoing]) -> Result<(), QueueError> {
        if messages.is_empty() {
            return Ok(());
        }
        let confirmed = self.send(Sent::Publish(messages.to_vec())).await.is_some();
        if confirmed || self.planted == Some(Planted::RequeueWithoutConfirm) {
            Ok(())
        } else {
            Err(QueueError::NotTaken("the connection broke".into()))
        }
    }

    async fn ack(&self, receipt: &u64) {
        self.shared().receipts.push_back((*receipt, true));
    }

    async fn give_back(&self, receipt: &u64) {
        self.shared().receipts.push_back((*receipt, false));
    }

    async fn park(&self, _ids: &[TransactionId]) -> Result<(), LedgerError> {
        Ok(())
    }
}
