//! The documents of a ledger and the rules on them, without a database and without a broker.
//!
//! - [`limits`]: how long, many and deep things may be that others wrote.
//! - [`amount`], [`transaction`], [`account`]: the documents and the rules on them.
//! - [`Ledger`]: what the protocol needs from a store, and what an error of it means.
//! - [`netting`]: what a native transaction does with a batch; pure.
//! - [`message`]: ids on their way from producer to worker. [`event`]: what the world is told of a transaction
//!   at its end. [`json`]: documents as JSON.
//! - [`retry`]: how long to wait before trying again. [`joint`]: one call for all who want it at once. [`hex`]:
//!   digests as text. [`uri`]: names as parts of an address.

pub mod account;
pub mod amount;
pub mod event;
pub mod hex;
pub mod joint;
pub mod json;
mod ledger;
pub mod limits;
pub mod message;
pub mod netting;
pub mod retry;
pub mod transaction;
pub mod uri;

pub use self::ledger::{
    AccountRead, Advance, BYTES_MAX, CALL_IDS_MAX, CONFIRMED_ATTEMPTS, Cancelation, Claim, Claimed,
    Content, Effect, Fault, INLINE_BYTES_MAX, LeaseMs, Ledger, LedgerError, Look, Note,
    POSTINGS_MAX, Parking, Posting, Refused, Removal, RemovalKind, Ride, Seen, ServerMs, Size,
    Transacted, Verdict, Written, look_bytes,
};
