//! Which transactions a list is about, and in which order it is.
//!
//! Owns what each condition of a filter means: as a condition of the server, where documents are
//! found by their creation, and as a look at a document, where they are found by their ends. Pure.
//! Fails with [`Error::Invalid`], which names the field.

use std::time::SystemTime;

use ledger::event::End;
use ledger::transaction::{ReasonCode, State};
use mongodb::bson::{Bson, DateTime, Document, doc};
use serde_json::{Value, json};

use super::cursor::Way;
use crate::error::Error;

/// The field of the order of all lists by creation.
pub(super) const CREATED: &str = "createdAt";

/// Which transactions to list. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// Only those in these states; empty for all.
    pub states: Vec<State>,
    /// Only those of this account: those in flight that have posted on it, and those that workers
    /// have ended and that name it. One that no worker has begun with is not among them.
    pub account: Option<String>,
    /// Only those that were created at this moment or later.
    pub since: Option<SystemTime>,
    /// Only those that were created before this moment.
    pub until: Option<SystemTime>,
    /// Only those that workers have ended at this moment or later.
    pub ended_since: Option<SystemTime>,
    /// Only those that workers have ended before this moment.
    pub ended_until: Option<SystemTime>,
    /// Only those that are canceled, or are being canceled, for this reason.
    pub reason: Option<ReasonCode>,
    /// Only those whose last owner was the worker of this name.
    pub application: Option<String>,
}

/// States in which nothing is posted on an account or has ended there.
const UNLISTED: [(State, &str); 2] = [
    (State::Initial, "initial transactions are not listed by account; leave one of them out"),
    (State::Scheduled, "scheduled transactions are not listed by account; leave one of them out"),
];

/// In which order a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Newest created first.
    ByCreation,
    /// Those in flight, if they are asked for, then the others, newest ended first.
    ByEnd,
}

impl TransactionFilter {
    /// In which order the list is.
    pub(super) fn order(&self) -> Order {
        match self.account.is_some() || self.is_of_ends() {
            true => Order::ByEnd,
            false => Order::ByCreation,
        }
    }

    /// Whether only those are meant that have ended in some time.
    pub(super) fn is_of_ends(&self) -> bool {
        self.ended_since.is_some() || self.ended_until.is_some()
    }

    /// Whether something that is read may be left out, because no index knows what is asked for.
    pub(super) fn leaves_out(&self) -> bool {
        let by_creation = self.since.is_some() || self.until.is_some();
        !self.states.is_empty()
            || self.reason.is_some()
            || self.application.is_some()
            || (self.order() == Order::ByEnd && by_creation)
    }

    /// # Errors
    /// When it asks for what no list has.
    pub(super) fn check(&self) -> Result<(), Error> {
        for (from, to, field) in
            [(self.since, self.until, "until"), (self.ended_since, self.ended_until, "endedUntil")]
        {
            if from.zip(to).is_some_and(|(from, to)| to < from) {
                return Err(Error::invalid(field, "is before the moment at which the time begins"));
            }
        }
        if self.account.is_none() {
            return Ok(());
        }
        match UNLISTED.into_iter().find(|(state, _)| self.states.contains(state)) {
            Some((_, problem)) => Err(Error::invalid("state", problem)),
            None => Ok(()),
        }
    }

    /// What a cursor is bound to.
    pub(super) fn list(&self) -> Value {
        let mut states: Vec<&str> = self.states.iter().map(|state| state.as_str()).collect();
        states.sort_unstable();
        states.dedup();
        let moment =
            |at: Option<SystemTime>| at.map(|at| DateTime::from_system_time(at).timestamp_millis());
        let times = [self.since, self.until, self.ended_since, self.ended_until].map(moment);
        let reason = self.reason.map(ReasonCode::as_str);
        json!(["transactions", states, self.account, times, reason, self.application])
    }

    /// When they were created, as a condition, on this way from a moment.
    pub(super) fn created(&self, moment: DateTime, way: Way) -> Document {
        within(self.since, self.until, (moment, way))
    }

    /// When they have ended, as a condition, on this way from a moment. Nothing ends before it is
    /// created.
    pub(super) fn ended(&self, moment: DateTime, way: Way) -> Document {
        within(self.ended_since.max(self.since), self.ended_until, (moment, way))
    }

    /// What else is asked of documents, as conditions that no index serves.
    pub(super) fn conditions(&self) -> Document {
        let mut conditions = Document::new();
        if !self.states.is_empty() {
            let states: Vec<Bson> = self.states.iter().copied().map(Bson::from).collect();
            conditions.insert("state", doc! { "$in": states });
        }
        if let Some(reason) = self.reason {
            conditions.insert("reason.code", reason.as_str());
        }
        if let Some(application) = &self.application {
            conditions.insert("application", application);
        }
        conditions
    }

    /// Whether a document is meant, whatever its state.
    pub(super) fn passes(&self, document: &Document) -> bool {
        let created = document.get_datetime(CREATED).ok().map(|at| at.to_system_time());
        let since = self.since.is_none_or(|since| created.is_some_and(|at| at >= since));
        let until = self.until.is_none_or(|until| created.is_some_and(|at| at < until));
        let code = document.get_document("reason").and_then(|reason| reason.get_str("code")).ok();
        let reason = self.reason.is_none_or(|reason| code == Some(reason.as_str()));
        let application = document.get_str("application").ok();
        let of_worker = self.application.is_none() || application == self.application.as_deref();
        since && until && reason && of_worker
    }

