//! A ledger that was at work for long: its documents as workers would have left them, within
//! minutes.
//!
//! Owns what is in it: transfers in their final states, the lines of their ends with numbers and
//! sums, the accounts with what was booked on them, and the sweepers' mark. Lines, numbers, sums
//! and mark are written by the functions that workers use. One account gets a tenth of all
//! transfers, four of ten are for one in a hundred accounts, and one in ten accounts had none.
//! Promises books that balance: whoever fills a ledger has it audited. Fails with a sentence that
//! says at what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::laid_out;
use ledger::ServerMs;
use ledger::account::Account;
use ledger::amount::Amount;
use ledger::event::End;
use ledger::journal::{Entry, Heading, Line};
use ledger::transaction::{Body, Reason, ReasonCode};
use mongo::{
    ACCOUNTS, Below, Ends, JOURNAL, MongoOutbox, Numberer, Place, Store, TRANSACTIONS, line_content,
};
use mongodb::bson::{DateTime, Document, RawDocumentBuf, rawdoc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::field::Field;
use crate::names::Names;
use crate::workload::OPENING;
use crate::{say, statements};

/// So many transfers came a second while it was at work.
const PER_SECOND: usize = 250;
/// Transfers whose ends are in one line.
const LINE: usize = 100;
/// Lines that were numbered together.
const NUMBERED: usize = 10;
/// Lines that are written together, with their transfers.
const PART: usize = 100;
/// How many write at once.
const WRITERS: usize = 4;
/// After so many parts it is said how far it is.
const SAID_EVERY: usize = 100;
/// Accounts that are opened together.
const OPENED: usize = 10_000;
/// One in so many transfers pays to the first account.
const HOT_ONE_IN: u32 = 10;
/// One in so many accounts is busy, and of ten transfers so many pay to one of these.
const BUSY_ONE_IN: usize = 100;
const BUSY_OF_TEN: u32 = 4;
/// One in so many accounts has never had a transfer.
const SILENT_ONE_IN: usize = 10;
/// One in so many transfers was refused.
const REFUSED_ONE_IN: u32 = 50;
const VALUE_MAX: i64 = 100;
/// From the claim of a batch to its decision and to its end, in ms.
const DECIDED_MS: i64 = 4;
const ENDED_MS: i64 = 9;
const WORKER: &str = "filler";

/// What is in the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// How many accounts, at least a hundred.
    pub(super) accounts: usize,
    /// How many transfers have ended.
    pub(super) transactions: usize,
    /// Where chance comes from.
    pub(super) seed: u64,
    /// The moment of the last one, in milliseconds since 1970.
    pub(super) end: ServerMs,
    /// What ids are.
    pub(super) names: Names,
}

/// One transfer: accounts by number.
struct Moved {
    source: usize,
    destination: usize,
    value: i64,
    end: End,
}

/// Lines in a row with their transfers, and what they book on accounts.
#[derive(Default)]
struct Part {
    transactions: Vec<Document>,
    lines: Vec<RawDocumentBuf>,
    booked: Vec<(usize, i64)>,
}

impl Shape {
    /// Accounts without a single transfer are those from this number on.
    pub(super) fn silent_from(&self) -> usize {
        self.accounts - self.accounts / SILENT_ONE_IN
    }

    /// One of the busy accounts.
    pub(super) fn busy(&self, random: &mut StdRng) -> usize {
        random.random_range(1..=self.busy_count())
    }

    /// One of the many accounts that have some transfers.
    pub(super) fn quiet(&self, random: &mut StdRng) -> usize {
        random.random_range(self.busy_count() + 1..self.silent_from())
    }

    fn busy_count(&self) -> usize {
        (self.accounts / BUSY_ONE_IN).max(1)
    }

    /// When a transfer was created, in milliseconds since 1970.
    pub(super) fn moment(&self, number: usize) -> ServerMs {
        let before_end = (self.transactions - number) * 1_000 / PER_SECOND;
        self.end - i64::try_from(before_end).unwrap_or(i64::MAX)
    }

    /// The id of a transfer. Later ones come behind in the index, as those of clients do.
    pub(super) fn id(&self, number: usize) -> String {
        // Twice, so that it is in the bits that every kind of ids keeps.
        let number = number as u128;
        let moment = u128::from(self.end.unsigned_abs());
        self.names.transfer(&Uuid::from_u128((moment << 80) | (number << 32) | number).to_string())
    }

    fn lines(&self) -> usize {
        self.transactions.div_ceil(LINE)
    }

    fn line_name(number: usize) -> String {
        Uuid::from_u128(number as u128).to_string()
    }

    /// The transfers of a line.
    fn of_line(&self, number: usize) -> std::ops::Range<usize> {
        number * LINE..self.transactions.min((number + 1) * LINE)
    }

    fn moved(&self, random: &mut StdRng) -> Moved {
        let source = self.active(random);
        let destination = match random.random_ratio(1, HOT_ONE_IN) {
            true => 0,
            false => self.active(random),
        };
        let refused = random.random_ratio(1, REFUSED_ONE_IN);
        Moved {
            source,
            // There are more accounts than one that is not busy.
            destination: if destination == source { source + 1 } else { destination },
            value: random.random_range(1..=VALUE_MAX),
            end: if refused { End::Canceled } else { End::Done },
        }
    }

