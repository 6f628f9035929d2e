//! `accounts freeze`, `unfreeze`, `close`: each account by itself, and what came of it.

use std::io::Write;

use client::{Change, Error as E};

use crate::context::Context;
use crate::exit::{Error, Exit};

pub(super) async fn run(
    context: &Context,
    change: Change,
    ids: &[String],
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set(
        "run the same command again: an account that has the wanted status already is left as it is",
    );
    let mut exit = Exit::Ok;
    for id in ids {
        match context.client.change_status(change, id).await {
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
