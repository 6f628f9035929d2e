//! The date of what others had ended: without one, sweepers look at it again and again.
//!
//! Sweepers walk the index by creation. What has no date stands there before all dates, and one of
//! their looks reads it in every round. Owns [`dating`], which gives such a transaction the moment
//! of its last change as the date of its creation, and says beside it that others had ended it: so
//! no audit takes it for one of Tandem's whose line is gone. Promises that only a final transaction
//! is dated in which Tandem has written nothing, and only while that is so. Pure.

use mongo::{ENDED_BY_OTHERS, WRITTEN_FIELDS};
use mongodb::bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::class::{Class, Verdict};
use super::looked::{Looked, Stored};
use super::number::shown;
use super::plan::{Change, Plan, its_id, path, unchanged};
use super::shape::{Shape, at, present};
use super::transaction;

/// The fields that are read for it, by Tandem's names.
pub(super) fn fields() -> impl Iterator<Item = &'static str> {
    WRITTEN_FIELDS.into_iter().chain(["lastModified"]).chain(transaction::fields())
}

/// Says what becomes of a transaction, and of which classes it is.
#[must_use]
pub fn dating(
    stored: Stored<'_>,
    shape: Shape<'_>,
    places: Option<u32>,
    now: DateTime,
) -> (Looked, Plan) {
    let document = stored.document;
    let mut looked = transaction::transaction(stored, shape, places);
    if looked.verdict() != Verdict::Fits {
        return (looked, Plan::Left);
    }
    let is_ended = looked.classes.iter().any(|(class, _)| *class == Class::Ended);
    let is_written =
        WRITTEN_FIELDS.iter().any(|name| present(document, &shape.path(name)).is_some());
    if !is_ended || is_written {
        return (looked, Plan::Done);
    }
    let own = shape.own_path();
    match at(document, own) {
        None | Some(RawBsonRef::Document(_)) => {}
        Some(other) => {
            looked.add(Class::ScalarOnTheWay, own, shown(other));
            return (looked, Plan::Left);
        }
    }
    match statement(document, shape, created(document, shape).min(now)) {
        Some(statement) => (looked, Plan::Write(Change { statement, repaired: Vec::new() })),
        None => (looked, Plan::Left),
    }
}

/// When it was created, as far as it says: when it changed last, or else when its ObjectId was
/// made. What says nothing gets the oldest moment.
fn created(document: &RawDocument, shape: Shape<'_>) -> DateTime {
    match (at(document, &shape.path("lastModified")), document.get("_id")) {
        (Some(RawBsonRef::DateTime(modified)), _) => modified,
        (_, Ok(Some(RawBsonRef::ObjectId(id)))) => id.timestamp(),
        _ => DateTime::from_millis(0),
    }
}

fn statement(
    document: &RawDocument,
    shape: Shape<'_>,
    created: DateTime,
) -> Option<RawDocumentBuf> {
    let mut filter = its_id(document)?;
    filter.append(path(shape, "state"), unchanged(at(document, &shape.path("state"))));
    for name in WRITTEN_FIELDS {
        filter.append(path(shape, name), RawBson::Null);
    }
    let mut set = RawDocumentBuf::new();
    set.append(path(shape, "createdAt"), created);
    set.append(path(shape, ENDED_BY_OTHERS), true);
    Some(rawdoc! { "q": filter, "u": { "$set": set } })
}

#[cfg(test)]
mod tests {
    use layout::Layout;
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::raw::{CStr, cstr};

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn of(document: &RawDocument) -> (Vec<Class>, Plan) {
        let text = "[transactions]\nfields = { state = \"how.far\" }";
        let layout = Layout::from_toml(text).expect("it is good");
        let stored = Stored { document, bytes: 100, repeats: false };
        let shape = Shape::new(Some(&layout.transactions));
        let (looked, plan) = dating(stored, shape, None, DateTime::from_millis(NOW));
        (looked.classes.iter().map(|(class, _)| *class).collect(), plan)
    }

    fn done(more: RawDocumentBuf) -> RawDocumentBuf {
        let mut document = rawdoc! { "_id": "t", "how": { "far": "done" } };
        for element in more.iter_elements().flatten() {
            document.append(element.key(), element.value().expect("BSON"));
        }
        document
    }

    fn date(document: &RawDocument) -> i64 {
        let Plan::Write(change) = of(document).1 else { panic!("{document:?} is not dated") };
        let set = change.statement.get_document("u").and_then(|u| u.get_document("$set"));
        let set = set.expect("an update");
        assert!(set.get_bool("tandem.endedByOthers").is_ok_and(|ended| ended));
        set.get_datetime("tandem.createdAt").expect("a date").timestamp_millis()
    }

    #[test]
    fn the_date_is_that_of_the_last_change_or_of_the_id_and_never_in_the_future() {
        let modified = |ms| done(rawdoc! { "lastModified": DateTime::from_millis(ms) });
        assert_eq!(date(&modified(5_000)), 5_000);
        assert_eq!(date(&modified(NOW + 1)), NOW);
        assert_eq!(date(&done(rawdoc! { "lastModified": "today" })), 0);
        let id = ObjectId::from_bytes([0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(date(&rawdoc! { "_id": id, "how": { "far": "canceled" } }), 7_000);
    }

    #[test]
    fn only_what_others_have_ended_and_nobody_has_dated_is_dated() {
        for name in WRITTEN_FIELDS {
            let mut own = RawDocumentBuf::new();
            own.append(<&CStr>::try_from(name).expect("a name"), 1);
            assert_eq!(of(&done(rawdoc! { "tandem": own })).1, Plan::Done, "{name}");
        }
        let word = done(rawdoc! { "tandem": "a word of theirs" });
        assert_eq!(of(&word), (vec![Class::Ended, Class::ScalarOnTheWay], Plan::Left));
        let flying = rawdoc! { "_id": "t", "how": { "far": "pending" } };
        assert_eq!(of(&flying), (vec![Class::InFlightUnclaimed], Plan::Left));
        let none = rawdoc! { "_id": "t" };
        assert_eq!(of(&none), (vec![Class::NoState], Plan::Done));
        assert!(matches!(of(&done(rawdoc! { "tandem": {} })).1, Plan::Write(_)));
    }

    #[test]
    fn the_update_compares_the_word_and_that_nothing_of_tandems_is_there() {
        let Plan::Write(change) = of(&done(rawdoc! {})).1 else { panic!("it is dated") };
        let filter = change.statement.get_document("q").expect("a filter");
        let word = rawdoc! { "$eq": "done", "$type": 2 };
        assert_eq!(filter.get_document("how.far").expect("the state"), &*word);
        for name in WRITTEN_FIELDS {
            let field = filter.get(format!("tandem.{name}")).expect("BSON");
            assert_eq!(field, Some(RawBsonRef::Null), "{name}");
        }
        assert!(filter.get(cstr!("_id")).is_ok_and(|id| id.is_some()));
    }
}