    /// Any account but the first one that has transfers. The last of them only receives.
    fn active(&self, random: &mut StdRng) -> usize {
        match random.random_ratio(BUSY_OF_TEN, 10) {
            true => self.busy(random),
            false => random.random_range(self.busy_count() + 1..self.silent_from() - 1),
        }
    }

    /// Some lines in a row, from the first one on in this part.
    fn part(&self, number: usize) -> Part {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_add(number as u64));
        let mut part = Part::default();
        for line in number * PART..self.lines().min((number + 1) * PART) {
            self.add_line(&mut part, line, &mut random);
        }
        part
    }

    fn add_line(&self, part: &mut Part, number: usize, random: &mut StdRng) {
        let transfers = self.of_line(number);
        let name = Shape::line_name(number);
        let claimed = self.moment(transfers.end - 1);
        let mut entries = Vec::new();
        for transfer in transfers {
            let moved = self.moved(random);
            let body = self.body(&moved, transfer);
            let id = self.id(transfer);
            entries.push(Entry::of(&id.as_str().into(), moved.end, Some(&body)));
            let created = self.moment(transfer);
            part.transactions.push(ended(&body, &id, &name, moved.end, (created, claimed)));
            if moved.end == End::Done {
                part.booked.push((moved.source, -moved.value));
                part.booked.push((moved.destination, moved.value));
            }
        }
        let at = DateTime::from_millis(claimed + ENDED_MS);
        let application = WORKER.to_owned();
        let heading = Heading { id: name.clone(), application, events_due_at: None };
        let content = line_content(&Line { heading, entries });
        let mut line = rawdoc! { "_id": name, "at": at };
        for field in content.iter() {
            let (name, value) = field.expect("it was just written");
            line.append(name, value);
        }
        part.lines.push(line);
    }

    fn body(&self, moved: &Moved, number: usize) -> Body {
        let name = |account| self.names.account(account);
        let (source, destination) = (name(moved.source), name(moved.destination));
        let body = Body::transfer(&source, &destination, Amount::Int(moved.value));
        let mut body = body.expect("two accounts and a value above zero");
        body.metadata = Some(rawdoc! { "order": number as i64 });
        body
    }
}

/// The document of a transfer that two phases have ended.
fn ended(
    body: &Body,
    id: &str,
    line: &str,
    end: End,
    (created, claimed): (ServerMs, ServerMs),
) -> Document {
    let mut document = body.to_document(id, DateTime::from_millis(created));
    document.insert("state", end.as_str());
    document.insert("claimedAt", DateTime::from_millis(claimed));
    document.insert("application", WORKER);
    document.insert("attempts", 1);
    document.insert("decidedAt", DateTime::from_millis(claimed + DECIDED_MS));
    document.insert("lastModified", DateTime::from_millis(claimed + ENDED_MS));
    document.insert("line", line);
    match end {
        End::Done => {}
        End::Canceled => {
            let message = "its source had not enough, so nothing was moved";
            let reason = Reason::new(ReasonCode::InsufficientFunds, message);
            document.insert("reason", reason.to_document());
        }
    }
    document
}

/// Fills an empty ledger.
pub(super) async fn fill(field: &Field, shape: Shape) -> Result<(), String> {
    let booked = transfers(&field.store, shape).await?;
    open(&field.store, shape, &booked).await?;
    say("reads: numbers and sums");
    tokio::try_join!(number(&field.store, shape), async {
        statements::sum_up(field).await.map_err(|problem| format!("the sums: {problem}"))
    })?;
    let outbox = MongoOutbox::new(field.store.clone());
    let mark = Place::before(shape.end + 1);
    let marked = outbox.advance(&mark, (Below::Near, None)).await;
    marked.map_err(|error| format!("the sweepers' mark: {error}"))
}

/// Writes transfers and lines; returns what was booked on each account.
async fn transfers(store: &Store, shape: Shape) -> Result<Vec<i64>, String> {
    let (next, parts) = (Arc::new(AtomicUsize::new(0)), shape.lines().div_ceil(PART));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (store, next) = (store.clone(), next.clone());
        writers.spawn(async move {
            let mut booked = vec![0_i64; shape.accounts];
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= parts {
                    return Ok::<_, String>(booked);
                }
                let part = shape.part(number);
                part.booked.iter().for_each(|(account, amount)| booked[*account] += amount);
                insert(&store, part).await?;
                if (number + 1).is_multiple_of(SAID_EVERY) {
                    say(format!("reads: {} of {parts} parts are written", number + 1));
                }
            }
        });
    }
    let mut booked = vec![0_i64; shape.accounts];
    while let Some(written) = writers.join_next().await {
        let written = written.map_err(|error| format!("a writer broke down: {error}"))??;
        booked.iter_mut().zip(written).for_each(|(all, more)| *all += more);
    }
    Ok(booked)
}

