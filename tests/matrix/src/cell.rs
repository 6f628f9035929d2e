//! One cell: which command of which row fails, in which way; and what came of it.

use std::collections::HashMap;
use std::fmt;

use harness::proxy::{Sent, Spoil};

use crate::class::Class;
use crate::told::Told;

/// The n-th command of a name and purpose that a row sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The command.
    pub sent: Sent,
    /// Which of them, from 1.
    pub nth: usize,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The row, by its number.
    pub row: usize,
    /// The command that fails.
    pub position: Position,
    /// How.
    pub class: Class,
}

/// What came of a cell.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The cell.
    pub cell: Cell,
    /// What the caller was told of each item; of a worker nothing.
    pub told: Vec<Told>,
    /// What is not so.
    pub problems: Vec<String>,
    /// Whether the command came that was to fail. What runs side by side in a client or worker does
    /// not send the same commands each time.
    pub was_met: bool,
}

impl Cell {
    /// What its proxy does.
    #[must_use]
    pub fn spoil(&self) -> Spoil {
        Spoil {
            sent: self.position.sent.clone(),
            nth: self.position.nth,
            times: self.class.times,
            fault: self.class.fault.clone(),
        }
    }
}

/// The positions of what was sent, in its order.
#[must_use]
pub fn positions(sent: &[Sent]) -> Vec<Position> {
    let mut counts: HashMap<&Sent, usize> = HashMap::new();
    let number = |sent| {
        let nth = counts.entry(sent).or_default();
        *nth += 1;
        Position { sent: sent.clone(), nth: *nth }
    };
    sent.iter().map(number).collect()
}

/// All cells of a row.
#[must_use]
pub fn cells(row: usize, positions: &[Position], classes: &[Class]) -> Vec<Cell> {
    let cell = |position: &Position, class: &Class| Cell {
        row,
        position: position.clone(),
        class: class.clone(),
    };
    let of = |position: &Position| {
        let has_concern = position.sent.has_concern;
        let classes = classes.iter().filter(move |class| has_concern || !class.needs_concern());
        classes.map(|class| cell(position, class)).collect::<Vec<_>>()
    };
    positions.iter().flat_map(of).collect()
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sent { command, purpose, .. } = &self.sent;
        match purpose.as_str() {
            "" => write!(f, "{command} #{}", self.nth),
            purpose => write!(f, "{command} ({purpose}) #{}", self.nth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::CLASSES;

    fn sent(command: &str, has_concern: bool) -> Sent {
        Sent { command: command.to_owned(), purpose: String::new(), has_concern }
    }

    #[test]
    fn equal_commands_are_numbered_and_reads_fail_in_no_write_concern() {
        let (find, insert) = (sent("find", false), sent("insert", true));
        let positions = positions(&[find.clone(), insert.clone(), find.clone()]);
        let told: Vec<String> = positions.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["find #1", "insert #1", "find #2"]);
        let cells = cells(0, &positions, &CLASSES);
        let concerns = CLASSES.iter().filter(|class| class.needs_concern()).count();
        assert_eq!(cells.len(), 3 * CLASSES.len() - 2 * concerns);
    }
}
