#![doc = include_str!("../README.md")]

pub mod clients;
pub mod judge;
pub mod operators;
pub mod phase;
pub mod probes;
pub mod report;
pub mod run;
pub mod seen;
pub mod stage;
pub mod table;
