//! What a client does to submit a transaction under an exclusive key:
//! `producer/client/src/keyed.rs` and `common/mongo/src/keyed.rs`, request by request.
//!
//! Owns one function: what a call does next is a function of the answers that it has heard. The
//! simulator and the search use it. The real code holds a driver's session and can't run over the
//! model.

use ledger::transaction::TransactionId;

use super::keyed::Inserted;
use super::request::Reply;

/// An answer, or none where the request failed: it may have happened, or may happen yet.
pub type Heard<'a> = Option<&'a Reply>;

/// What a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It reads the transaction by its `_id`.
    Look,
    /// It inserts in a native transaction; this is its number among the call's attempts.
    Insert(usize),
    /// It commits that native transaction.
    Commit(usize),
    /// It reads which undecided transaction has the key.
    Holder,
    /// It tells its caller that the transaction is accepted.
    Accept,
    /// It tells its caller that another transaction has the key.
    Refuse,
    /// It tells its caller that the outcome is unknown.
    GiveUp,
}

/// How calls go about it.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// How often a call tries before it says that the outcome is unknown.
    pub attempts_max: usize,
    /// Whether the commit is a request of its own, sent when the insert was answered. Otherwise the
    /// answer to the insert is that of its commit: a planted fault.
    pub commits_separately: bool,
}

/// What a call for a transaction does after these answers, which it takes from the iterator: those
/// that are left come after what it does next.
pub fn next<'a>(
    id: &TransactionId,
    habits: Habits,
    answers: &mut impl Iterator<Item = Heard<'a>>,
) -> Step {
    let mut looks = true;
    for attempt in 1..=habits.attempts_max {
        match one_attempt(id, habits, attempt, looks, answers) {
            Ok(again) => looks = again,
            Err(step) => return step,
        }
    }
    Step::GiveUp
}

/// One attempt. The error is the call's next step; otherwise the attempt is over, and the value
/// says whether the next one begins with a look by the `_id`: it does where a request failed.
fn one_attempt<'a>(
    id: &TransactionId,
    habits: Habits,
    attempt: usize,
    looks: bool,
    answers: &mut impl Iterator<Item = Heard<'a>>,
) -> Result<bool, Step> {
    if looks && look(answers)? == Looked::Lost {
        return Ok(true);
    }
    match outcome(answers.next().ok_or(Step::Insert(attempt))?) {
        // It is given up: its commit is never sent.
        None => return Ok(true),
        Some(Inserted::Conflict) => return Ok(false),
        Some(Inserted::Open) if !habits.commits_separately => return Err(Step::Accept),
        Some(Inserted::Open) => {
            return match outcome(answers.next().ok_or(Step::Commit(attempt))?) {
                Some(Inserted::Open) => Err(Step::Accept),
                Some(Inserted::Duplicate | Inserted::Conflict) => Ok(false),
                None => Ok(true),
            };
        }
        Some(Inserted::Duplicate) => {}
    }
    // The `_id` first: it may be this transaction, whose answer was lost, and which has the key.
    if look(answers)? == Looked::Lost {
        return Ok(true);
    }
    match seen(answers.next().ok_or(Step::Holder)?) {
        None => Ok(true),
        Some(holders) if holders.iter().any(|holder| holder != id) => Err(Step::Refuse),
        Some(_) => Ok(false),
    }
}

/// What came of a look by the `_id` that has not found the transaction.
#[derive(PartialEq)]
enum Looked {
    Nothing,
    Lost,
}

/// The error is the call's next step: the look itself, or the end where it has found the
/// transaction.
fn look<'a>(answers: &mut impl Iterator<Item = Heard<'a>>) -> Result<Looked, Step> {
    match seen(answers.next().ok_or(Step::Look)?) {
        None => Ok(Looked::Lost),
        Some(found) if found.is_empty() => Ok(Looked::Nothing),
        Some(_) => Err(Step::Accept),
    }
}

/// The transactions that a read has shown.
fn seen(answer: Heard<'_>) -> Option<Vec<TransactionId>> {
    match answer {
        Some(Reply::Seen(seen)) => Some(seen.iter().map(|seen| seen.id.clone()).collect()),
        Some(_) | None => None,
    }
}

/// What a write has done. Of a commit, a conflict is one that the server has refused.
fn outcome(answer: Heard<'_>) -> Option<Inserted> {
    match answer {
        Some(Reply::Written(written)) if written.count > 0 => Some(Inserted::Open),
        Some(Reply::Written(written)) if !written.refused.is_empty() => Some(Inserted::Duplicate),
        Some(Reply::Written(_)) => Some(Inserted::Conflict),
        Some(_) | None => None,
    }
}
