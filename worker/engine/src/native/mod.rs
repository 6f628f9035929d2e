//! One batch in one native transaction: the second engine.
//!
//! Owns what happens around [`Ledger::transact`]: what is tried (`read` reads it), what follows
//! from a conflict or a failure, and what is left to the two-phase protocol
//! ([`Batch`](super::batch::Batch)): whatever is in flight already, whatever a native transaction
//! can't settle, and everything while the engine chooses so. So both engines run side by side on
//! the same data. Promises nothing beyond what the ledger does: it only looks, tries, and looks
//! again. It claims nothing, so a crash leaves nothing to wait for but the server's memory of the
//! transaction.
//!
//! Conflicts come from other processes; lanes of this one keep out of each other's way
//! ([`super::reserve`]). The batch is tried again after a moment, then in halves, since a smaller
//! one is open for a shorter time and has fewer accounts to lose; a single one that still conflicts
//! goes the other way, which never has to start from the beginning. What fails as a command (too
//! large, too slow, a document in it refused) is halved at once, and a quarter that still fails
//! goes the other way, which finds the culprit.

mod read;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use ledger::event::End;
use ledger::journal::Heading;
use ledger::retry::Policy;
use ledger::transaction::{Body, TransactionId};
use ledger::{Content, Fault, Ledger, LedgerError, Seen, Transacted, Verdict};

use super::announce::Untold;
use super::news::tell;
use super::owned::Left;
use super::reserve::Reserved;
use super::{Engine, Environment, Outcome, Underway};

use read::Read;

/// How often a batch is tried as it is, before it is halved.
const CONFLICTS_MAX: u32 = 3;

/// After so many conflicts in a row the rest is settled in two phases, which wait for single
/// documents, not for all of them at once.
const CONFLICTS_IN_A_ROW_MAX: u32 = 4 * CONFLICTS_MAX;

/// How long to leave the documents to somebody else: about as long as a batch takes.
pub(super) const AFTER_CONFLICT: Policy =
    Policy { first: Duration::from_millis(10), max: Duration::from_millis(80) };

/// How often a batch that fails as a command is halved.
const HALVINGS_MAX: u32 = 2;

pub(super) struct NativeBatch<'a, L, E> {
    pub(super) engine: &'a Engine<L, E>,
    pub(super) outcomes: Vec<(TransactionId, Outcome)>,
    /// What waits for accounts of other lanes.
    waiting: VecDeque<Piece<'a>>,
    /// What goes the way of two phases.
    pub(super) in_phases: Vec<TransactionId>,
    /// Conflicts since the last commit.
    conflicts: u32,
    /// What was committed and is to be announced.
    committed: Vec<Untold>,
}

/// Part of a batch.
struct Piece<'a> {
    ids: Vec<TransactionId>,
    /// How often it was halved because it failed as a command.
    halvings: u32,
    /// What was read of it, and the accounts that it waits for.
    waits: Option<(Read, Reserved<'a>)>,
}

impl<'a, L: Ledger, E: Environment> NativeBatch<'a, L, E> {
    pub(super) fn new(engine: &'a Engine<L, E>) -> NativeBatch<'a, L, E> {
        NativeBatch {
            engine,
            waiting: VecDeque::new(),
            outcomes: Vec::new(),
            in_phases: Vec::new(),
            conflicts: 0,
            committed: Vec::new(),
        }
    }

    pub(super) async fn begin(mut self, ids: &[TransactionId]) -> Underway<'a, L, E> {
        let unique: BTreeSet<_> = ids.iter().cloned().collect();
        let ids: Vec<_> = unique.into_iter().collect();
        let mut pieces = vec![Piece { ids, halvings: 0, waits: None }];
        while let Some(mut piece) = pieces.pop().or_else(|| self.waiting.pop_front()) {
            if !self.engine.auto.is_native(&self.engine.environment) {
                // Found out on the way.
                self.in_phases.extend(piece.ids);
                continue;
            }
            let most = self.engine.auto.native_most();
            if piece.waits.is_none() && piece.ids.len() > most {
                // The first part is taken from the front, so the order of the ids is kept.
                let ids = piece.ids.split_off(most);
                pieces.push(Piece { ids, halvings: piece.halvings, waits: None });
            }
            let Some(Piece { mut ids, halvings, .. }) = self.settle(piece).await else { continue };
            if ids.len() < 2 {
                self.in_phases.append(&mut ids);
                continue;
            }
            // The first half comes first: the order of the ids is kept.
            let second = ids.split_off(ids.len().div_ceil(2));
            pieces.push(Piece { ids: second, halvings, waits: None });
            pieces.push(Piece { ids, halvings, waits: None });
        }
        let batch = match self.in_phases.as_slice() {
            [] => None,
            in_phases => Some(self.engine.begin_in_phases(in_phases).await),
        };
        let NativeBatch { engine, outcomes, committed, .. } = self;
        Underway { engine, outcomes, committed, batch, counted: None }
    }

