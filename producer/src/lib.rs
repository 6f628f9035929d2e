//! The producer: everything a client of the ledger does, as commands and as a library.
//!
//! - [`cli`]: the command line. [`error`]: exit codes.
//! - [`init`]: what the database lacks, and applying it.
//! - [`context`], [`console`]: the servers, patience with them, and what is said meanwhile.
//! - [`advice`]: what to do when a command could not come to its end.
//! - [`input`]: files of transfers and accounts.
//! - [`submission`], [`submit`]: from a row to a durable document with its id on the queue.
//! - [`follow`]: waiting for the end.
//! - [`accounts`], [`transactions`]: commands on single documents.
//! - [`audit`]: whether every document keeps the rules.

pub mod accounts;
pub mod advice;
pub mod audit;
pub mod cli;
pub mod console;
pub mod context;
pub mod error;
pub mod follow;
pub mod init;
pub mod input;
mod json;
pub mod submission;
pub mod submit;
pub mod transactions;
