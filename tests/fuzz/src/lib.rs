//! Odd inputs for everything that reads what others write.
//!
//! - [`run`]: replays a corpus, then makes inputs of one's kind and judges what becomes of them.
//! - [`tree`]: objects, lists and leaves, as JSON or BSON have them, and how to spoil them.
//! - [`json`], [`bson`]: leaves, and how a tree is written. [`bytes`]: how to spoil bytes.
//! - [`transfers`]: transfers and accounts as a careful program writes them, to be spoiled.
//! - [`judge`]: what must hold of whatever was accepted, and how much memory reading may take.
//!
//! An input is bytes, whatever it stands for. One number decides each input, so a run with the same
//! numbers makes the same inputs. An input that fails is made smaller, kept in the corpus by the
//! test that found it, and replayed first from then on.

pub mod bson;
pub mod bytes;
mod corpus;
pub mod json;
pub mod judge;
mod runner;
pub mod transfers;
pub mod tree;

pub use runner::{Verdict, run};
