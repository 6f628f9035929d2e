//! `reschedule`: changes when a scheduled transaction is due.

use std::io::Write;

use bson::DateTime;
use clap::Args;
use client::{ActEnd, Standing, State, SubjectKind};
use ledger::json::timestamp;

use super::reason_text;
use crate::acting::{Acting, WhyArgs};
use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::moment::{self, later};

pub const RESCHEDULE_HELP: &str = "\
Only what is still scheduled can be rescheduled: `producer list --scheduled`. A moment that has passed
makes it due now. The moment must be before its expiresAt.

Examples:
  producer reschedule rent-2026-11 --not-before 2026-11-02T08:00:00Z
  producer reschedule rent-2026-11 --not-before +12h";

/// Which transaction to reschedule, and to when.
#[derive(Args, Clone, Debug)]
pub struct RescheduleArgs {
    /// Its id
    pub id: String,
    /// Not before this moment (2026-11-01T00:00:00Z), or a time from now (+90s, +30m, +12h, +7d)
    #[arg(long, value_parser = later, value_name = moment::LATER)]
    pub not_before: DateTime,
    #[command(flatten)]
    pub why: WhyArgs,
}

/// Reschedules a transaction and says how it stands.
///
/// # Errors
/// When it is not scheduled any more, or a server stays away.
pub async fn reschedule(
    context: &Context,
    args: &RescheduleArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let id = &args.id;
    context.advice.set("run the same command again: rescheduling twice changes nothing more");
    context.client.ensure_schema().await?;
    let acting = Acting::one("transaction.reschedule", (SubjectKind::Transaction, id), &args.why);
    let moment = timestamp(args.not_before);
    let told = |_: &Standing| ActEnd::ok(format!("it is due at {moment}"));
    let work = context.client.reschedule(id, args.not_before.to_system_time());
    let standing = context.act(acting, work, told).await?;
    match standing.state {
        None | Some(State::Scheduled) => {
            writeln!(out, "{id}: scheduled, not before {moment}").map_err(Error::output)?;
        }
        Some(state) => {
            let reason = reason_text(&standing);
            writeln!(out, "{id}: {state}{reason}").map_err(Error::output)?;
        }
    }
    Ok(Exit::Ok)
}
