//! A state of the whole system, and what can happen in it.
//!
//! Owns the rules of the world: what may happen to a request on its way, when time may pass, what a
//! run may receive. A worker that crashes, or stalls for ever, is a worker to which nothing more
//! happens, so it needs no rule; the same holds for a request that never arrives.

use std::collections::HashMap;

use super::intern::Interner;
use super::protocol::{Bounds, Next, Protocol, Tally};
use super::runs::{Hears, Runs};
use crate::sim::model::Books;
use crate::sim::server::Stepped;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Between client and store.
    OnTheWay,
    /// Being executed, document by document, on the clock of its start.
    Running { started: u8, next: u8, tally: Tally },
    /// Executed; its answer is on the way back.
    Executed { reply: u32 },
    /// It goes on alone; its run has not noticed yet.
    Lost,
}

/// A run of a worker: its history, and where its request is. `None` if it has ended.
pub type Run = Option<(u32, Stage)>;

/// One state of the world that is searched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The time.
    pub now: u8,
    /// How many more requests may lose their answer.
    pub losses: u8,
    /// The documents.
    pub books: u32,
    /// The runs.
    pub runs: Box<[Run]>,
    /// Requests that nobody waits for, sorted.
    pub adrift: Vec<(u32, Stage)>,
}

/// Who waits for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A run.
    Run(usize),
    /// Nobody.
    Adrift(usize),
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A request starts, or has its next document written.
    Proceed(Whose),
    /// An answer arrives.
    Answer(usize),
    /// The connection of a run breaks: its request goes on alone.
    Lose(usize),
    /// The run notices that, if it does not notice at once.
    Notice(usize),
    /// A run has slept long enough.
    Wake(usize),
    /// Time passes.
    Tick,
}

/// The system whose states are searched.
#[derive(Debug)]
pub struct World<'a, P: Protocol> {
    /// What is searched.
    pub protocol: &'a P,
    /// The bounds.
    pub bounds: Bounds,
    /// The runs by their histories.
    pub runs: Runs<P::Request>,
    /// The documents by number.
    pub books: Interner<Books>,
    steps: HashMap<(u32, u32, u8, u8), (u32, Stepped)>,
}

impl<'a, P: Protocol> World<'a, P> {
    /// A world, and its first state.
    pub fn new(protocol: &'a P, bounds: Bounds) -> (World<'a, P>, State) {
        let mut runs = Runs::new(protocol);
        let mut books = Interner::default();
        let clients = protocol.clients();
        let mut adrift: Vec<_> = clients
            .into_iter()
            .map(|request| (runs.requests.number(request), Stage::OnTheWay))
            .collect();
        adrift.sort_unstable();
        let first = State {
            now: 0,
            losses: bounds.losses,
            books: books.number(protocol.opening()),
            runs: (0..protocol.runs() as u32).map(|run| Some((run, Stage::OnTheWay))).collect(),
            adrift,
        };
        (World { protocol, bounds, runs, books, steps: HashMap::new() }, first)
    }

    /// Everything that can happen next, with the state after it.
    pub fn successors(&mut self, state: &State) -> Vec<(Action, State)> {
        let mut next = Vec::new();
        for run in 0..state.runs.len() {
            let Some((node, stage)) = state.runs[run] else { continue };
            if self.waits_for_its_twin(state, run) {
                continue;
            }
            match (self.runs.next(node), stage) {
                (Next::Over, _) => {}
                (Next::Sleep, _) => {
                    let heard = self.heard(state, run, node, Hears::Awake);
                    next.push((Action::Wake(run), heard));
                }
                (Next::Request(_), Stage::Executed { reply }) => {
                    let heard = self.heard(state, run, node, Hears::Answer(reply));
                    next.push((Action::Answer(run), heard));
                }
                (Next::Request(_), Stage::Lost) => {
                    let heard = self.heard(state, run, node, Hears::Lost);
                    next.push((Action::Notice(run), heard));
                }
                (Next::Request(request), Stage::OnTheWay | Stage::Running { .. }) => {
                    self.proceed(state, Whose::Run(run), request, stage, &mut next);
                    if stage == Stage::OnTheWay && state.losses > 0 {
                        next.push((Action::Lose(run), self.lost(state, run, node, request)));
                    }
                }
            }
        }
        for (index, (request, stage)) in state.adrift.iter().enumerate() {
            if index == 0 || state.adrift[index - 1] != state.adrift[index] {
                self.proceed(state, Whose::Adrift(index), *request, *stage, &mut next);
            }
        }
        next.extend(self.tick(state).map(|later| (Action::Tick, later)));
        next
    }

    /// Runs that differ only in their number begin in the order of their numbers.
    fn waits_for_its_twin(&self, state: &State, run: usize) -> bool {
        let untouched = |run: usize| state.runs[run] == Some((run as u32, Stage::OnTheWay));
        let twin = self.protocol.twin(run);
        untouched(run)
            && (twin..run).any(|other| self.protocol.twin(other) == twin && untouched(other))
    }

