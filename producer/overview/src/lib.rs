#![doc = include_str!("../README.md")]

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
