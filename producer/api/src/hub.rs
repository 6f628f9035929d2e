//! The events of the last while, for everybody who listens.
//!
//! Owns one subscription at the broker for all listeners, which is there while somebody listens and
//! a little longer, and a buffer that is limited in bytes. Promises that a listener gets each event
//! that comes after it was let in, as long as it keeps up with the buffer; where it can't, or the
//! subscription broke, it is told of a gap. A slow listener costs nobody else anything: nothing is
//! kept for it alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use bson::DateTime;
use client::{Client, Ended};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The most bytes of events that are kept.
pub const BYTES_MAX: usize = 16 << 20;
/// How long the subscription is kept after the last listener has gone.
const LINGER: Duration = Duration::from_secs(60);
/// How long to wait before the broker is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// An event as it is sent, or a gap.
pub struct Item {
    /// What it is called: `transaction.done`, `transaction.canceled` or `gap`.
    pub name: &'static str,
    /// Its content, as JSON on one line.
    pub data: String,
}

/// Where a listener stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which life of the subscription it is about.
    pub epoch: u64,
    /// The number of the next event.
    pub next: u64,
}

#[derive(Default)]
struct Ring {
    epoch: u64,
    /// The number of the first item.
    first: u64,
    items: VecDeque<Arc<Item>>,
    bytes: usize,
    /// Until when the subscription is whole, for what is told of a gap.
    heard_until: Option<SystemTime>,
}

impl Ring {
    fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    fn push(&mut self, item: Item) {
        self.bytes += item.data.len();
        self.items.push_back(Arc::new(item));
        while self.bytes > BYTES_MAX && self.items.len() > 1 {
            self.bytes -= self.items.pop_front().map_or(0, |item| item.data.len());
            self.first += 1;
        }
    }
}

/// The buffer and who listens to it.
pub struct Hub {
    ring: Mutex<Ring>,
    /// Changes with each item.
    news: watch::Sender<u64>,
    listeners: watch::Sender<usize>,
    /// Whether the subscription is there.
    open: watch::Sender<bool>,
}

/// Lets its listener go when it is dropped.
pub struct Listener(Arc<Hub>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.listeners.send_modify(|count| *count -= 1);
    }
}

impl Hub {
    /// A hub that nobody listens to. `epoch` is a number that no earlier process has used.
    pub fn new(epoch: u64) -> Hub {
        let ring = Ring { epoch, ..Ring::default() };
        Hub {
            ring: Mutex::new(ring),
            news: watch::Sender::new(0),
            listeners: watch::Sender::new(0),
            open: watch::Sender::new(false),
        }
    }

    /// Lets a listener in, when the subscription is there. `None` if there are too many.
    pub async fn listen(self: &Arc<Hub>, most: usize) -> Option<Listener> {
        let let_in = |count: &mut usize| {
            let room = *count < most;
            *count += usize::from(room);
            room
        };
        if !self.listeners.send_if_modified(let_in) {
            return None;
        }
        let listener = Listener(self.clone());
        let mut open = self.open.subscribe();
        // Never fails: the sender is in `self`.
        drop(open.wait_for(|open| *open).await);
        Some(listener)
    }

    /// The position after everything that has come.
    pub fn now(&self) -> Position {
        let ring = self.lock();
        Position { epoch: ring.epoch, next: ring.end() }
    }

    /// The items from a position on, at most so many, and the position after them. A gap comes
    /// first where something is missing.
    pub fn after(&self, at: Position, most: usize) -> (Vec<(u64, Arc<Item>)>, Position) {
        let ring = self.lock();
        let known = at.epoch == ring.epoch && (ring.first..=ring.end()).contains(&at.next);
        let from = if known { at.next } else { ring.first };
        let mut items = Vec::new();
        if !known {
            items.push((from.wrapping_sub(1), Arc::new(gap(None))));
        }
        let skipped = usize::try_from(from - ring.first).unwrap_or(usize::MAX);
        let found = ring.items.iter().skip(skipped).take(most).cloned();
        items.extend((from..).zip(found));
        let next = items.last().map_or(from, |(number, _)| number.wrapping_add(1));
        (items, Position { epoch: ring.epoch, next })
    }

