//! What the search needs to know of a protocol: workers that talk to a store in requests.
//!
//! Owns the vocabulary between [`super::explore`] and the protocols put through it: the real engine
//! ([`super::engine`]) and the articles' pattern ([`super::articles`]). A run of a worker has no
//! state of its own here: it is a function of what it has heard so far.

use std::fmt::Debug;

use common::ledger::{Refused, Written};

use crate::sim::model::Books;
use crate::sim::request::Reply;
use crate::sim::server::Stepped;

/// What a run has heard at one moment, and when.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The time.
    pub at: i64,
    /// What.
    pub what: What,
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

/// What the steps of a request have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tally {
    /// How many documents matched.
    pub matched: u8,
    /// Which steps' documents were refused, a bit a step.
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

    /// As the ledger tells it.
    #[must_use]
    pub fn written(self) -> Written {
        let is_refused = |item: &usize| self.refused & (1 << item) != 0;
        let refuse = |item| Refused { item, problem: "the server refuses it".to_owned() };
        let refused = (0..16).filter(is_refused).map(refuse).collect();
        Written { count: self.matched.into(), refused }
    }
}

/// A protocol with everything that takes part: documents, runs of workers, requests of clients.
pub trait Protocol {
    /// What its workers ask of the store.
    type Request: Clone + Debug;

    /// The documents at the start.
    fn opening(&self) -> Books;

    /// How many runs there are. The run of this number is the last worker's, which comes when all
    /// others are dead, meets no fault, and is to bring everything to its end.
    fn runs(&self) -> usize;

    /// The first run that differs from this one in nothing but its number.
    fn twin(&self, run: usize) -> usize;

    /// Requests of clients, on their way from the start; nobody waits for their answers.
    fn clients(&self) -> Vec<Self::Request>;

    /// What a run does after what it has heard, and whether it has looked at its clock since the
    /// last of that.
    fn next(&self, run: usize, heard: &[Heard]) -> (Next<Self::Request>, bool);

    /// What of something heard can matter to a run later, beside what it does next: two runs that
    /// remember the same and do the same are taken as equal. `lost` is the request that failed.
    fn remembered(&self, heard: &Heard, lost: Option<&Self::Request>) -> String;

    /// Whether a request that has not started can't take effect any more.
    fn is_dead(&self, request: &Self::Request, now: i64) -> bool;

    /// How many documents a request touches, one after the other.
    fn steps(&self, request: &Self::Request) -> usize;

    /// Whether time may pass between a request's start, which fixes its clock, and its first write.
    fn dwells(&self, request: &Self::Request) -> bool;

    /// Whether a request writes nothing.
    fn is_read(&self, request: &Self::Request) -> bool;

    /// Runs one step of a request that started at this time.
    fn step(
        &self,
        books: &mut Books,
        request: &Self::Request,
        step: usize,
        started: i64,
    ) -> Stepped;

    /// What a request answers when all its steps have run.
    fn reply(&self, books: &Books, request: &Self::Request, tally: Tally, now: i64) -> Reply;

    /// What must not be, at any moment.
    fn wrong_now(&self, books: &Books) -> Vec<String>;

    /// A request for the reader of a trace.
    fn describe(&self, request: &Self::Request) -> String;
}

/// What bounds a search: all else is visited.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The clock's last moment.
    pub horizon: u8,
    /// How many requests may lose their answer, or arrive after their client has given up.
    pub losses: u8,
    /// How long a request may run after its start.
    pub op_limit: u8,
    /// Whether answers take any time, too, where the worker looks at its clock when one arrives;
    /// else they arrive at once, and what takes its time is the next request.
    pub late_answers: bool,
}
