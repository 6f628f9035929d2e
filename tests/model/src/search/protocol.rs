//! What the search needs to know of a protocol: workers that send requests to a store.
//!
//! Owns the types between [`super::explore`] and the protocols that it searches: the real engine
//! ([`super::engine`]) and the articles' pattern ([`super::articles`]). A run of a worker has no
//! state of its own here: it is a function of the answers that it has received.

use std::fmt::Debug;

use ledger::{Refused, Written};

use crate::sim::model::Books;
use crate::sim::request::Reply;
use crate::sim::server::Stepped;

/// An event that a run has received, and when.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The time.
    pub at: i64,
    /// What.
    pub what: What,
    /// The way that the run goes if it has to choose now: true is the native one.
    pub native: bool,
}

/// What a run has looked at since its last event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// At its clock.
    pub clock: bool,
    /// Which way to go: it had to choose.
    pub choice: bool,
}

/// See [`Heard`].
#[derive(Clone, Debug)]
pub enum What {
    /// The answer to its request.
    Answer(Reply),
    /// That its request failed; it may have happened, or may happen yet.
    Lost,
    /// That it has slept long enough.
    Awake,
}

/// What a run does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next<R> {
    /// It waits for the answer to this request.
    Request(R),
    /// It sleeps.
    Sleep,
    /// It has ended.
    Over,
}

/// The results of the steps of a request so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tally {
    /// How many documents matched.
    pub matched: u8,
    /// Which steps had their documents refused; one bit for each step.
    refused: u16,
}

impl Tally {
    /// With one more step.
    #[must_use]
    pub fn and(mut self, step: u8, stepped: Stepped) -> Tally {
        match stepped {
            Stepped::Nothing => {}
            Stepped::Wrote => self.matched += 1,
            Stepped::Refused => self.refused |= 1 << step,
        }
        self
    }

    /// In the form of the ledger's answer.
    #[must_use]
    pub fn written(self) -> Written {
        let is_refused = |item: &usize| self.refused & (1 << item) != 0;
        let refuse = |item| Refused { item, problem: "the server refuses it".to_owned() };
        let refused = (0..16).filter(is_refused).map(refuse).collect();
        Written { count: self.matched.into(), refused }
    }
}

/// A protocol with documents, runs of workers, and requests of clients.
pub trait Protocol {
    /// The requests of its workers.
    type Request: Clone + Debug;

    /// The documents at the start.
    fn opening(&self) -> Books;

    /// How many runs there are. The run with this number is the last worker: it starts when all
    /// others are dead, meets no fault, and must bring everything to its end.
    fn runs(&self) -> usize;

    /// The first run that differs from this one only in its number.
    fn twin(&self, run: usize) -> usize;

    /// Requests of clients. They are on their way from the start, and nobody waits for their
    /// answers.
    fn clients(&self) -> Vec<Self::Request>;

    /// What a run does next after these events, and what it has looked at since the last of them.
    fn next(&self, run: usize, heard: &[Heard]) -> (Next<Self::Request>, Looked);

    /// The part of an event that can matter to a run later: two runs that remember the same and do
    /// the same next are taken as equal. `lost` is the request that failed.
    fn remembered(&self, heard: &Heard, lost: Option<&Self::Request>) -> String;

    /// Whether a request that has not started can't take effect any more.
    fn is_dead(&self, request: &Self::Request, now: i64) -> bool;

    /// How many documents a request touches, one after the other.
    fn steps(&self, request: &Self::Request) -> usize;

    /// Whether time may pass between a request's start, which fixes its clock, and its first write.
    fn dwells(&self, request: &Self::Request) -> bool;

    /// Whether a request writes nothing.
    fn is_read(&self, request: &Self::Request) -> bool;

    /// Whether the server ends a request that takes longer than an operation may.
    fn is_limited(&self, request: &Self::Request) -> bool;

    /// What a request reads in this step and needs in a later one.
    fn snapshot(&self, books: &Books, request: &Self::Request, step: usize) -> Option<Books>;

    /// Runs one step of a request, and has read this before.
    fn step(
        &self,
        books: &mut Books,
        request: &Self::Request,
        step: usize,
        clock: StepClock,
        snapshot: Option<&Books>,
    ) -> Stepped;

    /// The answer to a request when all its steps have run: at this moment, or for one that is not
    /// limited as of its start.
    fn reply(
        &self,
        books: &Books,
        request: &Self::Request,
        tally: Tally,
        now: i64,
        snapshot: Option<&Books>,
    ) -> Reply;

    /// Violations of rules that hold at every moment.
    fn wrong_now(&self, books: &Books) -> Vec<String>;

    /// A request as text for a trace.
    fn describe(&self, request: &Self::Request) -> String;
}

/// The clocks of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepClock {
    /// When the request started.
    pub started: u8,
    /// What the step itself sees: the request's start; of a request that is not limited, which is
    /// many statements, the time of the step.
    pub now: u8,
}

/// The bounds of a search. Everything within them is visited.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The clock's last moment.
    pub horizon: u8,
    /// How many requests may lose their answer, or arrive after their client has given up.
    pub losses: u8,
    /// How long a request may run after its start.
    pub op_limit: u8,
    /// Whether an answer may take time to arrive, if the worker looks at its clock when it arrives.
    /// Otherwise answers arrive at once, and the next request may take time instead.
    pub late_answers: bool,
}
