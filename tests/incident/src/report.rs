//! What came of an incident, in Markdown. Pure.

use std::fmt::Write;
use std::time::Duration;

use harness::figures::thousands;

use super::judge::Verdict;
use super::phase::Phase;
use super::seen::Seen;
use super::table::table;

/// So many broken promises are told one by one.
const TOLD_MAX: usize = 50;

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// When each phase began, since the first one.
    pub phases: Vec<(Phase, Duration)>,
    /// When everything had stopped.
    pub length: Duration,
    /// How many transactions waited.
    pub waiting: usize,
    /// How many clients there were.
    pub clients: usize,
    /// From the return of the broker until everything that waited was settled.
    pub settled_after: Duration,
    /// Every request and page.
    pub seen: Vec<Seen>,
    /// What was told, beside what is so.
    pub verdict: Verdict,
    /// What else was not as promised: books, probes, processes that ended.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether every promise was kept.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.verdict.broken.is_empty() && self.problems.is_empty()
    }

    /// For people.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes all");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "a count of transactions is small")]
        let waiting = thousands(self.waiting as f64);
        writeln!(text, "# An incident\n")?;
        writeln!(
            text,
            "{waiting} transactions waited; {} clients and two operators in browsers went on.\n",
            self.clients
        )?;
        for (phase, at) in &self.phases {
            writeln!(text, "* {}: from {:.0} s", phase.name(), at.as_secs_f64())?;
        }
        writeln!(text, "* the end: at {:.0} s", self.length.as_secs_f64())?;
        let settled = self.settled_after.as_secs_f64();
        writeln!(
            text,
            "\nAll that waited was settled {settled:.0} s after the broker's return.\n"
        )?;
        let (operators, others): (Vec<Seen>, Vec<Seen>) =
            self.seen.iter().cloned().partition(|seen| seen.what.contains(": "));
        writeln!(text, "## What clients and probes saw\n\n{}", table("request", &others))?;
        writeln!(text, "## What operators saw\n\n{}", table("page", &operators))?;
        self.write_words(text)?;
        self.write_verdict(text)
    }

    fn write_words(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "## What was told of transactions\n\n| deed | told | times |")?;
        writeln!(text, "| --- | --- | --: |")?;
        for ((deed, word), count) in &self.verdict.words {
            writeln!(text, "| {} | {} | {count} |", deed.name(), word.name())?;
        }
        let (there, not_there) = self.verdict.unknown;
        writeln!(
            text,
            "\nOf submissions that stayed unknown, {there} are in the ledger and {not_there} are not.\n"
        )
    }

    fn write_verdict(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "## Verdict\n")?;
        if self.is_well() {
            return writeln!(text, "Every promise was kept; the books balance.");
        }
        let broken = self.problems.iter().chain(&self.verdict.broken);
        for problem in broken.clone().take(TOLD_MAX) {
            writeln!(text, "* {problem}")?;
        }
        let count = broken.count();
        if count > TOLD_MAX {
            writeln!(text, "* and {} more", count - TOLD_MAX)?;
        }
        writeln!(text, "\n{count} promises were broken.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::Outcome;
    use super::*;

    fn seen(what: &str) -> Seen {
        let (took, outcome) = (Duration::from_millis(5), Outcome::Status(200));
        Seen { what: what.to_owned(), phase: Phase::Before, took, outcome, said: None }
    }

    fn report() -> Report {
        Report {
            phases: vec![(Phase::Before, Duration::ZERO), (Phase::Away, Duration::from_secs(70))],
            length: Duration::from_secs(400),
            waiting: 300_000,
            clients: 50,
            settled_after: Duration::from_secs(42),
            seen: vec![seen("submit"), seen("olivia: overview")],
            verdict: Verdict::default(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn clients_and_operators_have_tables_of_their_own() {
        let text = report().markdown();
        let (clients, operators) = text.split_once("## What operators saw").expect("both");
        assert!(clients.contains("| submit | before |"), "{text}");
        assert!(
            !clients.contains("olivia") && operators.contains("| olivia: overview |"),
            "{text}"
        );
        assert!(text.contains("300,000 transactions waited"), "{text}");
        assert!(text.contains("* broker away: from 70 s"), "{text}");
        assert!(text.contains("Every promise was kept"), "{text}");
    }

    #[test]
    fn each_broken_promise_is_told_and_of_very_many_how_many_there_are() {
        let mut broken = report();
        broken.problems.push("the audit: rule 5".to_owned());
        broken.verdict.broken = (0..60).map(|n| format!("t{n} is lost")).collect();
        assert!(!broken.is_well());
        let text = broken.markdown();
        assert!(text.contains("* the audit: rule 5\n* t0 is lost"), "{text}");
        assert!(text.contains("* and 11 more\n\n61 promises were broken."), "{text}");
    }
}
