//! A worker's environment in the search: its clock shows the time of the search, and where the
//! engine chooses its way, the event that the run has received says which.
//!
//! Owns what the engine looks at beside its answers, and notes that it has looked: what nobody
//! looks at makes no difference, so the search need not tell such states apart.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use engine::Environment;

use super::protocol::{Heard, Looked, What};
use super::trace;

/// See the module.
#[derive(Clone, Debug)]
pub struct Clock {
    run: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    now: i64,
    native: bool,
    looked: Looked,
    awakenings: u32,
    tokens: u32,
}

impl Clock {
    /// The environment of a run.
    #[must_use]
    pub fn new(run: usize) -> Clock {
        Clock { run, state: Arc::default() }
    }

    /// Shows what is there when a run receives an event.
    pub fn set(&self, heard: &Heard) {
        let mut state = self.state();
        state.now = heard.at;
        state.native = heard.native;
        state.looked = Looked::default();
        state.awakenings += u32::from(matches!(heard.what, What::Awake));
    }

    /// What the run has looked at since then.
    #[must_use]
    pub fn looked(&self) -> Looked {
        self.state().looked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }
}

impl Environment for Clock {
    fn now_ms(&self) -> i64 {
        let mut state = self.state();
        state.looked.clock = true;
        // This clock starts at another value than the server's, as a monotonic clock does.
        state.now - 1_000_000
    }

    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send {
        let state = self.state.clone();
        let asleep_since = self.state().awakenings;
        std::future::poll_fn(move |_| {
            let awakenings = state.lock().expect("one thread").awakenings;
            if awakenings > asleep_since { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn jitter(&self) -> f64 {
        0.0
    }

    fn token(&self) -> String {
        let mut state = self.state();
        state.tokens += 1;
        format!("{}, claim {}", trace::worker(self.run), state.tokens)
    }

    /// Both ways are searched, whatever is faster.
    fn chooses_native(&self, _: impl FnOnce() -> bool) -> bool {
        let mut state = self.state();
        state.looked.choice = true;
        state.native
    }
}
