//! `stats`: prints how many transactions there are, by state and by reason.

use std::io::Write;

use clap::Args;
use client::State;

use crate::context::Context;
use crate::exit::{Error, Exit};

pub const HELP: &str = "\
Under a schema, others may have documents in the same collection. What is final there and was ended by
no worker, as it was before Tandem came, is counted apart: `ended by others`, or `endedByOthers` with
--json. The states and reasons are then of what workers have ended or still have to.";

/// How to print.
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Counts and prints.
///
/// # Errors
/// When the server is away.
pub async fn stats(
    context: &Context,
    args: &StatsArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let stats = context.client.stats().await?;
    if args.json {
        let line = serde_json::to_string(&stats).expect("strings and numbers always serialize");
        writeln!(out, "{line}").map_err(Error::output)?;
        return Ok(Exit::Ok);
    }
    for state in State::ALL {
        let count = stats.states.get(state.as_str()).copied().unwrap_or_default();
        writeln!(out, "{:<10} {count:>12}", state.as_str()).map_err(Error::output)?;
    }
    for (reason, count) in &stats.reasons {
        writeln!(out, "  canceled: {reason:<22} {count:>12}").map_err(Error::output)?;
    }
    for (state, count) in stats.ended_by_others.iter().flatten() {
        writeln!(out, "  ended by others: {state:<15} {count:>12}").map_err(Error::output)?;
    }
    Ok(Exit::Ok)
}
