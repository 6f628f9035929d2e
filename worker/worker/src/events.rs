//! The events of a worker: made of stored documents, published on a connection of their own.
//!
//! Promises that an event counts as sent only when the broker has confirmed it, that a broker that
//! is slow, blocked or away holds a batch up for two seconds (and as long again, if its connection
//! does not close), and the next ones not at all, and that a queue that takes no more is not in the
//! way of others. Where nobody has bound a queue, one event of a batch finds that out, and the
//! others are not made. Fails by naming the events that are not confirmed.
//!
//! A queue that refuses (`reject-publish`, full) is served again from the note. Of transactions in
//! flight when a queue was bound, its subscriber may miss events. `producer events --replay` makes
//! events anew for a subscriber whose queue was lost. Worker, sweeper and replay make them by one
//! function, from the documents.

use std::collections::BTreeSet;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Announcer, Told, Untold, cut};
use ledger::coalesce::Coalesced;
use ledger::event::{End, Ended, Event, source};
use ledger::transaction::TransactionId;
use ledger::{BYTES_MAX, LedgerError};
use mongo::{Due, Ends, Numberer, Source, Store};
use queue::{Outgoing, Publisher, QueueError, Taken};
use settings::AmqpSettings;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::metrics::Metrics;
use crate::trace::traces;

/// How long a batch waits for the confirms of its events. After that they are the sweepers'.
const CONFIRM_LIMIT: Duration = Duration::from_secs(2);

/// How long nobody waits for a broker that has not answered.
const SILENCE: Duration = Duration::from_secs(5);

/// How many events are made and sent at a time.
const EVENTS_AT_A_TIME: usize = 500;

/// The most notes of due events that are sent in one round.
const DUE_AT_A_TIME: i64 = 200;

/// How long a sweeper waits for the confirms of one note's events.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// So few ends get their numbers together with others that come soon: each time costs a command,
/// and nobody waits for a number in order to spend money.
const FEW: u32 = 200;

/// How often few ends get their numbers.
const FEW_EVERY: Duration = Duration::from_millis(30);

/// What one worker publishes events with.
pub(crate) struct Events {
    store: Store,
    numberer: Numberer,
    /// Lines that want numbers, those of each batch with the answer whether they have them.
    numbering: Coalesced<Vec<Ends>, bool>,
    numbered_at: Mutex<Instant>,
    publisher: Publisher,
    /// The ledger, as events name it.
    source: String,
    /// Whether somebody had bound a queue for events of this end when the last one was sent.
    done_is_bound: AtomicBool,
    canceled_is_bound: AtomicBool,
    /// Until when nobody waits for the broker.
    silent_until: Mutex<Option<Instant>>,
    metrics: Arc<Metrics>,
}

/// What became of events.
#[derive(Default)]
struct Sent {
    unknown: Vec<Ended>,
    refused: Vec<Ended>,
}

impl Events {
    pub(crate) fn new(
        store: Store,
        amqp: &AmqpSettings,
        name: &str,
        metrics: Arc<Metrics>,
    ) -> Events {
        Events {
            source: source(store.database().name()),
            publisher: Publisher::of_events(amqp, &format!("{name} events")),
            numberer: Numberer::new(store.clone()),
            numbering: Coalesced::default(),
            numbered_at: Mutex::new(Instant::now()),
            store,
            done_is_bound: AtomicBool::new(false),
            canceled_is_bound: AtomicBool::new(false),
            silent_until: Mutex::new(None),
            metrics,
        }
    }

    fn is_bound(&self, end: End) -> &AtomicBool {
        match end {
            End::Done => &self.done_is_bound,
            End::Canceled => &self.canceled_is_bound,
        }
    }

