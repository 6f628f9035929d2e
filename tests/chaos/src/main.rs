//! Runs chaos on servers of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chaos::home::Home;
use chaos::run::{Options, run};
use chaos::servers::Servers;
use chaos::timeline::timeline;
use clap::{CommandFactory, Parser, error::ErrorKind};
use harness::console::{Failure, Timings, conclude};
use harness::deployment;
use layout::{IdKind, Layout};

/// Runs Tandem on real servers while everything fails, and judges the result.
#[derive(Parser)]
#[command(
    override_usage = "deploy/chaos [OPTIONS]",
    after_help = "\
Examples:
  deploy/chaos                             2 minutes
  deploy/chaos --minutes 32 --json c.json  half an hour with more than 300 faults
  deploy/chaos --seed 7                    other faults, other transactions
  deploy/chaos --cluster                   three brokers instead of one
  deploy/chaos --engine auto,two-phase     every other worker chooses its engine
  deploy/chaos --schema tests/chaos/schema.toml    nothing is called as by itself
  deploy/chaos --change-replicas           workers share, and stand by, by turns
  deploy/chaos --neighbour                 somebody writes odd documents and messages all the time
  deploy/chaos --schema tests/chaos/schema.toml --outsider    an old program adds to balances

A tenth of the time (15 s to 120 s) is calm, for comparison. Then a worker, a producer or the
primary is killed or stands still, the primary steps down, the broker is killed, its connections
are closed, the work queue is deleted, or a link is cut, refused, slow or half-open: one fault every
four seconds. Then rest; then every row is compared with what its producer was told, all balances are
counted again, and the ledger is audited.

Everything it writes is in .local/chaos: logs/, and the timeline chaos.svg and chaos.png. Whatever the
outcome, also when interrupted, no process is left; after a violation the servers' data and all logs
stay for a look.

Exit codes: 0 no violation, 1 a violation was found, or the run could not be carried out,
2 bad usage, 128 + signal when interrupted."
)]
struct Args {
    /// How long to submit
    #[arg(long, value_name = "M", default_value_t = 2.0)]
    minutes: f64,
    /// What decides faults and transactions
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Rows a second that are submitted
    #[arg(long, value_name = "N", default_value_t = 400)]
    rate: u32,
    /// Three brokers, one fails at a time
    #[arg(long)]
    cluster: bool,
    /// With odd documents and messages all the time
    #[arg(long)]
    neighbour: bool,
    /// With a program that adds to balances all the time; what it has added is absorbed at the end
    #[arg(long, requires = "schema")]
    outsider: bool,
    /// Workers share the work and stand by for one another, by turns of thirty seconds
    #[arg(long)]
    change_replicas: bool,
    /// How workers settle, by turns: `two-phase`, `transaction`, `auto`
    #[arg(long, value_name = "ENGINE,...", value_delimiter = ',', default_value = "two-phase")]
    engine: Vec<String>,
    /// The ledger is one of this schema, whose ids are texts
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to draw the timeline, without the ending [default: .local/chaos/chaos]
    #[arg(long, value_name = "PATH")]
    figure: Option<PathBuf>,
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    if !(0.5..=600.0).contains(&args.minutes) {
        let problem = "--minutes must be between 0.5 and 600";
        Args::command().error(ErrorKind::ValueValidation, problem).exit();
    }
    let layout = match layout(args.schema.as_deref()) {
        Ok(layout) => layout,
        Err(problem) => Args::command().error(ErrorKind::ValueValidation, problem).exit(),
    };
    conclude(chaos(args, layout)).await
}

/// The layout in this file.
fn layout(file: Option<&Path>) -> Result<Option<Layout>, String> {
    let Some(file) = file else { return Ok(None) };
    let bad = |problem: String| format!("--schema {}: {problem}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let layout = Layout::from_toml(&text).map_err(|error| bad(error.to_string()))?;
    let kinds = [layout.accounts.id_kind(), layout.transactions.id_kind()];
    match kinds == [IdKind::Text; 2] {
        true => Ok(Some(layout)),
        false => Err(bad("the ids of a run say what they are, so they have to be texts".into())),
    }
}

/// One run; its exit code.
async fn chaos(args: Args, layout: Option<Layout>) -> Result<i32, Failure> {
    let mut timings = Timings::default();
    let mut home = Home::take(&deployment::local().join("chaos"))?;
    let servers = timings.part("servers", Servers::start(&home, args.cluster)).await?;
    let code = timings.part("chaos", on_servers(args, layout, &home, servers)).await?;
    home.well = code == 0;
    Ok(code)
}

async fn on_servers(
    args: Args,
    layout: Option<Layout>,
    home: &Home,
    servers: Servers,
) -> Result<i32, Failure> {
    let options = Options {
        length: Duration::from_secs_f64(60.0 * args.minutes),
        seed: args.seed,
        rate: args.rate,
        home: home.path().to_owned(),
        neighbour: args.neighbour,
        outsider: args.outsider,
        change_replicas: args.change_replicas,
        engines: args.engine,
        layout,
    };
    let report = run(&options, servers).await.map_err(Failure)?;
    println!("{report}");
    let figure = args.figure.unwrap_or_else(|| home.path().join("chaos"));
    let drawn = timeline(&report).write(&figure);
    drawn.map_err(|error| Failure(format!("{}: {error}", figure.display())))?;
    if let Some(path) = args.json {
        std::fs::write(&path, format!("{:#}\n", report.json()))
            .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    }
    println!("timeline: {0}.svg, {0}.png", figure.display());
    Ok(i32::from(!report.violations.is_empty()))
}
