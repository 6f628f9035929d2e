//! The command line, a thin layer over the library.
//!
//! - [`args`]: flags, and which function runs. [`exit`]: exit codes and errors.
//! - [`context`], [`console`]: the client, and messages during a command.
//! - [`advice`]: what the user should do if a command did not come to its end.
//! - [`files`]: files of transfers and accounts. [`moment`]: moments in arguments.
//! - [`submit`]: a file of transfers. [`follow`]: waiting for their ends.
//! - [`accounts`], [`transactions`]: commands on single documents.
//! - [`dead_letters`]: what workers have given up.
//! - [`events`]: what has ended. [`audit`], [`init`]: commands on the whole ledger.
//! - [`roles`]: the rights of each program. [`serve`]: the HTTP API. [`top`]: the overview.

pub mod accounts;
pub mod advice;
pub mod args;
pub mod audit;
pub mod console;
pub mod context;
pub mod dead_letters;
pub mod events;
pub mod exit;
pub mod files;
pub mod follow;
pub mod init;
pub mod moment;
pub mod roles;
pub mod serve;
pub mod submit;
pub mod top;
pub mod transactions;
