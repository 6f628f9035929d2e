//! Commands on single transactions: one transfer, its state, canceling and reversing it.

mod cancel;
mod parked;
mod reverse;
mod show;
mod stats;
mod transfer;

pub use cancel::{CancelArgs, Canceling, cancel, cancel_one};
pub use parked::{UnparkArgs, unpark};
pub use reverse::{Reversal, ReverseArgs, reverse, reverse_one};
pub use show::{ListArgs, StatusArgs, list, status};
pub use stats::{StatsArgs, count, stats};
pub(crate) use transfer::at;
pub use transfer::{TransferArgs, submit_orders, transfer};

use std::io::Write;

use common::limits::echo;
use common::message::Message;
use common::mongo::Fields;
use common::queue::Outgoing;
use common::transaction::{State, TransactionId};
use mongodb::bson::Document;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::follow::{self, Pending, WaitArgs};
use crate::json;

/// Reads one transaction, whatever it holds.
pub(crate) async fn find(context: &Context, id: &str) -> Result<Option<Document>, Error> {
    let ids = [id];
    let find = || context.store.documents("find", "transactions", &ids, Fields::All);
    Ok(context.insist(find).await?.pop().map(|found| json::readable(&found)))
}

/// The state of a transaction's document.
pub(crate) fn state_of(document: &Document) -> Result<State, Error> {
    document.get_str("state").ok().and_then(State::parse).ok_or_else(|| {
        let id = document.get_str("_id").unwrap_or_default();
        Error::Refused(format!("transactions/{id}: its state is not one of ours; see audit"))
    })
}

/// Publishes ids until the broker has them.
pub(crate) async fn publish(context: &Context, ids: &[TransactionId]) -> Result<(), Error> {
    let messages: Vec<Outgoing> =
        Message::chunked(ids, 100).map(|message| Outgoing::work(&message)).collect();
    context.insist(|| context.publisher.publish(&messages)).await
}

/// Waits for one transaction, says how it ended, and returns it; `None` when the limit is reached.
async fn wait_for(context: &Context, id: &str, wait: &WaitArgs) -> Result<Option<Document>, Error> {
    let mut pending = Pending::default();
    pending.push(id);
    let ends = follow::follow(context, pending, wait.deadline()).await?;
    if ends.unfinished > 0 {
        let advice = &context.advice;
        context.console.note(format!("{id}: not finished within the wait limit; {advice}"));
        return Ok(None);
    }
    // No advice to repeat: without the document, a repetition would submit the transaction anew.
    let gone = || Error::Refused(format!("transactions/{id}: is gone"));
    find(context, id).await?.ok_or_else(gone).map(Some)
}

/// Waits for one transaction and says how it ended.
async fn report_end(
    context: &Context,
    id: &str,
    wait: &WaitArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let Some(document) = wait_for(context, id, wait).await? else {
        return Ok(Exit::WaitLimit);
    };
    let (state, reason) = (state_of(&document)?, reason_text(&document));
    writeln!(out, "{id}: {state}{reason}").map_err(Error::output)?;
    Ok(if state == State::Canceled { Exit::Canceled } else { Exit::Ok })
}

/// ` (code: message)`, or nothing.
fn reason_text(document: &Document) -> String {
    document.get_document("reason").map_or_else(
        |_| String::new(),
        |reason| {
            let message = reason.get_str("message").unwrap_or_default();
            format!(" ({}: {})", echo(follow::reason_code(document)), echo(message))
        },
    )
}
