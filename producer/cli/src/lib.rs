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

mod accounts;
mod advice;
mod args;
mod audit;
mod console;
mod context;
mod dead_letters;
mod events;
mod exit;
pub mod files;
mod follow;
mod init;
mod moment;
mod roles;
#[cfg(feature = "serve")]
mod serve;
mod submit;
#[cfg(feature = "top")]
mod top;
mod transactions;

pub use advice::Advice;
pub use args::{Cli, run};
pub use console::Console;
pub use exit::Exit;
