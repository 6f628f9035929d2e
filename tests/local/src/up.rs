//! `deploy/up`: starts a MongoDB replica set and a RabbitMQ node, and says where they are.
//!
//! Stdout carries the result only: two shell assignments, or JSON. Exit code 0 means that both
//! serve; otherwise nothing that this run has started is left.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clap::{Parser, ValueEnum};
use harness::console::Failure;
use harness::deployment::{self, Deployment, Server};

/// Starts MongoDB and RabbitMQ for development, on free ports of 127.0.0.1.
#[derive(Debug, Parser)]
#[command(
    override_usage = "deploy/up [OPTIONS]",
    after_help = "\
Examples:
  deploy/up                             start both, print where they are
  export $(deploy/up)                   and let this shell's programs know
  deploy/up --members 3 --dir /tmp/rs   a replica set with failover
  deploy/up --only rabbitmq --json      one server, as JSON with pids and directories

Run it again at any time: what runs stays, what was killed comes back on its port with its data.
A server named by TANDEM_MONGODB_URI or TANDEM_AMQP_URL is used as it is, unless --private.
What is missing on the machine is fetched (mongod) or installed (rabbitmq-server, as root)."
)]
pub struct Args {
    /// Data, logs and state [default: .local]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Just one of the servers
    #[arg(long)]
    only: Option<Only>,
    /// Size of the replica set [default: 1]
    #[arg(long, value_parser = PossibleValuesParser::new(["1", "3"]).map(|n| n.parse::<usize>().unwrap_or(1)))]
    members: Option<usize>,
    /// Start own servers, even where the environment names others
    #[arg(long)]
    private: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A server on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Only {
    /// The replica set
    Mongodb,
    /// The broker
    Rabbitmq,
}

impl From<Only> for Server {
    fn from(only: Only) -> Server {
        match only {
            Only::Mongodb => Server::Mongodb,
            Only::Rabbitmq => Server::Rabbitmq,
        }
    }
}

/// Brings the servers up, and prints where they are.
///
/// # Errors
/// When one does not start.
pub async fn up(args: &Args) -> Result<i32, Failure> {
    let directory = args.dir.clone().unwrap_or_else(deployment::local);
    let mut servers = Deployment::new(&directory);
    if let Some(only) = args.only {
        servers = servers.only(only.into());
    }
    if let Some(members) = args.members {
        servers = servers.members(members);
    }
    if args.private {
        servers = servers.private();
    }
    servers.up().await?;
    if args.json {
        println!("{:#}", servers.describe()?);
    } else {
        for (variable, uri) in servers.environment() {
            println!("{variable}={uri}");
        }
    }
    Ok(0)
}
