//! Lists of documents as they are, page by page: what the command line shows.

use ledger::account::Status;
use mongo::Listed;
use mongodb::bson::Document;

use crate::client::Client;
use crate::error::Error;
use crate::readable::readable;

/// A list that is read page by page.
pub struct Listing(mongo::Listing);

impl Listing {
    /// Whether some that wait or are in flight may be missing, because so many were created lately
    /// that not all were looked at.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.0.is_capped()
    }

    /// The next documents; none at the end.
    ///
    /// # Errors
    /// When the server is away. What was read before stays right, and the list does not go on.
    pub async fn next_page(&mut self) -> Result<Vec<Document>, Error> {
        let page = self.0.next_page().await?;
        Ok(page.iter().map(|document| readable(document)).collect())
    }
}

impl Client {
    /// Lists transactions that are not final: those that wait or are in flight, oldest first, and
    /// before them those that sweepers have passed; then those scheduled or on hold, soonest first.
    ///
    /// # Errors
    /// When the server stays away.
    pub async fn list_transactions(&self, listed: &Listed) -> Result<Listing, Error> {
        Ok(Listing(self.insist(|| self.store().list_transactions(listed)).await?))
    }

    /// Lists accounts by their id, of all or of those with this status.
    #[must_use]
    pub fn list_accounts(&self, status: Option<Status>, limit: u32) -> Listing {
        Listing(self.store().list_accounts(status.map(Status::as_str), limit))
    }
}
