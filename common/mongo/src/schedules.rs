//! What waits for a moment: the guarded updates by which it becomes due, expires, or is put off.
//!
//! Owns the statements that a sweeper runs on what the index of due moments shows, and the one by
//! which a client changes `notBefore`. Each compares the state that it leaves, and the moment with
//! the server's clock, whatever made the sweeper look: so of an expiry, a claim, a cancel and a
//! confirmation that meet, the first counts, and nothing happens before its moment. Running one of
//! them twice changes nothing. Fails with an error of the whole command.

use ledger::remedy::Remedy;
use ledger::transaction::{
    DUE_AT, ParkCode, Parked, Reason, State, TransactionId, expired, hold_expired,
};
use ledger::{LedgerError, ServerMs, Written};
use mongodb::bson::{
    Bson, DateTime, Document, RawArrayBuf, RawDocument, RawDocumentBuf, doc, rawdoc,
};

use super::dates::{date_or_null, is_date};
use super::names::{DUE, TRANSACTIONS};
use super::parking::note;
use super::raw::raw_id;
use super::read::cstr;
use super::statements::{canceling, decision, names, stamped_soon, states};
use super::submissions::foreign;
use super::write::{Counts, together};
use super::{MongoOutbox, Store, holds, refused};

/// The states in which a transaction waits for its moment.
pub(super) const WAITING: [State; 3] = [State::Scheduled, State::Initial, State::Held];

/// Whether a moment of the document has come, on the server's clock.
fn has_come(field: &str) -> RawDocumentBuf {
    rawdoc! { "$and": [is_date(field), { "$gte": ["$$NOW", field] }] }
}

fn or_removed(value: RawDocumentBuf) -> RawDocumentBuf {
    rawdoc! { "$ifNull": [value, "$$REMOVE"] }
}

/// Makes scheduled transactions `initial` whose moment has come, stamped so that no other sweeper
/// publishes them. One without a sensible `notBefore` is due now; the worker that claims it says
/// what is wrong with it.
fn make_due(ids: &[&TransactionId], sweep_after: ServerMs) -> RawDocumentBuf {
    let is_due = rawdoc! { "$or": [{ "$not": is_date("$notBefore") }, has_come("$notBefore")] };
    rawdoc! {
        "q": {
            "_id": { "$in": names(ids) },
            "state": State::Scheduled.as_str(),
            "parked": null,
            "$expr": is_due,
        },
        "u": [{ "$set": {
            "state": State::Initial.as_str(),
            "dueAt": or_removed(date_or_null("$expiresAt")),
            "sweepAfter": DateTime::from_millis(sweep_after),
            "lastModified": "$$NOW",
        } }],
        "multi": true,
    }
}

/// Cancels what has expired before anybody claimed it. Anybody may claim it from now on, to end it.
fn expire(ids: &[&TransactionId]) -> RawDocumentBuf {
    let mut set = canceling(&expired(), true);
    set.append(cstr("takeoverAt"), "$$NOW");
    set.append(cstr("sweepAfter"), stamped_soon());
    rawdoc! {
        "q": {
            "_id": { "$in": names(ids) },
            "state": { "$in": states([State::Scheduled, State::Initial]) },
            "parked": null,
            "$expr": has_come("$expiresAt"),
        },
        "u": decision(set, &[DUE_AT]),
        "multi": true,
    }
}

/// Releases holds of which this moment has come: whoever claims them next undoes them.
fn expire_holds(ids: &[&TransactionId], end: &str, reason: &Reason) -> RawDocumentBuf {
    rawdoc! {
        "q": {
            "_id": { "$in": names(ids) },
            "state": State::Held.as_str(),
            "parked": null,
            "$expr": has_come(end),
        },
        "u": holds::canceling(reason),
        "multi": true,
    }
}

