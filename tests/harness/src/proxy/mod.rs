//! Proxies between a program and its servers: the network as the programs must survive it.
//!
//! [`MongoProxy`] knows where messages begin and end and which of Tandem's operations they are, so
//! that a test can hold, drop or delay exactly one. [`ByteProxy`] knows bytes only: it cuts, slows
//! down, or falls silent. [`ReplicaProxy`] does the same before a whole replica set, whose clients
//! still find the primary. These can refuse every connection for a while. [`Relay`] records what
//! one client sends, and spoils one command of it. [`CountingProxy`] counts what clients ask of a
//! broker. [`Distance`] puts both servers far away. [`RoundRobin`] makes one of several servers. The
//! programs do not know about the proxies.

mod balancer;
mod bytes;
mod counting;
mod delay;
mod gate;
mod listener;
mod mongodb;
mod relay;
mod replica;
mod wire;

pub use balancer::RoundRobin;
pub use bytes::ByteProxy;
pub use counting::CountingProxy;
pub use delay::Distance;
pub use gate::Held;
pub use mongodb::{MongoProxy, Part};
pub use relay::{Fault, Relay, Sent, Spoil};
pub use replica::ReplicaProxy;
