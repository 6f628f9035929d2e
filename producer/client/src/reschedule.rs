//! Rescheduling: another moment before which nobody settles a scheduled transaction.
//!
//! Promises that one guarded update decides, whatever sweepers and other clients do at the same
//! time: what has become due meanwhile stays due, and the error says so. A resubmission of the
//! transaction as it was submitted still changes nothing.

use std::time::SystemTime;

use ledger::json::timestamp;
use ledger::transaction::{MOMENT_MAX_MS, State};
use mongodb::bson::{DateTime, Document};

use crate::client::Client;
use crate::error::Error;
use crate::readable::state_of;
use crate::standing::Standing;

impl Client {
    /// Changes when a scheduled transaction is due: not before this moment, which is before its
    /// `expiresAt` and `holdExpiresAt` if it has them. A moment that has passed makes it due now.
    /// Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::WrongState`] when it is not scheduled any more, or never was; [`Error::Refused`]
    /// when it would always expire; [`Error::Invalid`] for a moment that is not between the years
    /// 1970 and 9999; [`Error::NotFound`], and when the server stays away.
    pub async fn reschedule(&self, id: &str, not_before: SystemTime) -> Result<Standing, Error> {
        let not_before = DateTime::from_system_time(not_before);
        if !(0..=MOMENT_MAX_MS).contains(&not_before.timestamp_millis()) {
            let problem = "is not a moment between the years 1970 and 9999";
            return Err(Error::invalid("notBefore", problem));
        }
        let request = |_| self.store().reschedule(id, not_before);
        let (is_done, open) = self.insist_write(request).await?;
        let document = self.transaction(id).await.map_err(Error::after_a_write)?;
        let document = document.ok_or_else(|| Error::no_transaction(id).unless_open(open))?;
        let state = state_of(&document).map_err(|error| error.unless_open(open))?;
        if is_done || document.get_datetime("notBefore").ok() == Some(&not_before) {
            // It may be due by now.
            return Ok(Standing::of(&document));
        }
        if state != State::Scheduled {
            let problem = "is not scheduled, so it can't be rescheduled";
            return Err(Error::WrongState { id: id.to_owned(), state, problem });
        }
        Err(Error::refused(id, refusal(&document, not_before)).unless_open(open))
    }
}

/// Why a scheduled transaction was not rescheduled.
fn refusal(document: &Document, not_before: DateTime) -> String {
    let ends = ["holdExpiresAt", "expiresAt"];
    let ends =
        ends.into_iter().filter_map(|field| Some((field, document.get_datetime(field).ok()?)));
    match ends.into_iter().find(|(_, end)| **end <= not_before) {
        Some((field, end)) => format!(
            "its {field} is {}; it would always expire. Choose an earlier moment",
            timestamp(*end)
        ),
        None => "was changed at the same moment; look at it, and try again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_refusal_names_the_end_that_is_in_the_way() {
        let at = DateTime::from_millis;
        let document = doc! { "expiresAt": at(2_000), "holdExpiresAt": at(1_000) };
        assert!(refusal(&document, at(1_000)).starts_with("its holdExpiresAt is 1970-01-01"));
        let document = doc! { "expiresAt": at(2_000) };
        assert!(refusal(&document, at(2_000)).starts_with("its expiresAt is 1970-01-01"));
        assert!(refusal(&document, at(1_999)).starts_with("was changed"));
    }
}
