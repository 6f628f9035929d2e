//! Setting transactions apart, and bringing them back.
//!
//! Owns the field `parked` of a transaction and the collection `parked`, which notes those whose
//! document can't be written. Promises that a parked transaction keeps its state, its marks and its
//! takeover time, that nobody claims it, and that only a person brings it back. One that is noted in
//! the collection only can't be kept from being claimed; but the server refuses its claim.
//! Fails with an error of the command; sending it again changes nothing.

use std::collections::HashSet;

use mongodb::bson::{Bson, DateTime, Document, RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};

use super::write::{Counts, each_alone};
use super::{Store, read};
use crate::ledger::{LedgerError, Parking, ServerMs};
use crate::transaction::{Parked, State, TransactionId};

/// The collection of notes on transactions that can't be written.
pub(super) const NOTES: &str = "parked";

/// A transaction that is parked.
#[derive(Clone, Debug)]
pub struct ParkedEntry {
    /// Its `_id`, of whatever type.
    pub id: Bson,
    /// Its state, where its document says one.
    pub state: Option<State>,
    /// Why, as it was written.
    pub code: String,
    /// The sentence for people.
    pub message: String,
    /// Since when, on the server's clock.
    pub at: Option<ServerMs>,
}

/// Parks transactions where they are still as given; returns those that are parked now.
pub(super) async fn park(
    store: &Store,
    parkings: &[Parking],
) -> Result<Vec<TransactionId>, LedgerError> {
    let groups = each_alone(0..parkings.len());
    let statement = |group: &[&Parking]| {
        let Parking { id, state, claim, why } = group[0];
        let guard = rawdoc! {
            "_id": id.as_ref(),
            "state": state.as_str(),
            "claim": claim.as_deref().map_or(RawBson::Null, RawBson::from),
            "parked": null,
        };
        parking(guard, why, true)
    };
    let written =
        store.write("park", "transactions", parkings, groups, Counts::Matched, statement).await?;
    let refused: Vec<&Parking> = written.refused.iter().map(|r| &parkings[r.item]).collect();
    let noted: Vec<(RawBson, &Parked)> =
        refused.iter().map(|p| (RawBson::from(p.id.as_ref()), &p.why)).collect();
    note(store, &noted).await?;
    let mut parked: Vec<TransactionId> = refused.iter().map(|p| p.id.clone()).collect();
    let ids: Vec<TransactionId> = parkings.iter().map(|parking| parking.id.clone()).collect();
    let pipeline = read::transactions(&ids);
    let seen = store.aggregate("read", "transactions", pipeline, ids.len(), read::seen).await?;
    parked.extend(seen.into_iter().filter(|seen| seen.parked).map(|seen| seen.id));
    Ok(parked)
}

/// The statement that parks what the guard matches.
fn parking(guard: RawDocumentBuf, why: &Parked, ends_claim: bool) -> RawDocumentBuf {
    let parked = rawdoc! {
        "code": why.code.as_str(),
        "message": { "$literal": why.message.as_str() },
        "at": "$$NOW",
    };
    let mut stages = RawArrayBuf::new();
    stages.push(rawdoc! { "$set": { "parked": parked, "lastModified": "$$NOW" } });
    if ends_claim {
        stages.push(rawdoc! { "$unset": ["claim"] });
    }
    rawdoc! { "q": guard, "u": stages }
}

/// Notes transactions whose documents can't be written.
async fn note(store: &Store, noted: &[(RawBson, &Parked)]) -> Result<(), LedgerError> {
    let groups = each_alone(0..noted.len());
    let statement = |group: &[&(RawBson, &Parked)]| {
        let (id, why) = group[0];
        let note = rawdoc! { "code": why.code.as_str(), "message": why.message.as_str() };
        rawdoc! {
            "q": { "_id": id.clone() },
            "u": { "$set": note, "$currentDate": { "at": true } },
            "upsert": true,
        }
    };
    let written = store.write("park", NOTES, noted, groups, Counts::Matched, statement).await?;
    match written.refused.into_iter().next() {
        None => Ok(()),
        Some(refused) => Err(LedgerError::lasting("park", refused.problem)),
    }
}

