//! The command line of the benchmark.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use layout::Layout;

use super::contender::Contender;
use super::tandem::Crew;
use super::usage::ServerPids;
use super::workload::Workload;

/// Compares ways to settle transfers on MongoDB: the articles', native transactions, and Tandem.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench", override_usage = "deploy/bench [OPTIONS]", after_help = EXAMPLES)]
pub struct Args {
    /// Write everything that was measured to this file, after each part
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Add what an earlier run has written with --json: of a part that is measured in another hour,
    /// or after an interruption; several files one after the other
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,

    /// Write the comparison as bench.svg and bench.png into this directory
    #[arg(long, value_name = "DIR")]
    pub picture: Option<PathBuf>,

    /// Less of everything: for a look, not for a figure
    #[arg(long)]
    pub quick: bool,

    /// Only these contenders
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CONTENDER")]
    pub only: Vec<Contender>,

    /// Only these workloads
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    pub workload: Vec<Workload>,

    /// Only these parts; growth, scale, limited, standby, inserted, ended, undated, reads and
    /// sustained are done only when they are named
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    pub part: Vec<Part>,

    /// The same as all parts with growth
    #[arg(long)]
    pub growth: bool,

    /// Transfers of a run of Tandem [default: 100000, quick 20000]
    #[arg(long, value_name = "N")]
    pub transfers: Option<usize>,

    /// Transactions of the part reads [default: 10000000, quick 20000]
    #[arg(long, value_name = "N")]
    pub transactions: Option<usize>,

    /// Rates of arrival of the part latency, in transfers a second [default: 250 to 8000 in seven
    /// steps; quick 1500, 3000, 4500]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rates: Vec<u32>,

    /// Seconds of a run of the parts ended and sustained [default: 600, quick 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(4..))]
    pub seconds: Option<u64>,

    /// Repetitions [default: 3, or 2 where no target is; quick 1]
    #[arg(long, value_name = "N")]
    pub repeat: Option<usize>,

    /// Accounts
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub accounts: usize,

    /// Workers of Tandem
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: usize,

    /// Flags of the workers, as on their command line
    #[arg(long, value_name = "FLAGS", default_value = "", allow_hyphen_values = true)]
    pub worker_args: String,

    /// Whether Tandem announces outcomes, and whether somebody has bound a queue for them
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Events::Unheard)]
    pub events: Events,

    /// Whether the database has the indexes of lists and statements
    #[arg(long, value_enum, value_name = "HOW", default_value_t = History::Default)]
    pub history: History,

    /// The database has no index for exclusive keys
    #[arg(long)]
    pub no_keys: bool,

    /// Tandem's ledger is one of this schema
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,

    /// The most ids of a message, where transfers arrive at a rate or one by one [default: the
    /// library's, 100]
    #[arg(long, value_name = "N")]
    pub ids_per_message: Option<NonZeroUsize>,

    /// Where the load comes from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// The process of MongoDB, for its CPU seconds
    #[arg(long, value_name = "PID", env = "TANDEM_MONGODB_PID", default_value_t = 0)]
    pub mongodb_pid: u32,

    /// The process of RabbitMQ, for its CPU seconds
    #[arg(long, value_name = "PID", env = "TANDEM_RABBITMQ_PID", default_value_t = 0)]
    pub rabbitmq_pid: u32,
}

const EXAMPLES: &str = "\
Examples:
  deploy/bench --json bench.json --picture .       all but growth, scale, limited, standby, inserted,
                                                   ended, undated, reads and sustained
  deploy/bench --quick                             a look at everything (a few minutes)
  deploy/bench --only tandem,native --workload uniform,half-hot --part throughput --repeat 5
  deploy/bench --only tandem --part throughput --worker-args '--lanes 4 --batch-size 2000'
  deploy/bench --only tandem --part throughput --events heard     what events cost
  deploy/bench --only tandem --part throughput --history off      what lists and statements cost
  deploy/bench --part latency --only auto,native --rates 500,1000,2000    latency at these rates
  deploy/bench --only auto-full --part throughput --no-keys       without the index of keys
  deploy/bench --only auto-full --part throughput --schema tests/bench/schemas/by-name.toml
  deploy/bench --part inserted                     what a program only inserts, and says so
  deploy/bench --part ended --seconds 1800         the list of what ended, when it is long
  deploy/bench --part undated                      what others insert without a message
  deploy/bench --part reads --transactions 1000000    each read of the API, when the ledger is long
  deploy/bench --part growth                       backlog and accounts in several steps
  deploy/bench --part scale                        1 to 8 workers, near and 10 ms away
  deploy/bench --part limited                      1 to 8 workers with 5 % of a core each
  deploy/bench --part standby                      one worker takes the place of another
  deploy/bench --part sustained --only tandem,native --seconds 600        ten minutes of each
  deploy/bench --part latency --with bench.json --json bench.json --picture .    adds to it

