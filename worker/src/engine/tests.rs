//! What the simulator finds too rarely, set up by hand.

use std::sync::Mutex;

use common::account::Account;
use common::amount::Amount;
use common::ledger::{
    AccountRead, Advance, Claim, LedgerError, Posting, Removal, Seen, ServerMs, Transacted,
};
use common::netting::Order;
use common::transaction::{AccountId, Body, Reason, State};

use super::*;

const LEASE_MS: i64 = 10_000;

/// A ledger that wins every claim at the given times and notes the deadlines of posts.
struct Scripted {
    claimed_at: Vec<ServerMs>,
    deadlines: Mutex<Vec<ServerMs>>,
}

impl Ledger for Scripted {
    async fn claim(&self, ids: &[TransactionId], claim: &Claim) -> Result<Vec<Seen>, LedgerError> {
        let body = Body::transfer("a", "b", Amount::Int(1)).map_err(|error| error.to_string());
        let won = |(id, claimed_at): (&TransactionId, &ServerMs)| Seen {
            id: id.clone(),
            state: State::Pending,
            claim: Some(claim.token.clone()),
            lease_until: claimed_at + LEASE_MS,
            takeover_at: claimed_at + LEASE_MS + 4_000,
            attempts: 1,
            created_at: 0,
            server_now: self.claimed_at.iter().copied().max().unwrap_or_default(),
            body: body.clone(),
        };
        Ok(ids.iter().zip(&self.claimed_at).map(won).collect())
    }

    async fn post(&self, postings: &[Posting], before: ServerMs) -> Result<usize, LedgerError> {
        self.deadlines.lock().expect("one thread").push(before);
        Ok(postings.len())
    }

    async fn remove(&self, _: Removal, postings: &[Posting]) -> Result<usize, LedgerError> {
        Ok(postings.len())
    }

    async fn advance(
        &self,
        _: Advance,
        ids: &[TransactionId],
        _: &Claim,
    ) -> Result<usize, LedgerError> {
        Ok(ids.len())
    }

    async fn cancel(
        &self,
        refused: &[(TransactionId, Reason)],
        _: &Claim,
    ) -> Result<usize, LedgerError> {
        Ok(refused.len())
    }

    async fn release(
        &self,
        _: &[TransactionId],
        _: &Claim,
        _: i64,
        _: ServerMs,
    ) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn read(&self, _: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
        Ok(Vec::new())
    }

    async fn accounts(&self, ids: &[AccountId]) -> Result<Vec<AccountRead>, LedgerError> {
        let account = |id: &AccountId| (id.clone(), Ok(Account::new(id, Amount::Int(1))));
        Ok(ids.iter().map(account).collect())
    }

    async fn transact(&self, _: &[Order], _: &str) -> Result<Transacted, LedgerError> {
        unreachable!("this is about the two-phase engine")
    }
}

struct Still;

impl Environment for Still {
    fn now_ms(&self) -> i64 {
        0
    }

    async fn sleep(&self, _: Duration) {}

    fn jitter(&self) -> f64 {
        0.5
    }

    fn token(&self) -> String {
        "token".into()
    }
}

#[tokio::test]
async fn no_post_outlives_the_earliest_lease_of_its_batch() {
    // A claim whose first reply was lost: it won one transaction then, the others when repeated.
    for claimed_at in [vec![0, 9_000], vec![9_000, 0]] {
        let settings = EngineSettings {
            kind: EngineKind::TwoPhase,
            application: "test".into(),
            post_window_ms: 3_000,
            grace_ms: 4_000,
            attempts_max: 10,
            retry: Policy::IN_PLACE,
            tries_in_place: 3,
            ride_wait: Duration::ZERO,
            rides_from: usize::MAX,
        };
        let ledger = Scripted { claimed_at, deadlines: Mutex::default() };
        let engine = Engine::new(ledger, Still, settings, Arc::new(Metrics::new()));
        engine.run(&["one".into(), "two".into()]).await;
        let deadlines = engine.ledger.deadlines.lock().expect("one thread");
        assert_eq!(*deadlines, [LEASE_MS], "the first lease ends before the window does");
    }
}