impl Store {
    /// Parks unfinished transactions by their `_id`, of whatever type and state, whoever owns them.
    /// An owner that lives goes on; nobody claims them after it.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn park_by_id(&self, ids: &[RawBson], why: &Parked) -> Result<(), LedgerError> {
        let groups = each_alone(0..ids.len());
        let unfinished: RawArrayBuf = State::UNFINISHED.iter().map(|s| s.as_str()).collect();
        let statement = |group: &[&RawBson]| {
            let guard = rawdoc! {
                "_id": group[0].clone(),
                "state": { "$in": unfinished.clone() },
                "parked": null,
            };
            parking(guard, why, false)
        };
        let written =
            self.write("park", "transactions", ids, groups, Counts::Matched, statement).await?;
        let noted: Vec<_> = written.refused.iter().map(|r| (ids[r.item].clone(), why)).collect();
        note(self, &noted).await
    }

    /// Which of these ids are noted as parked in the collection of their own.
    ///
    /// # Errors
    /// When the server is away.
    pub(super) async fn noted(&self, ids: &[RawBson]) -> Result<HashSet<Vec<u8>>, LedgerError> {
        let wanted: RawArrayBuf = ids.iter().cloned().collect();
        let mut pipeline = RawArrayBuf::new();
        pipeline.push(rawdoc! { "$match": { "_id": { "$in": wanted } } });
        pipeline.push(rawdoc! { "$project": { "_id": 1 } });
        let key = |document: &mongodb::bson::RawDocument| Some(document.as_bytes().to_vec());
        let noted = self.aggregate("noted", NOTES, pipeline, ids.len(), key).await?;
        Ok(noted.into_iter().collect())
    }

    /// The parked transactions, at most so many: those whose documents say so, then those noted in a
    /// collection of their own.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn parked(&self, limit: u32) -> Result<Vec<ParkedEntry>, LedgerError> {
        let limit_most = i64::from(limit.max(1));
        let unfinished: RawArrayBuf = State::UNFINISHED.iter().map(|s| s.as_str()).collect();
        let in_documents = [
            rawdoc! { "$match": { "state": { "$in": unfinished }, "parked": { "$ne": null } } },
            rawdoc! { "$limit": limit_most },
            rawdoc! { "$project": { "state": 1, "parked": 1 } },
        ];
        let batch = limit as usize;
        let pipeline = in_documents.into_iter().collect();
        let mut parked = self
            .aggregate("parked", "transactions", pipeline, batch, |document| {
                let why = document.get_document("parked").ok()?;
                let state = document.get_str("state").ok().and_then(State::parse);
                entry(document, why, state)
            })
            .await?;
        let notes = [rawdoc! { "$sort": { "at": 1 } }, rawdoc! { "$limit": limit_most }];
        let pipeline = notes.into_iter().collect();
        parked.extend(
            self.aggregate("parked", NOTES, pipeline, batch, |note| entry(note, note, None))
                .await?,
        );
        parked.truncate(batch);
        Ok(parked)
    }

    /// Brings parked transactions back: they may be claimed again once their takeover time has come.
    /// The attempts that they made alone count from the beginning. Returns those ids that were
    /// parked, and that a message can hold.
    ///
    /// # Errors
    /// When the server is away, or refuses to write one of the documents still.
    pub async fn unpark(&self, ids: &[TransactionId]) -> Result<Vec<TransactionId>, LedgerError> {
        let raw: Vec<RawBson> = ids.iter().map(|id| RawBson::from(id.as_ref())).collect();
        let noted = self.noted(&raw).await?;
        let pipeline = read::transactions(ids);
        let seen = self.aggregate("read", "transactions", pipeline, ids.len(), read::seen).await?;
        let set_apart: HashSet<TransactionId> =
            seen.iter().filter(|seen| seen.parked).map(|seen| seen.id.clone()).collect();
        let groups = each_alone(0..ids.len());
        let statement = |group: &[&TransactionId]| {
            rawdoc! {
                "q": { "_id": group[0].as_ref(), "parked": { "$ne": null } },
                "u": {
                    "$unset": { "parked": "", "attemptsAlone": "", "sweepAfter": "" },
                    "$currentDate": { "lastModified": true },
                },
            }
        };
        let written =
            self.write("unpark", "transactions", ids, groups, Counts::Matched, statement).await?;
        if let Some(refused) = written.refused.into_iter().next() {
            let message = format!("{:?}: {}", ids[refused.item], refused.problem);
            return Err(LedgerError::lasting("unpark", message));
        }
        self.forget_notes(&raw).await?;
        let was_parked = |id: &&TransactionId| {
            set_apart.contains(*id) || noted.contains(rawdoc! { "_id": id.as_ref() }.as_bytes())
        };
        Ok(ids.iter().filter(was_parked).cloned().collect())
    }

    async fn forget_notes(&self, ids: &[RawBson]) -> Result<(), LedgerError> {
        let wanted: RawArrayBuf = ids.iter().cloned().collect();
        let notes = self.database().collection::<Document>(NOTES);
        let filter = rawdoc! { "_id": { "$in": wanted } };
        let filter = Document::try_from(filter)
            .map_err(|error| LedgerError::lasting("unpark", error.to_string()))?;
        self.limited("unpark", async move { notes.delete_many(filter).await }).await.map(|_| ())
    }
}

fn entry(
    document: &mongodb::bson::RawDocument,
    why: &mongodb::bson::RawDocument,
    state: Option<State>,
) -> Option<ParkedEntry> {
    let text = |field: &str| why.get_str(field).unwrap_or("unknown").to_owned();
    let id = document.get("_id").ok()??;
    Some(ParkedEntry {
        id: Bson::try_from(id).ok()?,
        state,
        code: text("code"),
        message: text("message"),
        at: why.get_datetime("at").ok().map(DateTime::timestamp_millis),
    })
}
