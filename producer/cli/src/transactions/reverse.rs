//! `reverse`: takes an applied transaction back by a new one, and says which.

use std::io::Write;

use clap::Args;
use client::{ActEnd, Receipt, SubjectKind};

use super::{note_unpublished, report_end};
use crate::acting::{Acting, WhyArgs};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::follow::WaitArgs;

/// Which transaction to reverse.
#[derive(Args, Clone, Debug)]
pub struct ReverseArgs {
    /// Its id
    pub id: String,
    #[command(flatten)]
    pub why: WhyArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Reverses a transaction and says what came of it.
///
/// # Errors
/// When there is nothing to reverse, or MongoDB stays away.
pub async fn reverse(
    context: &Context,
    args: &ReverseArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set(
        "run the same command again: a reversal that is there already is not made a second time",
    );
    context.client.ensure_schema().await?;
    let id = &args.id;
    let acting = Acting::one("transaction.reverse", (SubjectKind::Transaction, id), &args.why);
    let told = |reversal: &Receipt| ActEnd::ok(format!("it is reversed by {}", reversal.id));
    let reversal = context.act(acting, context.client.reverse(id), told).await?;
    let by = &reversal.id;
    match reversal.known {
        None => writeln!(out, "{id}: reversed by {by}"),
        Some(state) => writeln!(out, "{id}: is already reversed by {by} ({state})"),
    }
    .map_err(Error::output)?;
    note_unpublished(context, reversal.unpublished.as_ref());
    if args.wait.wait {
        return report_end(context, by, &args.wait, out).await;
    }
    Ok(Exit::Ok)
}