/// Sets right when a sweeper has to look next at what waits, where somebody has written another
/// moment than its fields say: it would be found in every round, and hide others.
fn set_right(ids: &[&TransactionId]) -> RawDocumentBuf {
    let waiting: RawArrayBuf = WAITING.iter().map(|state| state.as_str()).collect();
    let due = rawdoc! { "$switch": {
        "branches": [
            { "case": { "$eq": ["$state", State::Scheduled.as_str()] }, "then": "$notBefore" },
            { "case": { "$eq": ["$state", State::Held.as_str()] }, "then": holds::due_of_hold() },
        ],
        "default": date_or_null("$expiresAt"),
    } };
    rawdoc! {
        "q": {
            "_id": { "$in": names(ids) },
            "state": { "$in": waiting },
            "parked": null,
            "$expr": { "$lte": ["$dueAt", "$$NOW"] },
        },
        "u": [{ "$set": { "dueAt": or_removed(due) } }],
        "multi": true,
    }
}

/// Puts a scheduled transaction off, or forward, to a moment before its ends. What `notBefore` was
/// when it was submitted is kept, so that a resubmission still compares equal.
fn reschedule(id: &str, not_before: DateTime) -> Document {
    let before = |end: &str| {
        let is_date = doc! { "$eq": [{ "$type": end }, "date"] };
        doc! { "$or": [{ "$not": is_date }, { "$lt": [not_before, end] }] }
    };
    let ends = ["$expiresAt", "$holdExpiresAt"].map(before).map(Bson::from).to_vec();
    doc! {
        "q": { "_id": id, "state": State::Scheduled, "$expr": { "$and": ends } },
        "u": [{ "$set": {
            "submittedNotBefore": { "$ifNull": ["$submittedNotBefore", "$notBefore"] },
            "notBefore": not_before,
            DUE_AT: not_before,
            "lastModified": "$$NOW",
        } }],
    }
}

impl MongoOutbox {
    /// Makes scheduled transactions due whose moment has come; returns those that this call has
    /// moved. All sweepers leave them alone until `sweep_after`, by which this call also knows its
    /// own.
    ///
    /// # Errors
    /// When the server is away; any of them may be moved.
    pub async fn make_due(
        &self,
        ids: &[TransactionId],
        sweep_after: ServerMs,
    ) -> Result<Vec<TransactionId>, LedgerError> {
        let written = self.move_on("due", ids, |ids| make_due(ids, sweep_after)).await?;
        if written.count == ids.len() {
            return Ok(ids.to_vec());
        }
        let mut moved = Vec::new();
        if written.count > 0 {
            let stamp = DateTime::from_millis(sweep_after);
            moved = self.initial_among(ids, rawdoc! { "sweepAfter": stamp }).await?;
        }
        self.settle_the_rest(ids, &written).await?;
        Ok(moved)
    }

    /// Cancels those of `ids` that have expired before anybody claimed them; returns how many.
    ///
    /// # Errors
    /// When the server is away; any of them may be canceled.
    pub async fn expire(&self, ids: &[TransactionId]) -> Result<usize, LedgerError> {
        let written = self.move_on("expire", ids, expire).await?;
        self.settle_the_rest(ids, &written).await?;
        Ok(written.count)
    }

    /// Releases those of `ids` that are holds and have expired. Returns how many did so by their
    /// `holdExpiresAt`, and how many by their `expiresAt`.
    ///
    /// # Errors
    /// When the server is away; any of them may be released.
    pub async fn expire_holds(&self, ids: &[TransactionId]) -> Result<[usize; 2], LedgerError> {
        let ends = [("$holdExpiresAt", hold_expired()), ("$expiresAt", expired())];
        let (mut both, mut counts) = (Written::default(), [0; 2]);
        for ((end, reason), count) in ends.iter().zip(&mut counts) {
            let statement = |ids: &[&TransactionId]| expire_holds(ids, end, reason);
            let written = self.move_on("expire", ids, statement).await?;
            *count = written.count;
            both.count += written.count;
            both.refused.extend(written.refused);
            if both.count == ids.len() {
                break;
            }
        }
        self.settle_the_rest(ids, &both).await?;
        Ok(counts)
    }

