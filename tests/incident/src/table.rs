//! What was seen, as a table in Markdown: a row for each kind of request or page and each phase.
//!
//! Pure. Sentences that differ in numbers only are one, and of many the most frequent are told.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use harness::figures::{percentile, thousands};

use super::phase::Phase;
use super::seen::{Outcome, Seen};

/// So many sentences are told in a row, and so many characters of each.
const SENTENCES_MAX: usize = 3;
const SENTENCE_MAX: usize = 200;

/// The rows of one kind and phase.
#[derive(Default)]
struct Cell {
    took: Vec<Duration>,
    outcomes: BTreeMap<Outcome, usize>,
    said: BTreeMap<String, usize>,
}

/// The table. The first column has this title.
#[must_use]
pub fn table(title: &str, seen: &[Seen]) -> String {
    let mut cells: BTreeMap<(&str, Phase), Cell> = BTreeMap::new();
    for Seen { what, phase, took, outcome, said } in seen {
        let cell = cells.entry((what.as_str(), *phase)).or_default();
        cell.took.push(*took);
        *cell.outcomes.entry(*outcome).or_default() += 1;
        if let Some(said) = said {
            *cell.said.entry(plain(said)).or_default() += 1;
        }
    }
    let mut text = format!(
        "| {title} | phase | count | statuses | p50 ms | p99 ms | max ms | told |\n\
         | --- | --- | --: | --- | --: | --: | --: | --- |\n"
    );
    for ((what, phase), cell) in cells {
        let row = cell.row();
        writeln!(text, "| {what} | {} | {row} |", phase.name()).expect("a string takes all");
    }
    text
}

impl Cell {
    fn row(mut self) -> String {
        self.took.sort_unstable();
        let at = |percent| {
            let took = percentile(&self.took, percent).unwrap_or_default();
            thousands(took.as_secs_f64() * 1_000.0)
        };
        let status = |(outcome, count): (&Outcome, &usize)| match outcome {
            Outcome::Status(status) => format!("{status} ×{count}"),
            Outcome::NoAnswer => format!("no answer ×{count}"),
        };
        let statuses: Vec<String> = self.outcomes.iter().map(status).collect();
        format!(
            "{} | {} | {} | {} | {} | {}",
            self.took.len(),
            statuses.join(", "),
            at(50),
            at(99),
            at(100),
            self.told()
        )
    }

    fn told(&self) -> String {
        let mut said: Vec<(&String, &usize)> = self.said.iter().collect();
        said.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let left = said.len().saturating_sub(SENTENCES_MAX);
        let said = said.into_iter().take(SENTENCES_MAX);
        let mut told: Vec<String> =
            said.map(|(sentence, count)| format!("{sentence} (×{count})")).collect();
        if left > 0 {
            told.push(format!("and {left} more"));
        }
        told.join("; ")
    }
}

/// A sentence as it stands in a cell: one line, no bar, and each number is N.
fn plain(said: &str) -> String {
    let (mut plain, mut in_number) = (String::new(), false);
    for character in said.chars() {
        let is_number = character.is_ascii_digit();
        match character {
            _ if is_number && in_number => {}
            _ if is_number => plain.push('N'),
            '|' => plain.push('/'),
            _ if character.is_whitespace() => plain.push(' '),
            _ => plain.push(character),
        }
        in_number = is_number;
    }
    let words: Vec<&str> = plain.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(SENTENCE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(what: &str, phase: Phase, ms: u64, outcome: Outcome, said: Option<&str>) -> Seen {
        let (what, said) = (what.to_owned(), said.map(str::to_owned));
        Seen { what, phase, took: Duration::from_millis(ms), outcome, said }
    }

    #[test]
    fn a_row_has_the_answers_of_one_kind_and_phase_in_the_order_of_phases() {
        let ok = Outcome::Status(202);
        let mut all: Vec<Seen> =
            (1..=100).map(|ms| seen("submit", Phase::Away, ms, ok, None)).collect();
        let full = "RabbitMQ is away; 7 transactions wait for it already";
        let fuller = "RabbitMQ is away; 4711 transactions\nwait for it | already";
        let refused = Outcome::Status(503);
        all.push(seen("submit", Phase::Before, 5, ok, None));
        all.push(seen("submit", Phase::Killed, 2_500, Outcome::NoAnswer, None));
        all.push(seen("submit", Phase::Killed, 3, refused, Some(full)));
        all.push(seen("submit", Phase::Killed, 4, refused, Some(fuller)));
        let table = table("request", &all);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows[2], "| submit | before | 1 | 202 ×1 | 5 | 5 | 5 |  |");
        assert_eq!(rows[3], "| submit | broker away | 100 | 202 ×100 | 50 | 99 | 100 |  |");
        assert!(rows[4].contains("| 3 | 503 ×2, no answer ×1 | 4 | 2,500 | 2,500 |"), "{table}");
        assert!(
            rows[4].contains("RabbitMQ is away; N transactions wait for it already"),
            "{table}"
        );
        assert!(rows[4].contains("wait for it / already (×1)"), "{table}");
        let bars = |line: &&str| line.matches('|').count();
        assert!(rows.iter().map(bars).all(|count| count == 9), "{table}");
    }

    #[test]
    fn of_many_sentences_the_most_frequent_are_told() {
        let said = ["a", "b", "b", "c", "d", "e"];
        let refused = Outcome::Status(503);
        let all = said.map(|said| seen("submit", Phase::Away, 1, refused, Some(said)));
        let table = table("request", &all);
        assert!(table.contains("| b (×2); a (×1); c (×1); and 2 more |"), "{table}");
    }
}
