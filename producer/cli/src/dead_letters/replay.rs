//! Replaying and discarding dead letters.
//!
//! Promises that a letter that stays is named with the reason. Doing it again changes nothing more.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::SystemTime;

use client::{ActSubject, Asked, Fate, HeldLetter, Replay, SubjectKind};
use ledger::limits::echo;
use serde_json::json;

use super::{ChangeArgs, fates_json, look, told};
use crate::acting::{Acting, so_many};
use crate::context::Context;
use crate::exit::{Error, Exit};

/// Brings the transactions of letters back.
pub(super) async fn replay(
    context: &Context,
    args: &ChangeArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    context.client.ensure_queue().await?;
    let mut stays = false;
    let exit = change(context, ("letters.replay", "replayed"), args, async |held| {
        let asked = match args.dry_run {
            true => context.client.asked(&held.letter).await?,
            false => context.client.replay(held).await?,
        };
        let became = asked.replay();
        stays |= became != Replay::Removed;
        let id = &held.letter.id;
        let said = match args.json {
            true => {
                let outcome = outcome(became, args.dry_run);
                let (transactions, problem) = (fates_json(&asked), &asked.problem);
                json!({ "id": id, "outcome": outcome, "transactions": transactions,
                    "problem": problem })
                .to_string()
            }
            false => format!("{id}: {}", sentence(&asked, args.dry_run)),
        };
        writeln!(out, "{said}").map_err(Error::output)?;
        Ok(became == Replay::Removed)
    })
    .await?;
    Ok(if stays { Exit::Failed } else { exit })
}

/// Takes letters out of the queue for good.
pub(super) async fn discard(
    context: &Context,
    args: &ChangeArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    change(context, ("letters.discard", "discarded"), args, async |held| {
        if !args.dry_run {
            context.client.discard(held).await?;
        }
        let id = &held.letter.id;
        let outcome = if args.dry_run { "would be discarded" } else { "discarded" };
        let said = match args.json {
            true => json!({ "id": id, "outcome": outcome.replace(' ', "_") }).to_string(),
            false => format!("{id}: {outcome}"),
        };
        writeln!(out, "{said}").map_err(Error::output)?;
        Ok(true)
    })
    .await
}

/// Does something with every letter that is meant, as one act unless it only looks. `with` returns
/// whether it was done. Fails when one that is named is not there.
async fn change(
    context: &Context,
    (what, label): (&'static str, &'static str),
    args: &ChangeArgs,
    mut with: impl AsyncFnMut(&HeldLetter) -> Result<bool, Error>,
) -> Result<Exit, Error> {
    let now = SystemTime::now();
    let mut missing: BTreeSet<&str> = args.ids.iter().map(String::as_str).collect();
    let work = async {
        let (mut done, mut all) = (0, 0);
        look(context, label, async |held| {
            if args.takes(&held.letter, now) {
                missing.remove(held.letter.id.as_str());
                all += 1;
                done += usize::from(with(&held).await?);
            }
            Ok(true)
        })
        .await?;
        Ok::<_, Error>((done, all.max(args.ids.len())))
    };
    if args.dry_run {
        work.await?;
    } else {
        let named = args.ids.iter().map(String::as_str);
        let on = match args.ids.is_empty() {
            true => ActSubject::unnamed(SubjectKind::Letter, None),
            false => ActSubject::of(SubjectKind::Letter, named),
        };
        let acting = Acting { what, on, reason: args.why.as_deref() };
        let told = |(done, all): &(usize, usize)| so_many(*done, *all, label);
        context.act_in_steps(acting, work, told).await?;
    }
    for id in &missing {
        context.console.note(format!("{}: there is no such dead letter", echo(id)));
    }
    Ok(if missing.is_empty() { Exit::Ok } else { Exit::Failed })
}

fn outcome(became: Replay, dry_run: bool) -> &'static str {
    match (became, dry_run) {
        (Replay::Removed, false) => "replayed",
        (Replay::Removed, true) => "would_be_replayed",
        (Replay::AllFinal, _) => "all_final",
        (Replay::Stays, _) => "stays",
    }
}

/// What became of a letter, for people.
fn sentence(asked: &Asked, dry_run: bool) -> String {
    let count = |wanted: &dyn Fn(&Fate) -> bool| {
        asked.transactions.iter().filter(|(_, fate)| wanted(fate)).count()
    };
    let waiting = count(&|fate| *fate == Fate::Waiting);
    let parked = count(&|fate| *fate == Fate::Parked);
    let others = asked.transactions.len() - waiting - parked;
    let would = if dry_run { "would be " } else { "" };
    let done = format!("{waiting} {would}published, {parked} {would}unparked, {others} left alone");
    match asked.replay() {
        Replay::Removed => format!("{would}replayed: {done}"),
        Replay::AllFinal => {
            "stays: all of its transactions are final, so there is nothing to replay; discard it"
                .to_owned()
        }
        Replay::Stays => {
            let stuck = asked
                .transactions
                .iter()
                .find(|(_, fate)| matches!(fate, Fate::Unknown | Fate::Stuck(_)));
            let why = match (stuck, &asked.problem) {
                (Some((id, fate)), _) => format!("{} {}", echo(id), told(fate)),
                (None, problem) => {
                    problem.as_deref().map_or("nothing is left".into(), echo).into_owned()
                }
            };
            format!("stays: {why} ({done})")
        }
    }
}

#[cfg(test)]
mod tests {
    use client::State;

    use super::*;

    #[test]
    fn a_letter_that_stays_is_told_with_the_reason() {
        let asked = |fates: &[Fate], problem: Option<&str>| Asked {
            transactions: fates.iter().map(|fate| ("t".into(), fate.clone())).collect(),
            problem: problem.map(str::to_owned),
        };
        for (asked, expected) in [
            (asked(&[Fate::Waiting, Fate::Parked], None), "replayed: 1 published, 1 unparked"),
            (asked(&[Fate::Final(State::Done)], None), "discard it"),
            (asked(&[Fate::Waiting, Fate::Unknown], None), "stays: t is not in the database"),
            (asked(&[], Some("not JSON")), "stays: not JSON"),
        ] {
            let said = sentence(&asked, false);
            assert!(said.contains(expected), "{said}");
        }
        assert!(sentence(&asked(&[Fate::Waiting], None), true).starts_with("would be replayed"));
    }
}
