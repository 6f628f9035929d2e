//! Whether a state can still come to a good end when all workers are dead and a last one starts.
//!
//! Owns the invariants of `ARCHITECTURE.md` as the search checks them: in every state that it
//! visits, not only where a schedule ends. The answer depends on the documents alone, so it is
//! asked once for each different content of them.

use std::collections::HashMap;

use ledger::transaction::TransactionId;

use super::protocol::{Next, Protocol};
use super::runs::{Event, Hears};
use super::state::{Progress, World};
use crate::sim::check;
use crate::sim::model::{self, Books};
use crate::sim::odd::Odd;

/// When the last worker starts: later than any lease, deadline or delay.
pub const LAST_WORKER_AT: u8 = 180;

/// How long it waits before it starts again, if it has to.
const PAUSE: usize = 15;

/// How often it runs before all documents are repaired.
const VISITS_WHILE_ODD: usize = 2;

/// A run that has not ended after so many answers never will.
const ANSWERS_MAX: usize = 500;

/// The rules that the documents break, with their numbers.
#[derive(Debug, Default)]
pub struct Verdicts {
    known: HashMap<u32, bool>,
    at_rest: HashMap<String, bool>,
}

impl Verdicts {
    /// The violations in these documents, now or at the end. Each document content is checked once.
    pub fn wrong<P: Protocol>(&mut self, world: &mut World<P>, books: u32) -> Option<Vec<String>> {
        if self.known.insert(books, true).is_some() {
            return None;
        }
        let documents = world.books.value(books);
        let mut wrong: Vec<_> =
            documents.accounts.values().filter_map(check::below_floor).collect();
        wrong.extend(world.protocol.wrong_now(documents));
        if wrong.is_empty() && self.at_rest.insert(without_owners(documents), true).is_none() {
            wrong = in_the_end(world, books, true);
            if wrong.is_empty() && last_worker_chooses(world) {
                wrong = in_the_end(world, books, false);
            }
        }
        (!wrong.is_empty()).then_some(wrong)
    }
}

/// The documents as they look when every claim has expired.
fn without_owners(books: &Books) -> String {
    let mut books = books.clone();
    for doc in books.transactions.values_mut() {
        doc.claim = None;
        doc.lease_until = 0;
        doc.takeover_at = 0;
    }
    format!("{books:?}")
}

/// Whether there is more than one way for the last worker to begin.
fn last_worker_chooses<P: Protocol>(world: &mut World<P>) -> bool {
    let node = world.protocol.runs() as u32;
    let sleeps = world.runs.next(node) == Next::Sleep;
    sleeps && world.runs.looks(world.protocol, node, Hears::Awake, LAST_WORKER_AT).choice
}

/// The last worker runs while odd documents stay odd; then all are repaired, parked transactions
/// are brought back, and it runs again. Where it chooses, it always goes the same way.
fn in_the_end<P: Protocol>(world: &mut World<P>, mut books: u32, native: bool) -> Vec<String> {
    let mut visits = (LAST_WORKER_AT..u8::MAX).step_by(PAUSE);
    if world.books.value(books).odd != Odd::default() {
        for now in visits.by_ref().take(VISITS_WHILE_ODD) {
            books = visit(world, books, native, now);
        }
        let left = unfinished(world.books.value(books));
        if let Some(id) = left.iter().find(|id| !world.books.value(books).is_parked(id)) {
            return vec![format!("{id} is neither final nor set apart, though somebody came")];
        }
    }
    let mut mended = world.books.value(books).clone();
    mended.odd = Odd::default();
    mended.aside.clear();
    mended.transactions.values_mut().for_each(|doc| doc.parked = None);
    books = world.books.number(mended);
    for now in visits {
        if unfinished(world.books.value(books)).is_empty() {
            break;
        }
        books = without_holds(world, books, now);
        books = visit(world, books, native, now);
    }
    let mut wrong = check::at_rest(world.books.value(books));
    wrong.extend(world.protocol.wrong_now(world.books.value(books)));
    wrong
}

/// The documents after whatever rests was released.
fn without_holds<P: Protocol>(world: &mut World<P>, books: u32, now: u8) -> u32 {
    let mut released = world.books.value(books).clone();
    for doc in released.transactions.values_mut().filter(|doc| doc.state.is_resting()) {
        model::request_cancel(doc, now.into());
    }
    world.books.number(released)
}

fn unfinished(books: &Books) -> Vec<TransactionId> {
    let open = books.transactions.values().filter(|doc| !doc.state.is_final());
    open.map(|doc| doc.id.clone()).collect()
}

/// The last worker processes everything that it can.
fn visit<P: Protocol>(world: &mut World<P>, mut books: u32, native: bool, now: u8) -> u32 {
    let mut node = world.protocol.runs() as u32;
    for _ in 0..ANSWERS_MAX {
        let hears = match world.runs.next(node) {
            Next::Over => break,
            Next::Sleep => Hears::Awake,
            Next::Request(request) => {
                let (after, reply) = execute(world, books, request, now);
                books = after;
                Hears::Answer(reply)
            }
        };
        let looked = world.runs.looks(world.protocol, node, hears, now);
        let event = Event { hears, native: native || !looked.choice };
        node = world.runs.hear(world.protocol, node, event, now);
    }
    books
}

fn execute<P: Protocol>(world: &mut World<P>, books: u32, request: u32, now: u8) -> (u32, u32) {
    let steps = world.protocol.steps(world.runs.requests.value(request));
    let (mut after, mut progress) = (books, Progress::start(now));
    for _ in 0..steps {
        (after, progress) = world.step(after, request, progress, now);
    }
    let reply = world.reply(after, request, progress, now);
    (after, reply)
}
