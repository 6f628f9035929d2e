#![doc = include_str!("../README.md")]

pub mod account;
pub mod amount;
pub mod coalesce;
pub mod event;
pub mod hex;
pub mod journal;
pub mod json;
mod ledger;
pub mod limits;
pub mod message;
pub mod netting;
pub mod notation;
pub mod remedy;
pub mod retry;
pub mod shell;
pub mod transaction;
pub mod uri;
pub mod visible;

pub use self::ledger::{
    AccountRead, BYTES_MAX, CALL_IDS_MAX, CONFIRMED_ATTEMPTS, Cancelation, Claim, Claimed, Commit,
    Content, Effect, Ending, Fault, INLINE_BYTES_MAX, LeaseMs, Ledger, LedgerError, Look,
    POSTINGS_MAX, Parking, Posting, Refused, Removal, RemovalKind, Seen, ServerMs, Size,
    Transacted, Verdict, Written, look_bytes,
};
