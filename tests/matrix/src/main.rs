//! Runs the matrix on servers of its own.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use harness::console::{Failure, Timings, conclude};
use harness::deployment::directory::Lock;
use harness::deployment::{self, Deployment, Keep, Server, down};
use harness::failing::FailingMongo;
use matrix::class::CLASSES;
use matrix::cover::Extent;
use matrix::run::{Options, Row, run};
use matrix::told::read;

/// Lets each command that Tandem sends fail in each way, and compares what was told with what is
/// so.
#[derive(Parser)]
#[command(
    override_usage = "deploy/matrix [OPTIONS]",
    after_help = "\
Examples:
  deploy/matrix                      every cell
  deploy/matrix --pairs              a cover of all pairs, as CI runs it
  deploy/matrix --row submit-keyed   one row; `--row worker` is those of both engines

A row is an operation of the client, or a worker with one of its engines. It runs once without a fault,
and what it sends is recorded. In each cell one of these commands fails in one way: by MongoDB's fail
point failCommand, or by a proxy that loses an answer or delivers a command late. Then what the caller was
told is compared with what is there, and in the end the books are audited.

Everything it writes is in .local/matrix. The table comes on stdout.

Exit codes: 0 no cell is red, 1 one is, or the run could not be carried out, 2 bad usage,
128 + signal when interrupted."
)]
struct Args {
    /// A cover of all pairs only
    #[arg(long)]
    pairs: bool,
    /// Only rows whose name begins so
    #[arg(long, value_name = "NAME")]
    row: Option<String>,
    /// How many calls of clients run at the same time
    #[arg(long, value_name = "N", default_value_t = 24)]
    calls: usize,
    /// How many workers run at the same time
    #[arg(long, value_name = "N", default_value_t = 6)]
    lanes: usize,
}

#[tokio::main]
async fn main() {
    conclude(matrix(Args::parse())).await
}

async fn matrix(args: Args) -> Result<i32, Failure> {
    let mut timings = Timings::default();
    let home = deployment::local().join("matrix");
    let _lock = Lock::take(&home.with_extension("lock"))?;
    let broker = Broker::fresh(&home.join("rabbitmq"))?;
    down(&home.join("mongodb"), Duration::ZERO, Keep::Nothing)?;
    let wanted = |row: &Row| args.row.as_ref().is_none_or(|name| row.name().starts_with(name));
    let rows: Vec<Row> = Row::all().into_iter().filter(wanted).collect();
    if rows.is_empty() {
        let names: Vec<String> = Row::all().into_iter().map(Row::name).collect();
        return Err(Failure(format!("no row begins so; there are: {}", names.join(", "))));
    }
    let (mut broker, mongo) = timings
        .part("servers", async {
            let mongodb = home.join("mongodb");
            tokio::try_join!(broker.up(), FailingMongo::start_in(&mongodb))
        })
        .await?;
    let options = Options {
        extent: if args.pairs { Extent::Pairs } else { Extent::All },
        rows,
        calls: args.calls,
        lanes: args.lanes,
        classes: CLASSES.to_vec(),
        wanted: |_| true,
        reading: read,
    };
    let amqp_url = std::mem::take(&mut broker.amqp_url);
    let report = timings.part("cells", run(Arc::new(mongo), &amqp_url, &options)).await;
    println!("{report}");
    Ok(i32::from(!report.is_well()))
}

/// The broker of a run, which ends with the value.
struct Broker {
    deployment: Deployment,
    amqp_url: String,
}

impl Broker {
    fn fresh(directory: &std::path::Path) -> Result<Broker, Failure> {
        down(directory, Duration::ZERO, Keep::Nothing)?;
        let deployment = Deployment::new(directory).only(Server::Rabbitmq).private();
        Ok(Broker { deployment, amqp_url: String::new() })
    }

    async fn up(mut self) -> Result<Broker, Failure> {
        self.amqp_url = self.deployment.up().await?.amqp_url;
        Ok(self)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let directory = &self.deployment.directory().path;
        if let Err(failure) = down(directory, Duration::ZERO, Keep::Nothing) {
            harness::console::say(failure);
        }
    }
}