async fn insert(store: &Store, part: Part) -> Result<(), String> {
    let transactions = part.transactions.into_iter();
    let stored: Vec<Document> =
        transactions.map(|own| laid_out::stored(store, TRANSACTIONS, own)).collect();
    let inserted = store.transactions().insert_many(stored).await;
    inserted.map_err(|error| format!("transfers can't be written: {error}"))?;
    let journal = store.database().collection::<RawDocumentBuf>(JOURNAL);
    let inserted = journal.insert_many(part.lines).await;
    inserted.map(drop).map_err(|error| format!("lines can't be written: {error}"))
}

/// Opens the accounts, with what was booked on them since.
async fn open(store: &Store, shape: Shape, booked: &[i64]) -> Result<(), String> {
    let opened = DateTime::from_millis(shape.moment(0));
    let document = |(number, booked): (usize, &i64)| {
        let account = Account::new(&shape.names.account(number), Amount::Int(OPENING));
        let mut document = account.to_document(opened);
        document.insert("balance", OPENING + booked);
        laid_out::stored(store, ACCOUNTS, document)
    };
    let documents: Vec<Document> = booked.iter().enumerate().map(document).collect();
    for some in documents.chunks(OPENED) {
        let inserted = store.accounts().insert_many(some).await;
        inserted.map_err(|error| format!("accounts can't be written: {error}"))?;
    }
    Ok(())
}

/// Gives the lines their numbers.
async fn number(store: &Store, shape: Shape) -> Result<(), String> {
    let numberer = Numberer::new(store.clone());
    let ends = |line: usize| Ends {
        line: Shape::line_name(line),
        count: u32::try_from(shape.of_line(line).len()).unwrap_or(u32::MAX),
    };
    for first in (0..shape.lines()).step_by(NUMBERED) {
        let some: Vec<Ends> = (first..shape.lines().min(first + NUMBERED)).map(ends).collect();
        let numbered = numberer.number(&some).await;
        numbered.map_err(|error| format!("the numbers: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    fn shape() -> Shape {
        let names = Names::default();
        Shape { accounts: 1_000, transactions: 10_050, seed: 3, end: 1_800_000_000_000, names }
    }

    /// What lines say of each account.
    fn nets(lines: &[RawDocumentBuf]) -> BTreeMap<String, i64> {
        let mut all = BTreeMap::new();
        for line in lines {
            let line = Document::try_from(line.clone()).expect("BSON");
            let accounts = line.get_array("accounts").expect("accounts");
            let nets = line.get_array("nets").expect("nets");
            for (account, net) in accounts.iter().zip(nets) {
                let account = account.as_str().expect("a name").to_owned();
                *all.entry(account).or_default() += net.as_i64().expect("a whole number");
            }
        }
        all
    }

    #[test]
    fn lines_and_accounts_say_the_same_and_no_money_is_made() {
        let (shape, mut booked) = (shape(), BTreeMap::<String, i64>::new());
        let (first, last) = (shape.part(0), shape.part(1));
        assert_eq!((first.transactions.len(), last.transactions.len()), (10_000, 50));
        assert_eq!((first.lines.len(), last.lines.len()), (100, 1));
        for (account, amount) in &first.booked {
            *booked.entry(shape.names.account(*account)).or_default() += amount;
        }
        let mut nets = nets(&first.lines);
        nets.retain(|_, net| *net != 0);
        booked.retain(|_, net| *net != 0);
        assert_eq!(booked, nets);
        assert_eq!(booked.values().sum::<i64>(), 0);
    }

    #[test]
    fn each_transfer_has_ended_once_in_the_line_that_it_names() {
        let (shape, mut ids) = (shape(), HashSet::new());
        let part = shape.part(0);
        let names: HashSet<&str> =
            part.lines.iter().map(|line| line.get_str("_id").expect("a name")).collect();
        let mut before = i64::MIN;
        for one in &part.transactions {
            assert!(names.contains(one.get_str("line").expect("a line")));
            let is_canceled = one.get_str("state").is_ok_and(|state| state == "canceled");
            assert_eq!(one.contains_key("reason"), is_canceled);
            assert!(ids.insert(one.get_str("_id").expect("an id").to_owned()));
            let created = one.get_datetime("createdAt").expect("a date").timestamp_millis();
            assert!(created >= before && created <= shape.end);
            before = created;
        }
        let canceled = part.transactions.iter().filter(|one| one.contains_key("reason")).count();
        assert!((100..300).contains(&canceled), "{canceled} of 10,000");
    }

    #[test]
    fn accounts_differ_in_what_happens_on_them() {
        let shape = shape();
        let mut random = StdRng::seed_from_u64(7);
        let mut seen = vec![0; shape.accounts];
        for _ in 0..100_000 {
            let moved = shape.moved(&mut random);
            assert_ne!(moved.source, moved.destination);
            seen[moved.source] += 1;
            seen[moved.destination] += 1;
        }
        assert!((9_000..11_000).contains(&seen[0]), "the first: {}", seen[0]);
        let busy: i32 = seen[1..=10].iter().sum();
        assert!((70_000..80_000).contains(&busy), "ten busy ones: {busy}");
        assert!(seen[shape.silent_from()..].iter().all(|count| *count == 0));
    }
}