    /// Sends events that have the same end.
    async fn send(&self, ids: Vec<TransactionId>, end: End, deadline: Instant) -> Sent {
        let (mut sent, mut waiting) = (Sent::default(), ids);
        while !waiting.is_empty() {
            // While nobody is known to listen, one event alone finds out.
            let is_bound = self.is_bound(end).load(Ordering::Relaxed);
            let rest =
                waiting.split_off(waiting.len().min(if is_bound { EVENTS_AT_A_TIME } else { 1 }));
            let ids = std::mem::replace(&mut waiting, rest);
            let count = ids.len() + waiting.len();
            match self.send_some(&ids, end, deadline, &mut sent).await {
                Ok(Routed::Somewhere) => {}
                Ok(Routed::Nowhere) => {
                    self.metrics.events("unrouted", count);
                    return sent;
                }
                Err(error) => {
                    tracing::debug!(error, "events are not confirmed");
                    let ended = |id: TransactionId| Ended { id, end };
                    sent.unknown.extend(waiting.into_iter().map(ended));
                    return sent;
                }
            }
        }
        sent
    }

    /// Makes some events and publishes them. After an error all that is not confirmed is in `sent`.
    async fn send_some(
        &self,
        ids: &[TransactionId],
        end: End,
        deadline: Instant,
        sent: &mut Sent,
    ) -> Result<Routed, String> {
        let made = timeout_at(deadline, self.make(ids, end)).await;
        let made = made.map_err(|_| "no answer in time".to_owned());
        let events = match made.and_then(|made| made.map_err(|error| error.to_string())) {
            Ok(events) => events,
            Err(error) => {
                sent.unknown.extend(ids.iter().map(|id| Ended { id: id.clone(), end }));
                return Err(error);
            }
        };
        // What has no document any more has nothing to be told of it.
        let traces = traces();
        let outgoing = |(at, event): (usize, &Event)| {
            let outgoing = Outgoing::event(event, &self.source, at == 0);
            outgoing.traced(slice::from_ref(&event.about.id), &traces)
        };
        let messages: Vec<_> = events.iter().enumerate().map(outgoing).collect();
        let limit = deadline.saturating_duration_since(Instant::now());
        let (taken, published) = self.publisher.publish_each(&messages, limit).await;
        let is_unrouted = taken.contains(&Taken::Unrouted);
        self.is_bound(end).store(!is_unrouted, Ordering::Relaxed);
        let mut confirmed = 0;
        for (event, taken) in events.into_iter().zip(taken) {
            match taken {
                Taken::Queued => confirmed += 1,
                Taken::Unrouted => {}
                Taken::Refused => sent.refused.push(event.about),
                Taken::Unknown => sent.unknown.push(event.about),
            }
        }
        if is_unrouted && published.is_ok() {
            return Ok(Routed::Nowhere);
        }
        self.metrics.events("confirmed", confirmed);
        self.heard(&published);
        published.map(|()| Routed::Somewhere).map_err(|error| error.to_string())
    }

    /// The events of transactions, from their documents.
    async fn make(&self, ids: &[TransactionId], end: End) -> Result<Vec<Event>, LedgerError> {
        let (mut events, mut large) = (Vec::with_capacity(ids.len()), Vec::new());
        for source in self.store.event_sources(ids, end).await? {
            match source {
                Source::Ready(event) => events.push(event),
                Source::Large(id, bytes) => large.push((id, bytes)),
            }
        }
        for some in cut(&large, EVENTS_AT_A_TIME, BYTES_MAX, |(_, bytes)| *bytes) {
            let ids: Vec<TransactionId> = some.iter().map(|(id, _)| id.clone()).collect();
            events.extend(self.store.events(&ids, end).await?);
        }
        Ok(events)
    }

    /// Notes whether the broker answers.
    fn heard(&self, published: &Result<(), QueueError>) {
        let mut silent_until = self.silent_until.lock().expect("no holder panics");
        *silent_until = published.is_err().then(|| Instant::now() + SILENCE);
        if let Err(error) = published
            && error.lasts()
        {
            tracing::warn!(%error, "can't publish events; they are noted as due");
        }
    }

    fn is_silent(&self) -> bool {
        let silent_until = *self.silent_until.lock().expect("no holder panics");
        silent_until.is_some_and(|until| Instant::now() < until)
    }

    async fn send_all(&self, events: &[Ended], limit: Duration) -> Sent {
        let (deadline, mut all) = (Instant::now() + limit, Sent::default());
        for end in End::ALL {
            let of_this_end = events.iter().filter(|event| event.end == end);
            let ids = of_this_end.map(|event| event.id.clone()).collect();
            let Sent { unknown, refused } = self.send(ids, end, deadline).await;
            all.unknown.extend(unknown);
            all.refused.extend(refused);
        }
        all
    }

