//! Whether workers settle: what somebody has last said of it.
//!
//! Owns the field `settlement` of the settings document. One guarded update writes it, so of two
//! people who pause at the same time the first one has paused, and the other one is told so.
//! Promises that saying again what holds already changes nothing, that the moment is of the
//! server's clock, and that whoever repeats a change whose answer was lost knows its own change
//! again. A ledger without the field settles. Fails with an error of the command.

use ledger::limits::echo;
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::ReturnDocument;

use super::Store;
use super::ledger_settings::{ID, LedgerSettings};
use super::names::SETTINGS;
use super::not_ready::NotReady;
use super::own::LEDGER_SETTINGS;
use super::read::Fields;

/// The field in the settings document.
pub(super) const FIELD: &str = "settlement";

/// What somebody has last said of whether workers settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Of this change alone: whoever has made it knows it again.
    pub id: String,
    /// Whether settlement is paused; if not, it goes on.
    pub paused: bool,
    /// Since when, in milliseconds since 1970 of the server's clock.
    pub since: ServerMs,
    /// Who has said so: the name of a user, as claimed, or of a token.
    pub by: String,
    /// Why; who resumes need not say.
    pub reason: Option<String>,
}

/// What somebody says of whether workers settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementChange {
    /// Of this change alone.
    pub id: String,
    /// Whether settlement is to be paused; if not, it is to go on.
    pub paused: bool,
    /// Who says so.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

impl Settlement {
    /// Since when, by whom and why, as the rest of a sentence.
    #[must_use]
    pub fn told(&self) -> String {
        let since = ledger::json::timestamp(DateTime::from_millis(self.since));
        let reason = self.reason.as_deref().map(|reason| format!(": {}", echo(reason)));
        format!("since {since} by {}{}", echo(&self.by), reason.unwrap_or_default())
    }

    /// None where a field is missing or of another type.
    pub(super) fn from_document(document: &Document) -> Option<Settlement> {
        let text = |field| document.get_str(field).ok().map(str::to_owned);
        Some(Settlement {
            id: text("id")?,
            paused: document.get_bool("paused").ok()?,
            since: document.get_datetime("since").ok()?.timestamp_millis(),
            by: text("by")?,
            reason: text("reason"),
        })
    }

    pub(super) fn to_document(&self) -> Document {
        let mut document = self.as_change().to_document();
        document.insert("since", DateTime::from_millis(self.since));
        document
    }

    fn as_change(&self) -> SettlementChange {
        let Settlement { id, paused, by, reason, .. } = self.clone();
        SettlementChange { id, paused, by, reason }
    }
}

impl SettlementChange {
    fn to_document(&self) -> Document {
        let mut document = doc! { "id": &self.id, "paused": self.paused, "by": &self.by };
        document.extend(self.reason.as_ref().map(|reason| ("reason".to_owned(), reason.into())));
        document
    }

    /// Changes nothing where the same holds already.
    fn to_update(&self) -> Document {
        let holds = doc! { "$eq": [{ "$eq": ["$settlement.paused", true] }, self.paused] };
        // As a literal, so that no text in it is taken for an expression.
        let said = doc! { "$literal": self.to_document() };
        let said = doc! { "$mergeObjects": [said, { "since": "$$NOW" }] };
        doc! { "$set": { FIELD: { "$cond": [holds, "$settlement", said] } } }
    }
}

impl Store {
    /// Pauses settlement or lets it go on, unless that is so already. Returns what was last said
    /// then: this change, or an earlier one by which it is so already; none where nobody has ever
    /// paused. Safe to repeat with the same change.
    ///
    /// # Errors
    /// When the ledger is not set up, or the server is away or refuses.
    pub async fn change_settlement(
        &self,
        change: &SettlementChange,
    ) -> Result<Option<Settlement>, NotReady> {
        let (collection, update) = (self.settings_collection(), vec![change.to_update()]);
        let write = async move {
            let written = collection.find_one_and_update(LEDGER_SETTINGS.named(ID), update);
            written.return_document(ReturnDocument::After).await
        };
        let written = self.permitted("write the collection `tandem.settings`", write).await?;
        let Some(written) = written else {
            let error = LedgerError::lasting("settlement", "the ledger is not set up yet");
            return Err(error.without_effect().into());
        };
        Ok(LedgerSettings::from_document(&written)?.settlement)
    }

    /// What somebody has last said of whether workers settle; none where nobody has ever paused, or
    /// the settings are not there or can't be read, which other looks tell.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn settlement(&self) -> Result<Option<Settlement>, LedgerError> {
        let found = self.documents("settlement", SETTINGS, &[ID], Fields::All).await?.pop();
        let found = found.and_then(|found| Document::try_from(found).ok());
        let settings = found.and_then(|found| LedgerSettings::from_document(&found).ok());
        Ok(settings.and_then(|settings| settings.settlement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_why_and_since_when_is_told_in_one_sentence() {
        let paused = Settlement {
            id: "c".to_owned(),
            paused: true,
            since: 1_780_000_000_000,
            by: "ada".to_owned(),
            reason: Some("a wrong\nprice list".to_owned()),
        };
        let expected = "since 2026-05-28T20:26:40Z by ada: a wrong?price list";
        assert_eq!(paused.told(), expected);
        let resumed = Settlement { paused: false, reason: None, ..paused };
        assert_eq!(resumed.told(), "since 2026-05-28T20:26:40Z by ada");
    }
}
