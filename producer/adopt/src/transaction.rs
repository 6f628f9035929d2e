//! The classes of a transaction as others store it.
//!
//! Owns [`transaction`]. Promises that a waiting transaction of which nothing is said but what fits
//! is one that the ledger reads, and that what is over is only counted. Pure.

use ledger::transaction::{Body, State};
use mongo::CONTENT_FIELDS;
use mongodb::bson::RawDocument;

use super::class::{Class, Verdict};
use super::looked::{Looked, Stored, id_of};
use super::number::shown;
use super::shape::{Shape, present};

/// The fields of a transaction that are read, by Tandem's names. Its metadata may be large.
pub(super) fn fields() -> impl Iterator<Item = &'static str> {
    let own = ["_id", "state", "claim", "attempts", "createdAt", "reverses"];
    own.into_iter().chain(CONTENT_FIELDS)
}

/// The states that are over.
pub(super) const ENDED: [State; 2] = [State::Done, State::Canceled];

/// Says of which classes a transaction is. `places` is as for accounts; what Tandem has dated when
/// it was submitted counts minor units.
#[must_use]
pub fn transaction(stored: Stored<'_>, shape: Shape<'_>, places: Option<u32>) -> Looked {
    let document = stored.document;
    let mut looked = Looked::new(id_of(document, shape));
    let Ok(read) = shape.read(document) else {
        looked.add(Class::Corrupt, "", "its bytes can't be read".to_owned());
        return looked;
    };
    let path = shape.path("state");
    let Some(word) = present(document, &path) else {
        looked.add(Class::NoState, &path, "missing".to_owned());
        return looked;
    };
    let told = shown(word);
    match read.get_str("state").ok().and_then(State::parse) {
        None => looked.add(Class::UnknownState, &path, told),
        Some(State::Done | State::Canceled) => looked.add(Class::Ended, &path, told),
        Some(State::Pending | State::Applied | State::Canceling | State::Held) => {
            let class = match is_claimed(document, shape) {
                true => Class::InFlight,
                false => Class::InFlightUnclaimed,
            };
            looked.add(class, &path, told);
            looked.whole(stored, shape);
        }
        Some(State::Scheduled | State::Initial) => {
            looked.add(Class::Waiting, &path, told);
            waiting(&mut looked, stored, &read, shape, places);
        }
    }
    looked
}

/// Whether a worker of Tandem has ever claimed it. Each claim counts.
pub(super) fn is_claimed(document: &RawDocument, shape: Shape<'_>) -> bool {
    ["claim", "attempts"].iter().any(|name| present(document, &shape.path(name)).is_some())
}

fn waiting(
    looked: &mut Looked,
    stored: Stored<'_>,
    read: &RawDocument,
    shape: Shape<'_>,
    places: Option<u32>,
) {
    looked.whole(stored, shape);
    looked.id(stored.document, shape);
    // Legs have amounts of their own.
    if present(stored.document, &shape.path("legs")).is_none() {
        let is_tandems = present(stored.document, &shape.path("createdAt")).is_some();
        let places = places.filter(|_| !is_tandems);
        looked.number(stored.document, &shape.path("value"), places);
    }
    if looked.verdict() == Verdict::Fits
        && let Err(problem) = Body::from_raw(read)
    {
        looked.add(Class::NotReadable, "", shape.told(problem.to_string()));
    }
}
