//! The ledger in MongoDB: each trait method is one kind of command, or a command and a read.

use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::statements::{self, LeaseMs};
use super::{STATEMENTS_MAX, Store, native, postings};
use crate::account::Account;
use crate::ledger::{
    AccountRead, Advance, Claim, Ledger, LedgerError, Posting, Removal, Seen, ServerMs, Transacted,
};
use crate::netting::Order;
use crate::transaction::{AccountId, Body, Reason, State, TransactionId};

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
}

impl Ledger for MongoLedger {
    async fn claim(&self, ids: &[TransactionId], claim: &Claim) -> Result<Vec<Seen>, LedgerError> {
        let statement = statements::claim(ids, claim, self.lease);
        self.store.update("claim", "transactions", vec![statement]).await?;
        self.read(ids).await
    }

    async fn post(&self, postings: &[Posting], before: ServerMs) -> Result<usize, LedgerError> {
        self.on_accounts("post", postings, |group| postings::post(group, before)).await
    }

    async fn remove(&self, removal: Removal, postings: &[Posting]) -> Result<usize, LedgerError> {
        let operation = match removal {
            Removal::Settle => "settle",
            Removal::Undo => "undo",
        };
        self.on_accounts(operation, postings, |group| postings::remove(removal, group)).await
    }

    async fn advance(
        &self,
        step: Advance,
        ids: &[TransactionId],
        claim: &Claim,
    ) -> Result<usize, LedgerError> {
        let operation = step.states().1.as_str();
        let statement = statements::advance(step, ids, claim);
        Ok(self.store.update(operation, "transactions", vec![statement]).await?.matched)
    }

    async fn cancel(
        &self,
        refused: &[(TransactionId, Reason)],
        claim: &Claim,
    ) -> Result<usize, LedgerError> {
        let statements =
            refused.iter().map(|(id, reason)| statements::cancel(id, reason, claim)).collect();
        Ok(self.store.update("cancel", "transactions", statements).await?.matched)
    }

    async fn release(
        &self,
        ids: &[TransactionId],
        claim: &Claim,
        after_ms: i64,
        not_before: ServerMs,
    ) -> Result<(), LedgerError> {
        let statement = statements::release(ids, claim, after_ms, not_before);
        self.store.update("release", "transactions", vec![statement]).await.map(|_| ())
    }

    async fn read(&self, ids: &[TransactionId]) -> Result<Vec<Seen>, LedgerError> {
        self.find("read", "transactions", ids, Some(seen_fields()), seen).await
    }

    async fn accounts(&self, ids: &[AccountId]) -> Result<Vec<AccountRead>, LedgerError> {
        self.find("accounts", "accounts", ids, None, account_read).await
    }

    async fn transact(
        &self,
        orders: &[Order],
        application: &str,
    ) -> Result<Transacted, LedgerError> {
        native::transact(&self.store, orders, application).await
    }
}

impl MongoLedger {
    /// Returns how many accounts changed.
    async fn on_accounts(
        &self,
        operation: &'static str,
        postings: &[Posting],
        statement: impl Fn(&[&Posting]) -> RawDocumentBuf,
    ) -> Result<usize, LedgerError> {
        let mut changed = 0;
        for most in [postings::ACCOUNTS_MAX, 1] {
            let groups = postings::groups(postings, most);
            let each = |group: &Vec<&Posting>| statement(group);
            let chunks = groups.chunks(STATEMENTS_MAX / most);
            let updated = self.store.update_each(operation, "accounts", chunks, each).await?;
            changed += updated.modified;
            if !updated.refused {
                break;
            }
            // An account that the server refuses has kept others of its statement from their turn.
            // Whoever had it does not change again: marks are set once and removed once.
        }
        Ok(changed)
    }

    /// Reads what `parse` makes of each document; one after the other, since a batch of them as
    /// trees is most of a worker's memory.
    async fn find<T: Send + 'static>(
        &self,
        operation: &'static str,
        collection: &str,
        ids: &[std::sync::Arc<str>],
        projection: Option<Document>,
        parse: fn(&Document) -> Option<T>,
    ) -> Result<Vec<T>, LedgerError> {
        let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        let filter = doc! { "_id": { "$in": &ids } };
        let collection = self.store.database().collection::<Document>(collection);
        let limit = self.store.op_limit();
        let batch = u32::try_from(ids.len()).unwrap_or(u32::MAX).max(2);
        self.store
            .limited(operation, async move {
                let mut find = collection
                    .find(filter)
                    .max_time(limit)
                    .batch_size(batch)
                    .comment(format!("tandem {operation}"));
                if let Some(projection) = projection {
                    find = find.projection(projection);
                }
                let mut cursor = find.await?;
                let mut found = Vec::new();
                while cursor.advance().await? {
                    found.extend(parse(&Document::try_from(cursor.current())?));
                }
                Ok(found)
            })
            .await
    }
}

pub(super) fn account_read(document: &Document) -> Option<AccountRead> {
    let id = document.get_str("_id").ok()?;
    Some((id.into(), Account::from_document(document)))
}

/// What the engine reads of a transaction; `metadata` stays behind, the server's clock comes along.
fn seen_fields() -> Document {
    doc! {
        "source": 1, "destination": 1, "value": 1, "legs": 1, "currency": 1,
        "state": 1, "claim": 1, "leaseUntil": 1, "takeoverAt": 1, "attempts": 1, "createdAt": 1,
        "serverNow": "$$NOW",
    }
}

/// A document without a readable `_id` or state is not ours: it counts as not found.
fn seen(document: &Document) -> Option<Seen> {
    let time = |field: &str| document.get_datetime(field).map_or(0, |time| time.timestamp_millis());
    let attempts =
        document.get_i32("attempts").map(i64::from).or_else(|_| document.get_i64("attempts"));
    Some(Seen {
        id: document.get_str("_id").ok()?.into(),
        state: State::parse(document.get_str("state").ok()?)?,
        claim: document.get_str("claim").ok().map(str::to_owned),
        lease_until: time("leaseUntil"),
        takeover_at: time("takeoverAt"),
        attempts: u32::try_from(attempts.unwrap_or(0)).unwrap_or(u32::MAX),
        created_at: time("createdAt"),
        server_now: time("serverNow"),
        body: Body::from_document(document).map_err(|error| error.to_string()),
    })
}
