//! What clients request while workers use the same documents: cancel, freeze, close.
//!
//! Promises one guarded update for each request, so that it takes effect wholly or not at all,
//! whatever happens at the same time. Sending it again changes nothing. The document shows the
//! result, so a lost answer does no harm. Fails with an error of the command.

use ledger::LedgerError;
use ledger::account::Status;
use ledger::transaction::{DUE_AT, Reason, ReasonCode, State};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};

use super::names::{ACCOUNTS, TRANSACTIONS};
use super::read::cstr;
use super::statements::{canceling, decision, stamped_soon, states};
use super::{Store, holds};

impl Store {
    /// Cancels transactions that are `initial`, and turns those that are `pending` towards their
    /// undoing, with one command.
    ///
    /// # Errors
    /// When the server is away, or refuses; any of them may be canceled.
    pub async fn request_cancel(&self, ids: &[&str], reason: &Reason) -> Result<(), LedgerError> {
        let statements = ids.iter().flat_map(|id| cancel(id, reason)).collect();
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

/// Which account may get a status. What is missing or null means nothing of it, as everywhere.
fn may_get(id: &str, status: Status) -> Document {
    let is = |field: &str, nothing: Bson, wanted: &[Bson]| {
        doc! { "$in": [{ "$ifNull": [format!("${field}"), nothing] }, wanted] }
    };
    let [open, frozen] = [Status::Open, Status::Frozen].map(|status| Bson::from(status.as_str()));
    let empty = Bson::Array(vec![]);
    let conditions = match status {
        Status::Frozen => vec![is("status", open.clone(), &[open])],
        Status::Open => vec![is("status", open, &[frozen])],
        Status::Closed => vec![
            is("status", open.clone(), &[open, frozen]),
            is("balance", Bson::Int32(0), &[Bson::Int32(0)]),
            is("pendingDebits", Bson::Int32(0), &[Bson::Int32(0)]),
            is("pendingCredits", Bson::Int32(0), &[Bson::Int32(0)]),
            is("pendingTransactions", empty.clone(), &[empty]),
        ],
    };
    doc! { "_id": id, "$expr": { "$and": conditions } }
}

/// A client's request to cancel: `scheduled`, `initial`, `held` and `pending` become `canceling`;
/// only workers write the end, because it has an event. The statements run in this order, so a
/// transaction that is claimed, held or confirmed between them still matches a later one. Nobody
/// owns what was `scheduled` or `initial`, so a worker may claim it at once. The claim of what was
/// `pending` stays: the owner notices at its commit and undoes what it has posted.
fn cancel(id: &str, reason: &Reason) -> Vec<RawDocumentBuf> {
    let mut unclaimed = canceling(reason, true);
    unclaimed.append(cstr("takeoverAt"), "$$NOW");
    unclaimed.append(cstr("sweepAfter"), stamped_soon());
    // Twice: a hold may be confirmed before it was looked at, or come to rest after that.
    let held = holds::release(id, &Reason { code: ReasonCode::Released, ..reason.clone() });
    vec![
        rawdoc! {
            "q": { "_id": id, "state": { "$in": states([State::Scheduled, State::Initial]) } },
            "u": decision(unclaimed, &[DUE_AT]),
        },
        held.clone(),
        rawdoc! {
            "q": { "_id": id, "state": State::Pending.as_str() },
            "u": decision(canceling(reason, false), &[]),
        },
        held,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_to_cancel_never_touches_the_owner() {
        let pending = &cancel("t", &Reason::new(ReasonCode::Requested, "why"))[2];
        let pending = &Document::try_from(pending).expect("it is BSON");
        assert_eq!(pending.get_document("q").expect("q").get_str("state").ok(), Some("pending"));
        let set = pending.get_array("u").expect("u")[0].as_document().expect("a stage");
        let fields: Vec<_> = set.get_document("$set").expect("$set").keys().collect();
        assert_eq!(fields, ["state", "reason", "decidedAt", "lastModified", "decidedKey"]);
    }
}
