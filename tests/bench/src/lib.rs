//! The benchmark: several ways to settle the same transfers, on the same servers, in one run.
//!
//! - [`args`]: the command line, and how much of everything.
//! - [`workload`], [`feed`]: the transfers, and handing them out; [`names`]: their ids.
//! - [`field`]: a fresh database for each run, and the check of its books.
//! - [`contender`]: who takes part, and one run. Those of this program: [`baseline`] with
//!   `articles`, `native`, `native_batch`; the real thing: [`tandem`].
//! - [`counters`], [`usage`]: what the server and the kernel count.
//! - [`throughput`]: all contenders on all workloads, interleaved and repeated.
//! - [`latency`] with its `situations`, `submitter` and `watch`: from submission to `applied`.
//! - [`growth`]: large backlogs, many accounts; `drain`: the cost of settling a backlog.
//! - [`scale`]: more workers, near and far.
//! - [`limited`]: more workers that may use little of a core.
//! - [`standby`]: workers that stand by for one another.
//! - [`inserted`]: transfers that a program only inserts, and says so.
//! - [`ended`]: the list of what ended, beside workers at full work and when it is long.
//! - [`undated`]: transfers that somebody else inserts, without a date and a message.
//! - [`reads`]: each read of the HTTP API, on a ledger that was filled with what has ended.
//! - [`sustained`] with its `endurance` and `source`: what is left of the rate after ten minutes.
//! - [`returns`]: how soon consumers are back after their broker, with its program `returns`.
//! - [`load`]: how much the HTTP API takes in, with its program `load`.
//! - [`beside`]: how long updates of other programs take, with its program `beside`.
//! - [`holds`]: holds, schedules and expiry, with its program `holds`.
//! - [`output`]: the end of a program that measures one thing.
//! - [`report`], [`table`], [`summary`], [`markdown`], [`picture`]: what comes of it.
//!
//! A run whose books do not balance has no figure, and fails the benchmark.

pub mod args;
mod articles;
pub mod baseline;
pub mod beside;
pub mod contender;
pub mod counters;
mod drain;
pub mod ended;
mod endurance;
pub mod feed;
pub mod field;
pub mod growth;
pub mod holds;
pub mod inserted;
pub mod latency;
pub mod limited;
pub mod load;
pub mod markdown;
pub mod names;
mod native;
mod native_batch;
pub mod output;
pub mod picture;
pub mod reads;
pub mod report;
pub mod returns;
pub mod scale;
mod situations;
mod source;
pub mod standby;
pub mod statements;
mod submitter;
pub mod summary;
pub mod sustained;
pub mod table;
pub mod tandem;
pub mod throughput;
pub mod undated;
pub mod usage;
mod watch;
pub mod workload;

use std::time::Instant;

use layout::Layout;
use mongodb::bson::doc;

use self::args::{Args, Part};
use self::contender::{Contender, Kind};
use self::field::{Field, Setup};
use self::report::{Machine, Report};
use self::tandem::Crew;
use harness::servers::Servers;

/// What all parts of one benchmark share.
pub struct Bench {
    args: Args,
    servers: Servers,
    crew: Crew,
    layout: Option<Layout>,
    report: Report,
    earlier: Vec<Report>,
}

impl Bench {
    /// On the servers that the environment names.
    ///
    /// # Errors
    /// When the arguments make no sense, or a file of an earlier run can't be read.
    ///
    /// # Panics
    /// When the environment names no servers.
    pub fn new(args: Args) -> Result<Bench, String> {
        let crew = args.crew()?;
        let layout = args.layout()?;
        let earlier = report::read_all(&args.with)?;
        let servers = Servers::from_env();
        Ok(Bench { args, servers, crew, layout, report: Report::default(), earlier })
    }

    /// Runs every part that is wanted.
    ///
    /// # Errors
    /// When an earlier run was on another machine.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn run(mut self) -> Result<Report, String> {
        self.report.machine = self.machine().await;
        self.whole()?;
        self.part(&[Part::Throughput], "throughput", throughput::run).await;
        self.part(&[Part::Latency, Part::Idle, Part::Book], "latency", situations::run).await;
        self.part(&[Part::Backlog, Part::Growth], "backlog", growth::backlogs).await;
        self.part(&[Part::Growth], "growth", growth::steps).await;
        self.part(&[Part::Scale], "scale", scale::run).await;
        self.part(&[Part::Limited], "limited", limited::run).await;
        self.part(&[Part::Standby], "standby", standby::run).await;
        self.part(&[Part::Inserted], "inserted", inserted::run).await;
        self.part(&[Part::Ended], "ended", ended::run).await;
        self.part(&[Part::Undated], "undated", undated::run).await;
        self.part(&[Part::Reads], "reads", reads::run).await;
        self.part(&[Part::Sustained], "sustained", sustained::run).await;
        self.whole()
    }

    /// The report with everything that was measured until now and earlier.
    fn whole(&self) -> Result<Report, String> {
        let mut whole = self.report.clone();
        for (earlier, path) in self.earlier.iter().zip(&self.args.with).rev() {
            let added = whole.add(earlier.clone());
            added.map_err(|problem| format!("--with {}: {problem}", path.display()))?;
        }
        whole.reckon();
        Ok(whole)
    }

    /// The backlogs to submit and drain, the largest last.
    fn backlogs(&self) -> Vec<usize> {
        let many = self.args.scale().many;
        if self.args.wants(Part::Growth) { vec![many / 10, many] } else { vec![many] }
    }

    async fn machine(&self) -> Machine {
        let field = self.field(Contender::Tandem).await;
        let built = field.store.database().run_command(doc! { "buildInfo": 1 }).await;
        let version = built.expect("MongoDB is there");
        let machine = Machine::here(version.get_str("version").unwrap_or("unknown"));
        field.finish().await;
        machine
    }

    /// A fresh field for a contender; a baseline has documents of its own.
    async fn field(&self, contender: Contender) -> Field {
        self.field_of(&self.setup(contender)).await
    }

    async fn field_of(&self, setup: &Setup) -> Field {
        Field::new(&self.servers, self.args.pids(), setup).await
    }

    /// How a contender's database is set up.
    fn setup(&self, contender: Contender) -> Setup {
        let Args { events, history, no_keys, .. } = self.args;
        let layout = match contender.kind() {
            Kind::Baseline(_) => None,
            Kind::Tandem { .. } => self.layout.clone(),
        };
        Setup { events, history, no_keys, layout }
    }

    /// Measures if one of these parts is wanted, and notes how long it took.
    async fn part(&mut self, parts: &[Part], name: &str, run: impl AsyncFnOnce(&mut Bench)) {
        if !parts.iter().any(|part| self.args.wants(*part)) {
            return;
        }
        let begun = Instant::now();
        run(self).await;
        let seconds = begun.elapsed().as_secs_f64();
        say(format!("{name}: {seconds:.0} s"));
        self.report.seconds.push((name.to_owned(), seconds));
        // Hours of measuring are not lost with the rest of the run.
        if let Some(path) = &self.args.json
            && let Err(problem) = self.whole().and_then(|whole| whole.write(path))
        {
            say(problem);
        }
    }

    fn failed(&mut self, problem: String) {
        say(format!("FAILED: {problem}"));
        self.report.failures.push(problem);
    }
}

/// One line of progress.
fn say(line: impl AsRef<str>) {
    eprintln!("bench: {}", line.as_ref());
}
