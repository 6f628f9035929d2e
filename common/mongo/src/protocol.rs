//! The ledger in MongoDB: each trait method is one kind of command, or a command and a read.

use ledger::journal::{Heading, Line};
use ledger::transaction::TransactionId;
use ledger::{
    AccountRead, Cancelation, Claim, Claimed, Commit, Content, Ending, LeaseMs, Ledger,
    LedgerError, Look, Parking, Posting, Removal, RemovalKind, Seen, ServerMs, Transacted, Written,
};
use mongodb::bson::RawDocumentBuf;

use super::names::{ACCOUNTS, TRANSACTIONS};
use super::postings::OnAccount;
use super::write::{Counts, each_alone, together};
use super::{Store, ending, holds, native, parking, postings, read, refused, seen, statements};

/// See [`Ledger`].
#[derive(Clone, Debug)]
pub struct MongoLedger {
    store: Store,
    lease: LeaseMs,
}

impl MongoLedger {
    /// A ledger whose claims last for `lease`.
    #[must_use]
    pub fn new(store: Store, lease: LeaseMs) -> MongoLedger {
        MongoLedger { store, lease }
    }

    /// Sends a statement for all transactions together.
    async fn on_transactions(
        &self,
        operation: &'static str,
        ids: &[TransactionId],
        statement: impl Fn(&[&TransactionId]) -> RawDocumentBuf,
    ) -> Result<Written, LedgerError> {
        let groups = together(ids.len());
        let written =
            self.store.write(operation, TRANSACTIONS, ids, groups, Counts::Matched, statement);
        Ok(refused::explained(&self.store, written.await?, |item| &ids[item]).await)
    }

    async fn on_accounts<T: OnAccount>(
        &self,
        operation: &'static str,
        updates: &[T],
        statement: impl Fn(&[&T]) -> RawDocumentBuf,
    ) -> Result<Written, LedgerError> {
        let groups = postings::groups(updates, postings::ACCOUNTS_MAX);
        self.store.write(operation, ACCOUNTS, updates, groups, Counts::Modified, statement).await
    }
}

impl Ledger for MongoLedger {
    async fn claim(&self, ids: &[TransactionId], claim: &Claim) -> Result<Claimed, LedgerError> {
        let alone = ids.len() == 1;
        let statement = |ids: &[&TransactionId]| statements::claim(ids, claim, self.lease, alone);
        let refused = self.on_transactions("claim", ids, statement).await?.refused;
        Ok(Claimed { seen: self.read(ids).await?, refused })
    }

    async fn post(&self, postings: &[Posting], before: ServerMs) -> Result<Written, LedgerError> {
        self.on_accounts("post", postings, |group| postings::post(group, before)).await
    }

    async fn remove(
        &self,
        kind: RemovalKind,
        removals: &[Removal],
    ) -> Result<Written, LedgerError> {
        let operation = match kind {
            RemovalKind::Settle => "settle",
            RemovalKind::Undo => "undo",
        };
        self.on_accounts(operation, removals, |group| postings::remove(kind, group)).await
    }

    async fn commit(
        &self,
        guard: Commit,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> Result<Written, LedgerError> {
        self.on_transactions("applied", ids, |ids| statements::commit(guard, ids, claim)).await
    }

    async fn end(&self, line: &Line, claim: &Claim) -> Result<Ending, LedgerError> {
        ending::end(&self.store, line, claim).await
    }

    async fn rest(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        not_before: ServerMs,
    ) -> Result<Written, LedgerError> {
        let statement = |ids: &[&TransactionId]| holds::rest(ids, claim, not_before);
        self.on_transactions("rest", ids, statement).await
    }

    async fn cancel(&self, refused: &[Cancelation], claim: &Claim) -> Result<Written, LedgerError> {
        let groups = each_alone(0..refused.len());
        let statement = |group: &[&Cancelation]| statements::cancel(group[0], claim);
        let written =
            self.store.write("cancel", TRANSACTIONS, refused, groups, Counts::Matched, statement);
        Ok(refused::explained(&self.store, written.await?, |item| &refused[item].id).await)
    }

    async fn release(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        after_ms: i64,
        not_before: ServerMs,
    ) -> Result<(), LedgerError> {
        let statement =
            |ids: &[&TransactionId]| statements::release(ids, claim, after_ms, not_before);
        self.on_transactions("release", ids, statement).await.map(|_| ())
    }

    async fn unclaim(&self, ids: &[TransactionId], claim: &Claim) -> Result<(), LedgerError> {
        let statement = |ids: &[&TransactionId]| statements::unclaim(ids, claim);
        self.on_transactions("unclaim", ids, statement).await.map(|_| ())
    }

    async fn park(&self, parkings: &[Parking]) -> Result<Vec<TransactionId>, LedgerError> {
        parking::park(&self.store, parkings).await
    }

    async fn read(&self, ids: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
        seen::seen(&self.store, ids).await
    }

    async fn bodies(&self, ids: &[TransactionId]) -> Result<Vec<Content>, LedgerError> {
        let pipeline = read::contents(ids);
        let read = self.store.aggregate("bodies", TRANSACTIONS, pipeline, ids.len(), read::content);
        Ok(self.store.told_of_contents(read.await?))
    }

    async fn accounts(&self, looks: &[Look]) -> Result<Vec<AccountRead>, LedgerError> {
        let pipeline = read::accounts(looks);
        let read = self.store.aggregate("accounts", ACCOUNTS, pipeline, looks.len(), read::account);
        Ok(self.store.told_of(read.await?))
    }

    async fn forget_events(&self, lines: &[String]) -> Result<(), LedgerError> {
        self.store.forget_events(lines).await
    }

    async fn transact(
        &self,
        contents: &[Content],
        heading: &Heading,
    ) -> Result<Transacted, LedgerError> {
        native::transact(&self.store, contents, heading).await
    }
}
