//! Long runs, more workers, and what has no message.

use std::fmt::{Result, Write};

use harness::figures::{percentile, thousands};

use super::heading;
use crate::ended::Ended;
use crate::inserted::{Inserted, Took};
use crate::limited::Limited;
use crate::scale::Replicas;
use crate::standby::Standby;
use crate::sustained::Sustained;
use crate::undated::Undated;

/// A row for each number of workers.
pub(super) fn replicas(all: &[Replicas], text: &mut String) -> Result {
    if all.is_empty() {
        return Ok(());
    }
    let columns = [
        "workers",
        "way",
        "round trip ms",
        "transfers/s",
        "time lost to conflicts, all (worst worker)",
        "native transactions lost, committed",
        "mongod",
        "workers' CPU",
        "proxies",
    ];
    heading(text, "queue full; CPU s per 1,000", &columns)?;
    for one in all.iter().filter(|one| one.problems.is_empty()) {
        let conflicts = match (one.conflicts, one.conflicts_max) {
            (Some(all), Some(max)) => format!("{:.1} % ({:.1} %)", all * 100.0, max * 100.0),
            _ => "–".to_owned(),
        };
        let (lost, committed) = one.attempts;
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {conflicts} | {lost:.0}, {committed:.0} | {:.3} | {:.3} | {:.3} |",
            one.contender.title(),
            one.workers,
            one.way.name(),
            one.round_trip_ms,
            thousands(one.per_s),
            one.cpu_per_1000.mongod,
            one.cpu_per_1000.worker,
            one.cpu_per_1000.client
        )?;
    }
    Ok(())
}

/// A row for each number of limited workers.
pub(super) fn limited(all: &[Limited], text: &mut String) -> Result {
    if all.is_empty() {
        return Ok(());
    }
    let columns = ["workers", "% of a core each", "transfers", "transfers/s"];
    heading(text, "limited workers", &columns)?;
    for one in all.iter().filter(|one| one.problems.is_empty()) {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            one.contender.title(),
            one.workers,
            one.percent,
            thousands(one.transfers as f64),
            thousands(one.per_s)
        )?;
    }
    Ok(())
}

/// A row for each contender.
pub(super) fn standby(all: &[Standby], text: &mut String) -> Result {
    if all.is_empty() {
        return Ok(());
    }
    let columns = [
        "deaths: fresh ones done again, p50 s",
        "longest",
        "hung: longest",
        "idle: commands/s to MongoDB",
        "to RabbitMQ",
    ];
    heading(text, "standing by", &columns)?;
    for one in all.iter().filter(|one| one.problems.is_empty()) {
        let seconds = |sorted: &[f64], percent| percentile(sorted, percent).unwrap_or(0.0) / 1e3;
        writeln!(
            text,
            "| {} | {:.1} | {:.1} | {:.1} | {:.2} | {:.2} |",
            one.contender.title(),
            seconds(&one.deaths_ms, 50),
            seconds(&one.deaths_ms, 100),
            seconds(&one.hangs_ms, 100),
            one.idle_commands_per_s.0,
            one.idle_commands_per_s.1
        )?;
    }
    Ok(())
}

/// A row for each contender.
pub(super) fn inserted(all: &[Inserted], text: &mut String) -> Result {
    if all.is_empty() {
        return Ok(());
    }
    let columns = [
        "taken up, p50 ms",
        "p99",
        "applied, p50 ms",
        "p99",
        "10,000 at once, s",
        "published, s",
        "beside a queue, p50 ms",
        "p99",
    ];
    heading(text, "only inserted", &columns)?;
    for run in all.iter().filter(|run| run.problems.is_empty()) {
        writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} | {:.0} |",
            run.contender.title(),
            run.taken_up.p50_ms,
            run.taken_up.p99_ms,
            run.applied.p50_ms,
            run.applied.p99_ms,
            run.inserted_s,
            run.published_s,
            run.beside.p50_ms,
            run.beside.p99_ms
        )?;
    }
    Ok(())
}

