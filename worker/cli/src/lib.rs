#![doc = include_str!("../README.md")]

mod args;

use clap::Parser;
use flags::LogFlags;

pub use args::WorkerFlags;

const EXAMPLES: &str = "\
Examples:
  worker
  TANDEM_MONGODB_URI='mongodb://db1,db2,db3/bank?replicaSet=rs0' worker --name settle-1
  worker --http 0.0.0.0:9464 --log-format json --log debug
  worker --engine auto                    the fastest where it is the only worker
  worker --batch-size 1 --lanes 32        one transaction at a time, for comparison

Every flag has an environment variable, shown beside it.

Exit codes:
  0    stopped as told; nothing of it is left in flight
  1    the database or the broker refuses it for good (rights, password, another setup or version),
       a part of it ended by itself, or it was not finished within --drain-ms; what is in flight is
       taken over by others when its lease ends
  2    bad settings
A server that is away is waited for: see /readyz.";

/// Settles transactions: consumes their ids and runs the two-phase commit, or native transactions.
#[derive(Parser)]
#[command(name = "worker", version, after_help = EXAMPLES)]
pub struct Cli {
    /// How it reaches its servers, and how it works.
    #[command(flatten)]
    pub config: WorkerFlags,
    /// How to log.
    #[command(flatten)]
    pub logging: LogFlags,
}
