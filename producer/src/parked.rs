//! Transactions that were set apart, and bringing them back.
//!
//! Promises that what is brought back is published only when its document says that it may be
//! claimed again, so that a message never meets a transaction that is still parked. Doing it again
//! changes nothing. Fails when a server stays away, or the database still refuses to write one of
//! them; those before it are back.

use common::mongo::ParkedEntry;
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

    /// Brings parked transactions back and publishes them; returns those that are back. At most
    /// [`IDS_MAX`](common::message::IDS_MAX) of them in one call.
    ///
    /// # Errors
    /// When a server stays away, or the database refuses to write one of them.
    pub async fn unpark(&self, ids: &[TransactionId]) -> Result<Vec<TransactionId>, Error> {
        let back = self.insist(|| self.store().unpark(ids)).await?;
        let publishable = back.iter().filter(|id| check_name("id", id).is_ok());
        self.publish(&publishable.cloned().collect::<Vec<_>>()).await?;
        Ok(back)
    }
}
