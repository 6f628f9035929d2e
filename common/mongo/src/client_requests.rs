//! What clients request while workers use the same documents: cancel, freeze, close.
//!
//! Promises one guarded update for each request, so that it takes effect wholly or not at all,
//! whatever happens at the same time. Sending it again changes nothing. The document shows the
//! result, so a lost answer does no harm. Fails with an error of the command.

use ledger::LedgerError;
use ledger::account::Status;
use ledger::transaction::Reason;
use mongodb::bson::{Document, doc};

use super::names::{ACCOUNTS, TRANSACTIONS};
use super::{Store, statements};

impl Store {
    /// Cancels a transaction that is `initial`, and turns one that is `pending` towards its undoing.
    ///
    /// # Errors
    /// When the server is away, or refuses.
    pub async fn request_cancel(&self, id: &str, reason: &Reason) -> Result<(), LedgerError> {
        let statements = statements::request_cancel(id, reason);
        self.change("cancel", TRANSACTIONS, statements).await.map(|_| ())
    }

    /// Gives an account a status if its present status allows it: only an open account can be
    /// frozen, only a frozen one opened, and only an account with nothing on it closed.
    ///
    /// # Errors
    /// When the server is away, or refuses.
    pub async fn request_status(&self, id: &str, status: Status) -> Result<(), LedgerError> {
        let statement =
            doc! { "q": may_get(id, status), "u": { "$set": { "status": status.as_str() } } };
        self.change("status", ACCOUNTS, vec![statement]).await.map(|_| ())
    }
}

fn may_get(id: &str, status: Status) -> Document {
    match status {
        Status::Frozen => doc! { "_id": id, "status": Status::Open.as_str() },
        Status::Open => doc! { "_id": id, "status": Status::Frozen.as_str() },
        Status::Closed => doc! {
            "_id": id,
            "status": { "$in": [Status::Open.as_str(), Status::Frozen.as_str()] },
            "balance": 0,
            "pendingDebits": 0,
            "pendingCredits": 0,
            "pendingTransactions": [],
        },
    }
}
