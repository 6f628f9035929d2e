//! Confirming and releasing holds.
//!
//! Promises that the same request again changes nothing and is answered with how it stands. The
//! broker may be away: what was confirmed or released is durable, and a sweeper finds it.

use client::{ActEnd, Capture, Decided};
use input::{CAPTURE, Record, parse_capture};
use ledger::limits::echo;
use ledger::notation::Notation;
use ledger::transaction::{Leg, State};

use super::access::Debited;
use super::answer::Answer;
use super::call::Call;
use super::problem::Problem;
use super::received::{Received, Wait};
use super::submissions::stands;
use super::transactions::require_moves;

/// `POST /v1/transactions/{id}/confirm`
pub async fn confirm(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    let capture = capture(&call, &call.api.client.store().notation())?;
    require_moves(&call, id, Debited::ByIt).await?;
    let decided = call.api.client.confirm(id, &capture).await?;
    let ended = (!decided.known).then(|| ActEnd::ok(captured(&decided.captured)));
    Ok(Answer { ended, ..answer(&call, decided, wait).await? })
}

/// What is noted of a confirmation: what the payee gets, or how many accounts of many it is about.
fn captured(legs: &[Leg]) -> String {
    let credited = legs.iter().filter(|leg| !leg.amount.is_negative());
    let what = match credited.collect::<Vec<_>>()[..] {
        [one] => format!("{} for {}", one.amount, echo(&one.account)),
        _ => format!("amounts of {} accounts", legs.len()),
    };
    format!("it is durable and captures {what}")
}

/// `POST /v1/transactions/{id}/release`
pub async fn release(call: Call) -> Result<Answer, Problem> {
    let (id, wait) = (call.name()?, call.wait()?);
    require_moves(&call, id, Debited::ByIt).await?;
    let decided = call.api.client.release(id).await?;
    answer(&call, decided, wait).await
}

/// How much a request captures: all, if it has no body.
pub fn capture(received: &Received, notation: &Notation) -> Result<Capture, Problem> {
    match received.body.is_empty() {
        true => Ok(Capture::All),
        false => Ok(parse_capture(Record::from_value(received.json()?, CAPTURE)?, notation)?),
    }
}

async fn answer(call: &Call, decided: Decided, wait: Option<Wait>) -> Result<Answer, Problem> {
    call.api.note_unpublished(decided.unpublished.as_ref());
    let state = decided.standing.state.unwrap_or(State::Pending);
    let answer = stands(&call.api, call.name()?, state, wait).await?;
    Ok(answer.replayed_if(decided.known))
}

#[cfg(test)]
mod tests {
    use ledger::amount::Amount;

    use super::*;

    #[test]
    fn a_confirmation_is_noted_with_the_amount_that_it_captures() {
        let leg =
            |account: &str, amount| Leg { account: account.into(), amount: Amount::Int(amount) };
        let one = [leg("card", -30), leg("shop", 30)];
        assert_eq!(captured(&one), "it is durable and captures 30 for shop");
        let many = [leg("card", -30), leg("shop", 20), leg("fee", 10)];
        assert_eq!(captured(&many), "it is durable and captures amounts of 3 accounts");
    }
}