deploy/bench builds the programs and starts servers of its own, a replica set of one member and a
RabbitMQ node, which start empty and are gone afterwards. Servers that run elsewhere are never used:
what else they do would be in the figures. Run by itself, the program uses those of
TANDEM_MONGODB_URI and TANDEM_AMQP_URL.

Exit codes: 0 the books of all runs balance, 1 a run has failed or its books do not balance,
2 bad usage.";

/// What becomes of outcome events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Events {
    /// There are none
    Off,
    /// Nobody has bound a queue
    Unheard,
    /// A durable queue gets all of them
    Heard,
}

/// Whether there are indexes for lists and statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum History {
    /// As in a fresh database
    Default,
    /// There are
    On,
    /// There are none
    Off,
}

impl History {
    /// What the owner of the database chooses.
    #[must_use]
    pub fn choice(self) -> Option<bool> {
        match self {
            History::Default => None,
            History::On => Some(true),
            History::Off => Some(false),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Transfers a second, and what they cost
    Throughput,
    /// From submission to applied, against the rate of arrival
    Latency,
    /// From submission to applied, one at a time
    Idle,
    /// The book's scenario
    Book,
    /// Submission of a large file, and what its backlog costs beside a small one
    Backlog,
    /// Backlog and accounts in several steps
    Growth,
    /// 1 to 8 workers, near the servers and far away
    Scale,
    /// 1 to 8 workers that may use a twentieth of a core each
    Limited,
    /// Workers that stand by for one another
    Standby,
    /// Transfers that a program only inserts, and says so
    Inserted,
    /// The list of what ended
    Ended,
    /// Transfers that somebody inserts without a date and without a message
    Undated,
    /// Each read of the API on a ledger that was filled with what has ended
    Reads,
    /// The first and the last minute of ten
    Sustained,
}

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Transfers of a run of Tandem.
    pub transfers: usize,
    /// The most transfers of one run of a baseline.
    pub baseline_transfers: usize,
    /// Its time limit.
    pub baseline_limit: Duration,
    /// How long each concurrency is tried.
    pub trial: Duration,
    /// Repetitions.
    pub repeat: usize,
    /// How long each rate of arrival lasts.
    pub latency: Duration,
    /// How long a long run lasts.
    pub sustained: Duration,
    /// Transfers that are submitted at once in a long run.
    pub part: usize,
    /// Single transfers on an idle system.
    pub idle: usize,
    /// Rounds of the book's scenario.
    pub rounds: usize,
    /// Rows of the large file, and the large backlog.
    pub many: usize,
}

impl Args {
    /// How much of everything.
    #[must_use]
    pub fn scale(&self) -> Scale {
        let (transfers, seconds, repeat) =
            if self.quick { (20_000, 2, 1) } else { (100_000, 5, 3) };
        let transfers = self.transfers.unwrap_or(transfers);
        Scale {
            transfers,
            baseline_transfers: if self.quick { 50_000 } else { 150_000 },
            baseline_limit: Duration::from_secs(seconds),
            trial: Duration::from_millis(if self.quick { 500 } else { 1_000 }),
            repeat: self.repeat.unwrap_or(repeat).max(1),
            latency: Duration::from_secs(if self.quick { 2 } else { 10 }),
            sustained: Duration::from_secs(self.seconds.unwrap_or(if self.quick {
                12
            } else {
                600
            })),
            part: (transfers / 2).max(1),
            idle: if self.quick { 50 } else { 200 },
            rounds: if self.quick { 3 } else { 25 },
            many: if self.quick { 100_000 } else { 1_000_000 },
        }
    }

    /// How often a workload is repeated: most often those that have a target.
    #[must_use]
    pub fn repeats(&self, workload: Workload) -> usize {
        let all = self.scale().repeat;
        match workload {
            Workload::Uniform | Workload::HalfHot => all,
            _ if self.repeat.is_some() => all,
            _ => all.min(2),
        }
    }

