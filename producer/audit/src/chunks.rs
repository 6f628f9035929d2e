//! Which accounts were read at which moment: pure.
//!
//! A server keeps its history for some seconds, and many accounts take longer than that to read. So
//! they are read in pieces, in the order of their `_id`s. Each piece stands for one moment, and so
//! do the transactions that move something on its accounts just then. A leg is judged by the state
//! that its transaction had when the piece of its account was read.

use super::shared::Collections;

/// Where pieces end, in order.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    ends: Vec<String>,
    accounts: Collections,
}

/// The pieces for which a transaction is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over<'a> {
    /// It stood like this at the moments of all pieces.
    All,
    /// It stood like this at the moments of these, in order; at the others it had no effect, or
    /// another one.
    Only(&'a [usize]),
}

impl Chunks {
    /// None has ended yet.
    pub fn new(accounts: Collections) -> Chunks {
        Chunks { ends: Vec::new(), accounts }
    }

    /// The piece that an account of this `_id` belongs to, whether it exists or not.
    pub fn of(&self, account: &str) -> usize {
        self.ends.partition_point(|end| self.accounts.order(end, account).is_lt())
    }

    /// The account at which the last piece ends that has an end.
    pub fn last(&self) -> Option<&str> {
        self.ends.last().map(String::as_str)
    }

    /// Ends a piece at this account.
    pub fn end(&mut self, account: String) {
        self.ends.push(account);
    }
}

impl Over<'_> {
    pub fn includes(self, piece: usize) -> bool {
        match self {
            Over::All => true,
            Over::Only(pieces) => pieces.binary_search(&piece).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_belongs_to_the_piece_that_reaches_as_far_as_its_id() {
        let mut pieces = Chunks::default();
        assert_eq!(pieces.of("anything"), 0);
        pieces.end("b".to_owned());
        pieces.end("d".to_owned());
        let of = |id: &str| pieces.of(id);
        assert_eq!(["", "a", "b", "b\u{0}", "c", "d", "dd", "é"].map(of), [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(pieces.last(), Some("d"));
    }

    #[test]
    fn a_transaction_is_taken_in_for_the_pieces_that_are_named() {
        assert!(Over::All.includes(7));
        let only = Over::Only(&[1, 4]);
        assert_eq!(
            [0, 1, 2, 4, 5].map(|piece| only.includes(piece)),
            [false, true, false, true, false]
        );
    }
}
