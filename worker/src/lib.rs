//! The worker: ids in, settled transactions out. In the order of the data's way:
//!
//! - [`consume`]: deliveries, under our own supervision of the broker.
//! - [`decide`]: what to do with a message; pure.
//! - [`lanes`]: deliveries become batches, a few of them in flight.
//! - [`engine`]: the protocol, on one batch.
//! - [`acknowledge`]: the end of every delivery; [`rabbit`] is the broker it talks to.
//! - [`sweeper`]: what nobody has a message for.
//! - [`parts`]: all of these as watched tasks; [`watch`]: is the ledger still of our version?
//! - [`settings`], [`metrics`], [`health`], [`stop`]: what an operator sees and says.

pub mod acknowledge;
pub mod consume;
pub mod decide;
pub mod engine;
pub mod health;
pub mod lanes;
pub mod metrics;
pub mod parts;
pub mod rabbit;
mod run;
pub mod settings;
mod start;
pub mod stop;
pub mod sweeper;
pub mod watch;

pub use run::{run, run_observed, run_on};
pub use start::Failure;
