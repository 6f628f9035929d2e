//! The overview: what operators look at first.
//!
//! - [`types`]: what is told, as JSON says it (an example is beside it, in `example.json`).
//! - `flow`, `latency`: from what workers have counted to rates and percentiles; `problems`: what is wrong, in words;
//!   `knowledge`: all that is known of both servers, and how old it is. These are pure.
//! - `look`: the questions to the database. [`Sampler`]: one look for all viewers.

mod example;
mod flow;
mod knowledge;
mod latency;
mod look;
mod problems;
mod sampler;
pub mod types;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use example::example;
pub use flow::STEPS_MAX;
pub use knowledge::EVERY;
pub use problems::duration;
pub use sampler::{Answers, Sampler};
