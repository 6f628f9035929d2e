//! A state of the whole system, and what can happen in it.
//!
//! Owns the rules of the world: what may happen to a request on its way, when time may pass, what a
//! run may receive. A worker that crashes, or stalls for ever, is a worker to which nothing more
//! happens, so it needs no rule; the same holds for a request that never arrives.

use std::collections::HashMap;

use super::intern::Interner;
use super::protocol::{Bounds, Looked, Next, Protocol, StepClock, Tally};
use super::runs::{Event, Hears, Runs};
use crate::sim::model::Books;
use crate::sim::server::Stepped;

/// How far a request has come that is being executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Progress {
    /// When it started.
    pub started: u8,
    /// The step that comes next.
    pub next: u8,
    /// What the steps before did.
    pub tally: Tally,
    /// What it has read and needs later, by number.
    pub snapshot: Option<u32>,
}

impl Progress {
    /// A request that starts now.
    #[must_use]
    pub fn start(now: u8) -> Progress {
        Progress { started: now, next: 0, tally: Tally::default(), snapshot: None }
    }
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Between client and store.
    OnTheWay,
    /// Being executed, document by document, on the clock of its start.
    Running(Progress),
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
    /// The connection of a run breaks: its request goes on alone.
    Lose(usize),
    /// A run hears an answer, notices that it gets none, or has slept long enough. Where the engine
    /// chooses, it goes one of two ways.
    Hear(usize, Event),
    /// Time passes.
    Tick,
}