    fn proceed(
        &mut self,
        state: &State,
        whose: Whose,
        request: u32,
        stage: Stage,
        next: &mut Vec<(Action, State)>,
    ) {
        let asked = self.runs.requests.value(request);
        let (started, step, tally) = match stage {
            Stage::OnTheWay if self.protocol.dwells(asked) => {
                let stage = Stage::Running { started: state.now, next: 0, tally: Tally::default() };
                next.push((Action::Proceed(whose), moved(state, whose, Some(stage))));
                return;
            }
            Stage::OnTheWay => (state.now, 0, Tally::default()),
            Stage::Running { started, .. } if state.now - started > self.bounds.op_limit => return,
            Stage::Running { started, next, tally } => (started, next, tally),
            Stage::Executed { .. } | Stage::Lost => return,
        };
        let steps = self.protocol.steps(asked);
        let (books, stepped) = self.step(state.books, request, step, started);
        let tally = tally.and(step, stepped);
        let mut after = if usize::from(step) + 1 < steps {
            let stage = Stage::Running { started, next: step + 1, tally };
            moved(state, whose, Some(stage))
        } else if let Whose::Run(run) = whose {
            return self.executed(state, run, (request, books, tally), next);
        } else {
            moved(state, whose, None)
        };
        after.books = books;
        next.push((Action::Proceed(whose), after));
    }

    /// The request of a run is executed. Its answer arrives at once if the run does not look at its
    /// clock, because a later arrival would make no difference, and if the bounds say so.
    fn executed(
        &mut self,
        state: &State,
        run: usize,
        (request, books, tally): (u32, u32, Tally),
        next: &mut Vec<(Action, State)>,
    ) {
        let asked = self.runs.requests.value(request);
        let documents = self.books.value(books);
        let reply = self.protocol.reply(documents, asked, tally, state.now.into());
        let reply = self.runs.replies.number(reply);
        let Some((node, _)) = state.runs[run] else { return };
        let hears = Hears::Answer(reply);
        let apart =
            self.bounds.late_answers && self.runs.looks(self.protocol, node, hears, state.now);
        let mut after = if apart {
            moved(state, Whose::Run(run), Some(Stage::Executed { reply }))
        } else {
            self.heard(state, run, node, hears)
        };
        after.books = books;
        next.push((Action::Proceed(Whose::Run(run)), after));
    }

    /// A run will not get its answer: its request goes on alone. Deciding that when the request is
    /// sent covers every later moment, because a request that goes on alone can still do
    /// everything.
    fn lost(&mut self, state: &State, run: usize, node: u32, request: u32) -> State {
        let mut after = if self.runs.looks(self.protocol, node, Hears::Lost, state.now) {
            moved(state, Whose::Run(run), Some(Stage::Lost))
        } else {
            self.heard(state, run, node, Hears::Lost)
        };
        after.losses -= 1;
        if !self.protocol.is_read(self.runs.requests.value(request)) {
            after.adrift.push((request, Stage::OnTheWay));
            after.adrift.sort_unstable();
        }
        after
    }

    /// A run receives an event. A run that does not look at its clock also wakes up at once.
    fn heard(&mut self, state: &State, run: usize, node: u32, hears: Hears) -> State {
        let mut child = self.runs.hear(self.protocol, node, hears, state.now);
        while self.runs.next(child) == Next::Sleep
            && !self.runs.looks(self.protocol, child, Hears::Awake, state.now)
        {
            child = self.runs.hear(self.protocol, child, Hears::Awake, state.now);
        }
        let mut after = state.clone();
        after.runs[run] = match self.runs.next(child) {
            Next::Over => None,
            Next::Request(_) | Next::Sleep => Some((child, Stage::OnTheWay)),
        };
        after
    }

    /// Time passes only after something has happened: before that, it makes no difference.
    fn tick(&self, state: &State) -> Option<State> {
        let begun = state.books != 0 || state.losses < self.bounds.losses;
        let busy = state.runs.iter().any(Option::is_some) || !state.adrift.is_empty();
        if state.now >= self.bounds.horizon || !begun || !busy {
            return None;
        }
        let mut later = state.clone();
        later.now += 1;
        later.adrift.retain(|(request, stage)| match stage {
            Stage::OnTheWay => {
                let request = self.runs.requests.value(*request);
                !self.protocol.is_dead(request, later.now.into())
            }
            Stage::Running { started, .. } => later.now - started <= self.bounds.op_limit,
            Stage::Executed { .. } | Stage::Lost => true,
        });
        Some(later)
    }

    /// Runs one step of a request on the documents; returns the new documents, and what the step
    /// did.
    pub fn step(&mut self, books: u32, request: u32, step: u8, started: u8) -> (u32, Stepped) {
        let key = (books, request, step, started);
        if let Some(known) = self.steps.get(&key) {
            return *known;
        }
        let mut documents = self.books.value(books).clone();
        let asked = self.runs.requests.value(request);
        let stepped = self.protocol.step(&mut documents, asked, step.into(), started.into());
        let after = (self.books.number(documents), stepped);
        self.steps.insert(key, after);
        after
    }
}

/// The state with a request at another stage, or without it.
fn moved(state: &State, whose: Whose, stage: Option<Stage>) -> State {
    let mut after = state.clone();
    match (whose, stage) {
        (Whose::Run(run), Some(stage)) => {
            after.runs[run] = after.runs[run].map(|(node, _)| (node, stage));
        }
        (Whose::Run(run), None) => after.runs[run] = None,
        (Whose::Adrift(index), Some(stage)) => after.adrift[index].1 = stage,
        (Whose::Adrift(index), None) => drop(after.adrift.remove(index)),
    }
    after.adrift.sort_unstable();
    after
}
