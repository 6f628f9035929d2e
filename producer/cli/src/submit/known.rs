//! Whether the same rows were submitted before, as another batch.
//!
//! Only rows without ids could be paid twice by that: their ids are made from the batch. Promises
//! that nothing is written of a file that is refused, and that the remedies which it names work: the
//! name of the batch that is known, or the flag that says that the rows are meant once more.

use client::SubmittedFile;
use ledger::hex::hex;

use super::SubmitArgs;
use super::rows::Transfers;
use crate::advice::{Todo, typed};
use crate::context::Context;
use crate::exit::Error;
use crate::files::Allow;

/// Notes the batch; an error if its rows are known as another one, and that is not allowed.
///
/// # Errors
/// When they are, or the server stays away.
pub(super) async fn require_new(
    context: &Context,
    transfers: &Transfers,
    args: &SubmitArgs,
) -> Result<(), Error> {
    let Some(batch) = transfers.batch() else { return Ok(()) };
    let (content, rows) = (hex(&transfers.checked().content), transfers.checked().rows);
    let noting = context.client.note_file(&content, batch.as_str(), rows, is_allowed(args));
    noting.await?.and_then(|known| of(transfers, &known)).map_or(Ok(()), Err)
}

/// Why [`require_new`] would refuse the file; writes nothing.
///
/// # Errors
/// When the server stays away.
pub(super) async fn refusal(
    context: &Context,
    transfers: &Transfers,
    args: &SubmitArgs,
) -> Result<Option<Error>, Error> {
    let Some(batch) = transfers.batch().filter(|_| !is_allowed(args)) else { return Ok(None) };
    let known = context.client.submitted_file(&hex(&transfers.checked().content)).await?;
    let known = known.filter(|known| !known.is_of(batch.as_str()));
    Ok(known.and_then(|known| of(transfers, &known)))
}

fn is_allowed(args: &SubmitArgs) -> bool {
    args.reading.allow.contains(&Allow::RepeatedContent)
}

fn of(transfers: &Transfers, known: &SubmittedFile) -> Option<Error> {
    let first = known.batches.first()?;
    Some(Error::BadInput(told(transfers.name(), first, known.at)))
}

fn told(name: &str, known: &str, at: bson::DateTime) -> String {
    let at = at.try_to_rfc3339_string().unwrap_or_else(|_| at.to_string());
    let todo = format!(
        "{name}: the same rows were submitted on {at} as the batch {known:?}; nothing was written. \
         To complete that one, where known rows change nothing, say"
    );
    let todo = Todo::with(todo, typed("--batch", known));
    format!("{todo}\nTo pay all of them once more, say\n  --allow repeated-content")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_repeats_rows_is_told_of_the_batch_and_of_both_ways_on() {
        let told = told("may.csv", "may payroll", bson::DateTime::from_millis(1_793_491_200_000));
        assert_eq!(
            told,
            "may.csv: the same rows were submitted on 2026-11-01T00:00:00Z as the batch \"may \
             payroll\"; nothing was written. To complete that one, where known rows change nothing, \
             say\n  --batch 'may payroll'\nTo pay all of them once more, say\n  --allow \
             repeated-content"
        );
    }
}