    /// Settles a piece; returns what is to be halved.
    async fn settle(&mut self, piece: Piece<'a>) -> Option<Piece<'a>> {
        let Piece { ids: mut open, halvings, waits } = piece;
        let (mut read, mut reserved) = waits.unzip();
        if let Some(reserved) = &reserved {
            reserved.turn().await;
        }
        let (mut conflicts, mut failures) = (0, 0);
        loop {
            // What has changed while it waited makes a conflict, and is seen then.
            let mut read = match read.take() {
                Some(read) => read,
                None => self.look(&open, failures > 0).await,
            };
            if reserved.is_none() {
                let (share, ours) = self.reserve(read, halvings);
                (read, reserved) = (share, Some(ours));
            }
            open = read.initial.iter().map(|seen| seen.id.clone()).collect();
            if open.is_empty() {
                return None;
            }
            let begun_ms = self.engine.environment.now_ms();
            match self.attempt(read, begun_ms).await {
                Ok(true) => {
                    self.engine.news.succeeded();
                    return None;
                }
                Ok(false) => {
                    conflicts += 1;
                    self.conflicts += 1;
                    self.engine.observer.retried("transact");
                    self.engine.auto.learn_attempt(true, begun_ms, &self.engine.environment);
                    // The engine may have found out that two phases are better now.
                    if self.conflicts >= CONFLICTS_IN_A_ROW_MAX
                        || !self.engine.auto.is_native(&self.engine.environment)
                    {
                        self.in_phases.append(&mut open);
                        return None;
                    }
                    if conflicts >= CONFLICTS_MAX {
                        return Some(Piece { ids: open, halvings, waits: None });
                    }
                    let delay = AFTER_CONFLICT.delay(conflicts, self.engine.environment.jitter());
                    self.engine.environment.sleep(delay).await;
                }
                Err(error) => {
                    failures += 1;
                    if let Err(error) = self.engine.pause(failures, error).await {
                        let piece = Piece { ids: open, halvings, waits: None };
                        return self.failed(piece, &error);
                    }
                }
            }
        }
    }

    /// Tries to commit what was read; returns whether it did, or somebody else was in the way.
    async fn attempt(&mut self, read: Read, begun_ms: i64) -> Result<bool, LedgerError> {
        let created: Vec<_> = read.initial.iter().map(|seen| seen.created_at).collect();
        let server_ms = read.server_ms(begun_ms);
        let heading = self.engine.heading(server_ms);
        let contents = contents(read.initial);
        let verdicts = match self.transact(&contents, &heading).await? {
            Transacted::Committed(verdicts) => verdicts,
            Transacted::Conflict => return Ok(false),
        };
        self.engine.auto.learn_attempt(false, begun_ms, &self.engine.environment);
        self.conflicts = 0;
        self.committed.extend(Untold::of(&heading, verdicts.iter().map(Verdict::ended)));
        let took_ms = self.engine.environment.now_ms().saturating_sub(begun_ms);
        let ended_ms = server_ms.saturating_add(took_ms);
        for end in End::ALL {
            // A verdict for each transaction, in their order.
            let times = verdicts.iter().zip(&created);
            let times = times.filter(|(verdict, _)| verdict.end() == end);
            let mut times = times.map(|(_, created)| *created);
            self.engine.observer.ended(end.state(), &mut times, ended_ms);
        }
        verdicts.into_iter().for_each(|verdict| self.ended(verdict));
        Ok(true)
    }

    /// Keeps those whose accounts no other lane works on; the others wait.
    fn reserve(&mut self, read: Read, halvings: u32) -> (Read, Reserved<'a>) {
        let at_ms = read.at_ms;
        let ((share, ours), later) = self.engine.reservations.name(read.initial);
        if let Some((initial, theirs)) = later {
            let ids = initial.iter().map(|seen| seen.id.clone()).collect();
            let waits = Some((Read { initial, at_ms }, theirs));
            self.waiting.push_back(Piece { ids, halvings, waits });
        }
        (Read { initial: share, at_ms }, ours)
    }

    /// What follows from a failure that is not tried again in place; returns what is to be halved.
    fn failed(&mut self, mut piece: Piece<'a>, error: &LedgerError) -> Option<Piece<'a>> {
        let transactions = piece.ids.len();
        tell!(self.engine.news, error, %error, transactions, "a native transaction failed");
        match error.fault {
            // Nothing is held, so nothing has to be given up.
            Fault::Passing | Fault::Denied => {
                self.leave(&piece.ids, Left::Later);
                None
            }
            Fault::TooMuch | Fault::Refused if piece.halvings < HALVINGS_MAX => {
                Some(Piece { halvings: piece.halvings + 1, ..piece })
            }
            Fault::TooMuch | Fault::Refused => {
                self.in_phases.append(&mut piece.ids);
                None
            }
        }
    }

    async fn transact(
        &self,
        contents: &[Content],
        heading: &Heading,
    ) -> Result<Transacted, LedgerError> {
        let bodies = contents.iter().filter_map(|(_, body)| body.as_ref().ok());
        let accounts = bodies.flat_map(Body::legs).map(|leg| leg.account.clone());
        self.engine.settle_waiting(accounts).await;
        let phase = self.engine.observer.phase("transaction");
        let transacted = self.engine.ledger.transact(contents, heading).await;
        if matches!(transacted, Ok(Transacted::Conflict)) {
            phase.lost();
        }
        transacted
    }

    fn ended(&mut self, verdict: Verdict) {
        if let Some(reason) = &verdict.refused {
            self.engine.observer.refused(reason.code);
        }
        self.engine.observer.moved(verdict.end().state(), 1);
        self.outcomes.push((verdict.id, Outcome::Final));
    }

    /// Nothing is held, so nothing has to be given up.
    pub(super) fn leave(&mut self, ids: &[TransactionId], left: Left) {
        let jitter = self.engine.environment.jitter();
        let delay = self.engine.settings.retry.delay(1, jitter);
        let after_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        let outcome = match left {
            Left::Later | Left::Surplus => Outcome::Retry { after_ms },
            Left::Apart => Outcome::Apart { after_ms },
        };
        self.outcomes.extend(ids.iter().map(|id| (id.clone(), outcome)));
    }
}

fn contents(initial: Vec<Seen>) -> Vec<Content> {
    let gone = || Err("its document was deleted".to_owned());
    initial.into_iter().map(|seen| (seen.id, seen.body.unwrap_or_else(gone))).collect()
}
