//! `adopt --undo`: asks, takes away what Tandem has added, and prints what that was.
//!
//! Owns the question, and how the result looks to people. The crate `adopt` does it.

use std::io::Write;

use ::adopt::Undone;

use super::{AdoptArgs, json, noted, reasons, with_progress};
use crate::agree::Question;
use crate::context::Context;
use crate::exit::{Error, Exit};

/// Asks, goes back, and prints what was done.
///
/// # Errors
/// When nobody has agreed, the server is away, or something has to be seen to first.
pub async fn run(
    context: &Context,
    args: &AdoptArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    if !args.yes {
        agreed(context)?;
    }
    context.advice.set("run the same command again: it goes on");
    let how = args.way_back();
    let work = with_progress(context, "going back", async |progress| {
        ::adopt::undo(&context.client, how, progress).await
    });
    let told = |undone: &Undone| {
        let [accounts, transactions] =
            [&undone.accounts, &undone.transactions].map(|counts| counts.written);
        let lines = undone.lines;
        format!("taken away from {accounts} accounts, {transactions} transactions, {lines} lines")
    };
    let undone = noted(context, "ledger.adopt-undo", args, work, told).await?;
    let written = match args.json {
        true => json(&undone, out),
        false => print(&undone, out),
    };
    written.map_err(Error::output)?;
    Ok(if undone.complete { Exit::Ok } else { Exit::Failed })
}

/// Whether somebody at a terminal agrees.
fn agreed(context: &Context) -> Result<(), Error> {
    let question = Question {
        asked: format!(
            "This takes away what Tandem has added to accounts and transactions of `{}`, and its \
             journal: openings, claims, reasons, metadata, statements. Balances stay as they are.",
            context.client.database()
        ),
        nobody: "--undo takes away what cannot be brought back; say --yes to agree",
        declined: "nothing was taken away",
    };
    question.ask(context)
}

fn print(undone: &Undone, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    for (name, counts) in [("accounts", &undone.accounts), ("transactions", &undone.transactions)] {
        writeln!(
            out,
            "{name}: {} read, Tandem's fields removed from {}, {} had none, {} left",
            counts.read, counts.written, counts.done_before, counts.left
        )?;
        reasons(counts, out)?;
    }
    let (lines, seconds) = (undone.lines, undone.seconds);
    match undone.complete {
        true => writeln!(
            out,
            "{lines} lines of the journal removed; settings of the ledger and balances stay. \
             ({seconds:.1} s)"
        ),
        false => writeln!(out, "Something is left; run the same command again. ({seconds:.1} s)"),
    }
}
