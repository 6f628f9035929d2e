//! Parked transactions, and bringing them back.
//!
//! Promises that an id is published only when its document says that the transaction may be claimed
//! again, so that a message never meets a transaction that is still parked. A transaction that the
//! database still refuses to write stays parked, is named, and does not keep others from coming
//! back. Doing it again changes nothing. Fails when a server stays away.

use common::mongo::{ParkedEntry, ParkedFilter, ParkedTransaction, Unparked};
use common::transaction::{TransactionId, check_name};

use crate::client::Client;
use crate::error::Error;

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
    /// [`IDS_MAX`](common::message::IDS_MAX) of them in one call.
    ///
    /// # Errors
    /// When a server stays away.
    pub async fn unpark(&self, ids: &[TransactionId]) -> Result<Unparked, Error> {
        let unparked = self.insist(|| self.store().unpark(ids)).await?;
        let publishable = unparked.back.iter().filter(|id| check_name("id", id).is_ok());
        let publishable: Vec<TransactionId> = publishable.cloned().collect();
        if !publishable.is_empty() {
            self.publish(&publishable).await?;
        }
        Ok(unparked)
    }
}
