//! The protocol over a model of its servers: simulated by chance ([`sim`]), searched in full
//! ([`search`]).
//!
//! - `cargo run --release -p model --bin simulate -- --seeds 100000`: random schedules.
//! - `cargo run --release -p model --bin search`: every interleaving of small scopes.
//! - `tests/model/tests/conformance`: the model answers as a real MongoDB does, sequence by
//!   sequence.

pub mod search;
pub mod sim;
