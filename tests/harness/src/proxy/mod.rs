//! Proxies between a program and its servers: the network as the programs must survive it.
//!
//! [`MongoProxy`] understands where messages begin and end and which of Tandem's operations they
//! are, so that a test can hold, lose or delay exactly one. [`ByteProxy`] knows bytes only: it
//! cuts, slows down, or falls silent. [`ReplicaProxy`] does so before a whole replica set, whose
//! clients go on finding the primary. All can refuse everybody for a while. Nothing in the programs
//! knows.

mod bytes;
mod gate;
mod listener;
mod mongodb;
mod replica;
mod wire;

pub use bytes::ByteProxy;
pub use gate::Held;
pub use mongodb::{MongoProxy, Part};
pub use replica::ReplicaProxy;
