//! What a run says: a line for each command of each row, a letter for each class, and the red
//! cells.

use std::fmt;

use crate::cell::{Cell, Outcome, Position};
use crate::class::Class;
use crate::run::Report;
use crate::told::Told;

const LETTERS: &str = "a accepted (of a worker: came to its end), r refused, u unknown, X red, \
                       - never sent this time, . not run";

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
        writeln!(f, "Ways to fail, in the order of the columns:")?;
        for (at, class) in self.classes.iter().enumerate() {
            writeln!(f, "  {:>2}  {}", at + 1, class.name)?;
        }
        writeln!(f, "\n{LETTERS}\n")?;
        for (at, (row, positions)) in self.rows.iter().enumerate() {
            writeln!(f, "{}", row.name())?;
            for position in positions {
                writeln!(f, "  {}  {position}", self.letters(at, position))?;
            }
        }
        self.sums(f)?;
        self.red().try_for_each(|outcome| self.tell(outcome, f))?;
        self.books.iter().try_for_each(|problem| writeln!(f, "books: {problem}"))
    }
}

impl Report {
    /// A letter for each way in which this command of a row may fail.
    fn letters(&self, row: usize, position: &Position) -> String {
        let of = |class: &Class| {
            let is_it =
                |cell: &Cell| (cell.row, &cell.position, &cell.class) == (row, position, class);
            letter(self.outcomes.iter().find(|outcome| is_it(&outcome.cell)))
        };
        self.classes.iter().map(of).collect()
    }

    fn sums(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: char| {
            self.outcomes.iter().filter(|outcome| letter(Some(outcome)) == wanted).count()
        };
        let (all, accepted, refused) = (self.outcomes.len(), count('a'), count('r'));
        let (unknown, unsent, red) = (count('u'), count('-'), count('X'));
        write!(f, "\n{all} cells: {accepted} accepted, {refused} refused, {unknown} unknown, ")?;
        writeln!(f, "{unsent} never sent, {red} red")
    }

    /// A red cell.
    fn tell(&self, outcome: &Outcome, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, cell) = (self.rows[outcome.cell.row].0, &outcome.cell);
        writeln!(f, "red: {}, {}, {}", row.name(), cell.position, cell.class.name)?;
        let told: Vec<String> = outcome.told.iter().map(ToString::to_string).collect();
        writeln!(f, "     told {}", told.join(", "))?;
        outcome.problems.iter().try_for_each(|problem| writeln!(f, "     {problem}"))
    }
}
