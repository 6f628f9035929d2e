//! Summing up: from lines to sums, and from sums to those of the next level.
//!
//! Promises that what is written is complete and right when the reach says so: a piece is summed
//! only after all that it is made of can't change any more, and all of its sums are durable before
//! the reach moves. Reads each line once, and each sum once for the level above, a few at a time.
//! Memory holds the accounts of eight seconds, and of higher levels some thousands. Fails with an
//! error of the command, and where a line or a sum makes no sense. Then the reach stays before it,
//! and statements read lines from there on.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ledger::{LedgerError, ServerMs};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf, rawdoc};

use super::super::Store;
use super::super::lines::{self, BadLine, nanos_of_net};
use super::super::names::{BY_TIME, JOURNAL, SUMS};
use super::super::own::{LINE, SUM};
use super::super::read::cstr;
use super::super::statements::raw;
use super::super::write::none_refused;
use super::{ACCOUNTS_MAX, Level, Nets, OPERATION, RATIO, Reach, document, key};

/// The most pieces of a level that are summed at once.
const PIECES_AT_ONCE: u32 = 16;

/// How many sums of one piece are read at once, for the level above.
const SUMS_AT_ONCE: i64 = 8;

/// How many sums are written with one command: of the longest names they have some megabytes.
const WRITTEN_AT_ONCE: usize = 50;

/// The largest sum, in units of 10^-9: what the 34 digits of a Decimal128 hold with nine places.
const SUM_MAX: u128 = 10_u128.pow(33);

/// What one attempt has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SummedUp {
    /// How many pieces of time were summed.
    pub pieces: u32,
    /// Whether more are waiting.
    pub is_behind: bool,
}

/// The sums of a piece while they are written, in the order of names.
struct Writing<'a> {
    store: &'a Store,
    life: &'a str,
    level: Level,
    from: ServerMs,
    /// How many documents were made.
    number: usize,
    nets: Nets,
}

/// Where the reading of the sums of a lower piece is.
struct Lower {
    /// The `_id` from which on it goes on.
    next: String,
    /// Where it ends.
    end: String,
    /// The last name that was read.
    last: Option<String>,
    is_read: bool,
}

