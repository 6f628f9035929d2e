//! `acts`: what people have done, newest first.

use std::io::Write;
use std::time::SystemTime;

use clap::Args;
use client::{ActFilter, LIMIT_MAX, SeenAct, SubjectKind, act_json};
use ledger::json::timestamp;
use ledger::limits::echo;

use crate::context::Context;
use crate::exit::{Error, Exit};
use crate::moment::{self, moment};

pub(crate) const HELP: &str = "\
What people have done by the API, the console and the command line is noted before it is done, and
kept for ever. What programs submit and confirm is not in it. An act whose end is not known goes on,
or whoever did it has died. The name of whoever uses the command line is claimed: nobody checks it.

Examples:
  producer acts
  producer acts --transaction rent-2026-11
  producer acts --who olivia --since 7d --json | jq -r .what | sort | uniq -c
  producer acts --since 2026-11-01T00:00:00Z --limit 1000000 --json >acts.jsonl";

/// Which acts.
#[derive(Args, Clone, Debug)]
pub struct ActsArgs {
    /// Only what was done to this account
    #[arg(long, conflicts_with = "transaction")]
    account: Option<String>,
    /// Only what was done to this transaction
    #[arg(long)]
    transaction: Option<String>,
    /// Only what somebody of this name has done, be it that of a token or of a person beside it
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Only acts of this name, like transaction.cancel
    #[arg(long, value_name = "NAME")]
    what: Option<String>,
    /// Only since a moment (2026-11-01T00:00:00Z) or within a time (90s, 30m, 12h, 7d)
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    since: Option<SystemTime>,
    /// Only before a moment, or until so long ago
    #[arg(long, value_parser = moment, value_name = moment::NAME)]
    until: Option<SystemTime>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Print JSON, one act a line
    #[arg(long)]
    json: bool,
}

impl ActsArgs {
    fn filter(&self) -> ActFilter {
        let named = |kind, id: &Option<String>| id.clone().map(|id| (kind, id));
        ActFilter {
            subject: named(SubjectKind::Account, &self.account)
                .or_else(|| named(SubjectKind::Transaction, &self.transaction)),
            who: self.who.clone(),
            what: self.what.clone(),
            since: self.since,
            until: self.until,
        }
    }
}

/// Prints acts, newest first.
///
/// # Errors
/// When the server stays away.
pub async fn run(
    context: &Context,
    args: &ActsArgs,
    out: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let (filter, mut left, mut cursor) = (args.filter(), args.limit, None);
    while left > 0 {
        let limit = left.min(LIMIT_MAX);
        let page = context.client.acts(&filter, limit, cursor.as_deref()).await?;
        for act in &page.items {
            let line = if args.json { act_json(act).to_string() } else { told(act) };
            writeln!(out, "{line}").map_err(Error::output)?;
        }
        left -= u32::try_from(page.items.len()).unwrap_or(left);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Exit::Ok)
}

/// An act as a line for people.
fn told(act: &SeenAct) -> String {
    let SeenAct { at, what, on, who, reason, ended, .. } = act;
    let ids: Vec<_> = on.ids.iter().map(|id| echo(id)).collect();
    let count = on.count.map(|count| format!("{count} {}s", on.kind.as_str()));
    let on = match (ids.is_empty(), count) {
        (true, None) => on.kind.as_str().to_owned(),
        (true, Some(count)) => count,
        (false, None) => ids.join(" "),
        (false, Some(count)) => format!("{} … ({count} in all)", ids.join(" ")),
    };
    let claimed = if who.claimed { " (as claimed)" } else { "" };
    let person = who.person.as_deref().map(|person| format!("{} by the token ", echo(person)));
    let from = who.from.as_deref().map(|from| format!(" from {}", echo(from)));
    let (name, via) = (echo(&who.name), who.via.as_str());
    let (person, from) = (person.unwrap_or_default(), from.unwrap_or_default());
    let by = format!("{person}{name}{claimed}, {via}{from}");
    let why = reason.as_deref().map(|reason| format!("  because: {}", echo(reason)));
    let end = match ended {
        None => "begun; its end is not known".to_owned(),
        Some(end) => {
            let code = end.code.as_deref().map(|code| format!(" ({})", echo(code)));
            let result = end.result.as_str();
            format!("{result}{}: {}", code.unwrap_or_default(), echo(&end.message))
        }
    };
    let (at, what) = (timestamp(*at), echo(what));
    format!("{at}  {what}  {on}  by {by}{}  {end}", why.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use bson::DateTime;
    use client::{ActSubject, ActVia, ActWho};

    use super::*;

    #[test]
    fn an_act_whose_end_nobody_has_noted_says_so_and_a_claimed_name_is_told_as_claimed() {
        let act = SeenAct {
            id: "1".to_owned(),
            at: DateTime::from_millis(0),
            what: "account.freeze".to_owned(),
            on: ActSubject::of(SubjectKind::Account, ["alice"]),
            who: ActWho {
                name: "ada".to_owned(),
                person: None,
                via: ActVia::CommandLine,
                from: Some("host".to_owned()),
                claimed: true,
                request: None,
            },
            reason: Some("stolen".to_owned()),
            ended: None,
        };
        let expected = "1970-01-01T00:00:00Z  account.freeze  alice  by ada (as claimed), \
                        command-line from host  because: stolen  begun; its end is not known";
        assert_eq!(told(&act), expected);
        let who = ActWho { person: Some("bob".to_owned()), claimed: false, ..act.who.clone() };
        let of_person = told(&SeenAct { who, ..act.clone() });
        assert!(of_person.contains("  by bob by the token ada, command-line"), "{of_person}");
        let many = ActSubject::unnamed(SubjectKind::Letter, Some(7));
        assert!(told(&SeenAct { on: many, ..act }).contains("  7 letters  "));
    }
}
