//! Parked transactions, and bringing them back.
//!
//! Promises that an id is published only when its document says that the transaction may be claimed
//! again, so that a message never meets a transaction that is still parked. A transaction that the
//! database still refuses to write stays parked, is named, and does not keep others from coming
//! back. Doing it again changes nothing. What is back and not published counts all the same: the
//! workers' sweepers find it. Fails when MongoDB stays away.

use ledger::transaction::{TransactionId, check_name};
use mongo::{ParkedEntry, ParkedFilter, ParkedTransaction};

use crate::client::Client;
use crate::error::Error;

/// What became of bringing transactions back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unparked {
    /// Those that were parked and may be claimed now.
    pub back: Vec<TransactionId>,
    /// Those that the database still refuses to write, and why. They stay parked.
    pub refused: Vec<(TransactionId, String)>,
    /// Why the broker was not told, if so. They are back all the same: the workers' sweepers find
    /// them.
    pub unpublished: Option<Error>,
}

impl Client {
    /// The parked transactions, at most so many.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn parked(&self, limit: u32) -> Result<Vec<ParkedEntry>, Error> {
        self.insist(|| self.store().parked(limit)).await
    }

    /// The parked transactions of a filter, at most so many, in no order.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn parked_transactions(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedTransaction>, Error> {
        self.insist(|| self.store().parked_transactions(filter, limit)).await
    }

    /// Whether a transaction is parked now.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn is_parked(&self, id: &str) -> Result<bool, Error> {
        let ids = [id.into()];
        Ok(!self.insist(|| self.store().parked_among(&ids)).await?.is_empty())
    }

    /// Brings parked transactions back and publishes them. At most
    /// [`MESSAGE_IDS_MAX`](ledger::message::MESSAGE_IDS_MAX) of them in one call.
    ///
    /// # Errors
    /// When MongoDB stays away.
    pub async fn unpark(&self, ids: &[TransactionId]) -> Result<Unparked, Error> {
        let mongo::Unparked { back, refused } = self.insist(|| self.store().unpark(ids)).await?;
        let publishable = back.iter().filter(|id| check_name("id", id).is_ok());
        let publishable: Vec<TransactionId> = publishable.cloned().collect();
        let unpublished = match publishable.is_empty() {
            true => None,
            false => self.publish_or_leave(&publishable).await.err(),
        };
        Ok(Unparked { back, refused, unpublished })
    }
}
