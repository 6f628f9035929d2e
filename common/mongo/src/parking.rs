//! Parking transactions, and bringing them back.
//!
//! Owns the field `parked` of a transaction and the notes in the collection `tandem.parked` on
//! transactions whose documents can't be written. Promises that a parked transaction keeps its
//! state, its marks and its takeover time, that nobody claims it, and that only a person brings it
//! back. A transaction that is noted in the collection only has no guard against a claim, but the
//! server refuses the claim. Fails with an error of the command; sending it again changes nothing.

use std::collections::HashSet;

use ledger::transaction::{Parked, State, TransactionId};
use ledger::{LedgerError, Parking};
use mongodb::bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use super::names::{NOTES, TRANSACTIONS};
use super::own::PARKED_NOTE;
use super::raw::{RawId, raw_id};
use super::statements::stamped_soon;
use super::write::{Counts, GARBLED, each_alone};
use super::{Store, refused, seen};

/// Parks transactions where they are still as given; returns those that are parked now.
pub(super) async fn park(
    store: &Store,
    parkings: &[Parking],
) -> Result<Vec<TransactionId>, LedgerError> {
    let groups = each_alone(0..parkings.len());
    let statement = |group: &[&Parking]| {
        let Parking { id, state, claim, why } = group[0];
        let claim = match claim {
            Some(token) => rawdoc! { "$eq": token.as_str() },
            // No claim: a value that is no string is not a claim.
            None => rawdoc! { "$not": { "$type": "string" } },
        };
        let guard = rawdoc! {
            "_id": id.as_ref(),
            "state": state.as_str(),
            "claim": claim,
            "parked": null,
        };
        parking(guard, why, true)
    };
    let written =
        store.write("park", TRANSACTIONS, parkings, groups, Counts::Matched, statement).await?;
    let refused: Vec<&Parking> = written.refused.iter().map(|r| &parkings[r.item]).collect();
    let noted: Vec<(RawId, &Parked)> = refused.iter().map(|p| (raw_id(&p.id), &p.why)).collect();
    note(store, &noted).await?;
    let mut parked: Vec<TransactionId> = refused.iter().map(|p| p.id.clone()).collect();
    let ids: Vec<TransactionId> = parkings.iter().map(|parking| parking.id.clone()).collect();
    let seen = seen::seen(store, &ids).await?;
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
    // The index of what is parked shows it, so the one of stamps does not have to.
    let gone: &[&str] = if ends_claim { &["sweepAfter", "claim"] } else { &["sweepAfter"] };
    stages.push(rawdoc! { "$unset": gone.iter().copied().collect::<RawArrayBuf>() });
    rawdoc! { "q": guard, "u": stages }
}

/// Notes transactions whose documents can't be written. Where somebody else has put a document of
/// the same `_id` into the collection of notes, there is no note: the transaction is found again in
/// each sweep.
pub(super) async fn note(store: &Store, noted: &[(RawId, &Parked)]) -> Result<(), LedgerError> {
    let groups = each_alone(0..noted.len());
    let statement = |group: &[&(RawId, &Parked)]| {
        let (id, why) = group[0];
        let note = rawdoc! {
            "kind": PARKED_NOTE.kind, "code": why.code.as_str(), "message": why.message.as_str(),
        };
        rawdoc! {
            "q": PARKED_NOTE.with_id(id.clone()),
            "u": { "$set": note, "$currentDate": { "at": true } },
            "upsert": true,
        }
    };
    let written = store.write("park", NOTES, noted, groups, Counts::Matched, statement).await?;
    // The answer to a new note repeats its `_id`. If that is not valid text, the answer can't be
    // read, but the note was written.
    for refused in written.refused.iter().filter(|refused| refused.problem != GARBLED) {
        tracing::warn!(
            problem = refused.problem,
            "can't note a transaction as parked: move what is not Tandem's out of `{NOTES}`"
        );
    }
    Ok(())
}

