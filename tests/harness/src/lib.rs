//! The harness of the end-to-end tests: real servers, real processes, and networks that misbehave.
//!
//! - [`deployment`]: MongoDB and RabbitMQ as child processes in a directory of their own.
//! - [`cpu_limit`]: a bound for the CPU of a process.
//! - [`console`], [`interrupt`]: what the programs that run servers say, and how they are
//!   interrupted.
//! - [`servers`]: where the shared servers are, and servers of a test's own.
//! - [`world`]: one test's database and queues, with what it submits and looks at.
//! - [`process`], [`worker`], [`producer`]: the programs under test, as processes.
//! - [`proxy`]: what stands between a worker and its servers to hold, lose, delay or cut.
//! - [`odd`]: documents that a careless neighbour writes, past all validators.
//! - [`certificates`]: a certificate authority of a test's own.
//! - [`failing`]: a MongoDB of a test's own that fails on demand.
//! - [`replica_set`]: a MongoDB of a test's own, which is backed up and restored.
//! - [`laid_out`]: documents that their owner has designed, written and read past Tandem.
//! - [`rest`]: the rules that hold when everything has come to rest, checked from the documents.
//! - [`queues`]: the broker's side as a test sees it: raw messages, dead letters.
//! - [`subscriber`]: somebody who hears of outcomes.
//! - [`collector`]: a collector of the programs' spans.
//! - [`prometheus`]: a Prometheus that reads the programs under test.
//! - [`figures`]: percentiles and numbers for people.
//! - [`http`], [`wait`]: metrics and health; waiting for a condition with a deadline.

pub mod api;
pub mod certificates;
pub mod collector;
pub mod console;
pub mod cpu_limit;
pub mod deployment;
pub mod failing;
pub mod figures;

pub mod http;
pub mod interrupt;
pub mod laid_out;
pub mod odd;
pub mod process;
pub mod producer;
pub mod prometheus;
pub mod proxy;
pub mod queues;
pub mod replica_set;
pub mod rest;
pub mod servers;
pub mod subscriber;
pub mod wait;
pub mod worker;
pub mod world;
