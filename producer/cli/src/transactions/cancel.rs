//! `cancel`: takes a transaction back before it is applied, and says what came of it.

use std::io::Write;

use clap::Args;
use client::{ActEnd, Canceled, State, SubjectKind};

use super::{note_unpublished, reason_text, report_end};
use crate::acting::{Acting, WhyArgs};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::follow::WaitArgs;

/// Which transaction to cancel.
#[derive(Args, Clone, Debug)]
pub struct CancelArgs {
    /// Its id
    pub id: String,
    #[command(flatten)]
    pub why: WhyArgs,
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
    let acting = Acting::one("transaction.cancel", (SubjectKind::Transaction, id), &args.why);
    let told = |canceled: &Canceled| match canceled.standing.state == Some(State::Canceled) {
        true => ActEnd::ok("it is canceled"),
        false => ActEnd::ok("it is being canceled; a worker undoes it"),
    };
    let canceled = context.act(acting, context.client.cancel(id), told).await?;
    let Canceled { standing, unpublished } = canceled;
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
