//! What a run says: a line for each command of each row, a letter for each class, and the red cells.

use std::collections::BTreeMap;
use std::fmt;

use crate::cell::Outcome;
use crate::class::{CLASSES, Class};
use crate::run::Report;
use crate::told::Told;

/// What a cell shows.
fn letter(outcome: Option<&Outcome>) -> char {
    let Some(outcome) = outcome else { return '.' };
    let has = |wanted: fn(&Told) -> bool| outcome.told.iter().any(wanted);
    if !outcome.problems.is_empty() {
        'X'
    } else if !outcome.was_met {
        '-'
    } else if has(|told| matches!(told, Told::Unknown(_))) {
        'u'
    } else if has(|told| matches!(told, Told::Refused(_))) {
        'r'
    } else {
        'a'
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Classes of answers, in the order of the columns:")?;
        for (number, class) in (1..).zip(&CLASSES) {
            let number: usize = number;
            writeln!(f, "  {number:>2}  {}", class.name)?;
        }
        writeln!(
            f,
            "\na accepted (of a worker: came to its end), r refused, u unknown, X red, - never sent this time, . not run\n"
        )?;
        for (at, (row, positions)) in self.rows.iter().enumerate() {
            writeln!(f, "{}", row.name())?;
            for position in positions {
                let of = |class: &Class| {
                    letter(self.outcomes.iter().find(|outcome| {
                        let cell = &outcome.cell;
                        cell.row == at && cell.position == *position && cell.class == *class
                    }))
                };
                let letters: String = CLASSES.iter().map(of).collect();
                writeln!(f, "  {letters}  {position}")?;
            }
        }
        let mut counts: BTreeMap<char, usize> = BTreeMap::new();
        for outcome in &self.outcomes {
            *counts.entry(letter(Some(outcome))).or_default() += 1;
        }
        let count = |letter| counts.get(&letter).copied().unwrap_or_default();
        let (accepted, refused, unknown) = (count('a'), count('r'), count('u'));
        writeln!(
            f,
            "\n{} cells: {accepted} accepted, {refused} refused, {unknown} unknown, {} never sent, {} red",
            self.outcomes.len(),
            count('-'),
            count('X')
        )?;
        for outcome in self.red() {
            let (row, cell) = (self.rows[outcome.cell.row].0, &outcome.cell);
            writeln!(f, "red: {}, {}, {}", row.name(), cell.position, cell.class.name)?;
            let told: Vec<String> = outcome.told.iter().map(ToString::to_string).collect();
            writeln!(f, "     told {}", told.join(", "))?;
            outcome.problems.iter().try_for_each(|problem| writeln!(f, "     {problem}"))?;
        }
        self.books.iter().try_for_each(|problem| writeln!(f, "books: {problem}"))
    }
}
