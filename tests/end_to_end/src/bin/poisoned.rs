//! A worker that aborts when it touches certain transactions: the real worker, over a ledger with a
//! trap in it. The product has no such switch.
//!
//! `TANDEM_TEST_POISON` names the transactions, separated by commas; `TANDEM_TEST_POISON_AT` the
//! operation on which the process ends before the operation is sent: `claim`, `post`, `applied`,
//! `settle`, `end`, `transact`. Everything else is the worker's own.

use std::collections::BTreeSet;

use clap::Parser;
use ledger::journal::{Heading, Line};
use ledger::transaction::TransactionId;
use ledger::{
    AccountRead, Cancelation, Claim, Claimed, Commit, Content, Ending, Ledger, LedgerError, Look,
    Parking, Posting, Removal, RemovalKind, Seen, ServerMs, Transacted, Written,
};
use mongo::MongoLedger;
use tokio::signal::unix::{SignalKind, signal};
use worker::{SystemEnvironment, Worker};
use worker_cli::Cli;

#[tokio::main]
async fn main() {
    let Cli { config, logging } = Cli::parse();
    flags::init_logging(&logging).expect("the log settings are valid");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let poison = variable("TANDEM_TEST_POISON").split(',').map(Into::into).collect();
    let at = variable("TANDEM_TEST_POISON_AT");
    let worker = Worker::new(config.into())
        .start_with(move |ledger| Trap { ledger, poison, at }, SystemEnvironment::default());
    let stop = worker.token();
    let mut terminate = signal(SignalKind::terminate()).expect("a signal that can be heard");
    tokio::spawn(async move {
        terminate.recv().await;
        stop.cancel();
    });
    worker.wait().await.expect("the settings are valid");
}

struct Trap {
    ledger: MongoLedger,
    poison: BTreeSet<TransactionId>,
    at: String,
}

impl Trap {
    fn spring<'a>(&self, operation: &str, ids: impl IntoIterator<Item = &'a TransactionId>) {
        if operation != self.at {
            return;
        }
        let ids: BTreeSet<_> = ids.into_iter().collect();
        if ids.iter().any(|id| self.poison.contains(*id)) {
            eprintln!("poisoned: {operation} of {} transactions", ids.len());
            std::process::abort();
        }
    }
}

impl Ledger for Trap {
    async fn claim(&self, ids: &[TransactionId], claim: &Claim) -> Result<Claimed, LedgerError> {
        self.spring("claim", ids);
        self.ledger.claim(ids, claim).await
    }

    async fn post(&self, postings: &[Posting], before: ServerMs) -> Result<Written, LedgerError> {
        self.spring("post", postings.iter().flat_map(|posting| &posting.transactions));
        let rides = postings.iter().filter_map(|posting| posting.ride.as_ref());
        self.spring("settle", rides.flat_map(|ride| &ride.transactions));
        self.ledger.post(postings, before).await
    }

    async fn remove(
        &self,
        kind: RemovalKind,
        removals: &[Removal],
    ) -> Result<Written, LedgerError> {
        self.spring("settle", removals.iter().flat_map(|removal| &removal.transactions));
        self.ledger.remove(kind, removals).await
    }

    async fn commit(
        &self,
        guard: Commit,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> Result<Written, LedgerError> {
        self.spring("applied", ids);
        self.ledger.commit(guard, ids, claim).await
    }

    async fn end(&self, line: &Line, claim: &Claim) -> Result<Ending, LedgerError> {
        self.spring("end", line.entries.iter().map(|entry| &entry.id));
        self.ledger.end(line, claim).await
    }

    async fn rest(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        not_before: ServerMs,
    ) -> Result<Written, LedgerError> {
        self.ledger.rest(ids, claim, not_before).await
    }

    async fn cancel(&self, refused: &[Cancelation], claim: &Claim) -> Result<Written, LedgerError> {
        self.ledger.cancel(refused, claim).await
    }

    async fn transact(
        &self,
        contents: &[Content],
        heading: &Heading,
    ) -> Result<Transacted, LedgerError> {
        self.spring("transact", contents.iter().map(|(id, _)| id));
        self.ledger.transact(contents, heading).await
    }

    async fn forget_events(&self, lines: &[String]) -> Result<(), LedgerError> {
        self.ledger.forget_events(lines).await
    }

    async fn release(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        after_ms: i64,
        not_before: ServerMs,
    ) -> Result<(), LedgerError> {
        self.ledger.release(ids, claim, after_ms, not_before).await
    }

    async fn unclaim(&self, ids: &[TransactionId], claim: &Claim) -> Result<(), LedgerError> {
        self.ledger.unclaim(ids, claim).await
    }

    async fn park(&self, parkings: &[Parking]) -> Result<Vec<TransactionId>, LedgerError> {
        self.ledger.park(parkings).await
    }

    async fn read(&self, ids: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
        self.ledger.read(ids).await
    }

    async fn bodies(&self, ids: &[TransactionId]) -> Result<Vec<Content>, LedgerError> {
        self.ledger.bodies(ids).await
    }

    async fn accounts(&self, looks: &[Look]) -> Result<Vec<AccountRead>, LedgerError> {
        self.ledger.accounts(looks).await
    }
}