    /// Which of these are still `initial`.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn still_initial(
        &self,
        ids: &[TransactionId],
    ) -> Result<Vec<TransactionId>, LedgerError> {
        self.initial_among(ids, rawdoc! {}).await
    }

    /// The earliest moment for which anything waits, past or future; none when nothing does.
    ///
    /// # Errors
    /// When the server is away.
    pub async fn earliest_due(&self) -> Result<Option<ServerMs>, LedgerError> {
        let waiting: RawArrayBuf = WAITING.iter().map(|state| state.as_str()).collect();
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": {
                "dueAt": { "$type": "date" },
                "state": { "$in": waiting },
                "parked": null,
                "$nor": foreign(),
            },
            "sort": { "dueAt": 1 },
            "hint": DUE,
            "limit": 1_i64,
            "projection": { "dueAt": 1 },
        };
        let moment =
            |found: &RawDocument| found.get_datetime(DUE_AT).ok().map(DateTime::timestamp_millis);
        Ok(self.store.find("due", command, moment).await?.pop())
    }

    pub(super) async fn move_on(
        &self,
        operation: &'static str,
        ids: &[TransactionId],
        statement: impl Fn(&[&TransactionId]) -> RawDocumentBuf,
    ) -> Result<Written, LedgerError> {
        let groups = together(ids.len());
        self.store.write(operation, TRANSACTIONS, ids, groups, Counts::Matched, statement).await
    }

    pub(super) async fn initial_among(
        &self,
        ids: &[TransactionId],
        mut filter: RawDocumentBuf,
    ) -> Result<Vec<TransactionId>, LedgerError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let names: RawArrayBuf = ids.iter().map(|id| id.as_ref()).collect();
        filter.append(super::read::cstr("_id"), rawdoc! { "$in": names });
        filter.append(super::read::cstr("state"), State::Initial.as_str());
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": filter,
            "projection": { "_id": 1 },
            "batchSize": super::read::one_more_than(ids.len()),
        };
        let id = |found: &RawDocument| found.get_str("_id").ok().map(TransactionId::from);
        self.store.find("due", command, id).await
    }

    /// What was found and not moved was moved by somebody else, is found too early, or can't be
    /// written. Neither of the last two may be found in every round.
    async fn settle_the_rest(
        &self,
        ids: &[TransactionId],
        written: &Written,
    ) -> Result<(), LedgerError> {
        self.note_refused(ids, written, "move it on").await?;
        if written.count < ids.len() && written.refused.is_empty() {
            self.move_on("due", ids, set_right).await?;
        }
        Ok(())
    }

    /// Notes as parked what the database has refused to write, so that it is found no more.
    pub(super) async fn note_refused(
        &self,
        ids: &[TransactionId],
        written: &Written,
        doing: &str,
    ) -> Result<(), LedgerError> {
        let written = refused::explained(&self.store, written.clone(), |item| &ids[item]).await;
        for refused in &written.refused {
            let id = &ids[refused.item];
            let message = format!(
                "the database refuses to {doing}: {}; correct it, then run {}",
                refused.problem,
                Remedy::Unpark(id)
            );
            let why = Parked::new(ParkCode::TransactionUnwritable, message);
            note(&self.store, &[(raw_id(id), &why)]).await?;
        }
        Ok(())
    }
}

impl Store {
    /// Changes when a transaction is due, if it is scheduled and the moment is before its ends;
    /// returns whether it was.
    ///
    /// # Errors
    /// When the server is away, or refuses.
    pub async fn reschedule(&self, id: &str, not_before: DateTime) -> Result<bool, LedgerError> {
        let statement = reschedule(id, not_before);
        let written = self.change("reschedule", TRANSACTIONS, vec![statement]).await?;
        if let Some(refused) = written.refused.first() {
            return Err(LedgerError::lasting("reschedule", refused.problem.clone()));
        }
        Ok(written.count > 0)
    }
}
