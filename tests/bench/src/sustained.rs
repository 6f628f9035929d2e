//! What lasts: the rate of ten minutes, its first minute beside its last.
//!
//! Transfers are submitted all the time, so that the same number of them always waits, and the
//! database grows as it does in use: submission is part of the rate, as it is with the baselines. A
//! sample each second says what is settled and what the database has used. A run in which the queue
//! ran empty, a worker ended or the books don't balance has no figures.

use serde::{Deserialize, Serialize};

use super::contender::{Contender, Kind};
use super::endurance::{self, Sample, Watched};
use super::field::Field;
use super::source::Source;
use super::tandem;
use super::workload::Workload;
use super::{Bench, say, throughput};

/// Who is measured if nobody is named: the others are not fast enough to fill anything.
const CONTENDERS: [Contender; 5] = [
    Contender::Native,
    Contender::NativeBatch,
    Contender::Tandem,
    Contender::Transaction,
    Contender::Auto,
];
/// First and last minute; of a short run, its first and last quarter.
const EDGE_MAX: f64 = 60.0;
const EDGE_ONE_IN: f64 = 4.0;
/// How finely the course of a run is told.
const POINTS_IN_EDGE: f64 = 6.0;

/// A long run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sustained {
    /// The contender.
    pub contender: Contender,
    /// How long it was observed, in seconds.
    pub seconds: f64,
    /// Transfers settled in that time.
    pub transfers: u64,
    /// The first minute.
    pub first: Stretch,
    /// The last minute.
    pub last: Stretch,
    /// Seconds since the start, and transfers settled each second from the point before.
    pub course: Vec<(f64, f64)>,
    /// The highest memory of a worker.
    pub worker_peak_mib: Option<f64>,
    /// What is wrong. If there is anything here, none of the figures count.
    pub problems: Vec<String>,
}

/// A part of a long run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Transfers a second.
    pub per_s: f64,
    /// CPU seconds of the database for 1,000 of them.
    pub mongod_per_1000: f64,
}

/// One contender after the other.
pub async fn run(bench: &mut Bench) {
    let named = |contender: &Contender| match bench.args.only.as_slice() {
        [] => CONTENDERS.contains(contender),
        _ => !matches!(contender.kind(), Kind::Tandem { filled: true, .. }),
    };
    let contenders = throughput::available(bench.args.contenders());
    for contender in contenders.into_iter().filter(named).collect::<Vec<_>>() {
        let size = throughput::uniform_size(bench, contender).await;
        let field = bench.field(contender).await;
        let ran = measure(bench, &field, contender, size).await;
        field.finish().await;
        match ran {
            Ok(sustained) => {
                say(line(&sustained));
                bench.report.sustained.push(sustained);
            }
            Err(problem) => bench.failed(format!("sustained {}: {problem}", contender.name())),
        }
    }
}

async fn measure(
    bench: &Bench,
    field: &Field,
    contender: Contender,
    size: usize,
) -> Result<Sustained, String> {
    let limit = bench.args.scale().sustained;
    let source = Source::new(
        Workload::Uniform,
        bench.args.accounts,
        bench.args.scale().part,
        bench.args.seed,
    );
    let watched = match contender.kind() {
        Kind::Baseline(baseline) => endurance::drive(field, baseline, size, source, limit).await?,
        Kind::Tandem { .. } => {
            let crew = contender.crew(&bench.crew);
            endurance::work(field, &crew, source, limit).await?
        }
    };
    let mut problems = field.problems(&watched.books).await;
    if let Kind::Tandem { .. } = contender.kind() {
        problems.extend(tandem::audit(field, watched.books.total()).await.err());
    }
    if watched.ran_empty {
        problems.push("the queue ran empty".to_owned());
    }
    problems.truncate(10);
    put_together(contender, &watched, problems)
}

