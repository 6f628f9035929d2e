//! What `init` changes in a ledger that is there: as acts of whoever runs it.
//!
//! Promises that the first setup of a database is none: until there is a ledger, there is no place
//! for a note. Fails as the library's functions, and where an act can't be noted.

use client::{ActEnd, ActSubject, Inspection};
use ledger::limits::echo;
use mongo::Finding;

use super::{InitArgs, queues};
use crate::acting::Acting;
use crate::context::Context;
use crate::exit::Error;

/// Creates what is missing, and looks again.
pub(super) async fn apply(
    context: &Context,
    args: &InitArgs,
    findings: &[Finding],
) -> Result<Inspection, Error> {
    let choice = args.choice();
    let work = async {
        // Workers look for it as soon as they read the setting.
        if choice.standby == Some(true) {
            queues(context, true).await?;
        }
        context.client.apply_schema(choice).await?;
        Ok(context.client.inspect(choice).await?)
    };
    if !is_ledger(findings) {
        return work.await;
    }
    let told = |after: &Inspection| match after.findings.len() {
        0 => ActEnd::ok("nothing is missing"),
        left => ActEnd::ok(format!("{left} things are missing still")),
    };
    context.act_in_steps(acting("ledger.apply", args), work, told).await
}

/// Remembers currencies of the owner's.
pub(super) async fn currencies(
    context: &Context,
    args: &InitArgs,
    findings: &[Finding],
) -> Result<(), Error> {
    for (code, places) in &args.currency {
        let work = context.client.remember_currency(code, *places);
        if !is_ledger(findings) {
            work.await?;
            continue;
        }
        let work = async { Ok(work.await?) };
        let told = |(): &()| ActEnd::ok(format!("{} has {places} places", echo(code)));
        context.act_in_steps(acting("ledger.currency", args), work, told).await?;
    }
    Ok(())
}

/// Whether there is a ledger in which acts can be noted. Where there is none, a note would be the
/// first document that Tandem puts into somebody's database. Where a collection can hold no ledger,
/// nothing else is found, and nothing is changed.
fn is_ledger(findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| finding.kind() == "settings" || finding.is_unsuitable())
}

fn acting<'a>(what: &'static str, args: &'a InitArgs) -> Acting<'a> {
    Acting { what, on: ActSubject::ledger(), reason: args.why.reason.as_deref() }
}
