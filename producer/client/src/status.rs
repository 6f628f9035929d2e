//! Freezing, unfreezing and closing accounts: one guarded update each, then a look at what is
//! there.

use ledger::account::Status;
use mongo::{ACCOUNTS, Fields};
use mongodb::bson::Document;

use crate::client::Client;
use crate::error::{Error, Kind};
use crate::readable::readable;

/// A change of status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `open` → `frozen`.
    Freeze,
    /// `frozen` → `open`.
    Unfreeze,
    /// `open` or `frozen` → `closed`, when nothing is left on it.
    Close,
}

impl Change {
    /// The status that it leads to.
    #[must_use]
    pub fn to(self) -> Status {
        match self {
            Change::Freeze => Status::Frozen,
            Change::Unfreeze => Status::Open,
            Change::Close => Status::Closed,
        }
    }

    /// Why the guard did not hold, from the account as it was found afterwards.
    fn refusal(self, found: &Document) -> String {
        let status = found.get_str("status").unwrap_or("unknown");
        if status == Status::Closed.as_str() {
            return "is closed, for good; create another account".to_owned();
        }
        let text = |field: &str| found.get(field).map_or("missing".into(), ToString::to_string);
        let marks = found.get_array("pendingTransactions").map_or(0, Vec::len);
        match self {
            Change::Freeze | Change::Unfreeze => format!("has the unknown status {status:?}"),
            Change::Close if marks > 0 => {
                format!("has {marks} transactions in flight; freeze it and try again later")
            }
            Change::Close => format!(
                "has a balance of {}; transfer it away before closing, and see audit if anything \
                 is still pending",
                text("balance")
            ),
        }
    }
}

impl Client {
    /// Changes an account's status. An account that has this status already is left as it is.
    ///
    /// # Errors
    /// [`Error::Refused`] when the account stands in the way (it is closed, or is to be closed and
    /// something is left on it), [`Error::NotFound`], and when the server stays away.
    pub async fn change_status(&self, change: Change, id: &str) -> Result<(), Error> {
        let to = change.to();
        let ((), open) = self.insist_write(|_| self.store().request_status(id, to)).await?;
        let ids = [id];
        let fields = Fields::Only(&["status", "balance", "pendingTransactions"]);
        let found = || self.store().documents("status", ACCOUNTS, &ids, fields);
        let found = self.insist(found).await.map_err(Error::after_a_write)?.pop();
        let not_found = || Error::NotFound { kind: Kind::Account, id: id.to_owned() };
        let found = found.ok_or_else(|| not_found().unless_open(open))?;
        let found = readable(&found);
        if found.get_str("status").ok() == Some(to.as_str()) {
            return Ok(());
        }
        Err(Error::refused(id, change.refusal(&found)).unless_open(open))
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_refusal_says_what_is_in_the_way() {
        let account = |status: &str, marks: Vec<&str>| {
            doc! { "status": status, "balance": 5_i64, "pendingTransactions": marks }
        };
        for (change, found, expected) in [
            (Change::Unfreeze, account("closed", vec![]), "is closed"),
            (Change::Freeze, account("closed", vec![]), "is closed"),
            (Change::Close, account("open", vec!["t"]), "1 transactions in flight"),
            (Change::Close, account("open", vec![]), "balance of 5"),
        ] {
            let refusal = change.refusal(&found);
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
}