fn put_together(
    contender: Contender,
    watched: &Watched,
    problems: Vec<String>,
) -> Result<Sustained, String> {
    let samples = &watched.samples;
    let none = || format!("nothing was settled at first or at last: {} samples", samples.len());
    let (begin, end) = samples.first().zip(samples.last()).ok_or_else(none)?;
    let edge = EDGE_MAX.min(end.at / EDGE_ONE_IN);
    Ok(Sustained {
        contender,
        seconds: end.at,
        transfers: end.settled - begin.settled,
        first: stretch(samples, 0.0, edge).ok_or_else(none)?,
        last: stretch(samples, end.at - edge, end.at).ok_or_else(none)?,
        course: course(samples, edge / POINTS_IN_EDGE),
        worker_peak_mib: watched.worker_peak_mib,
        problems,
    })
}

/// Rate and cost between the samples next to two moments.
fn stretch(samples: &[Sample], from: f64, to: f64) -> Option<Stretch> {
    let next_to =
        |at: f64| samples.iter().min_by(|a, b| (a.at - at).abs().total_cmp(&(b.at - at).abs()));
    let (first, last) = (next_to(from)?, next_to(to)?);
    let settled = last.settled.saturating_sub(first.settled);
    #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
    let settled = (settled > 0).then_some(settled as f64)?;
    Some(Stretch {
        per_s: settled / (last.at - first.at),
        mongod_per_1000: (last.mongod - first.mongod) * 1_000.0 / settled,
    })
}

/// The rate in pieces of about this length.
fn course(samples: &[Sample], length: f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let Some(mut from) = samples.first() else { return points };
    for sample in samples {
        let seconds = sample.at - from.at;
        if seconds > 0.0 && seconds >= length {
            #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
            let settled = sample.settled.saturating_sub(from.settled) as f64;
            points.push((sample.at, settled / seconds));
            from = sample;
        }
    }
    points
}

fn line(sustained: &Sustained) -> String {
    let Sustained { first, last, .. } = sustained;
    format!(
        "{:<12} {:.0} s: {:.0}/s at first, {:.0}/s at last, mongod CPU s/1000 {:.3}, {:.3} {}",
        sustained.contender.name(),
        sustained.seconds,
        first.per_s,
        last.per_s,
        first.mongod_per_1000,
        last.mongod_per_1000,
        sustained.problems.join("; ")
    )
}

/// The run of a contender, if it has figures.
#[must_use]
pub fn find(all: &[Sustained], contender: Contender) -> Option<&Sustained> {
    all.iter().find(|one| one.contender == contender && one.problems.is_empty())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run with these rates in its first and its last minute.
    pub fn sustained(contender: Contender, first: f64, last: f64) -> Sustained {
        let stretch = |per_s| Stretch { per_s, mongod_per_1000: 0.2 };
        Sustained {
            contender,
            seconds: 600.0,
            transfers: 1_000_000,
            first: stretch(first),
            last: stretch(last),
            course: vec![(300.0, first), (600.0, last)],
            worker_peak_mib: None,
            problems: Vec::new(),
        }
    }

    /// Ten a second for five seconds, then five a second at twice the cost.
    fn slowing() -> Vec<Sample> {
        let settled = [0, 10, 20, 30, 40, 50, 55, 60, 65, 70, 75];
        let sample = |(second, settled): (u32, u64)| {
            let mongod = 0.01 * settled.min(50) as f64 + 0.02 * settled.saturating_sub(50) as f64;
            Sample { at: f64::from(second), settled, mongod }
        };
        (0..).zip(settled).map(sample).collect()
    }

    #[test]
    fn a_stretch_has_the_rate_and_the_cost_of_its_own_time() {
        let samples = slowing();
        let first = stretch(&samples, 0.0, 2.5).expect("a rate");
        assert!((first.per_s - 10.0).abs() < 1e-9 && (first.mongod_per_1000 - 10.0).abs() < 1e-9);
        let last = stretch(&samples, 7.5, 10.0).expect("a rate");
        assert!((last.per_s - 5.0).abs() < 1e-9 && (last.mongod_per_1000 - 20.0).abs() < 1e-9);
        assert_eq!(stretch(&samples[..1], 0.0, 5.0), None);
        assert_eq!(stretch(&[], 0.0, 5.0), None);
    }

    #[test]
    fn the_course_of_a_run_shows_where_it_slows_down() {
        assert_eq!(course(&slowing(), 5.0), [(5.0, 10.0), (10.0, 5.0)]);
        assert_eq!(course(&slowing(), 0.0).len(), 10);
    }
}
