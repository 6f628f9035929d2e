//! Real servers on one machine, for development, tests and measurements: what the scripts in
//! `deploy/` run.
//!
//! - [`up`], [`down`]: servers that stay.
//! - [`demo`]: settles transfers while a worker is killed, audits the result.
//! - [`mod@test`]: the workspace's tests on servers of their own.
//! - [`run`]: any program on servers of its own, which are taken down whatever happens.
//! - [`run_directory`], [`command`], `memory`: what these need.

pub mod command;
pub mod demo;
pub mod down;
mod memory;
pub mod run;
pub mod run_directory;
pub mod test;
pub mod up;
