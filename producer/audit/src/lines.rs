//! What a line of the journal says, and what the document of a transaction says about the same:
//! pure.
//!
//! Owns how both are compared. A line is read in full and as it is stored. Promises that nothing of
//! it is skipped: a line that makes no sense anywhere is a [`BadLine`]. It shares no code with the
//! writer of lines, so that a mistake there is found.

use ledger::ServerMs;
use ledger::amount::Amount;
use ledger::event::End;
use ledger::limits::{NAME_BYTES_MAX, echo};
use ledger::transaction::{Body, ReasonCode, State, format_nanos};
use mongo::{BadLine, Line, nanos_of_net};
use mongodb::bson::{RawArray, RawBsonRef, RawDocument, Timestamp};

use super::raw::state_of;

/// The end of one transaction, as its line or its document says it. Two that are equal have equal
/// hashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry<'a> {
    pub id: &'a str,
    pub end: End,
    legs: Vec<Leg<'a>>,
}

/// An account of it, and what it books there if it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Leg<'a> {
    account: &'a str,
    booked: Option<Booked>,
}

/// An amount in units of 10^-9, and whether it is of whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Booked {
    nanos: i128,
    is_int: bool,
}

/// A line.
#[derive(Debug)]
pub(super) struct Written<'a> {
    pub id: &'a str,
    pub at: ServerMs,
    pub entries: Vec<Entry<'a>>,
    /// What it books although no transaction does.
    pub adjustment: Option<Adjustment<'a>>,
    /// What is wrong with its nets.
    pub wrong_net: Option<String>,
}

/// What a person has booked on an account, because others had moved its balance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Adjustment<'a> {
    pub account: &'a str,
    /// In units of 10^-9.
    pub nanos: i128,
    /// When the difference was seen.
    pub seen_at: Timestamp,
}

impl<'a> Entry<'a> {
    /// What the line of a transaction with this content has to say; without accounts, if the
    /// content can't be read.
    pub fn of(id: &'a str, end: End, body: Option<&'a Body>) -> Entry<'a> {
        let legs = body.map(Body::effect).unwrap_or_default().iter().map(|leg| Leg {
            account: &leg.account,
            booked: (end == End::Done).then(|| Booked::of(leg.amount)),
        });
        Entry { id, end, legs: legs.collect() }
    }

    /// What it books on each account, in units of 10^-9.
    pub fn booked(&self) -> impl Iterator<Item = (&'a str, i128)> {
        self.legs.iter().filter_map(|leg| Some((leg.account, leg.booked?.nanos)))
    }

    /// How this one, of a document, differs from that of a line.
    fn difference(&self, line: &Entry<'_>) -> Option<String> {
        let count = self.legs.len().max(line.legs.len());
        (0..count).find_map(|at| match (self.legs.get(at), line.legs.get(at)) {
            (Some(own), Some(there)) if own == there => None,
            (Some(own), Some(there)) => Some(format!("{own}, and {there}")),
            (Some(own), None) => Some(format!("{own}, and nothing")),
            (None, Some(there)) => Some(format!("nothing, and {there}")),
            (None, None) => None,
        })
    }
}

impl std::fmt::Display for Leg<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let account = echo(self.account);
        match self.booked {
            Some(Booked { nanos, is_int }) => {
                let kind = if is_int { "" } else { " as a decimal" };
                write!(f, "{}{kind} on account {account:?}", format_nanos(nanos))
            }
            None => write!(f, "account {account:?}"),
        }
    }
}

impl Booked {
    fn of(amount: Amount) -> Booked {
        Booked { nanos: amount.nanos(), is_int: amount.is_int() }
    }
}

/// The line that a transaction names, if that can be one.
pub(super) fn line_of(transaction: &RawDocument) -> Option<&str> {
    transaction.get_str("line").ok().filter(|line| is_name(line))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES_MAX
}

/// What is wrong with a transaction of which this line has this entry.
pub(super) fn wrong_with(
    transaction: &RawDocument,
    line: &str,
    entry: &Entry<'_>,
) -> Option<String> {
    let (state, shown) = (state_of(transaction), echo(line));
    let end = state.and_then(End::of);
    if end != Some(entry.end) {
        let state = state.map_or("in no state of ours", |state| state.as_str());
        return Some(format!("is {state}, and {} in the line {shown}", entry.end.as_str()));
    }
    match line_of(transaction) {
        Some(named) if named == line => {}
        Some(named) => {
            let named = echo(named);
            return Some(format!("names the line {named}, and is in the line {shown}, too"));
        }
        None => return Some(format!("names no line, and is in the line {shown}")),
    }
    let body = Body::from_raw(transaction);
    if entry.legs.is_empty() && may_be_unreadable(transaction) {
        return None;
    }
    let own = Entry::of(entry.id, entry.end, body.as_ref().ok());
    let difference = own.difference(entry)?;
    let unreadable = body.err().map(|problem| format!(" ({problem})")).unwrap_or_default();
    Some(format!("differs from the line {shown}: {difference}{unreadable}"))
}

