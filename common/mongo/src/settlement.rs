//! Whether workers settle: what somebody has last said of all of them, and of one.
//!
//! Owns the documents of the collection `tandem.settlement`: one of the ledger, and one of each
//! worker that somebody has drained, by the worker's name. They are no fields of the settings,
//! because MongoDB gives rights by collection, and whoever may pause need not be able to change a
//! setting. One guarded update writes one, so of two people who pause at the same time the first one
//! has paused, and the other one is told so. Promises that saying again what holds already changes
//! nothing, that the moment is of the server's clock, and that whoever repeats a change whose answer
//! was lost knows its own change again. Without a document, workers settle. Each reads both that
//! concern it together with the settings, in one command. Fails with an error of the command.

use futures_util::TryStreamExt;
use ledger::limits::{WORKERS_MAX, echo};
use ledger::{LedgerError, ServerMs};
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, RawArrayBuf, RawDocument, doc, rawdoc};
use mongodb::options::ReturnDocument;

use super::Store;
use super::ledger_settings::{self, Known, LedgerSettings, Misfit};
use super::names::SETTLEMENT;
use super::not_ready::NotReady;
use super::own::SAID_OF_SETTLEMENT;
use super::read::Fields;
use super::schema::code;
use super::write::DUPLICATE_KEY;

/// The `_id` of the document of the ledger.
const ID: &str = "settlement";

/// How the `_id` of a worker's document begins; its name follows.
const OF_WORKER: &str = "worker:";

/// The first text that is behind all that begin so.
const BEHIND_WORKERS: &str = "worker;";

/// Who is to settle or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// All workers of the ledger.
    Ledger,
    /// The workers of this name, of which there is one at a time as a rule.
    Worker(String),
}

/// What somebody has last said of whether workers settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Of this change alone: whoever has made it knows it again.
    pub id: String,
    /// Whether settlement is paused, or the worker drained; if not, it goes on.
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
    /// Whose settlement it is about.
    pub whose: Whose,
    /// Whether it is to be paused; if not, it is to go on.
    pub paused: bool,
    /// Who says so.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// What was last said that concerns one worker; none where nobody has said anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Of all workers.
    pub ledger: Option<Settlement>,
    /// Of this one.
    pub worker: Option<Settlement>,
}

impl Whose {
    /// The `_id` of the document.
    fn id(&self) -> String {
        match self {
            Whose::Ledger => ID.to_owned(),
            Whose::Worker(name) => format!("{OF_WORKER}{name}"),
        }
    }
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
    fn from_document(document: &Document) -> Option<Settlement> {
        let text = |field| document.get_str(field).ok().map(str::to_owned);
        Some(Settlement {
            id: text("id")?,
            paused: document.get_bool("paused").ok()?,
            since: document.get_datetime("since").ok()?.timestamp_millis(),
            by: text("by")?,
            reason: text("reason"),
        })
    }

    /// The same of a document that was found. One of somebody else's says nothing.
    fn found(document: &Document) -> Result<Option<Settlement>, Misfit> {
        match document.get_str("kind").ok() == Some(SAID_OF_SETTLEMENT.kind) {
            true => {
                let said = Settlement::from_document(document);
                said.map(Some).ok_or(Misfit::SettlementUnreadable)
            }
            false => Ok(None),
        }
    }
}

impl SettlementChange {
    fn to_document(&self) -> Document {
        let mut document = doc! {
            "_id": self.whose.id(), "kind": SAID_OF_SETTLEMENT.kind,
            "id": &self.id, "paused": self.paused, "by": &self.by,
        };
        document.extend(self.reason.as_ref().map(|reason| ("reason".to_owned(), reason.into())));
        document
    }

    /// Changes nothing where the same holds already.
    fn to_update(&self) -> Document {
        let holds = doc! { "$eq": [{ "$eq": ["$paused", true] }, self.paused] };
        // As a literal, so that no text in it is taken for an expression.
        let said = doc! { "$literal": self.to_document() };
        let said = doc! { "$mergeObjects": [said, { "since": "$$NOW" }] };
        doc! { "$replaceWith": { "$cond": [holds, "$$ROOT", said] } }
    }
}

impl Store {
    /// Pauses settlement or lets it go on, unless that is so already. Returns what was last said
    /// then: this change, or an earlier one by which it is so already; none where nobody has ever
    /// paused. Safe to repeat with the same change.
    ///
    /// # Errors
    /// When the ledger is not set up, somebody else's document stands where a pause is said, or the
    /// server is away or refuses.
    pub async fn change_settlement(
        &self,
        change: &SettlementChange,
    ) -> Result<Option<Settlement>, NotReady> {
        let refused = |what: &str| LedgerError::lasting("settlement", what).without_effect();
        if self.settings().await.map_err(NotReady::without_effect)?.is_none() {
            return Err(refused("the ledger is not set up yet").into());
        }
        let collection: Collection<Document> = self.database.collection(SETTLEMENT);
        let (update, pauses) = (vec![change.to_update()], change.paused);
        let id = change.whose.id();
        let named = SAID_OF_SETTLEMENT.named(&id);
        let write = async move {
            let say = async |is_first: bool| {
                let written =
                    collection.find_one_and_update(named.clone(), update.clone()).upsert(is_first);
                written.return_document(ReturnDocument::After).await
            };
            // Where nobody has ever paused, who resumes has nothing to say.
            match say(pauses).await {
                // Somebody else has paused first, at the same moment.
                Err(error) if code(&error) == Some(DUPLICATE_KEY) => say(false).await,
                said => said,
            }
        };
        let written = self.permitted("write the collection `tandem.settlement`", write).await?;
        match written {
            Some(written) => Ok(Settlement::found(&written)?),
            None if pauses => {
                let what = format!(
                    "the document {:?} of the collection `tandem.settlement` was not made by \
                     Tandem; move it away",
                    echo(&id)
                );
                Err(refused(&what).into())
            }
            None => Ok(None),
        }
    }

