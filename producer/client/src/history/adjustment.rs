//! Adjustments: what a person has booked on an account, because others had moved its balance.

use ledger::amount::Amount;
use ledger::transaction::AccountId;
use mongo::Line;
use mongodb::bson::{DateTime, RawDocument};

use super::journal;
use crate::client::Client;
use crate::error::Error;

/// Why it was booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjusted {
    /// The reason that was given.
    pub reason: String,
    /// Who has given it.
    pub by: String,
}

/// An adjustment by its name, which an entry of a statement has for its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// Its name.
    pub id: String,
    /// The account.
    pub account: AccountId,
    /// What it adds to what is explained of the account's balance.
    pub amount: Amount,
    /// When it was booked.
    pub booked_at: DateTime,
    /// Why, and by whom.
    pub adjusted: Adjusted,
}

/// Why a line was booked, if it is an adjustment.
pub(super) fn adjusted(line: &Line<'_>) -> Result<Option<Adjusted>, mongo::BadLine> {
    let said = line.adjusted()?;
    Ok(said.map(|said| Adjusted { reason: said.reason.to_owned(), by: said.by.to_owned() }))
}

impl Client {
    /// An adjustment by its name, if there is one.
    ///
    /// # Errors
    /// [`Error::Refused`] when it can't be read, and when the server stays away.
    pub async fn adjustment(&self, id: &str) -> Result<Option<Adjustment>, Error> {
        let found = self.insist(|| self.store().adjustment(id)).await?;
        let read = found.as_deref().map(read).transpose();
        Ok(read.map_err(|line| journal::unreadable(&line))?.flatten())
    }
}

fn read(line: &RawDocument) -> Result<Option<Adjustment>, mongo::BadLine> {
    let account = line.get_array("accounts").ok().and_then(|all| all.get_str(0).ok());
    let line = Line::from_raw(line)?;
    let account = account.ok_or_else(|| line.bad("it has no account".to_owned()))?;
    let booked = line.booked_on(account)?;
    let (Some(booking), Some(adjusted)) = (booked.first(), adjusted(&line)?) else {
        return Ok(None);
    };
    Ok(Some(Adjustment {
        id: line.id.to_owned(),
        account: account.into(),
        amount: booking.amount,
        booked_at: DateTime::from_millis(line.at),
        adjusted,
    }))
}
