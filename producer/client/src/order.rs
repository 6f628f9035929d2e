//! What ended, by numbers: a list that never changes, and that a reader follows by the last number
//! it has read.
//!
//! Promises that who only follows the numbers misses nothing, whichever process it asks, and gets
//! the same event for the same number. What ended last has its number some milliseconds later; what
//! a worker has ended that died just then, within a minute. Reads a bounded number of ends for one
//! page, so a page of a filter that little passes may be short or empty; its `next` moves on all
//! the same. Fails with [`Error::WithoutEvents`] where the ledger gives no numbers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ledger::event::{End, Ended as About, Event};
use ledger::transaction::{AccountId, TransactionId, check_name};
use mongo::{LedgerSettings, Numbered, Source};
use mongodb::bson::DateTime;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::history::check_limit;
use crate::outcomes::Ended;

/// How many ends are read at a time.
const AT_A_TIME: usize = 500;
/// How many ends a page looks at.
const LOOKED_AT_MAX: usize = 10_000;
/// How long a page looks for what passes its filter.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// After so many bytes of events a page ends.
const BYTES_MAX: usize = 8 << 20;

/// Which ends are told. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndFilter {
    /// Only this end.
    pub end: Option<End>,
    /// Only those that name this account.
    pub account: Option<AccountId>,
    /// Only those that name an account that begins with one of these; all, if there are none. One
    /// whose accounts can't be read names none.
    pub prefixes: Vec<String>,
    /// Only those in this currency.
    pub currency: Option<String>,
    /// Only those whose metadata has these fields with these values. A name with points leads into
    /// documents. A value that is no text is compared as it stands in JSON.
    pub metadata: Vec<(String, String)>,
}

/// A transaction that has come to its end, with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedEnd {
    /// The number, from 1 on.
    pub number: u64,
    /// When it ended.
    pub at: DateTime,
    /// What ended, and how.
    pub ended: Ended,
}

/// A part of what ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndPage {
    /// Those that pass the filter, in the order of their numbers.
    pub items: Vec<NumberedEnd>,
    /// The number of the last end that was looked at: what the next call takes as its `after`.
    pub next: u64,
    /// Whether nothing had ended after `next` when it was read.
    pub is_last: bool,
}

