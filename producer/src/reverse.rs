//! `reverse`: taking an applied transaction back by a new one with its legs turned round.
//!
//! Promises at most one effective reversal an original: its id is derived from the original's, and
//! the next attempt's id is used only when the one before is finally canceled, without effect.

use std::io::Write;

use clap::Args;
use common::limits::NAME_BYTES_MAX;
use common::transaction::{Body, State, check_name};
use mongodb::bson::Document;
use sha2::{Digest, Sha256};

use super::transfer::submit_one;
use super::{find, publish, report_end, state_of};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::follow::WaitArgs;
use crate::submission::{Answer, Order, difference};

/// The most reversals of one original that are looked at.
const ATTEMPTS_MAX: u32 = 10_000;

/// Which transaction to reverse.
#[derive(Args, Clone, Debug)]
pub struct ReverseArgs {
    /// Its id
    pub id: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented by its type")]
    pub wait: WaitArgs,
}

/// What a request to reverse came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reversal {
    /// A new transaction takes it back.
    Submitted(String),
    /// One was there before, in this state.
    Already(String, State),
}

/// Reverses an applied transaction. Doing it again changes nothing.
///
/// # Errors
/// When there is nothing to reverse, or a server stays away.
pub async fn reverse_one(context: &Context, id: &str) -> Result<Reversal, Error> {
    let body = reversed(context, id).await?;
    for attempt in 1..=ATTEMPTS_MAX {
        let reversal = reversal_id(id, attempt);
        check_name("the reversal's id", &reversal)?;
        let existing = match find(context, &reversal).await? {
            Some(existing) => existing,
            None => {
                let order = Order { id: reversal.as_str().into(), body: body.clone() };
                match submit_one(context, &order).await? {
                    Answer::Submitted => return Ok(Reversal::Submitted(reversal)),
                    Answer::Refused(problem) => return Err(Error::Refused(problem)),
                    // Somebody was faster: look at what is there now.
                    Answer::Unchanged(_) | Answer::Conflict(_) => {
                        find(context, &reversal).await?.ok_or_else(|| {
                            Error::Refused(format!("transactions/{reversal}: is gone"))
                        })?
                    }
                }
            }
        };
        match standing(&existing, id, &body)? {
            Standing::NextAttempt => {}
            Standing::Effective(state) => {
                if !state.is_final() {
                    publish(context, &[reversal.as_str().into()]).await?;
                }
                return Ok(Reversal::Already(reversal, state));
            }
        }
    }
    Err(Error::Refused(format!(
        "{id}: {ATTEMPTS_MAX} reversals of it were canceled; see why first"
    )))
}

async fn reversed(context: &Context, id: &str) -> Result<Body, Error> {
    let original = find(context, id).await?;
    let original = original.ok_or_else(|| Error::Refused(format!("{id}: no such transaction")))?;
    match state_of(&original)? {
        State::Applied | State::Done => {}
        state @ (State::Initial | State::Pending) => {
            return Err(Error::Refused(format!(
                "{id}: is {state} and has no effect yet; take it back with: producer cancel {id}"
            )));
        }
        state @ (State::Canceling | State::Canceled) => {
            return Err(Error::Refused(format!(
                "{id}: is {state} and has no effect; there is nothing to reverse"
            )));
        }
    }
    let body = Body::from_document(&original)
        .map_err(|problem| Error::Refused(format!("transactions/{id}: {problem}; see audit")))?;
    Ok(body.reversed(id))
}

/// Always the same for an original and an attempt. Where the original's id leaves no room, its hash
/// stands for it.
fn reversal_id(original: &str, attempt: u32) -> String {
    let of = |original: &str| match attempt {
        1 => format!("reverse:{original}"),
        later => format!("reverse:{original}:{later}"),
    };
    let plain = of(original);
    if plain.len() <= NAME_BYTES_MAX {
        return plain;
    }
    let digest = Sha256::digest(original.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    of(&format!("sha256:{hex}"))
}

/// What stands under a reversal's id.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// The reversal, effective or still on its way.
    Effective(State),
    /// Nothing that counts: the reversal without effect, or a transaction of somebody else (an
    /// original may itself be called `t:2`). Neither ever changes, so all who ask agree.
    NextAttempt,
}