/// Whether it was canceled before anything was posted, so that nobody had to be able to read its
/// content. The rules of the audit need less of the content than workers do, and somebody may have
/// repaired it since. So it may be that it can be read now.
fn may_be_unreadable(transaction: &RawDocument) -> bool {
    let Ok(reason) = transaction.get_document("reason") else { return false };
    let is_invalid = reason.get_str("code").is_ok_and(|code| code == ReasonCode::Invalid.as_str());
    let never_posted = reason.get_bool("neverPosted").is_ok_and(|never| never);
    state_of(transaction) == Some(State::Canceled) && (is_invalid || never_posted)
}

/// Reads a stored line.
pub(super) fn read(document: &RawDocument) -> Result<Written<'_>, BadLine> {
    let reading = Reading { line: Line::from_raw(document)?, document };
    let accounts = reading.accounts()?;
    let mut sums = vec![0; accounts.len()];
    let mut entries = Vec::new();
    for end in End::ALL {
        for item in reading.list(end.as_str())? {
            entries.push(reading.entry(item.ok(), end, &accounts, &mut sums)?);
        }
    }
    let wrong_net = reading.wrong_net(&accounts, &sums)?;
    let adjustment = reading.adjustment(&entries)?;
    let Line { id, at, .. } = reading.line;
    Ok(Written { id, at, entries, adjustment, wrong_net })
}

struct Reading<'a> {
    line: Line<'a>,
    document: &'a RawDocument,
}

impl<'a> Reading<'a> {
    fn list(&self, field: &str) -> Result<&'a RawArray, BadLine> {
        let list = self.document.get_array(field);
        list.map_err(|_| self.line.bad(format!("its `{field}` is no list")))
    }

    fn accounts(&self) -> Result<Vec<&'a str>, BadLine> {
        let names = self.list("accounts")?.into_iter();
        let names = names.map(|name| name.ok()?.as_str().filter(|name| is_name(name)));
        let names: Option<Vec<&str>> = names.collect();
        let names = names.ok_or_else(|| self.line.bad("an account is no name".to_owned()))?;
        let mut sorted = names.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.line.bad(format!("it has the account {} twice", echo(pair[0])))),
            None => Ok(names),
        }
    }

    /// An entry. Adds what it books to the `sums` of the accounts.
    fn entry(
        &self,
        item: Option<RawBsonRef<'a>>,
        end: End,
        accounts: &[&'a str],
        sums: &mut [i128],
    ) -> Result<Entry<'a>, BadLine> {
        let list = item.and_then(|item| item.as_array());
        let mut values = list.into_iter().flatten();
        let id = values.next().and_then(|id| id.ok()?.as_str()).filter(|id| is_name(id));
        let id = id.ok_or_else(|| {
            self.line.bad("an entry is no list that begins with a name".to_owned())
        })?;
        let bad = || self.line.bad(format!("its entry of {} makes no sense", echo(id)));
        let mut legs = Vec::new();
        while let Some(place) = values.next() {
            let place = place.ok().and_then(|place| usize::try_from(place.as_i32()?).ok());
            let place = place.filter(|place| *place < accounts.len()).ok_or_else(bad)?;
            let booked = match end {
                End::Canceled => None,
                End::Done => {
                    let amount = values.next().and_then(Result::ok).ok_or_else(bad)?;
                    Some(Booked::of(Amount::written(amount).ok_or_else(bad)?))
                }
            };
            sums[place] += booked.map_or(0, |booked| booked.nanos);
            legs.push(Leg { account: accounts[place], booked });
        }
        Ok(Entry { id, end, legs })
    }

    /// What it is as an adjustment: one entry, named like the line, of one account.
    fn adjustment(&self, entries: &[Entry<'a>]) -> Result<Option<Adjustment<'a>>, BadLine> {
        let Some(said) = self.line.adjusted()? else { return Ok(None) };
        let leg = match entries {
            [Entry { id, legs, .. }] if *id == self.line.id => legs.first(),
            _ => None,
        };
        match leg {
            Some(Leg { account, booked: Some(Booked { nanos, .. }) }) => {
                Ok(Some(Adjustment { account, nanos: *nanos, seen_at: said.seen_at }))
            }
            _ => Err(self.line.bad("it is an adjustment, and has other entries".to_owned())),
        }
    }

    /// The first net that is not the sum of what the entries book.
    fn wrong_net(&self, accounts: &[&str], sums: &[i128]) -> Result<Option<String>, BadLine> {
        let nets = self.list("nets")?;
        let (count, expected) = (nets.into_iter().count(), accounts.len());
        if count != expected {
            return Err(self.line.bad(format!("it has {count} nets of {expected} accounts")));
        }
        let mut all = nets.into_iter().zip(accounts.iter().zip(sums));
        Ok(all.find_map(|(net, (account, sum))| {
            let net = net.ok().and_then(nanos_of_net);
            (net != Some(*sum)).then(|| {
                let (account, sum) = (echo(account), format_nanos(*sum));
                let net = net.map_or_else(|| "no amount".to_owned(), format_nanos);
                format!("its net of account {account:?} is {net}, and should be {sum}")
            })
        }))
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
