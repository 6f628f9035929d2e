//! The tests within a time, for machines that may be several times as slow as others.
//!
//! Owns the order of the parts: what moves money comes before what shows it and what measures it. When
//! the time is over, nothing more is begun and what runs is ended. What has failed is repeated once,
//! alone, because on such a machine a test may miss its deadline for what its neighbours do. Promises
//! that whatever was not run, and whatever passed only when it was repeated, is named, and that a
//! test which fails alone, too, fails the run.

use std::path::Path;
use std::time::Duration;

use harness::console::{Failure, say};
use harness::deployment::Deployment;
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::{Instant, timeout_at};

use super::tally::Tally;
use super::{TEST_THREADS, cargo};
use crate::command;

/// Two cores that do nothing else need half of this for [`Part::OTHERS`]. Where they take longer, fewer
/// tests run at once.
const SLOW: Duration = Duration::from_secs(420);
const SLOW_THREADS: &str = "4";

/// So many tests that fail at once are no matter of time, and none is repeated.
const REPEATED_MAX: usize = 25;
/// No repetition begins later than so long after the time.
const REPEATED_FOR: Duration = Duration::from_secs(480);

/// cargo's exit code when tests have failed.
const FAILED: i32 = 101;

/// Tests that take most of the time: whether money is right, and what the API does.
const END_TO_END: &str = "end_to_end";
/// Tests that measure, or play an incident through.
const MEASURING: [&str; 2] = ["benchmark", "incident"];

/// Some of the tests.
struct Part {
    name: &'static str,
    /// What cargo builds and runs.
    targets: Vec<String>,
    /// What the test programs are told.
    arguments: Vec<String>,
}

impl Part {
    const OTHERS: &str = "other tests";

    fn new(name: &'static str, targets: &[&str], arguments: &[&str]) -> Part {
        let owned = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        Part { name, targets: owned(targets), arguments: owned(arguments) }
    }

    /// All of them, in their order.
    fn all(tests: &[String]) -> Vec<Part> {
        let told = |name: &&String| **name != END_TO_END && !MEASURING.contains(&name.as_str());
        let others = tests.iter().filter(told).flat_map(|name| ["--test", name]);
        let measuring = MEASURING.iter().flat_map(|name| ["--test", name]);
        let end_to_end = ["--test", END_TO_END];
        vec![
            Part::new("tests of units", &["--lib"], &[]),
            Part::new("tests of documentation", &["--doc"], &[]),
            Part::new(Part::OTHERS, &others.collect::<Vec<_>>(), &[]),
            Part::new("end-to-end tests", &end_to_end, &["--skip", "api::"]),
            Part::new("end-to-end tests of the API", &end_to_end, &["api::"]),
            Part::new("tests that measure", &measuring.collect::<Vec<_>>(), &[]),
        ]
    }
}

/// A test that has failed.
struct Failed {
    name: String,
    targets: Vec<String>,
}

/// What has become of the tests.
#[derive(Default)]
struct Outcome {
    passed: usize,
    ignored: usize,
    failed: Vec<Failed>,
    /// What the time was too short for.
    left_out: Vec<String>,
}

/// Runs the tests for which there is time; the exit code.
///
/// # Errors
/// When cargo can't be run, when a test program ends without the results of its tests, and when there
/// was no time for any test.
pub async fn tests(left: Duration, directory: &Path, servers: &Deployment) -> Result<i32, Failure> {
    let until = Instant::now() + left;
    let run = Run { directory, servers, until };
    let mut outcome = run.parts().await?;
    let again = run.repeat(&mut outcome, until + REPEATED_FOR).await?;
    told(&outcome, &again);
    if outcome.passed == 0 && outcome.failed.is_empty() {
        return Err(Failure("no test was run: the time was over before".to_owned()));
    }
    Ok(if outcome.failed.is_empty() { 0 } else { FAILED })
}

struct Run<'a> {
    directory: &'a Path,
    servers: &'a Deployment,
    until: Instant,
}

