//! The matrix: each command that Tandem sends fails in each way, and nobody is told what is not so.
//!
//! A *row* is an operation of the client or a worker with one of its engines. It runs once without
//! a fault, and what it sends is recorded. A *cell* is a row, one of the commands that it was seen
//! to send, and a [`class`] of answers. In its cell the command fails in that way; then what the
//! caller was told is compared with what has become of it, after the last moment at which it can
//! take effect.
//!
//! - [`class`]: the ways to fail.
//! - [`cell`], [`cover`]: cells, and which of them run in the short form.
//! - [`ground`]: the servers, a database, and its healthy worker and client.
//! - [`told`]: the three words, and when one of them is untrue.
//! - [`operation`], [`clients`]: the rows of the client.
//! - [`workers`]: the rows of the engines.
//! - [`run`], [`table`]: a whole run, and what it says.

pub mod cell;
pub mod class;
pub mod clients;
pub mod cover;
pub mod ground;
pub mod operation;
pub mod run;
pub mod table;
pub mod told;
pub mod workers;
