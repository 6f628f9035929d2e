//! The deterministic simulator: the real engines over a model of database and queue.
//!
//! One seed decides everything: who runs when, what crashes, stalls, gets lost, arrives late or
//! twice, which clock is off, which member fails. After each run everything comes to rest, and the
//! invariants of `ARCHITECTURE.md` are checked. The floor is checked at every step. Every
//! acknowledgement is checked not to come too early. Documents that can't be written or read must
//! not affect others: see `odd` and `rest`.

mod accounts;
mod broker;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod ending;
mod event;
mod holds;
pub mod journal;
pub mod keyed;
mod keyed_calls;
mod lag;
mod ledger;
mod mishap;
pub mod model;
mod moments;
pub(crate) mod native;
pub mod odd;
mod operation;
mod order;
mod planted;
mod replication;
pub mod request;
mod rest;
mod scenario;
pub mod server;
mod staff;
pub mod submit;
mod world;

use std::sync::Arc;

use worker::metrics::Metrics;

pub use planted::Planted;
pub use world::{Coverage, Report};

/// Runs one schedule.
#[must_use]
pub fn run(seed: u64, planted: Option<Planted>, trace: bool, metrics: &Arc<Metrics>) -> Report {
    world::World::new(seed, planted, trace, metrics).run()
}
