//! Whether submissions are taken now, and how.
//!
//! A submission is durable in the database before it is published. So while the broker is away or
//! blocked, submissions are only inserted, and the workers' sweepers publish them when it is back.
//! Nobody settles them meanwhile, so only so many are taken; and where so many messages wait in the
//! queue, none is. Those are refused before anything of them is written. Promises to open again
//! within a few seconds after the reason has gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::Client;
use queue::WORK;
use tokio_util::sync::CancellationToken;

use super::problem::{AWAY, Code, Problem};

/// How often to look at the queue.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest look at the queue: a broker that is cut off says nothing at all.
const LOOK_LIMIT: Duration = Duration::from_secs(3);

/// How submissions are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Inserted, and published.
    Whole,
    /// Inserted only.
    InsertedOnly,
}

/// Why something does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Closed {
    /// The broker is away, or takes nothing.
    Away(String),
    /// Too many messages wait in its queue.
    Full(String),
}

#[derive(Default)]
struct State {
    closed: Option<(Instant, Closed)>,
    /// How many were inserted only since the broker has taken one.
    inserted: u64,
}

/// What is known of the broker.
pub struct Gate {
    state: Mutex<State>,
    most: u64,
}

impl Gate {
    /// While the broker is away, so many submissions are inserted.
    #[must_use]
    pub fn new(most: u64) -> Gate {
        Gate { state: Mutex::default(), most }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many submissions.
    ///
    /// # Errors
    /// While too many wait.
    pub fn take(&self, count: usize, now: Instant) -> Result<Taken, Problem> {
        let mut state = self.state();
        let full = |why: String| Err(Problem::new(Code::Unavailable, why));
        match state.closed(now) {
            None => Ok(Taken::Whole),
            Some(Closed::Full(why)) => full(why.clone()),
            Some(Closed::Away(why)) => {
                let inserted = state.inserted.saturating_add(count as u64);
                if inserted > self.most {
                    let waiting = state.inserted;
                    return full(format!("{why}; {waiting} transactions wait for it already"));
                }
                state.inserted = inserted;
                Ok(Taken::InsertedOnly)
            }
        }
    }

    /// Whether submissions are taken.
    #[must_use]
    pub fn takes(&self, now: Instant) -> bool {
        self.take(0, now).is_ok()
    }

    /// An error while the broker is known to be away, for what needs it at once.
    ///
    /// # Errors
    /// While it is.
    pub fn needs_broker(&self, now: Instant) -> Result<(), Problem> {
        match self.state().closed(now) {
            Some(Closed::Away(why)) => Err(Problem::new(Code::Unavailable, why.clone())),
            Some(Closed::Full(_)) | None => Ok(()),
        }
    }

    /// A publication has failed, or there is nothing that was not published. While it is known how
    /// the broker is, neither says anything new: what needs no publication goes on without it.
    pub fn published(&self, failure: Option<String>, now: Instant) {
        let mut state = self.state();
        match failure {
            _ if state.closed(now).is_some() => {}
            None => state.inserted = 0,
            Some(why) => state.close(Closed::Away(why), now),
        }
    }

    /// A look at the queue has shown how many messages wait, or why that is not known.
    fn looked(&self, waiting: Result<u32, String>, now: Instant) {
        let mut state = self.state();
        match waiting {
            Ok(waiting) if u64::from(waiting) > self.most => {
                let most = self.most;
                let why = format!("{waiting} messages wait for workers; {most} is the limit");
                state.close(Closed::Full(why), now);
            }
            // What a submission has found out counts for the whole while: a broker that blocks
            // publishers still says how many messages wait.
            Ok(_) if state.closed.is_some() && state.closed(now).is_none() => {
                tracing::info!("submissions are taken and published again");
                state.closed = None;
            }
            Ok(_) => {}
            Err(why) => state.close(Closed::Away(why), now),
        }
    }
}

impl State {
    /// Why it is closed at this moment.
    fn closed(&self, now: Instant) -> Option<&Closed> {
        self.closed.as_ref().filter(|(until, _)| now < *until).map(|(_, why)| why)
    }

    /// Closes for a while. Whoever comes first after that finds out whether it works again.
    fn close(&mut self, closed: Closed, now: Instant) {
        if self.closed.is_none() {
            match &closed {
                Closed::Away(why) => {
                    tracing::warn!(why, "submissions are only inserted for a while")
                }
                Closed::Full(why) => tracing::warn!(why, "submissions are refused for a while"),
            }
        }
        self.closed = Some((now + AWAY, closed));
    }
}

/// Looks at the queue again and again, until `stop`.
pub async fn watch(gate: Arc<Gate>, client: Client, stop: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        let look = tokio::time::timeout(LOOK_LIMIT, client.publisher().depth(WORK)).await;
        let waiting = match look {
            Ok(looked) => looked.map_err(|error| error.to_string()),
            Err(_) => Err("RabbitMQ: no answer".to_owned()),
        };
        let now = Instant::now();
        gate.looked(waiting, now);
        client.leave_publications(gate.needs_broker(now).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_the_broker_is_away_so_many_are_inserted_and_the_next_one_is_refused() {
        let (gate, now) = (Gate::new(3), Instant::now());
        assert_eq!(gate.take(100, now).ok(), Some(Taken::Whole));
        gate.published(Some("gone".to_owned()), now);
        assert_eq!(gate.take(2, now).ok(), Some(Taken::InsertedOnly));
        let refused = gate.take(2, now).expect_err("there is room for one");
        assert!(refused.detail.contains("gone; 2 transactions wait"), "{}", refused.detail);
        assert_eq!(gate.take(1, now).ok(), Some(Taken::InsertedOnly));
        gate.published(None, now);
        assert!(gate.take(1, now).is_err(), "what needed no publication does not let more in");
        assert!(gate.needs_broker(now).is_err());
        let later = now + AWAY;
        assert_eq!(gate.take(1, later).ok(), Some(Taken::Whole), "the first one finds out");
        gate.published(Some("still gone".to_owned()), later);
        assert!(gate.take(1, later).is_err(), "those before it still wait");
        gate.published(None, later + AWAY);
        gate.looked(Ok(0), later + AWAY);
        gate.looked(Err("gone again".to_owned()), later + AWAY);
        assert_eq!(gate.take(3, later + AWAY).ok(), Some(Taken::InsertedOnly));
    }

    #[test]
    fn what_is_inserted_meanwhile_does_not_keep_the_gate_closed() {
        let (gate, now) = (Gate::new(100), Instant::now());
        gate.looked(Err("gone".to_owned()), now);
        gate.published(Some("left to sweepers".to_owned()), now + AWAY / 2);
        assert_eq!(gate.take(1, now + AWAY).ok(), Some(Taken::Whole));
    }

    #[test]
    fn while_too_many_messages_wait_nothing_is_taken_and_the_broker_is_there() {
        let (gate, now) = (Gate::new(2), Instant::now());
        gate.looked(Ok(3), now);
        assert!(!gate.takes(now) && gate.needs_broker(now).is_ok());
        gate.looked(Ok(2), now + AWAY);
        assert!(gate.takes(now + AWAY));
    }
}