fn standing(existing: &Document, original: &str, reversed: &Body) -> Result<Standing, Error> {
    if existing.get_str("reverses").ok() != Some(original) {
        return Ok(Standing::NextAttempt);
    }
    let state = state_of(existing)?;
    if state == State::Canceled {
        return Ok(Standing::NextAttempt);
    }
    match Body::from_document(existing) {
        Ok(stored) if difference(reversed, &stored).is_none() => Ok(Standing::Effective(state)),
        Ok(_) | Err(_) => Err(Error::Refused(format!(
            "transactions/{}: says it reverses {original}, with other legs; not made by reverse",
            existing.get_str("_id").unwrap_or_default()
        ))),
    }
}

/// Reverses a transaction and says what came of it.
///
/// # Errors
/// As [`reverse_one`].
pub async fn reverse(
    context: &Context,
    args: &ReverseArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set(
        "run the same command again: a reversal that is there already is not made a second time",
    );
    context.ensure_schema().await?;
    let id = &args.id;
    let reversal = match reverse_one(context, id).await? {
        Reversal::Submitted(reversal) => {
            writeln!(out, "{id}: reversed by {reversal}").map_err(Error::output)?;
            reversal
        }
        Reversal::Already(reversal, state) => {
            writeln!(out, "{id}: is already reversed by {reversal} ({state})")
                .map_err(Error::output)?;
            reversal
        }
    };
    if args.wait.wait {
        return report_end(context, &reversal, &args.wait, out).await;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use common::amount::Amount;
    use mongodb::bson::{Bson, DateTime};

    use super::*;

    fn stored(body: &Body, state: State) -> Document {
        let mut document = body.to_document("reverse:t", DateTime::from_millis(0));
        document.insert("state", Bson::from(state));
        document
    }

    #[test]
    fn only_a_canceled_reversal_is_followed_by_another() {
        let body = Body::transfer("a", "b", Amount::Int(1)).expect("valid").reversed("t");
        for state in State::ALL {
            let expected = match state {
                State::Canceled => Standing::NextAttempt,
                state => Standing::Effective(state),
            };
            assert_eq!(standing(&stored(&body, state), "t", &body).expect("ours"), expected);
        }
    }

    #[test]
    fn every_id_can_be_reversed_and_always_by_the_same_one() {
        let mut met = std::collections::HashSet::new();
        for length in [1, 191, 192, 193, 199, NAME_BYTES_MAX] {
            for letter in ["x", "y"] {
                let original = letter.repeat(length);
                for attempt in [1, 2, ATTEMPTS_MAX] {
                    let reversal = reversal_id(&original, attempt);
                    assert_eq!(check_name("id", &reversal), Ok(()), "{length} {attempt}");
                    assert_eq!(reversal, reversal_id(&original, attempt));
                    assert!(met.insert(reversal), "{length} {attempt} has the id of another");
                }
            }
        }
        assert_eq!(reversal_id("t", 1), "reverse:t");
        assert!(reversal_id(&"x".repeat(192), 1).ends_with("xxx"));
        assert!(reversal_id(&"x".repeat(193), 1).starts_with("reverse:sha256:"));
    }

    #[test]
    fn ids_that_look_like_a_later_attempt_do_not_mix() {
        assert_eq!(reversal_id("t", 2), reversal_id("t:2", 1));
        let original = Body::transfer("a", "b", Amount::Int(1)).expect("valid");
        let (ours, theirs) = (original.reversed("t"), original.reversed("t:2"));
        let document = stored(&theirs, State::Done);
        assert_eq!(standing(&document, "t", &ours).expect("theirs"), Standing::NextAttempt);
        let other = Body::transfer("a", "b", Amount::Int(2)).expect("valid").reversed("t");
        assert!(standing(&stored(&other, State::Done), "t", &ours).is_err());
    }
}
