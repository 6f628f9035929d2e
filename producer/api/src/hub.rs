//! The last while of what ended, for everybody who follows.
//!
//! Owns one reader of the order for all who wait, which works while somebody waits and a little
//! longer, and a buffer that is limited in bytes. Promises that the buffer has no gap, and that it
//! says so where a follower stands before it: then that follower reads the database itself. A slow
//! follower costs nobody else anything: nothing is kept for it alone. While the database is away,
//! nothing comes, and nothing is lost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::{Client, EndFilter, Error, LIMIT_MAX, NumberedEnd};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The most bytes of events that are kept.
pub const BYTES_MAX: usize = 16 << 20;
/// How long it reads on after the last follower has gone.
const LINGER: Duration = Duration::from_secs(60);
/// How often it looks whether something has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long to wait before the database is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// An event as it is sent.
pub struct Item {
    /// Its number.
    pub number: u64,
    /// What it is called: `transaction.done` or `transaction.canceled`.
    pub name: &'static str,
    /// Its content, as JSON on one line.
    pub data: String,
}

impl Item {
    /// The event of an end.
    pub fn of(NumberedEnd { number, ended, .. }: &NumberedEnd) -> Item {
        let name = match ended.outcome {
            client::Outcome::Held => "transaction.held",
            client::Outcome::Done => "transaction.done",
            client::Outcome::Canceled { .. } => "transaction.canceled",
        };
        Item { number: *number, name, data: ended.event.to_string() }
    }
}

/// Events whose numbers follow each other.
#[derive(Default)]
struct Ring {
    /// The number of the last event that was read.
    last: u64,
    items: VecDeque<Arc<Item>>,
    bytes: usize,
}

impl Ring {
    fn push(&mut self, item: Item) {
        self.last = item.number;
        self.bytes += item.data.len();
        self.items.push_back(Arc::new(item));
        while self.bytes > BYTES_MAX && self.items.len() > 1 {
            self.bytes -= self.items.pop_front().map_or(0, |item| item.data.len());
        }
    }

    fn after(&self, number: u64, most: usize) -> Option<Vec<Arc<Item>>> {
        let before_all = self.last - self.items.len() as u64;
        if !(before_all..=self.last).contains(&number) {
            return None;
        }
        let known = usize::try_from(number - before_all).unwrap_or(usize::MAX);
        Some(self.items.iter().skip(known).take(most).cloned().collect())
    }
}

/// The buffer and who follows it.
pub struct Hub {
    ring: Mutex<Ring>,
    /// The number of the last event that was read.
    news: watch::Sender<u64>,
    followers: watch::Sender<usize>,
    /// Whether it reads.
    open: watch::Sender<bool>,
}

/// Lets its follower go when it is dropped.
pub struct Following(Arc<Hub>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.followers.send_modify(|count| *count -= 1);
    }
}

impl Hub {
    /// A hub that nobody follows.
    pub fn new() -> Hub {
        Hub {
            ring: Mutex::default(),
            news: watch::Sender::new(0),
            followers: watch::Sender::new(0),
            open: watch::Sender::new(false),
        }
    }

    /// Lets a follower in, when it reads. `None` if there are too many.
    pub async fn follow(self: &Arc<Hub>, most: usize) -> Option<Following> {
        let let_in = |count: &mut usize| {
            let room = *count < most;
            *count += usize::from(room);
            room
        };
        if !self.followers.send_if_modified(let_in) {
            return None;
        }
        let following = Following(self.clone());
        let mut open = self.open.subscribe();
        // Never fails: the sender is in `self`.
        drop(open.wait_for(|open| *open).await);
        Some(following)
    }

    /// The number of the last event that was read.
    fn last(&self) -> u64 {
        self.lock().last
    }

    /// The events after a number, at most so many. `None` where they are not in the buffer.
    pub fn after(&self, number: u64, most: usize) -> Option<Vec<Arc<Item>>> {
        self.lock().after(number, most)
    }

    /// Tells when something has come.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn take(&self, ended: &[NumberedEnd]) {
        let Some(last) = ended.last() else { return };
        let mut ring = self.lock();
        ended.iter().for_each(|ended| ring.push(Item::of(ended)));
        drop(ring);
        self.news.send_replace(last.number);
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no holder panics")
    }
}

/// Reads while somebody follows, until `stop`.
pub async fn run(hub: Arc<Hub>, client: Client, stop: CancellationToken) {
    let mut followers = hub.followers.subscribe();
    let serving = async {
        loop {
            drop(followers.wait_for(|count| *count > 0).await);
            if let Err(error) = read(&hub, &client, &mut followers).await {
                tracing::warn!(%error, "what ends can't be read");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    };
    stop.run_until_cancelled(serving).await;
}

/// Reads from now on, until nobody has followed for a while.
async fn read(
    hub: &Hub,
    client: &Client,
    followers: &mut watch::Receiver<usize>,
) -> Result<(), Error> {
    let last = client.last_end().await?;
    *hub.lock() = Ring { last, ..Ring::default() };
    // What has ended since it read last stands in the database, for those who wait.
    hub.news.send_replace(last);
    hub.open.send_replace(true);
    let reading = async {
        loop {
            let page = client.ended_after(hub.last(), LIMIT_MAX, &EndFilter::default()).await?;
            hub.take(&page.items);
            if page.is_last {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    };
    let nobody_for_long = async {
        loop {
            drop(followers.wait_for(|count| *count == 0).await);
            let back = followers.wait_for(|count| *count > 0);
            if tokio::time::timeout(LINGER, back).await.is_err() {
                return;
            }
        }
    };
    let read = tokio::select! {
        read = reading => read,
        () = nobody_for_long => Ok(()),
    };
    hub.open.send_replace(false);
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(last: u64) -> Ring {
        Ring { last, ..Ring::default() }
    }

    fn event(number: u64, data: &str) -> Item {
        Item { number, name: "transaction.done", data: data.to_owned() }
    }

    fn told(ring: &Ring, after: u64) -> Option<Vec<u64>> {
        Some(ring.after(after, 2)?.iter().map(|item| item.number).collect())
    }

    #[test]
    fn a_follower_gets_what_comes_after_its_number() {
        let mut ring = ring(7);
        assert_eq!(told(&ring, 7), Some(vec![]));
        (8..=10).for_each(|number| ring.push(event(number, "a")));
        assert_eq!(told(&ring, 7), Some(vec![8, 9]));
        assert_eq!(told(&ring, 9), Some(vec![10]));
        assert_eq!(told(&ring, 10), Some(vec![]));
    }

    #[test]
    fn a_follower_before_or_behind_the_buffer_is_told_to_read_elsewhere() {
        let mut ring = ring(7);
        assert_eq!((told(&ring, 6), told(&ring, 8)), (None, None));
        let large = "x".repeat(BYTES_MAX / 2);
        (8..=10).for_each(|number| ring.push(event(number, &large)));
        assert_eq!(told(&ring, 7), None, "the buffer holds two of them");
        assert_eq!(told(&ring, 8), Some(vec![9, 10]));
    }
}
