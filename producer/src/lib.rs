//! Submits transactions to a Tandem ledger, and awaits, confirms, cancels, reverses and audits them.
//!
//! ```no_run
//! use producer::{Client, Config, Error, Outcome, Submission};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Error> {
//! let config = Config::new("mongodb://127.0.0.1:27017/shop", "amqp://127.0.0.1:5672/%2f");
//! let client = Client::connect(&config).await?;
//! let rent = Submission::transfer("alice", "bob", 12_50).with_id("rent-2026-11");
//! let receipt = client.submit(rent).await?; // durable; the workers settle it
//! match client.outcome(&receipt.id).await? {
//!     Outcome::Held => println!("reserved"),
//!     Outcome::Done => println!("paid"),
//!     Outcome::Canceled { code, message } => println!("not paid: {message} ({code})"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] is cheap to clone: share one in the whole program. Submit singly from as many tasks as
//! you like, since concurrent submissions share inserts and publishes, or many at once with
//! [`Client::submit_all`]. A submission has its id before anything is sent. After an
//! [`Error::Unavailable`], submit a clone of it again: it is paid once. A transfer that the workers
//! refuse is no error but an [`Outcome`].
//!
//! The program `producer` is a command line over this library. It comes with the feature `cli`, which
//! is on by default; depend on this crate with `default-features = false`.

// The command line uses the library by its name, as any program does.
#[cfg(feature = "cli")]
extern crate self as producer;

#[cfg(feature = "cli")]
mod api;
pub mod audit;
mod cancel;
#[cfg(feature = "cli")]
mod cli;
mod client;
mod config;
mod confirm;
mod dead_letters;
mod equal;
mod error;
mod group;
mod history;
mod hold;
#[cfg(feature = "cli")]
mod input;
mod keyed;
mod listening;
mod opening;
mod origin;
mod outcomes;
#[cfg(feature = "cli")]
mod overview;
mod parked;
mod readable;
mod reschedule;
mod reserved;
mod reverse;
mod setup;
mod stats;
mod status;
pub mod submission;
mod together;
mod watch;
mod way_in;

pub use cancel::Canceled;
pub use client::Client;
pub use common::account::{Account, Status};
pub use common::amount::{Amount, AmountError};
pub use common::mongo::{Inspection, ParkedEntry};
pub use common::queue::{DeadLetter, DeadLetters, Held};
pub use common::trace::Tracing;
pub use common::transaction::{AccountId, Body, Leg, ReasonCode, State, TransactionId};
pub use config::{Config, Notes};
pub use dead_letters::{Asked, Fate, Replay};
pub use error::{Effect, Error, Kind, Server};
pub use history::{Entry, Page, Period, Statement, TransactionFilter};
pub use hold::{Capture, Decided};
#[doc(hidden)]
pub use listening::Listening;
pub use opening::Opened;
pub use outcomes::{Ended, Outcomes};
pub use parked::Unparked;
pub use readable::readable;
pub use reserved::Reserved;
pub use stats::Stats;
pub use status::Change;
pub use submission::{Receipt, Submission};
pub use watch::{Outcome, Standing};

/// What the program `producer` runs, what its documentation is made of, and how it reads what others
/// write. Not meant for others.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod program {
    pub use crate::api::{metrics_at_start, reading};
    pub use crate::cli::advice::Advice;
    pub use crate::cli::args::{Cli, run};
    pub use crate::cli::audit::metrics_example;
    pub use crate::cli::console::Console;
    pub use crate::cli::exit::Exit;
    pub use crate::cli::files;
    pub use crate::input::{Defaults, Flaw, Kind, Record};

    /// Limits that stand on the page of all limits.
    pub mod limits {
        pub use crate::api::limits::*;
        pub use crate::cli::files::SHOWN_MAX;
        pub use crate::overview::STEPS_MAX;
        /// The most items of a page.
        pub const PAGE_MAX: u32 = crate::history::LIMIT_MAX;
    }
}