    /// What somebody has last said of whether all workers settle; none where nobody has ever paused,
    /// or it can't be read, which workers tell as they end.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn settlement(&self) -> Result<Option<Settlement>, LedgerError> {
        self.settlement_of(&Whose::Ledger).await
    }

    /// The same of all workers, or of one.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn settlement_of(&self, whose: &Whose) -> Result<Option<Settlement>, LedgerError> {
        let id = whose.id();
        let found = self.documents("settlement", SETTLEMENT, &[&id], Fields::All).await?.pop();
        let found = found.and_then(|found| Document::try_from(found).ok());
        Ok(found.and_then(|found| Settlement::found(&found).ok().flatten()))
    }

    /// The names of the workers that are drained now, with who has said so; those that were drained
    /// last, at most [`WORKERS_MAX`] of them. What can't be read is left out.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn drained(&self) -> Result<Vec<(String, Settlement)>, LedgerError> {
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": {
                "_id": { "$gte": OF_WORKER, "$lt": BEHIND_WORKERS },
                "kind": SAID_OF_SETTLEMENT.raw_condition(),
                "paused": true,
            } },
            rawdoc! { "$sort": { "since": -1, "_id": 1 } },
            rawdoc! { "$limit": i64::try_from(WORKERS_MAX).unwrap_or(i64::MAX) },
        ]
        .into_iter()
        .collect();
        let read = |found: &RawDocument| {
            let name = found.get_str("_id").ok()?.strip_prefix(OF_WORKER)?.to_owned();
            let said = Document::try_from(found).ok()?;
            Some((name, Settlement::from_document(&said)?))
        };
        self.aggregate("drained", SETTLEMENT, pipeline, WORKERS_MAX, read).await
    }

    /// What the worker of this name follows while it runs, by one command: the settings as
    /// [`Store::check_settings`] reads them, and what was last said of settlement.
    ///
    /// # Errors
    /// As [`Store::check_settings`], and where nobody can tell whether settlement is paused.
    pub async fn check_followed(
        &self,
        worker: &str,
    ) -> Result<(Option<LedgerSettings>, Said), NotReady> {
        let collection = self.settings_collection();
        let of_worker = Whose::Worker(worker.to_owned()).id();
        let concerns = doc! { "_id": { "$in": [ID, &of_worker] } };
        let said = doc! { "coll": SETTLEMENT, "pipeline": [{ "$match": concerns }] };
        let pipeline =
            [doc! { "$match": { "_id": ledger_settings::ID } }, doc! { "$unionWith": said }];
        let find = async move { collection.aggregate(pipeline).await?.try_collect().await };
        let what = "read the collections `tandem.settings` and `tandem.settlement`";
        let found: Vec<Document> = self.permitted(what, find).await?;
        let named = |id: &str| found.iter().find(|found| found.get_str("_id").ok() == Some(id));
        let settings = self.judged(named(ledger_settings::ID))?;
        settings.iter().try_for_each(|settings| settings.fits(Known::THIS))?;
        let said = |id| named(id).map(Settlement::found).transpose().map(Option::flatten);
        Ok((settings, Said { ledger: said(ID)?, worker: said(&of_worker)? }))
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;

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

    #[test]
    fn what_is_not_ours_says_nothing_and_what_is_ours_and_unreadable_is_no_settlement() {
        let said = doc! {
            "_id": ID, "kind": "tandem-settlement", "id": "c", "paused": true,
            "since": DateTime::from_millis(0), "by": "ada",
        };
        let with = |field: &str, value: Bson| {
            let mut document = said.clone();
            document.insert(field, value);
            Settlement::found(&document)
        };
        let read = Settlement::found(&said).expect("it is whole").expect("it is ours");
        assert_eq!((read.paused, read.by.as_str(), read.reason), (true, "ada", None));
        for kind in ["party".into(), Bson::Null, Bson::Array(vec!["tandem-settlement".into()])] {
            assert_eq!(with("kind", kind), Ok(None));
        }
        for (field, value) in [("paused", "yes"), ("since", "today")] {
            assert_eq!(with(field, value.into()), Err(Misfit::SettlementUnreadable), "{field}");
        }
    }

    #[test]
    fn a_change_holds_already_where_the_same_was_said_and_no_text_of_it_is_an_expression() {
        let change = SettlementChange {
            id: "c".to_owned(),
            whose: Whose::Worker("w".to_owned()),
            paused: true,
            by: "$$ROOT".to_owned(),
            reason: None,
        };
        let update = change.to_update();
        let cond = update.get_document("$replaceWith").and_then(|it| it.get_array("$cond"));
        let cond = cond.expect("it compares first");
        assert_eq!(cond[1], Bson::from("$$ROOT"), "it stays as it is");
        let literal = doc! { "$literal": change.to_document() };
        let said = doc! { "$mergeObjects": [literal, { "since": "$$NOW" }] };
        assert_eq!(cond[2], Bson::from(said));
    }

    #[test]
    fn a_worker_of_any_name_has_a_document_of_its_own_among_those_of_workers() {
        let ids = ["", "settlement", "worker:a", "\u{10ffff}"].map(|name| {
            let id = Whose::Worker(name.to_owned()).id();
            assert!((OF_WORKER..BEHIND_WORKERS).contains(&id.as_str()), "{id}");
            assert_ne!(id, Whose::Ledger.id());
            id
        });
        assert!(ids.iter().enumerate().all(|(n, id)| !ids[..n].contains(id)), "{ids:?}");
        assert!(!(OF_WORKER..BEHIND_WORKERS).contains(&ID));
    }
}
