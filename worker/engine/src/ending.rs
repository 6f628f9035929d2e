//! How transactions end whose marks are gone: their final states and their line, in one step.
//!
//! Promises that an end is believed only where the ledger says that it is written, or a look shows
//! it, and that its events are due from the same moment on. The step is for all or for none. So
//! after a conflict a look shows who was in the way (a successor, a person who has parked one), and
//! the others are tried again; what the server refuses is halved until the culprit stands alone and
//! is set apart. When the server is away, nothing more is tried.

use std::collections::VecDeque;

use ledger::event::End;
use ledger::journal::{Entry, Line};
use ledger::transaction::TransactionId;
use ledger::{CALL_IDS_MAX, Ending, Fault, Ledger, LedgerError};

use super::Environment;
use super::announce::Untold;
use super::batch::Batch;
use super::native::AFTER_CONFLICT;
use super::news::tell;
use super::owned::{Left, Owned};
use super::steps::refused_to_move;

/// How often a piece is tried as it is while others are in the way, before it is halved.
const CONFLICTS_MAX: u32 = 3;

/// How often one batch tries in all: enough for a few culprits among as many transactions as a call
/// may have. What is left after that goes on apart from the others.
const TRIES_MAX: usize = 100;

/// Transactions that are to end together.
struct Piece {
    ids: Vec<TransactionId>,
    /// How often somebody else was in the way.
    conflicts: u32,
}

impl Piece {
    /// Two pieces, each with half of it.
    fn halves(mut self) -> Vec<Piece> {
        let second = self.ids.split_off(self.ids.len() / 2);
        [self.ids, second].map(|ids| Piece { ids, conflicts: 0 }).into()
    }
}

impl<L: Ledger, E: Environment> Batch<'_, L, E> {
    /// Ends those that go on.
    pub(super) async fn finish(&mut self, end: End, mut ids: Vec<TransactionId>) {
        ids.retain(|id| self.owned.get(id).is_some_and(Owned::goes_on));
        if ids.is_empty() {
            return;
        }
        debug_assert!(
            ids.iter().all(|id| self.owned[id].may_end() && self.owned[id].state == end.leaves()),
            "{end:?} of a transaction that is not ready for it"
        );
        let engine = self.engine;
        let _timer = engine.observer.phase(end.as_str());
        let piece = |ids: &[TransactionId]| Piece { ids: ids.to_vec(), conflicts: 0 };
        let mut pieces: VecDeque<Piece> = ids.chunks(CALL_IDS_MAX).map(piece).collect();
        for _ in 0..TRIES_MAX {
            let Some(piece) = pieces.pop_front() else { return };
            match self.end_piece(end, piece).await {
                Some(again) => pieces.extend(again),
                None => break,
            }
        }
        for Piece { ids, .. } in pieces {
            self.leave(&ids, Left::Apart);
        }
    }

    /// Tries to end a piece; returns what is to be tried again. None means that nothing more can be
    /// done now.
    async fn end_piece(&mut self, end: End, piece: Piece) -> Option<Vec<Piece>> {
        let line = self.line(end, &piece.ids);
        let ended = self.engine.retrying(|| self.engine.ledger.end(&line, &self.claim)).await;
        match ended {
            Ok(Ending::Written) => {
                self.engine.news.succeeded();
                self.written(end, line);
                Some(vec![])
            }
            Ok(Ending::Conflict) => Some(self.after_conflict(end, piece).await),
            Err(error) => self.after_failure(end, piece, &error),
        }
    }

    fn line(&self, end: End, ids: &[TransactionId]) -> Line {
        let body = |id| self.owned.get(id).and_then(Owned::body);
        let entries = ids.iter().map(|id| Entry::of(id, end, body(id))).collect();
        Line { heading: self.engine.heading(self.server_now()), entries }
    }

    fn written(&mut self, end: End, line: Line) {
        let state = end.state();
        self.engine.observer.moved(state, line.entries.len());
        let created = |entry: &Entry| Some(self.owned.get(&entry.id)?.created_at);
        let mut created = line.entries.iter().filter_map(created);
        self.engine.observer.ended(state, &mut created, self.server_now());
        self.committed.extend(Untold::of(&line.heading, line.events()));
        line.entries.into_iter().for_each(|entry| self.now_in(entry.id, state));
    }

    /// Looks what was in the way. What is still to end is tried again, in halves after some tries.
    async fn after_conflict(&mut self, end: End, piece: Piece) -> Vec<Piece> {
        let Piece { mut ids, conflicts } = piece;
        let (before, conflicts) = (ids.len(), conflicts + 1);
        self.engine.observer.retried("end");
        self.look_again(end.state(), &ids).await;
        let is_left = |owned: &Owned| owned.goes_on() && owned.state == end.leaves();
        ids.retain(|id| self.owned.get(id).is_some_and(is_left));
        match ids.len() {
            0 => vec![],
            count if count < before => vec![Piece { ids, conflicts }],
            _ if conflicts < CONFLICTS_MAX => {
                let delay = AFTER_CONFLICT.delay(conflicts, self.engine.environment.jitter());
                self.engine.environment.sleep(delay).await;
                vec![Piece { ids, conflicts }]
            }
            1 => {
                self.leave(&ids, Left::Later);
                vec![]
            }
            _ => Piece { ids, conflicts }.halves(),
        }
    }

    fn after_failure(&mut self, end: End, piece: Piece, error: &LedgerError) -> Option<Vec<Piece>> {
        let (worker, transactions) = (&self.claim.application, piece.ids.len());
        tell!(self.engine.news, error, %error, worker, transactions, "a part of a batch did not end");
        match (error.fault, piece.ids.as_slice()) {
            (Fault::Passing | Fault::Denied, ids) => {
                self.leave(ids, Left::Later);
                return None;
            }
            (Fault::TooMuch, [alone]) => self.leave([alone], Left::Apart),
            (Fault::Refused, [alone]) => {
                if let Some(owned) = self.owned.get_mut(alone) {
                    refused_to_move(owned, end.state(), &error.message);
                }
            }
            (Fault::TooMuch | Fault::Refused, _) => return Some(piece.halves()),
        }
        Some(vec![])
    }
}
