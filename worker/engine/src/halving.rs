//! A call of the ledger in pieces, so that a bad item costs its neighbours nothing.
//!
//! Here the calls of the two phases are made smaller when they failed. Three others halve by rules
//! of their own: a native batch, also after conflicts (`native`), a client's group of submissions,
//! which goes on until one stands alone, and a write whose answer can't be read (`mongo`). What
//! passes by itself is sent again as it is. What failed as a command (too large, too slow, refused)
//! is never repeated as it is: it is halved, at most [`HALVINGS_MAX`] times. A quarter that still
//! fails is left, and goes on in smaller messages ([`Outcome::Apart`]), so that halving continues
//! through the queue and not within one lease, until the culprit stands alone. The other quarters
//! are done meanwhile. So a call becomes at most seven commands, beside the repetitions of what
//! passes. When the server is away, nothing more is tried: it is away for the rest, too.
//!
//! A document that the server refuses by itself is no failure of its call: the ledger names it in
//! its answer ([`ledger::Written`]).
//!
//! [`Outcome::Apart`]: super::Outcome::Apart

use std::collections::VecDeque;

use ledger::{Fault, Ledger, LedgerError};

use super::news::tell;
use super::owned::Left;
use super::{Engine, Environment};

/// How often a piece is halved within one run of a batch.
const HALVINGS_MAX: u32 = 2;

/// What became of a call.
pub(super) struct Pieces<'x, T, R> {
    /// The pieces that were answered.
    pub answered: Vec<(&'x [T], R)>,
    /// The others, and how they are to go on.
    pub failed: Vec<(&'x [T], Left)>,
}

/// What follows from a failed piece.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Halve,
    /// The piece goes on apart from the others.
    Leave,
    /// This piece and all that come after it are left for later.
    Stop,
}

fn next(fault: Fault, items: usize, halvings: u32) -> Next {
    match fault {
        Fault::Passing | Fault::Denied => Next::Stop,
        Fault::TooMuch | Fault::Refused if items > 1 && halvings < HALVINGS_MAX => Next::Halve,
        Fault::TooMuch | Fault::Refused => Next::Leave,
    }
}

impl<L: Ledger, E: Environment> Engine<L, E> {
    /// Makes a call for each piece, in order; what is halved comes last.
    pub(super) async fn in_pieces<'x, T: 'x, R, F>(
        &self,
        pieces: impl IntoIterator<Item = &'x [T]>,
        call: impl Fn(&'x [T]) -> F,
    ) -> Pieces<'x, T, R>
    where
        F: Future<Output = Result<R, LedgerError>>,
    {
        let mut waiting: VecDeque<_> = pieces.into_iter().map(|piece| (piece, 0)).collect();
        let mut ended = Pieces { answered: Vec::new(), failed: Vec::new() };
        while let Some((piece, halvings)) = waiting.pop_front() {
            let error = match self.retrying(|| call(piece)).await {
                Ok(answer) => {
                    self.news.succeeded();
                    ended.answered.push((piece, answer));
                    continue;
                }
                Err(error) => error,
            };
            let next = next(error.fault, piece.len(), halvings);
            let worker = &self.settings.application;
            let items = piece.len();
            tell!(self.news, &error, %error, worker, items, ?next, "a part of a batch failed");
            match next {
                Next::Halve => {
                    let (first, second) = piece.split_at(piece.len() / 2);
                    // Behind the others: a slow item must not use their lease up.
                    waiting.push_back((first, halvings + 1));
                    waiting.push_back((second, halvings + 1));
                }
                Next::Leave => ended.failed.push((piece, Left::Apart)),
                Next::Stop => {
                    ended.failed.push((piece, Left::Later));
                    ended.failed.extend(waiting.drain(..).map(|(piece, _)| (piece, Left::Later)));
                }
            }
        }
        ended
    }
}

/// Cuts items into pieces of at most so many, and of at most so many bytes where an item is not
/// larger by itself.
pub fn cut<T>(
    items: &[T],
    most: usize,
    bytes_max: usize,
    bytes: impl Fn(&T) -> usize,
) -> Vec<&[T]> {
    let (mut pieces, mut start, mut sum) = (Vec::new(), 0, 0);
    for (at, item) in items.iter().enumerate() {
        let size = bytes(item);
        if at > start && (at - start == most || sum + size > bytes_max) {
            pieces.push(&items[start..at]);
            (start, sum) = (at, 0);
        }
        sum += size;
    }
    if start < items.len() {
        pieces.push(&items[start..]);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_or_is_denied_stops_and_what_is_too_much_is_halved_twice_and_then_left() {
        for (fault, items, halvings, expected) in [
            (Fault::Passing, 8, 0, Next::Stop),
            (Fault::Denied, 8, 0, Next::Stop),
            (Fault::TooMuch, 8, 0, Next::Halve),
            (Fault::Refused, 4, 1, Next::Halve),
            (Fault::TooMuch, 2, 2, Next::Leave),
            (Fault::Refused, 1, 0, Next::Leave),
        ] {
            assert_eq!(next(fault, items, halvings), expected, "{fault:?} {items} {halvings}");
        }
    }

    #[test]
    fn pieces_keep_the_limits_and_the_order() {
        let pieces = |items: &[usize], most| -> Vec<Vec<usize>> {
            cut(items, most, 10, |item| *item).into_iter().map(<[_]>::to_vec).collect()
        };
        assert_eq!(pieces(&[], 3), Vec::<Vec<usize>>::new());
        assert_eq!(pieces(&[1, 1, 1, 1], 3), [vec![1, 1, 1], vec![1]]);
        assert_eq!(pieces(&[6, 4, 1, 20, 3], 9), [vec![6, 4], vec![1], vec![20], vec![3]]);
    }
}
