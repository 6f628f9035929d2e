#![doc = include_str!("../README.md")]

pub mod acknowledge;
mod acting;
mod batches;
pub mod components;
mod config;
mod consume;
pub mod decide;
mod deliveries;
mod due;
mod events;
pub mod health;
mod inserted;
mod intake;
mod isolation_lock;
pub mod job;
pub mod metrics;
mod passage;
mod prefetch;
mod publications;
mod rabbit;
mod report;
mod run;
mod session;
mod start;
pub mod suspects;
mod sweeper;
mod trace;
mod walker;
mod watch;
mod window;
mod worker;

pub use config::{BATCHES_AHEAD, Config};
pub use consume::UNREAD_MAX;
pub use intake::{BYTES_MAX, FOREIGN_BYTES_MAX};
pub use start::{Failure, SystemEnvironment};
pub use worker::{Worker, WorkerHandle};
