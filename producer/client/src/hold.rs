//! What becomes of a hold: what a confirmation and a release find, and releasing.
//!
//! Confirming is in `confirm`. Promises that one guarded update decides, whatever else happens at
//! the same time: of a confirmation, a release and an expiry that meet, the first counts, by the
//! server's clock, and all others are told how it stands. A hold is confirmed once: the same again
//! changes nothing, another capture is refused. What was confirmed or released is published; if the
//! broker is away, a worker's sweeper finds it.

use std::collections::HashMap;

use ledger::amount::Amount;
use ledger::notation::{Form, Notation};
use ledger::transaction::{Body, Leg, Reason, ReasonCode, State, TransactionId};
use mongodb::bson::Document;

use crate::client::Client;
use crate::error::{Effect, Error};
use crate::readable::state_of;
use crate::standing::Standing;
use crate::together::in_parts;

/// How much of a hold is captured. What is held and not captured goes home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// All of it.
    #[default]
    All,
    /// So much of a transfer from one account to another.
    Value(Amount),
    /// An amount for each account of the transaction, with the sign of its leg, between zero and
    /// what is held. They sum to zero.
    Legs(Vec<Leg>),
}

/// What became of a hold that was confirmed or released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// How the transaction stands.
    pub standing: Standing,
    /// What was captured of each leg, in their order. Empty if it was not confirmed.
    pub captured: Vec<Leg>,
    /// Whether it was so before: then nothing was changed.
    pub known: bool,
    /// Why the broker was not told, if so. It counts all the same: the workers' sweepers find it.
    pub unpublished: Option<Error>,
}

impl Client {
    /// Releases a hold: a worker brings back what is held. Doing it again changes nothing. A hold
    /// that has expired or was canceled counts as released; its reason says which.
    ///
    /// # Errors
    /// [`Error::WrongState`] when it is no hold, not held yet or confirmed, [`Error::NotFound`],
    /// and when MongoDB stays away.
    pub async fn release(&self, id: &str) -> Result<Decided, Error> {
        let mut decided = self.release_some(&[id]).await?;
        decided.pop().unwrap_or_else(|| Err(Error::no_transaction(id)))
    }

    /// Releases holds, hundreds with one command; a result for each, in their order, as
    /// [`Client::release`] gives it. A failure of one does not affect the others. After
    /// [`Error::Unavailable`], release all of them again. While MongoDB is away, those that were
    /// not sent yet are not tried, and surely not released.
    pub async fn release_all(&self, ids: &[&str]) -> Vec<Result<Decided, Error>> {
        in_parts(ids, |some| self.release_some(some)).await
    }

    /// A result for each, in their order; an error when MongoDB stays away.
    async fn release_some(&self, ids: &[&str]) -> Result<Vec<Result<Decided, Error>>, Error> {
        let before = self.transactions_named(ids).await?;
        let is_held_before = |id: &&str| before.get(*id).is_some_and(|it| is_held(it) == Ok(true));
        let held: Vec<&str> = ids.iter().copied().filter(is_held_before).collect();
        let (after, open) = match held.is_empty() {
            true => (HashMap::new(), Effect::None),
            false => self.release_held(&held).await?,
        };
        let documents = (&before, &after);
        let known: Vec<Known> = ids.iter().map(|id| released(id, documents, open)).collect();
        let goes_on = |known: &Known| {
            known.as_ref().is_ok_and(|(standing, _)| !standing.state.is_some_and(State::is_final))
        };
        let to_tell = ids.iter().zip(&known).filter(|(_, known)| goes_on(known));
        let to_tell: Vec<TransactionId> = to_tell.map(|(id, _)| (*id).into()).collect();
        let failed = self.publish_or_leave(&to_tell).await.err();
        let decided = |known: Known| {
            let unpublished = failed.clone().filter(|_| goes_on(&known));
            let (standing, known) = known?;
            Ok(Decided { standing, captured: Vec::new(), known, unpublished })
        };
        Ok(known.into_iter().map(decided).collect())
    }

    /// Sends the updates; returns the documents after them, which show the result, even if an
    /// answer was lost, and whether an attempt is open.
    async fn release_held(&self, ids: &[&str]) -> Result<(Documents, Effect), Error> {
        let reason = Reason::new(ReasonCode::Released, "released on request");
        let request = |_| self.store().release_holds(ids, &reason);
        let (_, open) = self.insist_write(request).await?;
        let after = self.transactions_named(ids).await.map_err(Error::after_a_write)?;
        Ok((after, open))
    }
}

/// Transactions by their ids.
type Documents = HashMap<String, Document>;

/// How a hold stands that was to be released, and whether it was so before.
type Known = Result<(Standing, bool), Error>;

/// What became of a hold, by its document before it was released and after that.
fn released(id: &str, (before, after): (&Documents, &Documents), open: Effect) -> Known {
    let before = before.get(id).ok_or_else(|| Error::no_transaction(id))?;
    if !is_held(before)? {
        return Ok((Standing::of(before), true));
    }
    let after = after.get(id).ok_or_else(|| Error::no_transaction(id).unless_open(open))?;
    match is_held(after)? {
        true => Err(Error::refused(id, NOT_CHANGED).unless_open(open)),
        false => Ok((Standing::of(after), false)),
    }
}

const NOT_CHANGED: &str = "is still held; the server refuses to change it, see audit";

/// What a confirmation finds.
#[derive(Debug, PartialEq)]
pub(crate) enum HoldState {
    /// A hold, and what a confirmation would capture.
    Held(Vec<Leg>),
    /// It was confirmed with this capture.
    Confirmed(Vec<Leg>),
}

