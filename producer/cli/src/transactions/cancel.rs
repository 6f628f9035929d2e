//! `cancel`: takes a transaction back before it is applied, and says what came of it.

use std::io::Write;

use clap::Args;
use client::{Canceled, State};

use super::{note_unpublished, reason_text, report_end};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::follow::WaitArgs;

/// Which transaction to cancel.
#[derive(Args, Clone, Debug)]
pub struct CancelArgs {
    /// Its id
    pub id: String,
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Cancels a transaction and says what came of it.
///
/// # Errors
/// When it can't be canceled any more, or MongoDB stays away.
pub async fn cancel(
    context: &Context,
    args: &CancelArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let id = &args.id;
    context.advice.set("run the same command again: canceling twice changes nothing more");
    context.client.ensure_schema().await?;
    let Canceled { standing, unpublished } = context.client.cancel(id).await?;
    let reason = reason_text(&standing);
    if standing.state == Some(State::Canceled) {
        writeln!(out, "{id}: canceled{reason}").map_err(Error::output)?;
        return Ok(Exit::Ok);
    }
    writeln!(out, "{id}: canceling{reason}; a worker undoes it").map_err(Error::output)?;
    note_unpublished(context, unpublished.as_ref());
    if !args.wait.wait {
        return Ok(Exit::Ok);
    }
    // Canceled is what was asked for.
    let exit = report_end(context, id, &args.wait, out).await?;
    Ok(if exit == Exit::Canceled { Exit::Ok } else { exit })
}
