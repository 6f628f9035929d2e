//! `adopt` that writes: openings, repairs and dates, and what was left.
//!
//! Owns how the result looks to people. The crate `adopt` writes.

use std::io::Write;

use ::adopt::{Adopted, Class};

use super::{AdoptArgs, json, noted, reasons, with_progress};
use crate::context::Context;
use crate::exit::{Error, Exit};

/// Adopts, and prints what was done.
///
/// # Errors
/// When the server is away, or something has to be seen to first.
pub async fn run(
    context: &Context,
    args: &AdoptArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set("run the same command again: it goes on, and writes nothing twice");
    let adoption = args.adoption();
    let work = with_progress(context, "adopting", async |progress| {
        ::adopt::adopt(&context.client, adoption, progress).await
    });
    let told = |adopted: &Adopted| {
        let [accounts, transactions] =
            [&adopted.accounts, &adopted.transactions].map(|counts| counts.written);
        format!("{accounts} accounts adopted, {transactions} transactions dated")
    };
    let adopted = noted(context, "ledger.adopt", args, work, told).await?;
    let written = match args.json {
        true => json(&adopted, out),
        false => print(&adopted, context, out),
    };
    written.map_err(Error::output)?;
    Ok(if adopted.complete { Exit::Ok } else { Exit::Failed })
}

fn print(
    adopted: &Adopted,
    context: &Context,
    out: &mut (dyn Write + Send),
) -> std::io::Result<()> {
    let names = [mongo::ACCOUNTS, mongo::TRANSACTIONS];
    let [of_accounts, of_transactions] = names.map(|name| context.client.store().stored_name(name));
    if let Some(finished) = &adopted.finished {
        let counts = &finished.counts;
        writeln!(
            out,
            "in flight under an old processor: {} brought to done, {} taken back, {} left",
            finished.done, finished.canceled, counts.left
        )?;
        reasons(counts, out)?;
    }
    let counts = &adopted.accounts;
    writeln!(
        out,
        "accounts (`{of_accounts}`): {} read, {} adopted, {} were so before, {} left",
        counts.read, counts.written, counts.done_before, counts.left
    )?;
    for (class, count) in &counts.repaired {
        writeln!(out, "  {:<12} {:<20} {count:>10}", "repaired", Class::code(*class))?;
    }
    reasons(counts, out)?;
    let counts = &adopted.transactions;
    writeln!(
        out,
        "transactions (`{of_transactions}`): {} read, {} dated, {} needed nothing, {} left",
        counts.read, counts.written, counts.done_before, counts.left
    )?;
    reasons(counts, out)?;
    let verdict = match adopted.complete {
        true => "All that could be adopted is.",
        false => "Something is left; see to it, and run the same command again.",
    };
    writeln!(out, "{verdict} ({:.1} s)", adopted.seconds)
}
