//! What producers and workers share, in the order in which a transfer meets it:
//!
//! - [`config`]: settings, logging.
//! - [`limits`]: how long, many and deep things may be that others wrote.
//! - [`amount`], [`transaction`], [`account`]: the documents and the rules on them.
//! - [`message`], [`queue`]: ids on their way from producer to worker.
//! - [`ledger`]: what the protocol needs from a store; [`mongo`] is that store.
//! - [`event`]: what the world is told of a transaction at its end. [`json`]: documents as JSON.
//! - [`netting`]: what a native transaction does with a batch; pure.
//! - [`retry`]: how long to wait before trying again. [`hex`]: digests as text. [`uri`]: names as parts
//!   of an address. [`shell`]: commands in messages. With the feature `cli`, `secret_files`: secrets out of files.

pub mod account;
pub mod amount;
pub mod config;
pub mod event;
pub mod hex;
pub mod joint;
pub mod json;
pub mod ledger;
pub mod limits;
pub mod message;
pub mod mongo;
pub mod netting;
pub mod queue;
pub mod retry;
#[cfg(feature = "cli")]
pub mod secret_files;
pub mod shell;
pub mod trace;
pub mod transaction;
pub mod uri;