/// Whether there is something to confirm.
pub(crate) fn look(
    document: &Document,
    capture: &Capture,
    notation: &Notation,
) -> Result<HoldState, Error> {
    let id = document.get_str("_id").unwrap_or_default();
    let state = state_of(document)?;
    let body = Body::from_document(document).map_err(|problem| {
        Error::refused(&format!("transactions/{id}"), format!("{problem}; see audit"))
    })?;
    let wrong = |problem| Err(Error::WrongState { id: id.to_owned(), state, problem });
    if !body.terms().hold {
        return wrong("was not submitted as a hold, so there is nothing to confirm");
    }
    if let Some(captured) = &body.terms().captured {
        return match capture.of(&body) {
            Ok(asked) if asked == *captured => Ok(HoldState::Confirmed(asked)),
            Ok(_) | Err(_) => {
                Err(Error::Captured { id: id.to_owned(), captured: captured.clone() })
            }
        };
    }
    match state {
        State::Held => {
            capture.is_written_as(&body, notation)?;
            capture.of(&body).map(HoldState::Held)
        }
        State::Scheduled | State::Initial | State::Pending => {
            wrong("not held yet; confirm it when it is held")
        }
        State::Canceling | State::Canceled => wrong(why_not(document)),
        State::Applied | State::Done => {
            Err(Error::refused(id, format!("is {state} and was never confirmed; see audit")))
        }
    }
}

/// Why a hold that was not confirmed can't be confirmed any more.
fn why_not(document: &Document) -> &'static str {
    let code = Standing::of(document).reason.map_or_else(String::new, |(code, _)| code);
    match ReasonCode::ALL.into_iter().find(|known| known.as_str() == code) {
        Some(ReasonCode::Released) => "can't be confirmed: it was released",
        Some(ReasonCode::HoldExpired | ReasonCode::Expired) => "can't be confirmed: it has expired",
        Some(
            ReasonCode::AccountNotFound
            | ReasonCode::AccountFrozen
            | ReasonCode::AccountClosed
            | ReasonCode::CurrencyMismatch
            | ReasonCode::InsufficientFunds
            | ReasonCode::BalanceLimit
            | ReasonCode::AmountTypeMismatch
            | ReasonCode::AccountInvalid
            | ReasonCode::Invalid
            | ReasonCode::RetriesExhausted
            | ReasonCode::Requested
            | ReasonCode::HoldLimit,
        )
        | None => "can't be confirmed: it has no effect",
    }
}

/// The error of a hold that is held, also after its confirmation was sent.
pub(crate) fn not_confirmed(document: &Document) -> Error {
    let id = document.get_str("_id").unwrap_or_default();
    let ends = Body::from_document(document).ok().and_then(|body| body.terms().confirm_before());
    match ends {
        Some(_) => Error::WrongState {
            id: id.to_owned(),
            state: State::Held,
            problem: "can't be confirmed: it has expired, and a worker is about to release it",
        },
        None => Error::refused(id, NOT_CHANGED),
    }
}

/// Whether there is something to release; false if it is released already. Of a hold whose content
/// can't be read, the money comes home all the same.
fn is_held(document: &Document) -> Result<bool, Error> {
    let id = document.get_str("_id").unwrap_or_default();
    let state = state_of(document)?;
    let wrong = |problem| Err(Error::WrongState { id: id.to_owned(), state, problem });
    if !document.get_bool("hold").unwrap_or(false) {
        return wrong("was not submitted as a hold, so there is nothing to release");
    }
    match state {
        State::Held => Ok(true),
        State::Canceling | State::Canceled => Ok(false),
        State::Scheduled | State::Initial | State::Pending | State::Applied | State::Done
            if document.contains_key("captured") =>
        {
            wrong("was confirmed, so it can't be released")
        }
        State::Scheduled | State::Initial | State::Pending => wrong("not held yet; cancel it"),
        State::Applied | State::Done => {
            Err(Error::refused(id, format!("is {state} and was never confirmed; see audit")))
        }
    }
}

impl Capture {
    /// An error for a part in another form than the hold, or with more places than its currency
    /// has.
    fn is_written_as(&self, body: &Body, notation: &Notation) -> Result<(), Error> {
        let (field, amounts) = match self {
            Capture::All => return Ok(()),
            Capture::Value(value) => ("value", vec![*value]),
            Capture::Legs(legs) => ("captured", legs.iter().map(|leg| leg.amount).collect()),
        };
        let currency = body.currency.as_deref();
        let is_whole = body.legs().iter().all(|leg| leg.amount.is_int());
        let of_hold = Notation {
            form: if is_whole { Form::MinorUnits } else { Form::Decimals },
            own: notation.own.clone(),
        };
        let wrong = amounts.into_iter().find_map(|amount| of_hold.check(amount, currency).err());
        wrong.map_or(Ok(()), |wrong| Err(Error::invalid(field, wrong.to_string())))
    }

    /// What it captures of a transaction, in the order of its legs.
    fn of(&self, body: &Body) -> Result<Vec<Leg>, Error> {
        let named = match self {
            Capture::All => return Ok(body.legs().to_vec()),
            Capture::Legs(legs) => return Ok(body.capture(legs)?),
            Capture::Value(value) => value,
        };
        if named.is_negative() || named.is_zero() {
            let problem =
                format!("is {named}; it must be above zero. To capture nothing, release it");
            return Err(Error::invalid("value", problem));
        }
        if body.legs().len() != 2 {
            let problem = format!(
                "the transaction has {} legs; capture an amount for each account",
                body.legs().len()
            );
            return Err(Error::invalid("value", problem));
        }
        let part = |leg: &Leg| {
            let amount = if leg.amount.is_negative() { named.negated() } else { *named };
            Leg { account: leg.account.clone(), amount }
        };
        let parts: Vec<Leg> = body.legs().iter().map(part).collect();
        Ok(body.capture(&parts)?)
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
