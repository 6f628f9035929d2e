#![doc = include_str!("../README.md")]

mod accounts;
mod acting;
mod acts;
mod adopt;
mod advice;
mod agree;
mod args;
mod audit;
mod console;
mod context;
mod dead_letters;
mod events;
mod exit;
mod files;
mod follow;
mod init;
mod listing;
mod moment;
mod roles;
#[cfg(feature = "serve")]
mod serve;
mod settlement;
mod submit;
#[cfg(feature = "top")]
mod top;
mod transactions;
mod workers;

pub use advice::Advice;
pub use args::{Cli, run};
pub use console::Console;
pub use exit::Exit;
