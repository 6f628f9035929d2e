//! The search: breadth first from the first state, so that each trace that it finds is a shortest
//! one.
//!
//! Owns the set of visited states, as fingerprints of 64 bits with their predecessors. Among ten
//! million states, two have the same fingerprint with a probability of one in 300,000. A trace is
//! made by following the fingerprints back and then running the actions forward.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::{Duration, Instant};

use super::protocol::{Bounds, Protocol};
use super::rest::Verdicts;
use super::state::{State, World};
use super::trace;

/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(5);

/// How far a search has come, or how it ended.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// States visited.
    pub states: u64,
    /// Transitions between them.
    pub transitions: u64,
    /// The greatest number of steps on a shortest way to a state.
    pub depth: u32,
    /// How many different contents of the documents there were.
    pub contents: usize,
    /// How many different histories of runs there were.
    pub histories: usize,
    /// How long it took.
    pub seconds: f64,
    /// The violation at the end of a shortest way to it, if there is one.
    pub violation: Option<Violation>,
}

/// A rule broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which rule, and how it is broken.
    pub what: Vec<String>,
    /// The steps that lead there, one a line.
    pub trace: Vec<String>,
}

type Visited = HashMap<u64, u64, BuildHasherDefault<DefaultHasher>>;

fn fingerprint(state: &State) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state)
}

/// Visits every state within the bounds, or stops at the first that breaks a rule.
pub fn search<P: Protocol>(
    protocol: &P,
    bounds: Bounds,
    mut progress: impl FnMut(&Found),
) -> Found {
    let begun = Instant::now();
    let (mut world, first) = World::new(protocol, bounds);
    let mut verdicts = Verdicts::default();
    let mut visited = Visited::default();
    let mut found = Found { states: 1, ..Found::default() };
    let mut told = begun;
    visited.insert(fingerprint(&first), 0);
    let mut level = vec![first.clone()];
    'levels: while !level.is_empty() {
        let mut below = Vec::new();
        for state in level {
            let from = fingerprint(&state);
            for (_, next) in world.successors(&state) {
                found.transitions += 1;
                let to = fingerprint(&next);
                let Entry::Vacant(unseen) = visited.entry(to) else { continue };
                unseen.insert(from);
                found.states += 1;
                if let Some(what) = verdicts.wrong(&mut world, next.books) {
                    let trace = trace::lines(&mut world, &first, &way(&visited, to), fingerprint);
                    found.violation = Some(Violation { what, trace });
                    break 'levels;
                }
                below.push(next);
            }
            if told.elapsed() > PROGRESS {
                told = Instant::now();
                found.seconds = begun.elapsed().as_secs_f64();
                progress(&found);
            }
        }
        found.depth += u32::from(!below.is_empty());
        level = below;
    }
    found.contents = world.books.len();
    found.histories = world.runs.len();
    found.seconds = begun.elapsed().as_secs_f64();
    found
}

/// The fingerprints on the way to a state, without the first.
fn way(visited: &Visited, to: u64) -> Vec<u64> {
    let mut way = vec![to];
    while let Some(from) = visited.get(&way[way.len() - 1]).filter(|from| **from != 0) {
        way.push(*from);
    }
    way.pop();
    way.reverse();
    way
}
