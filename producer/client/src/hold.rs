//! What becomes of a hold: what a confirmation and a release find, and releasing.
//!
//! Confirming is in `confirm`. Promises that one guarded update decides, whatever else happens at
//! the same time: of a confirmation, a release and an expiry that meet, the first counts, by the
//! server's clock, and all others are told how it stands. A hold is confirmed once: the same again
//! changes nothing, another capture is refused. What was confirmed or released is published; if the
//! broker is away, a worker's sweeper finds it.

use ledger::amount::Amount;
use ledger::notation::{Form, Notation};
use ledger::transaction::{Body, Leg, Reason, ReasonCode, State};
use mongodb::bson::Document;

use crate::client::Client;
use crate::error::Error;
use crate::readable::state_of;
use crate::standing::Standing;

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
        let document = self.existing(id).await?;
        let (document, known) = match is_held(&document)? {
            false => (document, true),
            true => {
                let reason = Reason::new(ReasonCode::Released, "released on request");
                let request = |_| self.store().release_hold(id, &reason);
                let (_, open) = self.insist_write(request).await?;
                // The document shows the result, even if an answer was lost.
                let document = self.transaction(id).await.map_err(Error::after_a_write)?;
                let document =
                    document.ok_or_else(|| Error::no_transaction(id).unless_open(open))?;
                if is_held(&document)? {
                    return Err(Error::refused(id, NOT_CHANGED).unless_open(open));
                }
                (document, false)
            }
        };
        let standing = Standing::of(&document);
        let unpublished = match standing.state.is_some_and(State::is_final) {
            true => None,
            false => self.publish_or_leave(&[id.into()]).await.err(),
        };
        Ok(Decided { standing, captured: Vec::new(), known, unpublished })
    }

    async fn existing(&self, id: &str) -> Result<Document, Error> {
        self.transaction(id).await?.ok_or_else(|| Error::no_transaction(id))
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
