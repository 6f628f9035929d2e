//! The worker: ids in, settled transactions out.
//!
//! The program `worker` is a few lines over this library. To run a worker inside a program of your own, depend
//! on this crate and start a [`Worker`]: any number of them fit into one process.
//!
//! Inside, in the order of the data's way: `consume` takes deliveries, under its own supervision of
//! the broker, and `intake` takes them in, as what [`job`] names; `decide` says what to do with a message, and is pure; `batches` makes batches of
//! deliveries, a few of them in flight; [`engine`] is the protocol on one batch; [`acknowledge`] ends
//! every delivery, on the broker of `rabbit`, many at once (`deliveries`); what it publishes first waits in
//! the `room`; `events` tells the world of
//! outcomes. `sweeper` publishes what nobody has a message for. All of these are watched tasks, the
//! `parts`. `report` says how the worker is, for operators.

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
