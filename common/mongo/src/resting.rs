//! What rests until a moment or until a client decides, and what of it is due: counted for people.
//!
//! Owns the questions of the overview about the index of due moments. It has everything that is
//! scheduled or held, also holds that never expire, and what else expires. Each question reads it
//! in the order of the moments and stops at a limit, so it costs as much with 100,000 open holds as
//! with millions. But the server looks at each document that it counts: whoever asks again and
//! again should pause for a multiple of the time that the answer took. Promises nothing about one
//! moment: the questions are asked one after another. Fails with an error of the command, and then
//! nothing is known.

use ledger::transaction::{DUE_AT, State};
use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::Store;
use super::names::{DUE, TRANSACTIONS};
use super::raw::{RawId, number, shown};
use super::schedules::WAITING;
use super::submissions::foreign;
use super::unfinished::is_parked;

/// What rests, and what is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resting {
    /// How many are scheduled, those that are parked included.
    pub scheduled: u64,
    /// How many are on hold, those that are parked included.
    pub held: u64,
    /// Whether there may be more of both than were counted.
    pub capped: bool,
    /// How many of both are parked.
    pub parked: u64,
    /// How many wait for a sweeper because their moment has come: scheduled ones, and what has
    /// expired.
    pub due: u64,
    /// Whether more may be due than were counted.
    pub due_capped: bool,
}

/// The transaction that is due for the longest time, which a sweeper moves first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDue {
    /// Its `_id`, as text.
    pub id: String,
    /// When it became due.
    pub at: ServerMs,
    /// When it was seen, by the server's clock.
    pub seen_at: ServerMs,
}

/// One state: how many are in it, and of these how many are parked, due, and due later.
struct InState {
    state: Option<State>,
    count: u64,
    parked: u64,
    due: u64,
    later: u64,
}

impl Store {
    /// What rests, and what is due at this moment of the server's clock; at most so many are
    /// counted, those that are due first.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn resting(&self, now: ServerMs, most: u64) -> Result<Resting, LedgerError> {
        let one_if = |condition: RawDocumentBuf| rawdoc! { "$cond": [condition, 1_i64, 0_i64] };
        let is_due = rawdoc! { "$lte": ["$dueAt", DateTime::from_millis(now)] };
        let waits = rawdoc! { "$in": ["$state", waiting()] };
        let is_late = rawdoc! { "$and": [is_due.clone(), waits, { "$not": is_parked() }] };
        let pipeline: RawArrayBuf = [
            rawdoc! { "$match": { "dueAt": { "$type": "date" }, "$nor": foreign() } },
            rawdoc! { "$sort": { "dueAt": 1 } },
            rawdoc! { "$limit": i64::try_from(most).unwrap_or(i64::MAX) },
            rawdoc! { "$group": {
                "_id": "$state",
                "count": { "$sum": 1_i64 },
                "parked": { "$sum": one_if(is_parked()) },
                "due": { "$sum": one_if(is_late) },
                "later": { "$sum": one_if(rawdoc! { "$not": is_due }) },
            } },
        ]
        .into_iter()
        .collect();
        let command = rawdoc! {
            "aggregate": TRANSACTIONS, "pipeline": pipeline, "cursor": {}, "hint": DUE,
        };
        Ok(summed(&self.find("resting", command, in_state).await?, most))
    }

    /// What is due for the longest time at this moment of the server's clock, and not parked.
    ///
    /// # Errors
    /// When the server is away or refuses.
    pub async fn first_due(&self, now: ServerMs) -> Result<Option<FirstDue>, LedgerError> {
        let command = rawdoc! {
            "find": TRANSACTIONS,
            "filter": {
                "dueAt": { "$type": "date", "$lte": DateTime::from_millis(now) },
                "state": { "$in": waiting() },
                "parked": null,
                "$nor": foreign(),
            },
            "sort": { "dueAt": 1 },
            "hint": DUE,
            "projection": { "dueAt": 1 },
        };
        let first = self.unnoted("first due", command, 1, id_and_moment).await?.pop();
        Ok(first.map(|(id, at)| FirstDue { id: text(&id), at, seen_at: now }))
    }
}

fn waiting() -> RawArrayBuf {
    WAITING.iter().map(|state| state.as_str()).collect()
}

fn summed(found: &[InState], most: u64) -> Resting {
    let sum = |of: fn(&InState) -> u64| found.iter().map(of).sum::<u64>();
    let rest = |wanted: State| found.iter().filter(move |one| one.state == Some(wanted));
    let count = |wanted| rest(wanted).map(|one| one.count).sum();
    let parked = |wanted| rest(wanted).map(|one| one.parked).sum::<u64>();
    let capped = sum(|one| one.count) >= most;
    Resting {
        scheduled: count(State::Scheduled),
        held: count(State::Held),
        capped,
        parked: parked(State::Scheduled) + parked(State::Held),
        due: sum(|one| one.due),
        // The counted ones are those that are due first.
        due_capped: capped && sum(|one| one.later) == 0,
    }
}

fn in_state(group: &RawDocument) -> Option<InState> {
    Some(InState {
        state: group.get_str("_id").ok().and_then(State::parse),
        count: number(group, "count"),
        parked: number(group, "parked"),
        due: number(group, "due"),
        later: number(group, "later"),
    })
}

fn id_and_moment(found: &RawDocument) -> Option<(RawId, ServerMs)> {
    let mut id = RawDocumentBuf::new();
    id.append(super::read::cstr("_id"), found.get("_id").ok()??.to_owned());
    Some((id, found.get_datetime(DUE_AT).ok().map(DateTime::timestamp_millis)?))
}

fn text(id: &RawId) -> String {
    id.get("_id").ok().flatten().map_or_else(String::new, |id| shown(RawBson::from(id.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_counted_in_full_where_anything_was_seen_that_is_due_later() {
        let one = |state, count, due, later| InState { state, count, parked: 1, due, later };
        let found = [
            one(Some(State::Scheduled), 6, 4, 2),
            one(Some(State::Held), 3, 1, 2),
            one(Some(State::Pending), 1, 0, 1),
            one(None, 1, 0, 0),
        ];
        let resting = summed(&found, 12);
        assert_eq!((resting.scheduled, resting.held, resting.parked), (6, 3, 2));
        assert_eq!((resting.due, resting.capped, resting.due_capped), (5, false, false));
        let resting = summed(&found, 11);
        assert_eq!((resting.capped, resting.due_capped), (true, false));
        let resting = summed(&[one(Some(State::Scheduled), 11, 10, 0)], 11);
        assert_eq!((resting.capped, resting.due_capped), (true, true));
    }
}
