#![doc = include_str!("../README.md")]
//!
//! # A program
//!
//! ```no_run
//! use client::{Client, Config, Error, Outcome, Submission};
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

mod acts;
mod awaiting;
mod cancel;
mod client;
mod config;
mod confirm;
mod dead_letters;
mod derived;
mod differences;
mod ended;
mod equal;
mod error;
mod files;
mod floor;
mod group;
mod history;
mod hold;
mod in_session;
pub mod insert;
mod keyed;
mod keyed_array;
pub mod known;
mod listening;
mod listing;
mod opening;
mod opening_from;
mod order;
mod origin;
mod outcomes;
mod parked;
mod readable;
mod reschedule;
mod reserved;
mod reverse;
mod rules;
mod servers;
mod settlement;
mod setup;
mod shared_task;
mod standing;
mod stats;
mod status;
mod submission;
mod submit;
mod together;
mod watch;

pub use acts::{ActError, act_reason};
pub use cancel::Canceled;
pub use client::Client;
pub use config::{Config, Notes};
pub use dead_letters::{Asked, Fate, Replay};
pub use error::{AttemptError, Effect, Error, Kind, SETTINGS, Server, in_words};
pub use floor::{FloorSet, NewFloor};
pub use history::{
    ActFilter, Adjusted, Adjustment, Entry, LIMIT_MAX, LOOK_FOR, PAGE_BYTES_MAX, Page, Period,
    Statement, StatementOrder, Tell, Told, TransactionFilter, act_json,
};
pub use hold::{Capture, Decided};
pub use in_session::{InSessionError, ReceiptInSession};
pub use ledger::account::{Account, Status};
pub use ledger::amount::{Amount, AmountError};
pub use ledger::transaction::{AccountId, Body, Leg, ReasonCode, State, TransactionId};
#[doc(hidden)]
pub use listening::Listening;
pub use listing::Listing;
pub use mongo::{
    ActEnd, ActResult, ActSubject, ActVia, ActWho, Inspection, Listed, NewAct, ParkedEntry,
    SeenAct, Settlement, Slowing, SubjectKind, SubmittedFile, Whose,
};
/// The driver, of the version whose sessions [`Client::submit_in`] takes.
pub use mongodb;
pub use observe::Tracing;
pub use opening::Opened;
pub use opening_from::OpenedFrom;
pub use order::{EndFilter, EndPage, NumberedEnd};
pub use origin::{KeyedArray, Origin};
pub use outcomes::{Ended, Outcomes};
pub use parked::Unparked;
pub use queue::{DeadLetter, DeadLetters, HeldLetter};
pub use readable::readable;
pub use reserved::{Reserved, holds};
pub use rules::Rules;
pub use settlement::{Lag, Lagging, PAUSE_REASON_BYTES_MAX, Switched};
pub use standing::{Outcome, Standing};
pub use stats::Stats;
pub use status::Change;
pub use submission::{Order, Receipt, Submission};
