//! Which cells run in the short form: a cover of all pairs.
//!
//! Promises that each pair that some cell has is in one that is chosen: of row and class, of command and class, and of
//! row and position. Greedy and without chance, so that two runs on the same records choose the same.
//! Pure.

use std::collections::HashSet;

use crate::cell::Cell;

/// What two cells may have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pair {
    RowAndClass(usize, &'static str),
    CommandAndClass(String, &'static str),
    RowAndPosition(usize, String),
}

fn pairs(cell: &Cell) -> [Pair; 3] {
    [
        Pair::RowAndClass(cell.row, cell.class.name),
        Pair::CommandAndClass(cell.position.sent.command.clone(), cell.class.name),
        Pair::RowAndPosition(cell.row, cell.position.to_string()),
    ]
}

/// Chooses cells that have every pair.
#[must_use]
pub fn cover(cells: &[Cell]) -> Vec<Cell> {
    let of: Vec<[Pair; 3]> = cells.iter().map(pairs).collect();
    let mut left: HashSet<&Pair> = of.iter().flatten().collect();
    let mut chosen = Vec::new();
    while !left.is_empty() {
        let news = |at: &usize| of[*at].iter().filter(|pair| left.contains(pair)).count();
        // Of equal ones the first.
        let best = (0..cells.len()).rev().max_by_key(news).expect("a pair comes from a cell");
        of[best].iter().for_each(|pair| {
            left.remove(pair);
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
    fn few_cells_have_every_pair_and_are_the_same_again() {
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
        let chosen = cover(&all);
        let there: HashSet<Pair> = chosen.iter().flat_map(pairs).collect();
        assert!(all.iter().flat_map(pairs).all(|pair| there.contains(&pair)));
        assert!(chosen.len() <= 2 * 5 * CLASSES.len(), "{} of {}", chosen.len(), all.len());
        assert_eq!(chosen, cover(&all));
    }
}
