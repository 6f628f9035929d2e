//! Publications that a delivery needs before it may be acknowledged, while they wait for the
//! broker: retries, dead letters, isolations.
//!
//! Publications of many callers go out together, a few calls at once, so none waits for the confirm
//! of another. Promises that a publication is tried until the broker has confirmed it, also through
//! an alarm, and that a caller is told soon after a stop when the broker takes nothing. Fails only
//! then: the delivery is given back to the broker.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ledger::retry::Reconnect;
use queue::{Outgoing, Publisher, QueueError};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most calls of the publisher at once.
const CALLS_MAX: usize = 4;

/// The most messages of a call. The first calls have fewer: what is sent to a broker with an alarm
/// is taken when the alarm ends, also from a worker that has stopped meanwhile, and then it is
/// there twice.
const MESSAGES_MAX: usize = 512;

/// The most bytes of a call, but for a single larger message.
const BYTES_MAX: usize = 4 << 20;

/// When the broker has confirmed nothing for so long, it takes nothing.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// How often to look whether the broker takes something, after a stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often each of many that wait for a confirm looks whether the broker takes something at all.
const SHUT_LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest pause before a failed publication is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Publications on their way.
pub struct Publications {
    publisher: Arc<Publisher>,
    stop: CancellationToken,
    state: Mutex<State>,
    calls: Arc<Semaphore>,
}

struct State {
    /// Not sent yet.
    entries: VecDeque<Entry>,
    /// The most messages of the next call.
    most: usize,
    /// Callers whose publications are not confirmed yet.
    callers: usize,
    /// The last confirm, or the moment when the first of these callers came.
    progress: Instant,
}

/// One caller's publications.
struct Entry {
    messages: Vec<Outgoing>,
    /// Is told when the broker has confirmed all of them; dropped when it has not.
    confirmed: oneshot::Sender<()>,
}

/// Counts a caller for as long as it waits.
struct Waiting<'r>(&'r Publications);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().callers -= 1;
    }
}

impl Publications {
    /// Those of one publisher; after `stop` nobody waits any more while the broker takes nothing.
    #[must_use]
    pub fn new(publisher: Arc<Publisher>, stop: CancellationToken) -> Publications {
        let state =
            State { entries: VecDeque::new(), most: 1, callers: 0, progress: Instant::now() };
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        Publications { publisher, stop, state: Mutex::new(state), calls }
    }

    /// Whether the broker takes publications, as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let state = self.state();
        let stuck = state.callers > 0 && state.progress.elapsed() > STUCK_AFTER;
        drop(state);
        !stuck && !self.publisher.is_blocked()
    }

    /// Waits until the broker is known to take no publications.
    pub async fn until_shut(&self) {
        while self.is_open() {
            tokio::time::sleep(SHUT_LOOK_EVERY).await;
        }
    }

    /// Publishes all of them; `Ok` means that the broker has confirmed every one.
    ///
    /// # Errors
    /// When the worker stops and the broker takes nothing. Some of them may have been published.
    pub async fn publish(self: &Arc<Self>, messages: &[Outgoing]) -> Result<(), QueueError> {
        if messages.is_empty() {
            return Ok(());
        }
        let _waiting = self.enter();
        tokio::select! {
            () = self.until_confirmed(messages) => Ok(()),
            () = self.until_given_up() => {
                Err(QueueError::NotTaken("the worker stops, and the broker takes nothing".into()))
            }
        }
    }

    fn enter(&self) -> Waiting<'_> {
        let mut state = self.state();
        if state.callers == 0 {
            state.progress = Instant::now();
        }
        state.callers += 1;
        Waiting(self)
    }

    async fn until_confirmed(self: &Arc<Self>, messages: &[Outgoing]) {
        let mut reconnect = Reconnect::default();
        while !self.try_once(messages).await {
            tokio::time::sleep(reconnect.wait().min(PAUSE_MAX)).await;
        }
    }

    async fn until_given_up(&self) {
        self.stop.cancelled().await;
        while self.is_open() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until these are confirmed, or not. Whoever comes first begins a call, which is
    /// nobody's: it goes on for the others when this caller gives up.
    async fn try_once(self: &Arc<Self>, messages: &[Outgoing]) -> bool {
        let (confirmed, mut told) = oneshot::channel();
        self.state().entries.push_back(Entry { messages: messages.to_vec(), confirmed });
        loop {
            let call = tokio::select! {
                biased;
                told = &mut told => return told.is_ok(),
                call = self.calls.clone().acquire_owned() => call,
            };
            let entries = self.next_entries();
            if entries.is_empty() {
                // Somebody else's call has them.
                drop(call);
                return told.await.is_ok();
            }
            let own = self.clone();
            tokio::spawn(async move {
                own.call(entries).await;
                drop(call);
            });
        }
    }

    /// The entries of the next call. Those whose callers wait no more are dropped.
    fn next_entries(&self) -> Vec<Entry> {
        let mut state = self.state();
        let (mut taken, mut messages, mut bytes) = (Vec::new(), 0, 0);
        while let Some(entry) = state.entries.pop_front() {
            if entry.confirmed.is_closed() {
                continue;
            }
            messages += entry.messages.len();
            bytes += entry.messages.iter().map(|message| message.body().len()).sum::<usize>();
            if !taken.is_empty() && (messages > state.most || bytes > BYTES_MAX) {
                state.entries.push_front(entry);
                break;
            }
            taken.push(entry);
        }
        taken
    }

    async fn call(&self, entries: Vec<Entry>) {
        let (messages, callers): (Vec<_>, Vec<_>) =
            entries.into_iter().map(|entry| (entry.messages, entry.confirmed)).unzip();
        let messages = messages.concat();
        match self.publisher.publish_through_alarms(&messages).await {
            Ok(()) => {
                let mut state = self.state();
                state.progress = Instant::now();
                state.most = (state.most * 2).min(MESSAGES_MAX);
                drop(state);
                // A caller may have given up meanwhile.
                callers.into_iter().for_each(|confirmed| _ = confirmed.send(()));
            }
            Err(error) => {
                self.state().most = 1;
                let messages = messages.len();
                tracing::warn!(%error, messages, "what follows from messages is not published yet");
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}
