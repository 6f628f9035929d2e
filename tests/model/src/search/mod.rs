//! Exhaustive search of small scopes: every interleaving of the engine's steps, within bounds.
//!
//! The simulator picks schedules by chance; here all of them are visited, for few transactions and
//! few runs of workers. The engine is the real one. What it does next depends only on the answers
//! that it has received, so a state is: the documents, the time, the answers and the open request
//! of each run, and the requests that nobody waits for any more. In every state visited, marks and
//! states must explain the money, no floor may be broken, and one last worker, which starts after
//! all others have died, must bring everything to an end in which the invariants of
//! `ARCHITECTURE.md` hold.
//!
//! - `scope`, `choosing`, `ending`, `holding`, `expiring`: what is searched, and how far.
//! - `engine`, `keys`, `articles`: the protocols that are put through it. `clock`: a worker's
//!   environment.
//! - `protocol`: what they have in common.
//! - `explore`, `state`: breadth first through the states; what can happen in one.
//! - `runs`, `intern`: histories and documents as numbers, so that a state is a few bytes.
//! - `rest`: the rules. `trace`: the way to a state, for people.
//!
//! Each scope bounds the runs, the last moment of the clock, and the requests that lose their
//! answer. Fail-overs (the store has one copy here) and the broker are left out; the simulator has
//! both. A read of several documents is one step.
//! The explorer is our own and not the crate `stateright`: that crate needs every state as a whole,
//! while most parts of our states are shared between states, and it brings a web server.

mod articles;
mod choosing;
mod clock;
mod ending;
mod engine;
mod expiring;
mod explore;
mod holding;
mod intern;
mod keys;
mod protocol;
mod rest;
mod runs;
mod scope;
mod state;
mod trace;

pub use articles::{ARTICLES, Articles};
pub use engine::Tandem;
pub use explore::{Found, Violation, search};
pub use keys::{KEYS, KeyFault, Keys};
pub use protocol::Bounds;
pub use scope::{Client, Scope};
