//! Proxies between a program and its servers: the network as the programs must survive it.
//!
//! [`MongoProxy`] understands where messages begin and end and which of Tandem's operations they
//! are, so that a test can hold, lose or delay exactly one. [`ByteProxy`] knows bytes only: it
//! cuts, or falls silent. Both can refuse everybody for a while. Nothing in the programs knows.

mod bytes;
mod gate;
mod listener;
mod mongodb;
mod wire;

pub use bytes::ByteProxy;
pub use gate::Held;
pub use mongodb::{MongoProxy, Part};