impl Store {
    /// Sums up the lines that are so old, in ms, up to a limit. Workers say [`SETTLED_MS`]; less
    /// only where it is certain that nobody writes a line.
    ///
    /// # Errors
    /// When the server is away or refuses, or a line or a sum makes no sense. What was summed up
    /// before it counts.
    ///
    /// [`SETTLED_MS`]: super::SETTLED_MS
    pub async fn sum_up(&self, settled_ms: i64) -> Result<SummedUp, LedgerError> {
        // Before the reach, whose primary has whatever was there at this moment.
        let now = self.server_now().await?;
        let (mut reach, mut summed) = (self.begin_summing().await?, SummedUp::default());
        let mut failed = None;
        for level in Level::all() {
            let settled = match level.below() {
                None => Some(now - settled_ms),
                Some(below) => reach.of(below),
            };
            let Some(end) = settled.map(|settled| level.begin(settled)) else { break };
            match self.sum_level(&mut reach, level, end, &mut summed).await {
                Ok(true) => {}
                // Another worker is at it, or another life has begun.
                Ok(false) => return Ok(SummedUp { is_behind: false, ..summed }),
                // Higher levels are of what was complete before.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(summed), Err)
    }

    /// Sums up pieces of a level that end before this moment. Says whether nobody else does.
    async fn sum_level(
        &self,
        reach: &mut Reach,
        level: Level,
        end: ServerMs,
        summed: &mut SummedUp,
    ) -> Result<bool, LedgerError> {
        for _ in 0..PIECES_AT_ONCE {
            let Some(piece) = self.next_piece(reach, level, end).await? else { return Ok(true) };
            self.sum_piece(&reach.life, level, piece).await?;
            if !self.extend(reach, level, piece + level.width()).await? {
                return Ok(false);
            }
            summed.pieces += 1;
        }
        summed.is_behind |= self.next_piece(reach, level, end).await?.is_some();
        Ok(true)
    }

    /// The beginning of the first piece after the reach that is not empty and ends before a moment.
    async fn next_piece(
        &self,
        reach: &Reach,
        level: Level,
        end: ServerMs,
    ) -> Result<Option<ServerMs>, LedgerError> {
        let from = reach.of(level).unwrap_or(0);
        let (find, field) = match level.below() {
            None => (find_lines(from, end, 1, rawdoc! { "at": 1 }), "at"),
            Some(below) => {
                let key = |moment| key(&reach.life, below, moment, 0);
                (find_sums(&key(from), &key(end), 1), "from")
            }
        };
        let moment = move |found: &RawDocument| Some(found.get_datetime(field).ok());
        let Some(first) = self.find(OPERATION, find, moment).await?.pop() else { return Ok(None) };
        let problem = "the first line or sum that is to be summed up has no moment; see audit";
        let first = first.ok_or_else(|| LedgerError::lasting(OPERATION, problem))?;
        Ok(Some(level.begin(first.timestamp_millis())))
    }

    async fn sum_piece(&self, life: &str, level: Level, from: ServerMs) -> Result<(), LedgerError> {
        let mut writing = Writing { store: self, life, level, from, number: 0, nets: Nets::new() };
        match level.below() {
            None => writing.add_lines().await?,
            Some(below) => writing.add_sums(below).await?,
        }
        writing.write(None).await
    }

    /// Writes documents where they are not there yet; says whether none of them was.
    pub(super) async fn insert_sums(&self, sums: &[Document]) -> Result<bool, LedgerError> {
        let inserted = self.insert(SUMS, sums.iter().map(raw)).await?;
        none_refused(OPERATION, inserted.refused.into_iter().chain(inserted.taken))?;
        Ok(inserted.existing.is_empty())
    }
}

impl Writing<'_> {
    async fn add_lines(&mut self) -> Result<(), LedgerError> {
        let fields = rawdoc! { "accounts": 1, "nets": 1 };
        let find = find_lines(self.from, self.from + self.level.width(), 0, fields);
        let seen = (std::mem::take(&mut self.nets), None);
        let read = |seen: &mut (Nets, Option<LedgerError>), line: &RawDocument| {
            let (nets, failed) = seen;
            let of_line =
                nets_of(line).map_err(|bad| LedgerError::lasting(OPERATION, bad.to_string()));
            *failed = of_line.and_then(|of_line| add(nets, of_line)).err();
            failed.is_none()
        };
        let (nets, failed) = self.store.read_while(OPERATION, find, seen, read).await?;
        self.nets = nets;
        failed.map_or(Ok(()), Err)
    }

    /// Adds the sums of the pieces below, in the order of names, and writes what is complete.
    async fn add_sums(&mut self, below: Level) -> Result<(), LedgerError> {
        let lower = |number| {
            let from = self.from + number * below.width();
            let key = |moment| key(self.life, below, moment, 0);
            let (next, end) = (key(from), key(from + below.width()));
            Lower { next, end, last: None, is_read: false }
        };
        let mut all: Vec<Lower> = (0..RATIO).map(lower).collect();
        // The one whose names are furthest behind is read on.
        while let Some(lower) =
            all.iter_mut().filter(|lower| !lower.is_read).min_by(|a, b| a.last.cmp(&b.last))
        {
            let find = find_sums(&lower.next, &lower.end, SUMS_AT_ONCE);
            let read =
                |sum: &RawDocument| Some((sum.get_str("_id").ok()?.to_owned(), nets_of(sum)));
            let found = self.store.find(OPERATION, find, read).await?;
            lower.is_read = found.len() < SUMS_AT_ONCE as usize;
            for (id, nets) in found {
                let bad = |bad: BadLine| {
                    let problem = format!("the sum {} can't be read: {}", bad.id, bad.problem);
                    LedgerError::lasting(OPERATION, problem)
                };
                let nets = nets.map_err(bad)?;
                lower.last = nets.last().map(|(account, _)| account.clone()).max(lower.last.take());
                // The next `_id` that there may be.
                lower.next = format!("{id}-");
                add(&mut self.nets, nets)?;
            }
            let behind = all.iter().filter(|lower| !lower.is_read).map(|lower| &lower.last).min();
            if let Some(Some(last)) = behind {
                let last = last.clone();
                self.write(Some(&last)).await?;
            }
        }
        Ok(())
    }

    /// Writes the sums up to this name, as far as they fill documents; without a name all of them.
    async fn write(&mut self, last: Option<&str>) -> Result<(), LedgerError> {
        let complete = match last {
            None => std::mem::take(&mut self.nets),
            Some(last) => {
                let later = self.nets.split_off(&format!("{last}\0"));
                std::mem::replace(&mut self.nets, later)
            }
        };
        let moved = complete.into_iter().filter(|(_, nanos)| *nanos != 0);
        let mut complete: Vec<(String, i128)> = moved.collect();
        if last.is_some() {
            let rest = complete.len() - complete.len() % ACCOUNTS_MAX;
            self.nets.extend(complete.drain(rest..));
        }
        for some in complete.chunks(ACCOUNTS_MAX * WRITTEN_AT_ONCE) {
            let number = (self.number..).zip(some.chunks(ACCOUNTS_MAX));
            let sums: Vec<_> = number
                .map(|(n, some)| document(self.life, (self.level, self.from), n, some))
                .collect();
            self.store.insert_sums(&sums).await?;
            self.number += sums.len();
        }
        Ok(())
    }
}

fn add(sums: &mut Nets, nets: Vec<(String, i128)>) -> Result<(), LedgerError> {
    for (account, nanos) in nets {
        let sum = sums.entry(account).or_default();
        let added = sum.checked_add(nanos).filter(|sum| sum.unsigned_abs() <= SUM_MAX);
        let problem = "what was booked does not sum up; see audit";
        *sum = added.ok_or_else(|| LedgerError::lasting(OPERATION, problem))?;
    }
    Ok(())
}

/// What a line or a sum says of each account, sorted by name.
fn nets_of(document: &RawDocument) -> Result<Vec<(String, i128)>, BadLine> {
    let bad = |problem: &str| lines::bad(document, problem.to_owned());
    let list = |field| document.get_array(field).ok();
    let (Some(accounts), Some(nets)) = (list("accounts"), list("nets")) else {
        return Err(bad("its `accounts` and `nets` are not both lists"));
    };
    let (mut all, mut nets) = (BTreeMap::new(), nets.into_iter());
    for account in accounts {
        let account = account.ok().and_then(|account| account.as_str());
        let account = account.ok_or_else(|| bad("an account's name is no text"))?;
        let net = nets.next().and_then(|net| nanos_of_net(net.ok()?));
        let net = net.ok_or_else(|| bad("one of its nets is no number"))?;
        match all.entry(account.to_owned()) {
            Entry::Vacant(free) => free.insert(net),
            Entry::Occupied(_) => return Err(bad("it has an account twice")),
        };
    }
    Ok(all.into_iter().collect())
}

/// The command that finds lines of a time, the earliest ones first; all of them where `most` is 0.
fn find_lines(from: ServerMs, to: ServerMs, most: i64, fields: RawDocumentBuf) -> RawDocumentBuf {
    let [from, to] = [from, to].map(DateTime::from_millis);
    let mut filter = LINE.all();
    filter.append(cstr("at"), rawdoc! { "$gte": from, "$lt": to });
    rawdoc! {
        "find": JOURNAL,
        "filter": filter,
        "projection": fields,
        "sort": { "at": 1 },
        "limit": most,
        "hint": BY_TIME,
    }
}

/// The command that finds sums by their `_id`s, in their order.
fn find_sums(from: &str, end: &str, most: i64) -> RawDocumentBuf {
    let mut filter = SUM.all();
    filter.append(cstr("_id"), rawdoc! { "$gte": from, "$lt": end });
    rawdoc! { "find": SUMS, "filter": filter, "sort": { "_id": 1 }, "limit": most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nets_are_read_with_their_accounts_and_what_makes_no_sense_is_named() {
        let line = rawdoc! { "_id": "l", "accounts": ["b", "a"], "nets": [5_i64, -7_i64] };
        let nano = 1_000_000_000;
        let nets = [("a".to_owned(), -7 * nano), ("b".to_owned(), 5 * nano)];
        assert_eq!(nets_of(&line), Ok(nets.to_vec()));
        for damaged in [
            rawdoc! { "_id": "l", "accounts": ["a", "b"], "nets": [5_i64] },
            rawdoc! { "_id": "l", "accounts": ["a", "a"], "nets": [5_i64, 5_i64] },
            rawdoc! { "_id": "l", "accounts": ["a", 7], "nets": [5_i64, 5_i64] },
            rawdoc! { "_id": "l", "accounts": ["a"], "nets": [5.5] },
            rawdoc! { "_id": "l", "accounts": "a", "nets": 5_i64 },
        ] {
            let bad = nets_of(&damaged).expect_err("it makes no sense");
            assert_eq!(bad.id, "l", "{}", bad.problem);
        }
    }
}
