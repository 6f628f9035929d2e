//! `stats`: prints how many transactions there are, by state and by reason.

use std::io::Write;

use clap::Args;
use client::State;

use crate::context::Context;
use crate::exit::{Error, Exit};

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
    Ok(Exit::Ok)
}
