//! Commands on single transactions: one transfer, its state, canceling and reversing it, and what
//! becomes of a hold.

mod cancel;
mod captures;
mod hold;
mod list;
mod parked;
mod reschedule;
mod reverse;
mod show;
mod stats;
mod terms;
mod transfer;

pub use cancel::{CancelArgs, cancel};
pub use hold::{CONFIRM_HELP, ConfirmArgs, RELEASE_HELP, ReleaseArgs, confirm, release};
pub use list::{HELP as LIST_HELP, ListArgs, list};
pub use parked::{UnparkArgs, unpark};
pub use reschedule::{RESCHEDULE_HELP, RescheduleArgs, reschedule};
pub use reverse::{ReverseArgs, reverse};
pub use show::{StatusArgs, status};
pub use stats::{HELP as STATS_HELP, StatsArgs, stats};
pub use transfer::{HELP as TRANSFER_HELP, TransferArgs, transfer};

use std::io::Write;

use bson::Document;
use client::{Standing, State};
use ledger::limits::echo;

use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::follow::WaitArgs;

/// The state of a transaction's document.
fn state_of(document: &Document) -> Result<State, Error> {
    Standing::of(document).state.ok_or_else(|| {
        let id = document.get_str("_id").unwrap_or_default();
        Error::Refused(format!("transactions/{id}: its state is not one of ours; see audit"))
    })
}

/// Waits until one transaction has ended or is held, and returns it; `None` when the limit is
/// reached.
async fn wait_for(context: &Context, id: &str, wait: &WaitArgs) -> Result<Option<Document>, Error> {
    let progress = context.console.progress("waiting", None);
    progress.at(0, id);
    let outcome = context.waiting(context.client.outcome(id));
    let ended = match wait.limit() {
        None => Some(outcome.await),
        Some(limit) => tokio::time::timeout(limit, outcome).await.ok(),
    };
    drop(progress);
    // What is waited for was done before.
    let failed = |error: client::Error| Error::from(error).after_a_write();
    if ended.transpose().map_err(failed)?.is_none() {
        let advice = &context.advice;
        context.console.note(format!("{id}: not finished within the wait limit; {advice}"));
        return Ok(None);
    }
    // Without the document, a repetition would submit the transaction again; so the advice does not
    // say to repeat.
    let gone = || Error::Refused(format!("transactions/{id}: is gone"));
    context.client.transaction(id).await.map_err(failed)?.ok_or_else(gone).map(Some)
}

/// Says that the broker was not told of what is done.
pub(crate) fn note_unpublished(context: &Context, unpublished: Option<&client::Error>) {
    if let Some(error) = unpublished {
        context.console.note(format!("{error}; it counts all the same, and a sweeper finds it"));
    }
}

/// Waits for one transaction and says how it ended.
pub(crate) async fn report_end(
    context: &Context,
    id: &str,
    wait: &WaitArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let Some(document) = wait_for(context, id, wait).await? else {
        return Ok(Exit::WaitLimit);
    };
    let (state, reason) = (state_of(&document)?, reason_text(&Standing::of(&document)));
    writeln!(out, "{id}: {state}{reason}").map_err(Error::output)?;
    Ok(if state == State::Canceled { Exit::Canceled } else { Exit::Ok })
}

/// ` (code: message)`, or nothing.
fn reason_text(standing: &Standing) -> String {
    let text = |(code, message): &(String, String)| format!(" ({}: {})", echo(code), echo(message));
    standing.reason.as_ref().map_or_else(String::new, text)
}
