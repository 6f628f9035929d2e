//! The journal: one line for each batch that has ended transactions.
//!
//! Owns what a line says. A line names the transactions that ended together, what each has booked,
//! and what all of them have booked on each account. It is written by the same atomic write as the
//! final states, so there is no line without its effect and no end without its line, and it never
//! changes. By itself it is enough for statements, lists and events: nobody needs the documents of
//! the transactions to believe it. Making one never fails.

use std::collections::BTreeMap;

use crate::event::{End, Ended};
use crate::transaction::{AccountId, Body, Leg, TransactionId};
use crate::{Content, ServerMs, Verdict};

/// Under which name a line is written, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The line's `_id`, which no other line has.
    pub id: String,
    /// The worker that writes it.
    pub application: String,
    /// From this moment on sweepers send the events of the line, until somebody has them confirmed.
    /// None where nobody is told of outcomes.
    pub events_due_at: Option<ServerMs>,
}

/// The end of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which one.
    pub id: TransactionId,
    /// How it ends.
    pub end: End,
    /// What it has booked where it is done: of a hold what was captured. Where it is canceled, what
    /// it would have booked; nothing where its content can't be read.
    pub legs: Vec<Leg>,
}

/// What ended together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its name.
    pub heading: Heading,
    /// Each transaction once.
    pub entries: Vec<Entry>,
}

impl Entry {
    /// The end of a transaction with this content, if that can be read.
    #[must_use]
    pub fn of(id: &TransactionId, end: End, body: Option<&Body>) -> Entry {
        let legs = body.map(|body| body.effect().to_vec()).unwrap_or_default();
        Entry { id: id.clone(), end, legs }
    }
}

impl Line {
    /// The line of a batch that was decided at once; there is a verdict for each content, in their
    /// order.
    #[must_use]
    pub fn of_verdicts(heading: Heading, contents: &[Content], verdicts: &[Verdict]) -> Line {
        let entry = |((id, body), verdict): (&Content, &Verdict)| {
            Entry::of(id, verdict.end(), body.as_ref().ok())
        };
        Line { heading, entries: contents.iter().zip(verdicts).map(entry).collect() }
    }

    /// Those that end in this way.
    pub fn entries_of(&self, end: End) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.end == end)
    }

    /// What its events are about.
    pub fn events(&self) -> impl Iterator<Item = Ended> {
        self.entries.iter().map(|Entry { id, end, .. }| Ended { id: id.clone(), end: *end })
    }

    /// What it books on each account that it names, in units of 10^-9, and whether the account is
    /// of minor units. An account that only canceled transactions name has a zero.
    #[must_use]
    pub fn nets(&self) -> BTreeMap<AccountId, Net> {
        let mut nets = BTreeMap::<AccountId, Net>::new();
        for Entry { end, legs, .. } in &self.entries {
            for Leg { account, amount } in legs {
                let net = nets.entry(account.clone()).or_default();
                if *end == End::Done {
                    net.nanos += amount.nanos();
                    net.is_decimal |= !amount.is_int();
                }
            }
        }
        nets
    }
}

/// What a line books on one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Net {
    /// The sum, in units of 10^-9.
    pub nanos: i128,
    /// Whether it is of decimals.
    pub is_decimal: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Amount;
    use crate::transaction::{Reason, ReasonCode};

    fn content(id: &str, from: &str, to: &str, value: i64) -> Content {
        let body = Body::transfer(from, to, Amount::Int(value));
        (id.into(), body.map_err(|error| error.to_string()))
    }

    fn heading() -> Heading {
        Heading { id: "l".to_owned(), application: "w".to_owned(), events_due_at: None }
    }

    #[test]
    fn a_line_nets_what_is_done_and_names_the_accounts_of_what_is_canceled() {
        let broken: Content = ("broken".into(), Err("no legs".to_owned()));
        let contents = [
            content("t", "a", "b", 5),
            content("u", "b", "c", 2),
            content("v", "d", "a", 9),
            broken,
        ];
        let refused = || Some(Reason::new(ReasonCode::Invalid, "no"));
        let refusals = [None, None, refused(), refused()];
        let verdicts: Vec<Verdict> = contents
            .iter()
            .zip(refusals)
            .map(|((id, _), refused)| Verdict { id: id.clone(), refused })
            .collect();
        let line = Line::of_verdicts(heading(), &contents, &verdicts);
        let nets: Vec<(AccountId, i128)> =
            line.nets().into_iter().map(|(id, net)| (id, net.nanos / 1_000_000_000)).collect();
        let expected = [("a", -5), ("b", 3), ("c", 2), ("d", 0)];
        assert_eq!(nets, expected.map(|(id, net)| (id.into(), net)));
        let canceled: Vec<&str> = line.entries_of(End::Canceled).map(|entry| &*entry.id).collect();
        assert_eq!(canceled, ["v", "broken"]);
        assert_eq!(line.events().count(), 4);
    }
}