/// What a step leads to: the documents, what it did, and what its request has read.
type Step = (u32, Stepped, Option<u32>);

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
    /// What requests have read, by number.
    snapshots: Interner<Books>,
    steps: HashMap<(u32, u32, Progress, StepClock), Step>,
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
        let (snapshots, steps) = (Interner::default(), HashMap::new());
        (World { protocol, bounds, runs, books, snapshots, steps }, first)
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
                (Next::Sleep, _) => self.hears(state, run, Hears::Awake, &mut next),
                (Next::Request(_), Stage::Executed { reply }) => {
                    self.hears(state, run, Hears::Answer(reply), &mut next);
                }
                (Next::Request(_), Stage::Lost) => {
                    self.hears(state, run, Hears::Lost, &mut next);
                }
                (Next::Request(request), Stage::OnTheWay | Stage::Running(_)) => {
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
        let progress = match stage {
            Stage::OnTheWay if self.protocol.dwells(asked) => {
                let stage = Stage::Running(Progress::start(state.now));
                next.push((Action::Proceed(whose), moved(state, whose, Some(stage))));
                return;
            }
            Stage::OnTheWay => Progress::start(state.now),
            Stage::Running(progress) if self.is_cut_off(request, progress, state.now) => return,
            Stage::Running(progress) => progress,
            Stage::Executed { .. } | Stage::Lost => return,
        };
        let steps = self.protocol.steps(asked);
        let (books, progress) = self.step(state.books, request, progress, state.now);
        let mut after = if usize::from(progress.next) < steps {
            moved(state, whose, Some(Stage::Running(progress)))
        } else if let Whose::Run(run) = whose {
            return self.executed(state, run, (request, books, progress), next);
        } else {
            moved(state, whose, None)
        };
        after.books = books;
        next.push((Action::Proceed(whose), after));
    }

    /// Whether a request has run for too long, so that the server has ended it.
    fn is_cut_off(&self, request: u32, progress: Progress, now: u8) -> bool {
        let request = self.runs.requests.value(request);
        now - progress.started > self.bounds.op_limit && self.protocol.is_limited(request)
    }

    /// The request of a run is executed. Its answer arrives at once if the run does not look at its
    /// clock, because a later arrival would make no difference, and if the bounds say so. Where the
    /// run chooses, the arrival is an event of its own.
    fn executed(
        &mut self,
        state: &State,
        run: usize,
        (request, books, progress): (u32, u32, Progress),
        next: &mut Vec<(Action, State)>,
    ) {
        let reply = self.reply(books, request, progress, state.now);
        let Some((node, _)) = state.runs[run] else { return };
        let hears = Hears::Answer(reply);
        let looked = self.runs.looks(self.protocol, node, hears, state.now);
        let mut after = if looked.choice || self.bounds.late_answers && looked.clock {
            moved(state, Whose::Run(run), Some(Stage::Executed { reply }))
        } else {
            self.heard(state, run, node, Event { hears, native: true })
        };
        after.books = books;
        next.push((Action::Proceed(Whose::Run(run)), after));
    }

    /// A run will not get its answer: its request goes on alone. Deciding that when the request is
    /// sent covers every later moment, because a request that goes on alone can still do
    /// everything.
    fn lost(&mut self, state: &State, run: usize, node: u32, request: u32) -> State {
        let looked = self.runs.looks(self.protocol, node, Hears::Lost, state.now);
        let mut after = if looked.choice || looked.clock {
            moved(state, Whose::Run(run), Some(Stage::Lost))
        } else {
            self.heard(state, run, node, Event { hears: Hears::Lost, native: true })
        };
        after.losses -= 1;
        if !self.protocol.is_read(self.runs.requests.value(request)) {
            after.adrift.push((request, Stage::OnTheWay));
            after.adrift.sort_unstable();
        }
        after
    }

    /// Everything that can follow when a run hears this: where it chooses, either way.
    fn hears(&mut self, state: &State, run: usize, hears: Hears, next: &mut Vec<(Action, State)>) {
        let Some((node, _)) = state.runs[run] else { return };
        let looked = self.runs.looks(self.protocol, node, hears, state.now);
        let ways: &[bool] = if looked.choice { &[true, false] } else { &[true] };
        for native in ways {
            let event = Event { hears, native: *native };
            next.push((Action::Hear(run, event), self.heard(state, run, node, event)));
        }
    }

    /// A run receives an event. A run that looks neither at its clock nor which way to go also
    /// wakes up at once.
    fn heard(&mut self, state: &State, run: usize, node: u32, event: Event) -> State {
        let mut child = self.runs.hear(self.protocol, node, event, state.now);
        let awake = Event { hears: Hears::Awake, native: true };
        while self.runs.next(child) == Next::Sleep
            && self.runs.looks(self.protocol, child, Hears::Awake, state.now) == Looked::default()
        {
            child = self.runs.hear(self.protocol, child, awake, state.now);
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
            Stage::Running(progress) => !self.is_cut_off(*request, *progress, later.now),
            Stage::Executed { .. } | Stage::Lost => true,
        });
        Some(later)
    }

    /// Runs the next step of a request on the documents; returns the new documents, and how far the
    /// request has come.
    pub fn step(
        &mut self,
        books: u32,
        request: u32,
        progress: Progress,
        now: u8,
    ) -> (u32, Progress) {
        let Progress { started, next, tally, snapshot } = progress;
        let is_limited = self.protocol.is_limited(self.runs.requests.value(request));
        let clock = StepClock { started, now: if is_limited { started } else { now } };
        let key = (books, request, Progress { tally: Tally::default(), ..progress }, clock);
        let (after, stepped, snapshot) = match self.steps.get(&key) {
            Some(known) => *known,
            None => {
                let mut documents = self.books.value(books).clone();
                let asked = self.runs.requests.value(request);
                let step = next.into();
                let read = self.protocol.snapshot(&documents, asked, step);
                let known = snapshot.map(|number| self.snapshots.value(number));
                let stepped = self.protocol.step(&mut documents, asked, step, clock, known);
                let read = read.map(|read| self.snapshots.number(read));
                let after = (self.books.number(documents), stepped, read.or(snapshot));
                self.steps.insert(key, after);
                after
            }
        };
        (after, Progress { started, next: next + 1, tally: tally.and(next, stepped), snapshot })
    }

    /// The number of the answer to a request that is executed.
    pub fn reply(&mut self, books: u32, request: u32, progress: Progress, now: u8) -> u32 {
        let asked = self.runs.requests.value(request);
        let snapshot = progress.snapshot.map(|number| self.snapshots.value(number));
        let documents = self.books.value(books);
        let now = if self.protocol.is_limited(asked) { now } else { progress.started };
        let reply = self.protocol.reply(documents, asked, progress.tally, now.into(), snapshot);
        self.runs.replies.number(reply)
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