impl Client {
    /// What ended after a number, in the order of the numbers. A page has at most `limit` ends, 1
    /// to 1,000; `after` is 0 for the first page, and the `next` of the page before for each other.
    /// A page ends also after it has looked at 10,000 ends, for a second, or at 8 MiB of events.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong limit or filter, and for a number that nothing has yet;
    /// [`Error::WithoutEvents`]; and when the server stays away, or others have damaged the order.
    pub async fn ended_after(
        &self,
        after: u64,
        limit: u32,
        filter: &EndFilter,
    ) -> Result<EndPage, Error> {
        let limit = check_limit(limit)?;
        filter.check()?;
        self.needs_numbers().await?;
        let begun = Instant::now();
        let mut page = EndPage { items: Vec::new(), next: after, is_last: false };
        let (mut looked_at, mut bytes) = (0, 0);
        while !page.is_last && looked_at < LOOKED_AT_MAX && begun.elapsed() < LOOK_LIMIT {
            let most = match filter.passes_all() {
                true => (limit - page.items.len()).min(AT_A_TIME),
                false => AT_A_TIME,
            };
            let some = self.insist(|| self.store().ended_after(page.next, most)).await?;
            let some = some.map_err(|ahead| {
                let problem = format!(
                    "is {}, and the last number is {}; it is of another ledger, or this one was \
                     restored; begin with 0",
                    page.next, ahead.last
                );
                Error::invalid("after", problem)
            })?;
            page.is_last = some.len() < most;
            looked_at += some.len();
            let mut events = self.events_of(&some, filter).await?;
            let count = some.len();
            for (at, Numbered { number, ended, at: ms }) in some.into_iter().enumerate() {
                page.next = number;
                let event = events.remove(&ended.id).filter(|event| filter.passes(event));
                let Some(ended) = event.and_then(Ended::of) else { continue };
                bytes += ended.event.to_string().len();
                let at_ms = DateTime::from_millis(ms);
                page.items.push(NumberedEnd { number, at: at_ms, ended });
                if page.items.len() == limit || bytes >= BYTES_MAX {
                    page.is_last &= at + 1 == count;
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    /// The last number that an end has, 0 if none has: who only wants what comes begins after it.
    ///
    /// # Errors
    /// [`Error::WithoutEvents`], and when the server stays away.
    pub async fn last_end(&self) -> Result<u64, Error> {
        self.needs_numbers().await?;
        self.insist(|| self.store().last_number()).await
    }

    /// The bodies of the events of those that the filter may pass, by their ids. What has no
    /// document any more is told with its id and state.
    async fn events_of(
        &self,
        some: &[Numbered],
        filter: &EndFilter,
    ) -> Result<HashMap<TransactionId, Value>, Error> {
        let mut bodies = HashMap::new();
        for end in End::ALL.into_iter().filter(|end| filter.end.is_none_or(|only| only == *end)) {
            let of_this_end = some.iter().filter(|numbered| numbered.ended.end == end);
            let ids: Vec<_> = of_this_end.map(|numbered| numbered.ended.id.clone()).collect();
            if ids.is_empty() {
                continue;
            }
            for id in &ids {
                bodies.insert(id.clone(), json!({ "id": &**id, "state": end.as_str() }));
            }
            let sources = self.insist(|| self.store().event_sources(&ids, end)).await?;
            let mut told = |Event { about: About { id, .. }, body }| bodies.insert(id, body);
            for source in sources {
                match source {
                    Source::Ready(event) => drop(told(event)),
                    // One by one, since together they may be more than memory holds.
                    Source::Large(id, _) => {
                        let ids = [id];
                        let events = self.insist(|| self.store().events(&ids, end)).await?;
                        events.into_iter().for_each(|event| drop(told(event)));
                    }
                }
            }
        }
        Ok(bodies)
    }

    /// Makes sure that the workers of the ledger give numbers.
    async fn needs_numbers(&self) -> Result<(), Error> {
        let has = |settings: Option<LedgerSettings>| settings.is_none_or(|s| s.events);
        self.needs(&self.servers().numbers, has, Error::WithoutEvents).await
    }
}

impl EndFilter {
    fn passes_all(&self) -> bool {
        *self == EndFilter::default()
    }

    fn check(&self) -> Result<(), Error> {
        let nameless = self.metadata.iter().find(|(name, _)| name.is_empty());
        if nameless.is_some() {
            return Err(Error::invalid("metadata", "has no name; write metadata.NAME=VALUE"));
        }
        let Some(account) = &self.account else { return Ok(()) };
        Ok(check_name("account", account)?)
    }

    /// Whether an event passes, by its content.
    #[must_use]
    pub fn passes(&self, event: &Value) -> bool {
        let end = self.end.is_none_or(|end| event["state"] == end.as_str());
        let account = self.account.as_ref();
        let account = account.is_none_or(|account| names(event, |name| *name == **account));
        let begins = |name: &str| self.prefixes.iter().any(|prefix| name.starts_with(&**prefix));
        let account = account && (self.prefixes.is_empty() || names(event, begins));
        let currency =
            self.currency.as_ref().is_none_or(|currency| event["currency"] == **currency);
        let metadata = self.metadata.iter().all(|(name, value)| {
            let found = event["metadata"].get(name).or_else(|| {
                name.split('.').try_fold(&event["metadata"], |within, name| within.get(name))
            });
            found.is_some_and(|found| match found {
                Value::String(text) => text == value,
                other => {
                    let text = other.to_string();
                    text == *value
                }
            })
        });
        end && account && currency && metadata
    }
}

/// Whether an event names such an account.
fn names(event: &Value, is_such: impl Fn(&str) -> bool) -> bool {
    let is_it = |name: &Value| name.as_str().is_some_and(&is_such);
    let is_in = |list: &str| {
        event[list].as_array().is_some_and(|legs| legs.iter().any(|leg| is_it(&leg["account"])))
    };
    is_it(&event["source"]) || is_it(&event["destination"]) || is_in("legs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_passes_what_it_names_and_nothing_else() {
        let event = json!({
            "id": "t", "state": "done", "source": "a", "destination": "b", "currency": "EUR",
            "metadata": { "order": 17, "shop": { "name": "x" }, "dotted.name": "y", "vip": true },
        });
        let split = json!({
            "id": "s", "state": "canceled",
            "legs": [{ "account": "c", "amount": "-1" }, { "account": "a", "amount": "1" }],
        });
        let all = EndFilter::default();
        assert!(all.passes_all() && all.passes(&event) && all.passes(&split));
        let of = |account: &str| EndFilter { account: Some(account.into()), ..all.clone() };
        assert_eq!(["a", "b", "c", "t"].map(|a| of(a).passes(&event)), [true, true, false, false]);
        assert_eq!(["a", "b", "c"].map(|a| of(a).passes(&split)), [true, false, true]);
        let within = |prefixes: &[&str]| EndFilter {
            prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
            ..all.clone()
        };
        let bare = json!({ "id": "t", "state": "done" });
        assert!(within(&["a"]).passes(&event) && within(&["x", "b"]).passes(&event));
        assert!(within(&["c"]).passes(&split) && !within(&["c"]).passes(&event));
        assert!(!within(&["ab"]).passes(&event) && !within(&["a"]).passes(&bare));
        let both = EndFilter { account: Some("b".into()), ..within(&["a"]) };
        assert!(both.passes(&event) && !both.passes(&split), "each has to name one");
        let done = EndFilter { end: Some(End::Done), ..all.clone() };
        assert!(done.passes(&event) && !done.passes(&split));
        let euros = EndFilter { currency: Some("EUR".to_owned()), ..all.clone() };
        assert!(euros.passes(&event) && !euros.passes(&split));
        for (name, value, expected) in [
            ("order", "17", true),
            ("order", "18", false),
            ("shop.name", "x", true),
            ("dotted.name", "y", true),
            ("vip", "true", true),
            ("none", "x", false),
            ("shop", "x", false),
        ] {
            let metadata = vec![(name.to_owned(), value.to_owned())];
            let filter = EndFilter { metadata, ..all.clone() };
            assert_eq!(filter.passes(&event), expected, "{name}={value}");
        }
    }
}
