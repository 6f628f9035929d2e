//! Which cells run in the short forms.
//!
//! Promises that each pair that some cell has is in one that is chosen ([`Extent::Pairs`]): of row
//! and class, of command and class, and of row and position; or each row, class and command once
//! ([`Extent::Each`]). Greedy and without chance, so that two runs on the same records choose the
//! same. Pure.

use std::collections::HashSet;

use crate::cell::Cell;

/// How much of the matrix runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every cell.
    All,
    /// A cover of all pairs.
    Pairs,
    /// Each row, each class and each command at least once.
    Each,
}

/// What two cells may have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Trait {
    Row(usize),
    Class(&'static str),
    Command(String),
    RowAndClass(usize, &'static str),
    CommandAndClass(String, &'static str),
    RowAndPosition(usize, String),
}

fn traits(cell: &Cell, extent: Extent) -> Vec<Trait> {
    let (row, class) = (cell.row, cell.class.name);
    let command = || cell.position.sent.command.clone();
    match extent {
        Extent::All => vec![],
        Extent::Pairs => vec![
            Trait::RowAndClass(row, class),
            Trait::CommandAndClass(command(), class),
            Trait::RowAndPosition(row, cell.position.to_string()),
        ],
        Extent::Each => vec![Trait::Row(row), Trait::Class(class), Trait::Command(command())],
    }
}

/// Chooses cells.
#[must_use]
pub fn choose(cells: &[Cell], extent: Extent) -> Vec<Cell> {
    if extent == Extent::All {
        return cells.to_vec();
    }
    let of: Vec<Vec<Trait>> = cells.iter().map(|cell| traits(cell, extent)).collect();
    let mut left: HashSet<&Trait> = of.iter().flatten().collect();
    let mut chosen = Vec::new();
    while !left.is_empty() {
        let news = |at: &usize| of[*at].iter().filter(|one| left.contains(one)).count();
        // Of equal ones the first.
        let best = (0..cells.len()).rev().max_by_key(news).expect("each comes from a cell");
        of[best].iter().for_each(|one| {
            left.remove(one);
        });
        chosen.push(cells[best].clone());
    }
    chosen
}

#[cfg(test)]
mod tests {
    use harness::proxy::Sent;

    use super::*;
    use crate::cell::{Position, cells};
    use crate::class::CLASSES;

    #[test]
    fn few_cells_have_all_that_is_wanted_and_are_the_same_again() {
        let sent = |command: &str, purpose: &str| {
            let has_concern = command != "find";
            Sent { command: command.to_owned(), purpose: purpose.to_owned(), has_concern }
        };
        let positions: Vec<Position> = ["find", "insert", "update"]
            .into_iter()
            .flat_map(|command| ["a", "b"].map(|purpose| sent(command, purpose)))
            .map(|sent| Position { sent, nth: 1 })
            .collect();
        let all: Vec<Cell> = (0..5).flat_map(|row| cells(row, &positions, &CLASSES)).collect();
        for (extent, most) in
            [(Extent::Pairs, 2 * 5 * CLASSES.len()), (Extent::Each, CLASSES.len())]
        {
            let chosen = choose(&all, extent);
            let of = |cell: &Cell| traits(cell, extent);
            let there: HashSet<Trait> = chosen.iter().flat_map(of).collect();
            assert!(all.iter().flat_map(of).all(|one| there.contains(&one)), "{extent:?}");
            assert!(chosen.len() <= most, "{extent:?}: {} of {}", chosen.len(), all.len());
            assert_eq!(chosen, choose(&all, extent));
        }
        assert_eq!(choose(&all, Extent::All), all);
    }
}