    /// The ends that are meant.
    pub(super) fn ends(&self) -> Vec<End> {
        let meant = |end: &End| {
            let has_reason = match end {
                End::Done => false,
                End::Canceled => true,
            };
            let is_state = self.states.is_empty() || self.states.contains(&end.state());
            is_state && (has_reason || self.reason.is_none())
        };
        End::ALL.into_iter().filter(meant).collect()
    }

    /// Whether a document of a transaction in flight is meant.
    pub(super) fn wants(&self, document: &Document) -> bool {
        let state = document.get_str("state").ok().and_then(State::parse);
        let is_meant = |state: State| {
            !state.is_final() && (self.states.is_empty() || self.states.contains(&state))
        };
        state.is_some_and(is_meant) && self.passes(document)
    }
}

/// From one moment on and before another, and not on the other side of a third.
fn within(
    since: Option<SystemTime>,
    until: Option<SystemTime>,
    (moment, way): (DateTime, Way),
) -> Document {
    let since = since.map_or(DateTime::MIN, DateTime::from_system_time);
    let mut within = match way {
        Way::Down => doc! { "$gte": since, "$lte": moment },
        Way::Up => doc! { "$gte": since.max(moment) },
    };
    if let Some(until) = until {
        within.insert("$lt", DateTime::from_system_time(until));
    }
    within
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Option<SystemTime> {
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn all() -> TransactionFilter {
        TransactionFilter::default()
    }

    #[test]
    fn a_cursor_is_bound_to_the_filter_and_not_to_the_order_of_its_states() {
        let of = |states: &[State], account: &str| TransactionFilter {
            states: states.to_vec(),
            account: Some(account.to_owned()),
            ..all()
        };
        let filter = of(&[State::Done, State::Initial], "a");
        assert_eq!(filter.list(), of(&[State::Initial, State::Done, State::Done], "a").list());
        let others = [
            of(&[State::Done], "a"),
            of(&[State::Done, State::Initial], "b"),
            TransactionFilter { account: None, ..filter.clone() },
            TransactionFilter { since: at(0), ..filter.clone() },
            TransactionFilter { until: at(0), ..filter.clone() },
            TransactionFilter { ended_since: at(0), ..filter.clone() },
            TransactionFilter { ended_until: at(0), ..filter.clone() },
            TransactionFilter { reason: Some(ReasonCode::Requested), ..filter.clone() },
            TransactionFilter { application: Some("w".to_owned()), ..filter.clone() },
        ];
        for (n, other) in others.iter().enumerate() {
            assert_ne!(filter.list(), other.list());
            assert!(others[..n].iter().all(|earlier| earlier.list() != other.list()), "{other:?}");
        }
    }

    #[test]
    fn who_asks_for_ends_or_an_account_gets_what_ended_last_and_others_what_is_newest() {
        let of_a = TransactionFilter { account: Some("a".to_owned()), ..all() };
        let ended = TransactionFilter { ended_until: at(1), ..all() };
        let newest = TransactionFilter { since: at(1), states: vec![State::Done], ..all() };
        let orders = [&of_a, &ended, &newest, &all()].map(TransactionFilter::order);
        assert_eq!(orders, [Order::ByEnd, Order::ByEnd, Order::ByCreation, Order::ByCreation]);
        // Time by creation is a condition of the one index, and none of the other.
        let of_an_age = TransactionFilter { since: at(1), ..of_a.clone() };
        let young = TransactionFilter { since: at(1), ..all() };
        let looks = [&of_a, &ended, &newest, &of_an_age, &young].map(TransactionFilter::leaves_out);
        assert_eq!(looks, [false, false, true, true, false]);
    }

    #[test]
    fn a_document_passes_by_its_creation_its_reason_and_its_worker() {
        let document = doc! {
            "createdAt": DateTime::from_millis(5_000), "state": "canceled", "application": "w",
            "reason": { "code": "insufficient_funds" },
        };
        let passes = |filter: TransactionFilter| filter.passes(&document);
        assert!(passes(all()));
        assert!(passes(TransactionFilter { since: at(5), until: at(6), ..all() }));
        assert!(!passes(TransactionFilter { since: at(6), ..all() }));
        assert!(!passes(TransactionFilter { until: at(5), ..all() }));
        for (reason, expected) in
            [(ReasonCode::InsufficientFunds, true), (ReasonCode::Requested, false)]
        {
            let filter = TransactionFilter { reason: Some(reason), ..all() };
            assert_eq!(filter.passes(&document), expected, "{reason:?}");
            assert_eq!(filter.ends(), [End::Canceled], "what is done has no reason");
        }
        for (worker, expected) in [("w", true), ("v", false)] {
            let application = Some(worker.to_owned());
            assert_eq!(passes(TransactionFilter { application, ..all() }), expected, "{worker}");
        }
        let undated = TransactionFilter { until: at(9), ..all() };
        assert!(!undated.passes(&doc! { "state": "done" }));
    }

    #[test]
    fn a_time_does_not_run_backwards_and_what_no_account_has_is_refused() {
        let field = |filter: &TransactionFilter| match filter.check() {
            Err(Error::Invalid { field, .. }) => field,
            other => format!("{other:?}"),
        };
        assert_eq!(field(&TransactionFilter { since: at(2), until: at(1), ..all() }), "until");
        let ended = TransactionFilter { ended_since: at(2), ended_until: at(1), ..all() };
        assert_eq!(field(&ended), "endedUntil");
        assert_eq!(TransactionFilter { since: at(1), until: at(1), ..all() }.check(), Ok(()));
        let scheduled = TransactionFilter { states: vec![State::Scheduled], ..all() };
        assert_eq!(scheduled.check(), Ok(()));
        let of_a = TransactionFilter { account: Some("a".to_owned()), ..scheduled };
        assert_eq!(field(&of_a), "state");
    }
}