/// A row for each contender. Of each kind of page the median and the 99th percentile.
pub(super) fn ended(all: &[Ended], text: &mut String) -> Result {
    if all.is_empty() {
        return Ok(());
    }
    let columns = [
        "ends",
        "settled/s",
        "told after, ms",
        "first page, ms",
        "random",
        "last",
        "without a hit",
        "read/s",
        "statement: hot, ms",
        "cold",
        "last minutes",
    ];
    heading(text, "list of what ended", &columns)?;
    let both = |took: &Took| format!("{:.1}; {:.1}", took.p50_ms, took.p99_ms);
    for run in all.iter().filter(|run| run.problems.is_empty()) {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            run.contender.title(),
            run.ends,
            thousands(run.settled_per_s),
            both(&run.told),
            both(&run.first),
            both(&run.random),
            both(&run.last),
            both(&run.without),
            thousands(run.read_per_s),
            both(&run.statements.hot),
            both(&run.statements.cold),
            both(&run.statements.fresh)
        )?;
    }
    Ok(())
}

/// A row for each contender.
pub(super) fn undated(all: &[Undated], text: &mut String) -> Result {
    if all.is_empty() {
        return Ok(());
    }
    heading(text, "without date and message", &["transfers", "transfers/s", "first after s"])?;
    for run in all.iter().filter(|run| run.problems.is_empty()) {
        let (title, transfers) = (run.contender.title(), run.transfers);
        writeln!(
            text,
            "| {title} | {transfers} | {} | {:.1} |",
            thousands(run.per_s),
            run.first_s
        )?;
    }
    Ok(())
}

/// A row for each contender.
pub(super) fn sustained(all: &[Sustained], text: &mut String) -> Result {
    let Some(longest) = all.iter().map(|run| run.seconds).reduce(f64::max) else { return Ok(()) };
    let columns = [
        "first transfers/s",
        "last transfers/s",
        "last / first",
        "first mongod CPU s per 1,000",
        "last",
        "settled",
    ];
    heading(text, &format!("{longest:.0} s, first and last minute or quarter"), &columns)?;
    for run in all.iter().filter(|run| run.problems.is_empty()) {
        #[expect(clippy::cast_precision_loss, reason = "a count of transfers is small")]
        let settled = run.transfers as f64;
        writeln!(
            text,
            "| {} | {} | {} | {:.2} | {:.3} | {:.3} | {} |",
            run.contender.title(),
            thousands(run.first.per_s),
            thousands(run.last.per_s),
            run.last.per_s / run.first.per_s,
            run.first.mongod_per_1000,
            run.last.mongod_per_1000,
            thousands(settled)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender;
    use crate::scale::tests::replicas as measured;
    use crate::sustained::tests::sustained as ran;

    #[test]
    fn rows_have_a_cell_for_every_column_and_false_books_have_no_row() {
        let mut text = String::new();
        let mut false_books = measured(Contender::Auto, 8, 10, (9.0, 9.0));
        false_books.problems.push("x".to_owned());
        let mut without = measured(Contender::Tandem, 4, 0, (6_000.0, 0.3));
        (without.conflicts, without.conflicts_max) = (None, None);
        let all = [measured(Contender::Auto, 1, 10, (1_000.0, 0.1)), without, false_books];
        replicas(&all, &mut text).expect("a string");
        sustained(&[ran(Contender::Auto, 9_000.0, 8_100.0)], &mut text).expect("a string");
        assert!(
            text.contains("| 1 | share | 10 | 1,000 | 5.0 % (10.0 %) | 3, 40 | 0.100 |"),
            "{text}"
        );
        assert!(text.contains("| 4 | share | 0 | 6,000 | – | 3, 40 | 0.300 |"), "{text}");
        assert!(text.contains("| 9,000 | 8,100 | 0.90 |"), "{text}");
        assert!(!text.contains("| 8 |"), "{text}");
        for table in text.split("\n\n") {
            let bars = |line: &str| line.matches('|').count();
            let cells: Vec<_> = table.lines().filter(|l| !l.is_empty()).map(bars).collect();
            assert!(cells.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
        }
    }
}