    /// Tells when something has come.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn push(&self, item: Item) {
        let mut ring = self.lock();
        ring.push(item);
        let end = ring.end();
        drop(ring);
        self.news.send_replace(end);
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no holder panics")
    }
}

fn gap(since: Option<SystemTime>) -> Item {
    let since = since.map(|since| ledger::json::timestamp(DateTime::from_system_time(since)));
    let remedy = "some events may be missing here: ask for the transactions".to_owned();
    let remedy = match &since {
        Some(since) => format!("{remedy}, or run `producer events --since {since}`"),
        None => remedy,
    };
    Item { name: "gap", data: json!({ "since": since, "remedy": remedy }).to_string() }
}

fn item(ended: &Ended) -> Item {
    let name = match ended.outcome {
        client::Outcome::Held => "transaction.held",
        client::Outcome::Done => "transaction.done",
        client::Outcome::Canceled { .. } => "transaction.canceled",
    };
    Item { name, data: ended.event.to_string() }
}

/// Subscribes while somebody listens, until `stop`.
pub async fn run(hub: Arc<Hub>, client: Client, stop: CancellationToken) {
    let mut listeners = hub.listeners.subscribe();
    let serving = async {
        loop {
            drop(listeners.wait_for(|count| *count > 0).await);
            listen(&hub, &client, &mut listeners).await;
            hub.open.send_replace(false);
            if *listeners.borrow() > 0 {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    };
    stop.run_until_cancelled(serving).await;
}

/// One subscription, until it breaks or nobody has listened for a while.
async fn listen(hub: &Hub, client: &Client, listeners: &mut watch::Receiver<usize>) {
    let mut outcomes = match client.outcomes().await {
        Ok(outcomes) => outcomes,
        Err(error) => return tracing::warn!(%error, "no events can be heard"),
    };
    let since = hub.lock().heard_until.take();
    if since.is_some() {
        hub.push(gap(since));
    }
    hub.open.send_replace(true);
    loop {
        let nobody_for_long = async {
            loop {
                drop(listeners.wait_for(|count| *count == 0).await);
                let back = listeners.wait_for(|count| *count > 0);
                if tokio::time::timeout(LINGER, back).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            ended = outcomes.next() => match ended {
                Ok(ended) => hub.push(item(&ended)),
                Err(error) => {
                    tracing::warn!(%error, "the subscription to events broke");
                    hub.lock().heard_until = Some(SystemTime::now());
                    return;
                }
            },
            () = nobody_for_long => break,
        }
    }
    outcomes.close().await;
    // Whoever comes back with a position of this life has missed something.
    let mut ring = hub.lock();
    *ring = Ring { epoch: ring.epoch + 1, ..Ring::default() };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &str) -> Item {
        Item { name: "transaction.done", data: data.to_owned() }
    }

    fn told(hub: &Hub, at: Position) -> Vec<String> {
        hub.after(at, 100)
            .0
            .iter()
            .map(|(_, item)| format!("{}{}", item.name, item.data.len()))
            .collect()
    }

    #[test]
    fn a_listener_that_comes_back_gets_what_it_has_missed() {
        let hub = Hub::new(7);
        let begin = hub.now();
        hub.push(event("a"));
        let (items, after_a) = hub.after(begin, 1);
        assert_eq!(items.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
        hub.push(event("bb"));
        hub.push(event("ccc"));
        assert_eq!(told(&hub, after_a), ["transaction.done2", "transaction.done3"]);
        assert!(told(&hub, hub.now()).is_empty());
    }

    #[test]
    fn a_listener_that_can_not_be_told_everything_is_told_of_a_gap() {
        let hub = Hub::new(7);
        let begin = hub.now();
        let large = "x".repeat(BYTES_MAX / 2);
        for _ in 0..3 {
            hub.push(event(&large));
        }
        let (items, next) = hub.after(begin, 100);
        assert_eq!(items[0].1.name, "gap");
        assert_eq!((items.len(), next), (3, hub.now()), "the buffer holds two of them");
        let of_another_life = Position { epoch: 6, next: 3 };
        assert_eq!(hub.after(of_another_life, 1).0[0].1.name, "gap");
        let from_the_future = Position { epoch: 7, next: 99 };
        assert_eq!(hub.after(from_the_future, 1).0[0].1.name, "gap");
    }
}
