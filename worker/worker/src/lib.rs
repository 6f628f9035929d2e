#![doc = include_str!("../README.md")]

pub mod acknowledge;
mod ahead;
mod batches;
mod config;
mod consume;
pub mod decide;
mod deliveries;
mod due;
mod events;
pub mod health;
mod intake;
pub mod job;
pub mod metrics;
pub mod parts;
mod rabbit;
mod report;
mod room;
mod run;
mod session;
mod start;
mod sweeper;
mod trace;
mod turns;
mod watch;
mod window;
mod worker;

pub use config::{BATCHES_AHEAD, Config};
pub use consume::UNREAD_MAX;
pub use intake::{BYTES_MAX, FOREIGN_BYTES_MAX};
pub use start::{Failure, SystemEnvironment};
pub use worker::{Worker, WorkerHandle};
