//! `adopt --dry-run`: prints what of somebody's accounts and transactions fits into a ledger.
//!
//! Owns how the result looks to people. Promises that nothing is written to the database. The crate
//! `adopt` looks.

use std::io::Write;

use ::adopt::{Documents, Report, Seen, Verdict};
use ledger::remedy::Remedy;
use ledger::shell::laid_out;

use super::{AdoptArgs, json, with_progress};
use crate::context::Context;
use crate::exit::{Error, Exit};

/// Looks, and prints what was found.
///
/// # Errors
/// When the server is away, or something on the command line is wrong.
pub async fn run(
    context: &Context,
    args: &AdoptArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.advice.set(match args.resume {
        Some(_) => {
            "nothing was written to the database; run the same command again: it goes on \
                    where it stopped"
        }
        None => "nothing was written; a look with --resume FILE goes on where it stopped",
    });
    let options = args.options();
    let report = with_progress(context, "looking", async |progress| {
        ::adopt::look(&context.client, &options, progress).await
    })
    .await?;
    let written = match args.json {
        true => json(&report, out),
        false => print(&report, out),
    };
    written.map_err(Error::output)?;
    Ok(if report.ready { Exit::Ok } else { Exit::Failed })
}

fn print(report: &Report, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    documents("accounts", &report.accounts, out)?;
    documents("transactions", &report.transactions, out)?;
    keys(report, out)?;
    for noted in &report.indexes {
        let word = if noted.hurts { "hurts" } else { "costs" };
        writeln!(out, "{word}: {}", laid_out(&noted.message))?;
        if let Some(command) = &noted.command {
            writeln!(out, "in mongosh:\n  {command}")?;
        }
    }
    for validator in &report.validators {
        writeln!(out, "validator: {}", validator.told())?;
    }
    moved(report, out)?;
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let verdict = match report.ready {
        true => "All fits as it is.",
        false => "Something has to be seen to before a worker of Tandem runs.",
    };
    writeln!(out, "{verdict} ({:.1} s; nothing was written)", report.seconds)
}

fn documents(
    name: &str,
    documents: &Documents,
    out: &mut (dyn Write + Send),
) -> std::io::Result<()> {
    let Documents { collection, read, fits, needs_repair, cannot, classes } = documents;
    writeln!(
        out,
        "{name} (`{collection}`): {read} read, {fits} fit as they are, {needs_repair} after repair, \
         {cannot} can't"
    )?;
    classes.iter().try_for_each(|seen| class(seen, out))
}

fn class(seen: &Seen, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let verdict = match seen.verdict {
        Verdict::Fits => "fits",
        Verdict::NeedsRepair => "needs repair",
        Verdict::Cannot => "can't",
    };
    let mut ids: Vec<&str> = seen.samples.iter().map(|sample| sample.id.as_str()).collect();
    ids.dedup();
    let more = if seen.count > ids.len() as u64 { ", …" } else { "" };
    let (code, count, ids) = (seen.code.code(), seen.count, ids.join(", "));
    writeln!(out, "  {verdict:<12} {code:<20} {count:>10}  {ids}{more}")?;
    if seen.verdict == Verdict::Fits {
        return writeln!(out, "      {}", seen.remedy);
    }
    if let Some(sample) = seen.samples.first() {
        let path = if sample.path.is_empty() { "the document" } else { &sample.path };
        let becomes = sample.becomes.iter().map(|becomes| format!(", would become {becomes}"));
        let becomes: String = becomes.collect();
        writeln!(out, "      as {path} of {}: {}{becomes}", sample.id, sample.value)?;
    }
    writeln!(out, "      {}", seen.remedy)
}

fn keys(report: &Report, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let Some(keys) = &report.keys else { return Ok(()) };
    match (&keys.not_looked_at, keys.duplicates, keys.unique_index) {
        (Some(why), ..) => {
            writeln!(out, "ids: whether `{}` is unique was not looked at: {why}", keys.path)
        }
        (None, _, true) => writeln!(out, "ids: an index keeps `{}` unique", keys.path),
        (None, None | Some(0), false) => writeln!(
            out,
            "ids: no value of `{}` stands twice; {} makes the index that keeps it so",
            keys.path,
            Remedy::Apply
        ),
        (None, Some(duplicates), false) => writeln!(
            out,
            "ids: {duplicates} values of `{}` stand in {} accounts ({}): give each account one of \
             its own",
            keys.path,
            keys.documents.unwrap_or_default(),
            keys.samples.join(", ")
        ),
    }
}

fn moved(report: &Report, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    let moved = &report.moved;
    match (&moved.not_looked_at, moved.accounts + moved.transactions) {
        (Some(why), _) => writeln!(out, "moves: not looked at: {why}"),
        (None, 0) => writeln!(out, "moves: nothing without a claim in {} s", moved.seconds),
        (None, _) => {
            writeln!(
                out,
                "moves: an old processor is at work: {} changes of transactions and {} of accounts \
                 without a claim of Tandem's in {} s; stop it before a worker of Tandem runs",
                moved.transactions, moved.accounts, moved.seconds
            )?;
            moved.samples.iter().try_for_each(|sample| {
                writeln!(out, "      {} of {}: {}", sample.path, sample.id, sample.value)
            })?;
            moved.replacing().map_or(Ok(()), |told| writeln!(out, "      {told}"))
        }
    }
}
