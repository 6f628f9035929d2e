//! Looking at dead letters: counted by reason, each, or one with its transactions.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::SystemTime;

use client::{DeadLetter, Replay};
use ledger::limits::{echo, echo_bytes};
use ledger::message::Message;

use super::{ListArgs, ShowArgs, died_at, fates_json, letter_json, line, look, told};
use crate::context::Context;
use crate::exit::{Error, Exit};

/// The letters with one reason.
#[derive(Debug, Default, PartialEq, Eq)]
struct Group {
    letters: u64,
    ids: u64,
    oldest: Option<String>,
    /// The detail of one of them, as an example.
    detail: String,
}

impl Group {
    fn add(&mut self, letter: &DeadLetter) {
        let ids = Message::parse(&letter.body).map_or(0, |parsed| parsed.message.ids.len());
        self.letters += 1;
        self.ids += ids as u64;
        // RFC 3339 in one zone: the order of texts is the order of moments.
        let at = died_at(letter);
        if self.oldest.is_none() || (at.is_some() && at < self.oldest) {
            self.oldest = at;
        }
        self.detail.clone_from(&letter.detail);
    }
}

/// Counts the letters by reason, or prints each.
pub(super) async fn list(
    context: &Context,
    args: &ListArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let now = SystemTime::now();
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let each = async |held: client::HeldLetter| {
        let letter = &held.letter;
        if args.filter.takes(letter, now) {
            if args.json {
                writeln!(out, "{}", letter_json(letter)).map_err(Error::output)?;
            } else if args.each {
                writeln!(out, "{}", line(letter)).map_err(Error::output)?;
            } else {
                groups.entry(letter.reason.clone()).or_default().add(letter);
            }
        }
        Ok(true)
    };
    look(context, "letters", each).await?;
    for (reason, Group { letters, ids, oldest, detail }) in &groups {
        let oldest = oldest.as_deref().unwrap_or("-");
        writeln!(
            out,
            "{}: {letters} letters, {ids} ids, the oldest of {oldest}; the last: {}",
            echo(reason),
            echo(detail)
        )
        .map_err(Error::output)?;
    }
    Ok(Exit::Ok)
}

/// Shows one letter and how its transactions stand.
pub(super) async fn show(
    context: &Context,
    args: &ShowArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let mut found = None;
    let each = async |held: client::HeldLetter| {
        if held.letter.id == args.id {
            found = Some(held.letter);
            return Ok(false);
        }
        Ok(true)
    };
    look(context, "letters", each).await?;
    let Some(letter) = found else {
        return Err(Error::Refused(format!("{}: there is no such dead letter", echo(&args.id))));
    };
    let asked = context.client.asked(&letter).await?;
    if args.json {
        let mut value = letter_json(&letter);
        value["transactions"] = fates_json(&asked);
        value["problem"] = asked.problem.into();
        writeln!(out, "{value}").map_err(Error::output)?;
        return Ok(Exit::Ok);
    }
    let at = died_at(&letter).unwrap_or_else(|| "-".to_owned());
    let mut lines = vec![
        format!("{}: {} at {at}: {}", letter.id, echo(&letter.reason), echo(&letter.detail)),
        format!("  {}", echo_bytes(&letter.body)),
    ];
    lines.extend(asked.problem.iter().map(|problem| format!("  {}", echo(problem))));
    let fates = asked.transactions.iter();
    lines.extend(fates.map(|(id, fate)| format!("  {} {}", echo(id), told(fate))));
    let replay = match asked.replay() {
        Replay::Removed => "a replay brings it back",
        Replay::AllFinal => "there is nothing to replay; discard it",
        Replay::Stays => "a replay leaves it here",
    };
    lines.push(format!("  {replay}"));
    writeln!(out, "{}", lines.join("\n")).map_err(Error::output)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_with_one_reason_are_counted_with_their_ids_and_the_oldest_is_named() {
        let letter = |died_at, body: &[u8]| DeadLetter {
            id: "1".to_owned(),
            reason: "unknown_transaction".to_owned(),
            detail: "not there".to_owned(),
            died_at,
            body: body.to_vec(),
        };
        let mut group = Group::default();
        group.add(&letter(Some(2_000), br#"{"ids":["a","b"]}"#));
        group.add(&letter(None, b"not JSON"));
        group.add(&letter(Some(1_000), br#"{"ids":["c"]}"#));
        assert_eq!((group.letters, group.ids), (3, 3));
        assert_eq!(group.oldest.as_deref(), Some("1970-01-01T00:16:40Z"));
    }
}