impl Store {
    /// Parks unfinished transactions by their `_id`, of whatever type and state, whoever owns them.
    /// A living owner goes on; nobody claims them after it.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn park_by_id(&self, ids: &[RawId], why: &Parked) -> Result<(), LedgerError> {
        let groups = each_alone(0..ids.len());
        let unfinished: RawArrayBuf = State::UNFINISHED.iter().map(|s| s.as_str()).collect();
        let statement = |group: &[&RawId]| {
            let unfinished = rawdoc! { "state": { "$in": unfinished.clone() }, "parked": null };
            let guard: RawArrayBuf = [group[0].clone(), unfinished].into_iter().collect();
            parking(rawdoc! { "$and": guard }, why, false)
        };
        let written =
            self.write("park", TRANSACTIONS, ids, groups, Counts::Matched, statement).await?;
        let noted: Vec<_> = written.refused.iter().map(|r| (ids[r.item].clone(), why)).collect();
        note(self, &noted).await
    }

    /// Which of these ids are noted as parked in the collection `parked`.
    ///
    /// # Errors
    /// When the server is away.
    pub(super) async fn noted(&self, ids: &[RawId]) -> Result<HashSet<Vec<u8>>, LedgerError> {
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let mut pipeline = RawArrayBuf::new();
        pipeline.push(rawdoc! { "$match": notes_on(ids) });
        pipeline.push(rawdoc! { "$project": { "_id": 1 } });
        let key = |document: &RawDocument| Some(document.as_bytes().to_vec());
        let noted = self.aggregate("noted", NOTES, pipeline, ids.len(), key).await?;
        Ok(noted.into_iter().collect())
    }

    /// Which of these transactions are parked: by their documents, or by a note beside them.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn parked_among(
        &self,
        ids: &[TransactionId],
    ) -> Result<HashSet<TransactionId>, LedgerError> {
        let raw: Vec<RawId> = ids.iter().map(|id| raw_id(id)).collect();
        let noted = self.noted(&raw).await?;
        let seen = seen::seen(self, ids).await?;
        let by_document = seen.into_iter().filter(|seen| seen.parked).map(|seen| seen.id);
        let is_noted =
            |id: &&TransactionId| noted.contains(rawdoc! { "_id": id.as_ref() }.as_bytes());
        Ok(by_document.chain(ids.iter().filter(is_noted).cloned()).collect())
    }

    /// Brings parked transactions back: they may be claimed again once their takeover time has
    /// come. Attempts that they made alone are counted from zero again. Those that need a worker
    /// are stamped, also where only a note beside them says that they are parked: sweepers pass
    /// what is parked, in either way.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn unpark(&self, ids: &[TransactionId]) -> Result<Unparked, LedgerError> {
        let parked = self.parked_among(ids).await?;
        let ids: Vec<TransactionId> =
            ids.iter().filter(|id| parked.contains(*id)).cloned().collect();
        let groups = each_alone(0..ids.len());
        let statement = |group: &[&TransactionId]| unpark(group[0]);
        let written = self.write("unpark", TRANSACTIONS, &ids, groups, Counts::Matched, statement);
        let written = refused::explained(self, written.await?, |item| &ids[item]).await;
        let refused = written.refused.into_iter().map(|r| (ids[r.item].clone(), r.problem));
        let refused: Vec<(TransactionId, String)> = refused.collect();
        let is_refused = |id: &&TransactionId| refused.iter().any(|(of, _)| of == *id);
        let back: Vec<TransactionId> = ids.iter().filter(|id| !is_refused(id)).cloned().collect();
        let notes: Vec<RawId> = back.iter().map(|id| raw_id(id)).collect();
        self.forget_notes(&notes).await.map_err(LedgerError::after_a_write)?;
        Ok(Unparked { back, refused })
    }

    async fn forget_notes(&self, ids: &[RawId]) -> Result<(), LedgerError> {
        if ids.is_empty() {
            return Ok(());
        }
        let notes = self.database().collection::<Document>(NOTES);
        let filter = Document::try_from(notes_on(ids))
            .map_err(|error| LedgerError::lasting("unpark", error.to_string()))?;
        self.limited("unpark", async move { notes.delete_many(filter).await }).await.map(|_| ())
    }
}

/// The statement that brings a transaction back. What is final by now has no use for a stamp, and
/// what rests is shown by the index of what is due.
fn unpark(id: &TransactionId) -> RawDocumentBuf {
    let finals: RawArrayBuf =
        [State::Done, State::Canceled].iter().map(|state| state.as_str()).collect();
    let working: RawArrayBuf = State::UNFINISHED.iter().map(|state| state.as_str()).collect();
    let works = rawdoc! { "$in": ["$state", working] };
    rawdoc! {
        // The moment of an end stays what it was.
        "q": { "_id": id.as_ref(), "state": { "$nin": finals } },
        "u": [
            { "$set": {
                "sweepAfter": { "$cond": [works, stamped_soon(), "$$REMOVE"] },
                "lastModified": "$$NOW",
            } },
            { "$unset": ["parked", "attemptsAlone"] },
        ],
    }
}

/// What became of bringing transactions back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unparked {
    /// Those that were parked and may be claimed now.
    pub back: Vec<TransactionId>,
    /// Those that the database still refuses to write, and why. They stay parked.
    pub refused: Vec<(TransactionId, String)>,
}

/// The filter for the notes on these transactions. The server looks them up in its index in one go.
fn notes_on(ids: &[RawId]) -> RawDocumentBuf {
    let ids = ids.iter().cloned().collect::<RawArrayBuf>();
    rawdoc! { "$or": ids, "kind": PARKED_NOTE.raw_condition() }
}

impl Store {
    /// The notes on transactions that are there and not final, the oldest first.
    pub(super) fn unfinished_notes(&self, limit: i64) -> RawArrayBuf {
        let finals: RawArrayBuf =
            [State::Done, State::Canceled].iter().map(|state| state.as_str()).collect();
        let mut stages = RawArrayBuf::new();
        stages.push(rawdoc! { "$match": PARKED_NOTE.all() });
        stages.push(rawdoc! { "$sort": { "at": 1 } });
        match self.stored(TRANSACTIONS) {
            None => stages.push(rawdoc! { "$lookup": {
                "from": TRANSACTIONS, "localField": "_id", "foreignField": "_id", "as": "of",
                "pipeline": [{ "$project": { "state": 1 } }],
            } }),
            // A note has the id as text, and the document has it as its owner wants it.
            Some(stored) => {
                stages.push(rawdoc! { "$set": { "of": stored.id_kind().stored_of("$_id") } });
                stages.push(rawdoc! { "$lookup": {
                    "from": stored.name(), "localField": "of", "foreignField": "_id", "as": "of",
                    "pipeline": [{ "$project": { "state": stored.field("state") } }],
                } });
            }
        }
        stages.push(rawdoc! { "$match": { "of": { "$ne": [] }, "of.state": { "$nin": finals } } });
        stages.push(rawdoc! { "$limit": limit });
        stages
    }
}
