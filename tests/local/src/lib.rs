//! What a developer runs on one machine, on servers of its own.
//!
//! - [`demo`]: settles transfers while a worker is killed, audits the result.

pub mod demo;
