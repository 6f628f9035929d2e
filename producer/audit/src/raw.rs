//! What the audit reads of a document whose other fields may be anything.

pub(super) use layout::EACH_FIELD_ONCE;
use ledger::limits::echo;
use ledger::transaction::State;
use mongodb::bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, doc};

/// Of an account, only the fields that the rules need: the user's own fields may be large.
pub(super) fn account_fields() -> Document {
    doc! {
        "status": 1, "currency": 1, "pendingTransactions": 1, "floor": 1, "balance": 1,
        "pendingDebits": 1, "pendingCredits": 1, "openingBalance": 1, "pendingHolds": 1,
        EACH_FIELD_ONCE: each_field_once(),
    }
}

/// Of a transaction, too.
pub(super) fn transaction_fields() -> Document {
    let ended = [State::Done, State::Canceled].map(State::as_str);
    doc! {
        "source": 1, "destination": 1, "value": 1, "legs": 1, "state": 1, "parked.code": 1,
        "hold": 1, "captured": 1, "exclusiveKey": 1, "lastModified": 1, "decidedAt": 1,
        "line": 1, "reason.code": 1, "reason.neverPosted": 1,
        // Final ones, nearly all there are, are not updated any more.
        EACH_FIELD_ONCE: { "$or": [{ "$in": ["$state", &ended[..]] }, each_field_once()] },
    }
}

/// `$mergeObjects` keeps only the first of two fields with the same name.
fn each_field_once() -> Document {
    doc! { "$eq": ["$$ROOT", { "$mergeObjects": ["$$ROOT"] }] }
}

/// What is wrong with a document that has a field twice.
pub(super) const REPEATED: &str = "has a field twice; the next update of it may end the MongoDB server (seen \
                        with 6.0), so replace the document by one without";

/// Whether the query found that a field of the document occurs twice.
pub(super) fn repeats_a_field(document: &RawDocument) -> bool {
    matches!(document.get(EACH_FIELD_ONCE), Ok(Some(RawBsonRef::Boolean(false))))
}

/// The `_id` as text, whatever it is: valid text as it is, anything else in words, so that it is
/// taken for no other.
pub(super) fn id_of(document: &RawDocument) -> String {
    let id = document.iter_elements().flatten().find(|element| element.key().as_str() == "_id");
    match id.map(|id| (id.value(), id.value_utf8_lossy())) {
        None => String::new(),
        Some((Ok(RawBsonRef::String(id)), _)) => id.to_owned(),
        Some((_, Ok(RawBson::String(id)))) => format!("{id} (not valid text)"),
        Some((_, Ok(other))) => Bson::try_from(other).map_or_else(
            |_| "an _id that can't be read".to_owned(),
            |other| format!("{} (no text)", echo(&other.to_string())),
        ),
        Some((_, Err(_))) => "an _id that can't be read".to_owned(),
    }
}

/// The state, where it is one of ours.
pub(super) fn state_of(document: &RawDocument) -> Option<State> {
    document.get_str("state").ok().and_then(State::parse)
}

/// How many marks of holds an account says that it has; none where that is no whole number.
pub(super) fn holds_of(document: &RawDocument) -> Option<i64> {
    match document.get("pendingHolds") {
        Ok(None) => Some(0),
        Ok(Some(RawBsonRef::Int32(holds))) => Some(holds.into()),
        Ok(Some(RawBsonRef::Int64(holds))) => Some(holds),
        Ok(Some(_)) | Err(_) => None,
    }
}
