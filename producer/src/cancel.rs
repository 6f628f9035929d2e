//! `cancel`: taking a transaction back before it is applied.
//!
//! Promises that two guarded updates decide, whatever workers do meanwhile: what is `initial`
//! becomes `canceled`, what is `pending` becomes `canceling`. The claim stays: the owner notices at
//! its commit and undoes what it has posted; a dead owner's successor does, after the takeover time.

use std::io::Write;

use clap::Args;
use common::transaction::{Reason, ReasonCode, State};
use mongodb::bson::{Document, doc};

use super::{find, publish, reason_text, report_end, state_of};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::follow::WaitArgs;

/// Which transaction to cancel.
#[derive(Args, Clone, Debug)]
pub struct CancelArgs {
    /// Its id
    pub id: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented by its type")]
    pub wait: WaitArgs,
}

/// What a request to cancel came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Canceling {
    /// It is canceled, with this state of the document.
    Canceled(Document),
    /// A worker is undoing it.
    Underway(Document),
    /// It is applied or done, and only a reversal takes it back.
    TooLate(State),
    /// There is no such transaction.
    Unknown,
}

/// Cancels a transaction that is not yet applied. Doing it again changes nothing.
///
/// # Errors
/// When a server stays away, or the document is none of ours.
pub async fn cancel_one(context: &Context, id: &str) -> Result<Canceling, Error> {
    context.insist(|| context.store.change("cancel", "transactions", statements(id))).await?;
    // Whatever the updates' answers were, or were lost: the document says what holds.
    let Some(document) = find(context, id).await? else {
        return Ok(Canceling::Unknown);
    };
    match state_of(&document)? {
        State::Canceled => Ok(Canceling::Canceled(document)),
        State::Canceling => {
            // A hint for whoever may take it over.
            publish(context, &[id.into()]).await?;
            Ok(Canceling::Underway(document))
        }
        state @ (State::Applied | State::Done) => Ok(Canceling::TooLate(state)),
        state @ (State::Initial | State::Pending) => Err(Error::Refused(format!(
            "{id}: is still {state}; the server refuses to change it, see audit"
        ))),
    }
}

/// Both run one after the other: a claim between them turns the first one's case into the second's.
fn statements(id: &str) -> Vec<Document> {
    let reason = Reason::new(ReasonCode::Requested, "canceled on request").to_document();
    let statement = |from: State, to: State| {
        doc! {
            "q": { "_id": id, "state": from },
            "u": [{ "$set": {
                "state": to,
                "reason": { "$literal": &reason },
                "lastModified": "$$NOW",
            } }],
        }
    };
    let mut unclaimed = statement(State::Initial, State::Canceled);
    // What the sweeper leaves on waiting documents means nothing on a final one.
    if let Ok(pipeline) = unclaimed.get_array_mut("u") {
        pipeline.push(doc! { "$unset": ["sweepAfter"] }.into());
    }
    vec![unclaimed, statement(State::Pending, State::Canceling)]
}

/// Cancels a transaction and says what came of it.
///
/// # Errors
/// As [`cancel_one`].
pub async fn cancel(
    context: &Context,
    args: &CancelArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let id = &args.id;
    context.advice.set("run the same command again: canceling twice changes nothing more");
    context.ensure_schema().await?;
    match cancel_one(context, id).await? {
        Canceling::Canceled(document) => {
            let reason = reason_text(&document);
            writeln!(out, "{id}: canceled{reason}").map_err(Error::output)?;
            Ok(Exit::Ok)
        }
        Canceling::Underway(document) => {
            let reason = reason_text(&document);
            writeln!(out, "{id}: canceling{reason}; a worker undoes it").map_err(Error::output)?;
            if !args.wait.wait {
                return Ok(Exit::Ok);
            }
            // Canceled is what was asked for.
            let exit = report_end(context, id, &args.wait, out).await?;
            Ok(if exit == Exit::Canceled { Exit::Ok } else { exit })
        }
        Canceling::TooLate(state) => Err(Error::Refused(format!(
            "{id}: is {state} and can't be canceled any more; take it back with: producer reverse \
             {id}"
        ))),
        Canceling::Unknown => Err(Error::Refused(format!("{id}: no such transaction"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canceling_never_touches_the_owner() {
        let pending = &statements("t")[1];
        assert_eq!(pending.get_document("q").expect("q").get_str("state").ok(), Some("pending"));
        let set = pending.get_array("u").expect("u")[0].as_document().expect("a stage");
        let fields: Vec<_> = set.get_document("$set").expect("$set").keys().collect();
        assert_eq!(fields, ["state", "reason", "lastModified"]);
    }
}