    /// Gives the ends of these lines their numbers; returns whether they have them.
    async fn number(&self, lines: &[Untold]) -> bool {
        let ends = |untold: &Untold| Ends {
            line: untold.line.clone(),
            count: u32::try_from(untold.events.len()).unwrap_or(u32::MAX),
        };
        // Two at once would want the same numbers.
        let number = async |all: Vec<Vec<Ends>>| {
            let (lines, last) = (all.concat(), *self.numbered_at.lock().expect("no holder panics"));
            if lines.iter().map(|line| line.count).sum::<u32>() < FEW {
                sleep_until(last + FEW_EVERY).await;
            }
            let numbered = self.numberer.number(&lines).await;
            *self.numbered_at.lock().expect("no holder panics") = Instant::now();
            if let Err(error) = &numbered {
                tracing::debug!(%error, lines = all.len(), "they get their numbers later");
            }
            vec![numbered.is_ok(); all.len()]
        };
        self.numbering.run(lines.iter().map(ends).collect(), number).await.unwrap_or(false)
    }

    /// Publishes the events of these lines; returns those that the broker has not confirmed.
    async fn confirm(&self, lines: &[Untold]) -> BTreeSet<Ended> {
        let events: Vec<Ended> = lines.iter().flat_map(|line| line.events.clone()).collect();
        let unconfirmed = if self.is_silent() {
            events
        } else {
            let Sent { mut unknown, refused } = self.send_all(&events, CONFIRM_LIMIT).await;
            unknown.extend(refused);
            unknown
        };
        self.metrics.events("due", unconfirmed.len());
        unconfirmed.into_iter().collect()
    }

    async fn number_due(&self) -> Result<(), LedgerError> {
        while self.numberer.sweep().await? > 0 {}
        Ok(())
    }

    /// Numbers and publishes what is due; returns how many events are confirmed. Stops when the
    /// broker does not answer.
    ///
    /// # Errors
    /// When the database is away or refuses.
    pub(crate) async fn sweep(&self) -> Result<usize, LedgerError> {
        // Numbers need no broker. What has its number is told, also when others get none.
        let numbered = self.number_due().await;
        let mut confirmed = 0;
        if self.is_silent() {
            return numbered.map(|()| confirmed);
        }
        for note in self.store.due_notes(DUE_AT_A_TIME).await? {
            if self.is_silent() {
                break;
            }
            if let Some(due) = self.store.take_due(&note).await? {
                confirmed += self.sweep_one(&due).await?;
            }
        }
        numbered.map(|()| confirmed)
    }

    async fn sweep_one(&self, due: &Due) -> Result<usize, LedgerError> {
        let Sent { unknown, refused } = self.send_all(&due.events, SWEEP_LIMIT).await;
        if !unknown.is_empty() {
            // All of them once more, when the broker answers again.
            return Ok(0);
        }
        if !refused.is_empty() {
            tracing::warn!(events = refused.len(), "a queue of a subscriber takes no more events");
            self.metrics.events("refused", refused.len());
        }
        self.store.events_confirmed(due, &refused).await?;
        Ok(due.events.len() - refused.len())
    }

    /// Connects, so that the first batch does not wait for it.
    pub(crate) async fn connect(&self) {
        if let Err(error) = self.publisher.ensure().await {
            tracing::debug!(%error, "events are published later");
        }
    }

    /// Closes the connection.
    pub(crate) async fn close(&self) {
        self.publisher.close().await;
    }
}

/// Whether events found a queue.
enum Routed {
    Somewhere,
    Nowhere,
}

impl Announcer for Events {
    fn announce<'a>(&'a self, lines: &'a [Untold]) -> Told<'a> {
        Box::pin(async move {
            let (is_numbered, unconfirmed) = tokio::join!(self.number(lines), self.confirm(lines));
            let is_confirmed =
                |line: &Untold| !line.events.iter().any(|event| unconfirmed.contains(event));
            lines.iter().map(|line| is_numbered && is_confirmed(line)).collect()
        })
    }
}