    /// Whether a part is to be done.
    #[must_use]
    pub fn wants(&self, part: Part) -> bool {
        match part {
            _ if !self.part.is_empty() => self.part.contains(&part),
            Part::Growth => self.growth,
            Part::Scale
            | Part::Limited
            | Part::Standby
            | Part::Inserted
            | Part::Ended
            | Part::Undated
            | Part::Reads
            | Part::Sustained => false,
            Part::Throughput | Part::Latency | Part::Idle | Part::Book | Part::Backlog => true,
        }
    }

    /// The rates of arrival, from low to high.
    #[must_use]
    pub fn rates(&self) -> Vec<u32> {
        let mut rates = match self.rates.as_slice() {
            [] if self.quick => vec![1_500, 3_000, 4_500],
            [] => vec![250, 750, 1_500, 3_000, 4_500, 6_000, 8_000],
            named => named.to_vec(),
        };
        rates.sort_unstable();
        rates.dedup();
        rates
    }

    /// The contenders of this run.
    #[must_use]
    pub fn contenders(&self) -> Vec<Contender> {
        let wanted = |contender: &&Contender| self.only.is_empty() || self.only.contains(contender);
        Contender::value_variants().iter().filter(wanted).copied().collect()
    }

    /// The workloads of this run, of those that are measured for throughput.
    #[must_use]
    pub fn workloads(&self) -> Vec<Workload> {
        let quick = [Workload::Uniform, Workload::HalfHot];
        let wanted = |workload: &&Workload| match self.workload.as_slice() {
            [] if self.quick => quick.contains(workload),
            [] => true,
            some => some.contains(workload),
        };
        let all = Workload::value_variants().iter().filter(wanted);
        all.filter(|workload| **workload != Workload::Book).copied().collect()
    }

    /// The workers.
    ///
    /// # Errors
    /// When their flags make no sense.
    pub fn crew(&self) -> Result<Crew, String> {
        let flags = Crew::parse_flags(&self.worker_args)?;
        Ok(Crew { workers: self.workers, flags, servers: None })
    }

    /// The layout of Tandem's ledger, if it is to have one.
    ///
    /// # Errors
    /// When the file can't be read, or is no schema.
    pub fn layout(&self) -> Result<Option<Layout>, String> {
        let Some(path) = &self.schema else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let layout =
            text.and_then(|text| Layout::from_toml(&text).map_err(|error| error.to_string()));
        layout.map(Some).map_err(|problem| format!("--schema {}: {problem}", path.display()))
    }

    /// The servers' processes.
    #[must_use]
    pub fn pids(&self) -> ServerPids {
        ServerPids { mongod: self.mongodb_pid, rabbitmq: self.rabbitmq_pid }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Args {
        Args::parse_from(line.split(' '))
    }

    #[test]
    fn the_command_line_is_consistent_and_its_examples_parse() {
        Args::command().debug_assert();
        for line in EXAMPLES.lines().filter(|line| line.starts_with("  deploy/bench")) {
            let command = line.split("   ").next().unwrap_or(line).trim().replace('\'', "");
            // A shell passes quoted flags as one word.
            let command = command.replace("--lanes 4 --batch-size 2000", "--lanes=4");
            parse(&command);
        }
    }

    #[test]
    fn what_takes_long_is_done_only_when_it_is_named() {
        for part in [
            Part::Growth,
            Part::Scale,
            Part::Limited,
            Part::Standby,
            Part::Ended,
            Part::Reads,
            Part::Sustained,
        ] {
            assert!(!parse("bench").wants(part));
        }
        assert!(!parse("bench --growth").wants(Part::Sustained));
        assert!(parse("bench --part scale,sustained").wants(Part::Sustained));
        assert!(parse("bench").wants(Part::Latency));
        assert!(parse("bench --growth").wants(Part::Growth));
        assert!(parse("bench --part growth").wants(Part::Growth));
        assert!(!parse("bench --part growth").wants(Part::Latency));
    }

    #[test]
    fn rates_go_from_low_to_high() {
        assert_eq!(parse("bench --rates 900,100,900").rates(), [100, 900]);
        assert_eq!(parse("bench").rates().len(), 7);
        assert!(Args::try_parse_from(["bench", "--rates", "0"]).is_err());
    }

    #[test]
    fn contenders_and_workloads_are_chosen_by_name() {
        assert_eq!(parse("bench --only native,tandem").contenders().len(), 2);
        assert_eq!(parse("bench --workload half-hot").workloads(), [Workload::HalfHot]);
        assert_eq!(parse("bench --quick").workloads(), [Workload::Uniform, Workload::HalfHot]);
        assert!(!parse("bench").workloads().contains(&Workload::Book));
    }
}
