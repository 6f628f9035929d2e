//! The runs of workers as a tree: a node is the history of a run, and what the run does next.
//!
//! Owns the replaying. Runs with the same history do the same, so each history is replayed once,
//! however many states it is part of. Histories share a node if they differ only in things that do
//! not matter by [`Protocol::remembered`]. This is checked: a node keeps several of its histories,
//! replays all of them, and panics if they do not agree.

use std::collections::HashMap;
use std::fmt::Debug;

use super::intern::Interner;
use super::protocol::{Heard, Looked, Next, Protocol, What};
use crate::sim::request::Reply;

/// How many histories of a node are replayed.
const WITNESSES_MAX: usize = 3;

/// What a run hears, with the answer as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hears {
    /// See [`What::Answer`].
    Answer(u32),
    /// See [`What::Lost`].
    Lost,
    /// See [`What::Awake`].
    Awake,
}

/// An event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// What it hears.
    pub hears: Hears,
    /// See [`Heard::native`]. True where it does not choose.
    pub native: bool,
}

/// The events of a run and their times, oldest first.
type History = Vec<(Event, u8)>;

#[derive(Debug)]
struct Node {
    run: usize,
    next: Next<u32>,
    /// What its histories remember, by the protocol, oldest first.
    remembered: Vec<u32>,
    witnesses: Vec<History>,
    inputs: Vec<(Event, u8)>,
}

/// The histories of all runs met so far.
#[derive(Debug)]
pub struct Runs<R> {
    nodes: Vec<Node>,
    numbers: HashMap<(usize, Vec<u32>, Next<u32>), u32>,
    /// The next node by node and event; also by time, if the run looks at its clock then.
    children: HashMap<(u32, Event, Option<u8>), u32>,
    looks: HashMap<(u32, Event), Looked>,
    memories: Interner<String>,
    /// The requests by number.
    pub requests: Interner<R>,
    /// The answers by number.
    pub replies: Interner<Reply>,
}