impl Run<'_> {
    async fn parts(&self) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::default();
        let mut threads = TEST_THREADS;
        for part in Part::all(&test_targets(self.directory).await?) {
            let begun = Instant::now();
            if begun >= self.until {
                outcome.left_out.push(part.name.to_owned());
                continue;
            }
            let (tally, is_over) = self.part(&part, threads).await?;
            if is_over {
                outcome.left_out.push(format!("{} of the {}", tally.unknown(), part.name));
            }
            outcome.passed += tally.passed;
            outcome.ignored += tally.ignored;
            let failed = |name| Failed { name, targets: part.targets.clone() };
            outcome.failed.extend(tally.failed.into_iter().map(failed));
            if part.name == Part::OTHERS && begun.elapsed() > SLOW {
                say(format!("slow: from now on {SLOW_THREADS} tests at once"));
                threads = SLOW_THREADS;
            }
        }
        Ok(outcome)
    }

    /// Runs a part; its tests, and whether it was ended before them.
    async fn part(&self, part: &Part, threads: &str) -> Result<(Tally, bool), Failure> {
        let mut tally = Tally::default();
        let mut tests = self.cargo(&part.targets, &part.arguments, threads);
        let ran = command::read(&mut tests, self.directory, |line| tally.read(line));
        let Ok(ran) = timeout_at(self.until, ran).await else { return Ok((tally, true)) };
        let code = ran?;
        if tally.unknown() > 0 || (code == 0) != tally.failed.is_empty() {
            let unknown = tally.unknown();
            let name = part.name;
            return Err(Failure(format!(
                "{name}: cargo ends with {code}, {unknown} have no result"
            )));
        }
        Ok((tally, false))
    }

    /// Repeats each test that has failed, alone. Returns those that have passed, which failed no more.
    async fn repeat(&self, outcome: &mut Outcome, until: Instant) -> Result<Vec<String>, Failure> {
        let mut passed = Vec::new();
        if outcome.failed.len() > REPEATED_MAX {
            return Ok(passed);
        }
        for Failed { name, targets } in std::mem::take(&mut outcome.failed) {
            let mut tally = Tally::default();
            if Instant::now() < until {
                say(format!("once more, alone: {name}"));
                let arguments = ["--exact".to_owned(), name.clone()];
                let mut test = self.cargo(&targets, &arguments, "1");
                command::read(&mut test, self.directory, |line| tally.read(line)).await?;
            }
            if tally.passed == 1 && tally.unknown() == 0 && tally.failed.is_empty() {
                outcome.passed += 1;
                passed.push(name);
            } else {
                outcome.failed.push(Failed { name, targets });
            }
        }
        Ok(passed)
    }

    fn cargo(&self, targets: &[String], arguments: &[String], threads: &str) -> Command {
        let mut cargo = cargo(self.directory, &["test", "--workspace", "--no-fail-fast"]);
        cargo.args(targets).arg("--").args(arguments).envs(self.servers.environment());
        cargo.env("RUST_TEST_THREADS", threads);
        cargo
    }
}

fn told(outcome: &Outcome, again: &[String]) {
    for name in again {
        say(format!("passed when it was repeated alone: {name}"));
    }
    for Failed { name, .. } in &outcome.failed {
        say(format!("failed: {name}"));
    }
    for left_out in &outcome.left_out {
        say(format!("not run, because the time was over: {left_out}"));
    }
    let Outcome { passed, ignored, failed, left_out } = outcome;
    let whole = if left_out.is_empty() { "" } else { "; some were not run" };
    let (failed, again) = (failed.len(), again.len());
    say(format!(
        "tests: {passed} passed, {again} of them when repeated; {failed} failed, {ignored} ignored{whole}"
    ));
}

/// The names of the workspace's test programs.
async fn test_targets(directory: &Path) -> Result<Vec<String>, Failure> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        targets: Vec<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
        kind: Vec<String>,
    }
    let asked = ["metadata", "--no-deps", "--format-version", "1"];
    let output = cargo(directory, &asked).output().await;
    let failed = |error: String| Failure(format!("cargo metadata: {error}"));
    let output = output.map_err(|error| failed(error.to_string()))?.stdout;
    let metadata: Metadata =
        serde_json::from_slice(&output).map_err(|error| failed(error.to_string()))?;
    let targets = metadata.packages.into_iter().flat_map(|package| package.targets);
    let is_test = |target: &Target| target.kind.iter().any(|kind| kind == "test");
    Ok(targets.filter(is_test).map(|target| target.name).collect())
}
