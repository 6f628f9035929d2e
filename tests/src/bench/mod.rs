//! The benchmark: several ways to settle the same transfers, on the same servers, in one run.
//!
//! - [`args`]: the command line, and how much of everything.
//! - [`workload`], [`feed`]: the transfers, and handing them out.
//! - [`field`]: a fresh database for each run, and the check of its books.
//! - [`contender`]: who takes part, and one run. Those of this program: [`baseline`] with
//!   [`articles`], [`native`], [`native_batch`]; the real thing: [`tandem`].
//! - [`counters`], [`usage`]: what the server and the kernel count.
//! - [`throughput`]: all contenders on all workloads, interleaved and repeated.
//! - [`report`], [`table`], [`summary`], [`markdown`]: what comes of it.
//!
//! A run whose books do not balance has no figure, and fails the benchmark.

pub mod args;
mod articles;
pub mod baseline;
pub mod contender;
pub mod counters;
pub mod feed;
pub mod field;
pub mod markdown;
mod native;
mod native_batch;
pub mod report;
pub mod summary;
pub mod table;
pub mod tandem;
pub mod throughput;
pub mod usage;
pub mod workload;

use std::time::Instant;

use mongodb::bson::doc;

use self::args::{Args, Part};
use self::field::Field;
use self::report::{Machine, Report};
use self::tandem::Crew;
use crate::servers::Servers;

/// What all parts of one benchmark share.
pub struct Bench {
    args: Args,
    servers: Servers,
    crew: Crew,
    report: Report,
}

impl Bench {
    /// On the servers that the environment names.
    ///
    /// # Errors
    /// When the arguments make no sense.
    ///
    /// # Panics
    /// When the environment names no servers.
    pub fn new(args: Args) -> Result<Bench, String> {
        let crew = args.crew()?;
        Ok(Bench { args, servers: Servers::from_env(), crew, report: Report::default() })
    }

    /// Runs every part that is wanted.
    ///
    /// # Panics
    /// When a server is away.
    pub async fn run(mut self) -> Report {
        self.report.machine = self.machine().await;
        if self.args.wants(Part::Throughput) {
            let begun = Instant::now();
            throughput::run(&mut self).await;
            self.took("throughput", begun);
        }
        self.report.reckon();
        self.report
    }

    async fn machine(&self) -> Machine {
        let field = self.field().await;
        let built = field.store.database().run_command(doc! { "buildInfo": 1 }).await;
        let version = built.expect("MongoDB is there");
        let machine = Machine::here(version.get_str("version").unwrap_or("unknown"));
        field.finish().await;
        machine
    }

    async fn field(&self) -> Field {
        Field::new(&self.servers, self.args.pids()).await
    }

    fn took(&mut self, part: &str, begun: Instant) {
        let seconds = begun.elapsed().as_secs_f64();
        say(format!("{part}: {seconds:.0} s"));
        self.report.seconds.push((part.to_owned(), seconds));
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