impl<R: Clone + Debug> Runs<R> {
    /// The tree with a root for each run, the last worker's included.
    pub fn new<P: Protocol<Request = R>>(protocol: &P) -> Runs<R> {
        let mut runs = Runs {
            nodes: Vec::new(),
            numbers: HashMap::new(),
            children: HashMap::new(),
            looks: HashMap::new(),
            memories: Interner::default(),
            requests: Interner::default(),
            replies: Interner::default(),
        };
        for run in 0..=protocol.runs() {
            let (next, _) = runs.replay(protocol, run, &[]);
            runs.node(run, Vec::new(), next);
        }
        runs
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What a run does next.
    pub fn next(&self, node: u32) -> Next<u32> {
        self.nodes[node as usize].next
    }

    /// What a run that hears this looks at before it does anything else.
    pub fn looks<P>(&mut self, protocol: &P, node: u32, hears: Hears, now: u8) -> Looked
    where
        P: Protocol<Request = R>,
    {
        let event = Event { hears, native: true };
        self.hear(protocol, node, event, now);
        self.looks[&(node, event)]
    }

    /// Whether a run has chosen its way when it heard this.
    pub fn chooses(&self, node: u32, event: Event) -> bool {
        self.looks.get(&(node, event)).is_some_and(|looked| looked.choice)
    }

    /// The run after it has received this now.
    pub fn hear<P>(&mut self, protocol: &P, node: u32, event: Event, now: u8) -> u32
    where
        P: Protocol<Request = R>,
    {
        if let Some(looked) = self.looks.get(&(node, event))
            && let Some(child) = self.children.get(&(node, event, looked.clock.then_some(now)))
        {
            return *child;
        }
        let mut children = Vec::new();
        for witness in 0..self.nodes[node as usize].witnesses.len() {
            children.push(self.follow(protocol, node, witness, (event, now)));
        }
        assert!(children.windows(2).all(|two| two[0] == two[1]), "{}", self.differ(node));
        let (child, looked) = children[0];
        self.looks.insert((node, event), looked);
        self.children.insert((node, event, looked.clock.then_some(now)), child);
        self.nodes[node as usize].inputs.push((event, now));
        for witness in 0..self.nodes[node as usize].witnesses.len() {
            let mut history = self.nodes[node as usize].witnesses[witness].clone();
            history.push((event, now));
            self.bear_witness(protocol, child, history);
        }
        child
    }

    /// The next node of a node, by one of its histories.
    fn follow<P>(
        &mut self,
        protocol: &P,
        node: u32,
        witness: usize,
        last: (Event, u8),
    ) -> (u32, Looked)
    where
        P: Protocol<Request = R>,
    {
        let Node { run, next: asked, remembered, witnesses, .. } = &self.nodes[node as usize];
        let (run, mut remembered) = (*run, remembered.clone());
        let mut history = witnesses[witness].clone();
        history.push(last);
        let lost = match (last.0.hears, asked) {
            (Hears::Lost, Next::Request(request)) => Some(self.requests.value(*request)),
            _ => None,
        };
        let mut memory = protocol.remembered(&self.heard(last), lost);
        let (next, looked) = self.replay(protocol, run, &history);
        if looked.choice {
            memory += if last.0.native { ", goes natively" } else { ", goes in two phases" };
        }
        remembered.push(self.memories.number(memory));
        (self.node(run, remembered, next), looked)
    }

    /// Adds a history to a node. It must lead to the same next step as the others.
    fn bear_witness<P>(&mut self, protocol: &P, node: u32, history: History)
    where
        P: Protocol<Request = R>,
    {
        let of_node = &mut self.nodes[node as usize];
        if of_node.witnesses.len() >= WITNESSES_MAX || of_node.witnesses.contains(&history) {
            return;
        }
        of_node.witnesses.push(history);
        let witness = of_node.witnesses.len() - 1;
        for (event, now) in of_node.inputs.clone() {
            let (child, looked) = self.follow(protocol, node, witness, (event, now));
            let known = self.children.get(&(node, event, looked.clock.then_some(now)));
            assert!(known == Some(&child), "{}", self.differ(node));
        }
    }

    fn differ(&self, node: u32) -> String {
        let Node { witnesses, remembered, .. } = &self.nodes[node as usize];
        let told: Vec<_> = remembered.iter().map(|memory| self.memories.value(*memory)).collect();
        let heard: Vec<Vec<Heard>> = witnesses
            .iter()
            .map(|history| history.iter().map(|last| self.heard(*last)).collect())
            .collect();
        format!("runs that remember the same differ: {told:#?} {heard:#?}")
    }

    fn replay<P>(
        &mut self,
        protocol: &P,
        run: usize,
        history: &[(Event, u8)],
    ) -> (Next<u32>, Looked)
    where
        P: Protocol<Request = R>,
    {
        let history: Vec<_> = history.iter().map(|last| self.heard(*last)).collect();
        let (next, looked) = protocol.next(run, &history);
        let next = match next {
            Next::Request(request) => Next::Request(self.requests.number(request)),
            Next::Sleep => Next::Sleep,
            Next::Over => Next::Over,
        };
        (next, looked)
    }

    fn node(&mut self, run: usize, remembered: Vec<u32>, next: Next<u32>) -> u32 {
        let number = u32::try_from(self.nodes.len()).expect("fewer than 2^32 histories");
        let root = remembered.is_empty();
        *self.numbers.entry((run, remembered.clone(), next)).or_insert_with(|| {
            let witnesses = if root { vec![Vec::new()] } else { Vec::new() };
            self.nodes.push(Node { run, next, remembered, witnesses, inputs: Vec::new() });
            number
        })
    }

    fn heard(&self, (event, now): (Event, u8)) -> Heard {
        let what = match event.hears {
            Hears::Answer(reply) => What::Answer(self.replies.value(reply).clone()),
            Hears::Lost => What::Lost,
            Hears::Awake => What::Awake,
        };
        Heard { at: i64::from(now), what, native: event.native }
    }
}
