//! `accounts freeze`, `unfreeze`, `close`: each account by itself, as an act of its own, and what
//! came of it.

use std::io::Write;

use client::{ActEnd, Change, Error as E, SubjectKind};

use crate::acting::Acting;
use crate::context::Context;
use crate::exit::{Error, Exit};

use super::Ids;

pub(super) async fn run(
    context: &Context,
    change: Change,
    Ids { ids, why }: &Ids,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set(
        "run the same command again: an account that has the wanted status already is left as it is",
    );
    let mut exit = Exit::Ok;
    for id in ids {
        let acting = Acting::one(name(change), (SubjectKind::Account, id), why);
        let told = |(): &()| ActEnd::ok(format!("it is {}", change.to().as_str()));
        let changed = context.act(acting, context.client.change_status(change, id), told).await;
        match changed {
            Ok(()) => {
                let status = change.to().as_str();
                writeln!(out, "{id}: {status}").map_err(Error::output)?;
            }
            Err(refused @ (E::Refused { .. } | E::NotFound { .. })) => {
                context.console.note(refused.to_string());
                exit = Exit::Failed;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(exit)
}

/// The name of the act.
fn name(change: Change) -> &'static str {
    match change {
        Change::Freeze => "account.freeze",
        Change::Unfreeze => "account.unfreeze",
        Change::Close => "account.close",
    }
}
