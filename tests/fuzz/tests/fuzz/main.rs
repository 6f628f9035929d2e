//! Whatever others write is read as it should be or refused by name; never with a panic, and never
//! with more memory than its size explains.
//!
//! `README.md` of this crate says how to run more inputs than the tests do, and what to do with a
//! failure.

mod accounts;
mod csv;
mod documents;
mod files;
mod json_lines;
mod messages;
mod requests;
